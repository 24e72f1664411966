"""The live WebSocket without a browser: what is sent when a browser reconnects, is slow, or lacks the right."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from site_process import Site, Visitor, customer
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from mangonel import MongoClient
from mangonel.demo.reader import CREDIT
from tools.faces import eventually

TIMEOUT = 60


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
    """A page without a browser: it processes frames as the script does."""

    def __init__(self) -> None:
        self.position: str | None = None
        self.total = 0
        self.events: list[str] = []
        self.changes: list[tuple[str, str]] = []
        self.rows: dict[str, dict[str, Any]] = {}
        self.states = 0

    def take(self, event: dict[str, Any]) -> None:
        """Apply a change."""
        op, id = event.pop("op"), event.pop("id")
        if op == "insert":
            assert id not in self.rows
            self.events.append(event["name"])
            self.rows[id] = event
            self.total += 1
        elif op == "delete":
            self.changes.append((op, id))
            self.rows.pop(id, None)
            self.total -= 1
        else:
            self.changes.append((op, id))
            self.rows[id].update(event)

    async def follow(self, connection: WebSocketClientConnection, until: int, last: str = "") -> None:
        """Process frames until this many customers are known, or until the last one is."""
        await connection.write_message(json.dumps({"after": self.position}))
        while last not in self.events if last else self.total < until:
            text = await asyncio.wait_for(connection.read_message(), TIMEOUT)
            assert text is not None, f"closed with {connection.close_code}"
            frame = json.loads(text)
            if frame["type"] == "state":
                self.states += 1
                self.total = frame["totals"]["customer"]
                self.rows = {row["id"]: row for row in frame["rows"]["customer"]}
            else:
                for event in frame["events"]:
                    if event["kind"] == "customer":
                        self.take(event)
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

        # Written while the page starts: rows missing from the state arrive as events.
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
    site.kill()
    missed = write(shop, "while no process served", 1500)
    site.start()
    asyncio.run(visit(page, 1500))
    assert page.states == 1
    assert page.events == missed


def test_updates_and_deletes_come_once_each_and_in_order(ada: Visitor, shop: Any) -> None:
    async def visit() -> tuple[Page, Page, list[Any]]:
        page, later = Page(), Page()
        kept = [customer(f"changing {number}") for number in range(3)]
        async with line(ada) as connection:
            await page.follow(connection, 1)
        shop.customers.insert_many(kept)
        for city in ("Rome", "Lima"):
            shop.customers.update_one({"_id": kept[0]["_id"]}, {"$set": {"city": city, "unseen": 1}})
        shop.customers.replace_one({"_id": kept[1]["_id"]}, customer("replaced"))
        shop.customers.delete_one({"_id": kept[2]["_id"]})
        write(shop, "behind the changes", 1)
        # Frames after a connection that broke in between, and frames of a page that starts now.
        wanted = shop.customers.count_documents({})
        async with line(ada) as connection:
            await page.follow(connection, wanted, "behind the changes 0")
        async with line(ada) as connection:
            await later.follow(connection, wanted)
        return page, later, [str(one["_id"]) for one in kept]

    write(shop, "there", 1)
    page, later, (changed, replaced, removed) = asyncio.run(visit())
    assert page.changes == [
        ("update", changed),
        ("update", changed),
        ("replace", replaced),
        ("delete", removed),
    ]
    assert page.rows[changed]["city"] == "Lima"
    assert page.rows[replaced]["name"] == "replaced"
    assert later.rows[changed].keys() == {"id", "name", "city", "at"}
    # The state equals an older state plus its events.
    assert removed not in later.rows
    for id, row in later.rows.items():
        assert page.rows[id].items() >= {name: row[name] for name in ("name", "city", "at")}.items()
    assert page.total == later.total


def test_a_browser_that_takes_nothing_in_is_sent_a_few_frames_only(ada: Visitor, shop: Any) -> None:
    async def visit() -> bool:
        async with line(ada) as connection:
            await connection.write_message('{"after": null}')
            for number in range(CREDIT):
                assert await asyncio.wait_for(connection.read_message(), TIMEOUT) is not None
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
            assert await asyncio.wait_for(connection.read_message(), TIMEOUT) is None
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
            assert await asyncio.wait_for(connection.read_message(), TIMEOUT) is None
            return connection.close_code

    assert asyncio.run(visit()) == 4400


def test_a_stream_ends_with_its_websession(site: Site, ada: Visitor) -> None:
    async def visit() -> int | None:
        async with line(ada) as connection:
            await connection.write_message('{"after": null}')
            await asyncio.to_thread(ada.http.post, "/logout", data={"_csrf": ada.token})
            while await asyncio.wait_for(connection.read_message(), TIMEOUT) is not None:
                continue
            return connection.close_code

    assert asyncio.run(visit()) == 4401


def test_the_status_is_pushed(ada: Visitor) -> None:
    async def visit() -> dict[str, Any]:
        async with line(ada, "/status/live") as connection:
            await connection.write_message('{"after": null}')
            found: dict[str, Any] = json.loads(
                await asyncio.wait_for(connection.read_message(), TIMEOUT) or ""
            )
            assert found["begins"]
            return found["report"]

    report = asyncio.run(visit())
    assert "RSPrimary" in {server["type"] for server in report["servers"].values()}
    assert sum(pool["open"] for pool in report["pools"]["servers"].values()) >= 1
    assert {"find", "getMore"} <= {command["name"] for command in report["commands"]}


def test_the_demo_ends_cleanly_when_it_is_told_to(server: Any) -> None:
    with Site(server.uri, "demo_end", "--rate", "20") as site:
        assert site.stop() == 0


def test_the_shop_ends_without_a_word_while_it_writes(server: Any) -> None:
    command = [sys.executable, "-m", "mangonel.demo.shop", server.uri, "demo_shop_ends", "1000"]
    shop = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with MongoClient(server.uri) as client:
        customers = client.demo_shop_ends.customers
        eventually(lambda: customers.find_one() is not None or shop.poll() is not None, "a customer")
    _, said = shop.communicate(timeout=60)
    assert (shop.returncode, said) == (0, "")
