"""The live WebSocket without a browser: what is sent, when a browser comes back, is slow, or may not be here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from site_process import Site, Visitor, customer
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

PATIENCE = 30


@asynccontextmanager
async def line(
    visitor: Visitor, path: str = "/live", **headers: str
) -> AsyncIterator[WebSocketClientConnection]:
    """Open a WebSocket as a visitor."""
    url = visitor.site.url.replace("http", "ws") + path
    connection = await websocket_connect(
        HTTPRequest(url, headers={"Cookie": f"sid={visitor.cookie}", "Origin": visitor.site.url, **headers})
    )
    try:
        yield connection
    finally:
        connection.close()


class Page:
    """What a page would show: takes frames in as the script does."""

    def __init__(self) -> None:
        self.position: str | None = None
        self.total = 0
        self.events: list[str] = []
        self.states = 0

    async def follow(self, connection: WebSocketClientConnection, until: int) -> None:
        """Take frames in until so many customers are known."""
        await connection.write_message(json.dumps({"after": self.position}))
        while self.total < until:
            text = await asyncio.wait_for(connection.read_message(), PATIENCE)
            assert text is not None, f"closed with {connection.close_code}"
            frame = json.loads(text)
            if frame["type"] == "state":
                self.states += 1
                self.total = frame["totals"]["customer"]
            else:
                names = [row["name"] for row in frame["events"] if row["kind"] == "customer"]
                self.events += names
                self.total += len(names)
            self.position = frame["position"]
            await connection.write_message('{"credit": 1}')


def write(shop: Any, prefix: str, count: int) -> list[str]:
    """Write customers, and return their names."""
    names = [f"{prefix} {number}" for number in range(count)]
    shop.customers.insert_many([customer(name) for name in names])
    return names


def test_state_and_events_join_without_a_gap_or_a_double(ada: Visitor, shop: Any) -> None:
    before = shop.customers.count_documents({})

    async def visit() -> Page:
        page = Page()

        def shopping() -> None:
            for number in range(40):
                shop.customers.insert_one(customer(f"join {number}"))

        # Written while the page begins: whatever is not in the state comes as an event.
        writing = asyncio.create_task(asyncio.to_thread(shopping))
        async with line(ada) as connection:
            await page.follow(connection, before + 40)
        await writing
        return page

    page = asyncio.run(visit())
    assert page.states == 1
    assert page.total == before + 40
    assert page.events == [f"join {number}" for number in range(40 - len(page.events), 40)]


def test_a_browser_that_comes_back_gets_what_it_missed_and_no_state(ada: Visitor, shop: Any) -> None:
    async def visit() -> tuple[Page, list[str]]:
        page = Page()
        async with line(ada) as connection:
            await page.follow(connection, 1)
        write(shop, "first", 3)
        async with line(ada) as connection:
            await page.follow(connection, page.total + 3)
        page.events.clear()
        missed = write(shop, "missed", 25)
        async with line(ada) as connection:
            await page.follow(connection, page.total + 25)
        return page, missed

    write(shop, "there", 1)
    page, missed = asyncio.run(visit())
    assert page.states == 1
    assert page.events == missed


def test_a_browser_that_comes_back_to_another_process_gets_what_it_missed(
    site: Site, ada: Visitor, shop: Any
) -> None:
    async def visit(page: Page, count: int) -> None:
        async with line(ada) as connection:
            await page.follow(connection, page.total + count)

    write(shop, "before", 1)
    page = Page()
    asyncio.run(visit(page, 1))
    port = site.port
    site.kill()
    missed = write(shop, "while nobody served", 1500)
    site.start(port)
    asyncio.run(visit(page, 1500))
    assert page.states == 1
    assert page.events == missed


def test_a_browser_that_takes_nothing_in_is_sent_a_few_frames_only(ada: Visitor, shop: Any) -> None:
    credit = 8

    async def visit() -> bool:
        async with line(ada) as connection:
            await connection.write_message('{"after": null}')
            for number in range(credit):
                assert await asyncio.wait_for(connection.read_message(), PATIENCE) is not None
                write(shop, f"unread {number}", 1)
            try:
                return await asyncio.wait_for(connection.read_message(), 1) is None
            except TimeoutError:
                return True

    assert asyncio.run(visit())


@pytest.mark.parametrize("path", ["/live", "/live/session", "/status/live"])
def test_a_stranger_is_turned_away_with_a_code_that_scripts_see(stranger: Visitor, path: str) -> None:
    async def visit() -> int | None:
        async with line(stranger, path) as connection:
            assert await asyncio.wait_for(connection.read_message(), PATIENCE) is None
            return connection.close_code

    assert asyncio.run(visit()) == 4401


def test_another_sites_page_cannot_open_the_stream(ada: Visitor) -> None:
    async def visit() -> None:
        async with line(ada, Origin="https://evil.example"):
            pass

    with pytest.raises(HTTPClientError, match="403"):
        asyncio.run(visit())


@pytest.mark.parametrize("told", ["", "[]", '{"after": "1.2"}', '{"after": 7}', '{"credit": 1}'])
def test_a_message_that_is_none_of_the_protocol_closes_the_line(ada: Visitor, told: str) -> None:
    async def visit() -> int | None:
        async with line(ada) as connection:
            await connection.write_message(told)
            assert await asyncio.wait_for(connection.read_message(), PATIENCE) is None
            return connection.close_code

    assert asyncio.run(visit()) == 4400


def test_a_stream_ends_with_its_websession(site: Site, ada: Visitor) -> None:
    async def visit() -> int | None:
        async with line(ada) as connection:
            await connection.write_message('{"after": null}')
            await asyncio.to_thread(ada.http.post, "/logout", data={"_csrf": ada.token})
            while await asyncio.wait_for(connection.read_message(), PATIENCE) is not None:
                continue
            return connection.close_code

    assert asyncio.run(visit()) == 4401


def test_the_status_is_pushed(ada: Visitor) -> None:
    async def visit() -> dict[str, Any]:
        async with line(ada, "/status/live") as connection:
            await connection.write_message('{"after": null}')
            found: dict[str, Any] = json.loads(
                await asyncio.wait_for(connection.read_message(), PATIENCE) or ""
            )
            return found["report"]

    report = asyncio.run(visit())
    assert "RSPrimary" in {server["type"] for server in report["servers"].values()}
    assert sum(pool["open"] for pool in report["pools"]["servers"].values()) >= 1
    assert {"find", "getMore"} <= {command["name"] for command in report["commands"]}


def test_the_demo_ends_cleanly_when_it_is_told_to(server: Any) -> None:
    with Site(server.uri, "demo_end", "--rate", "20") as site:
        assert site.stop() == 0
