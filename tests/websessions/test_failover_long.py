"""Fifty visitors at once on a replica set of three whose primary is killed, steps down and is paused.

Acknowledged writes are present, and ended websessions stay ended. MANGONEL_FAILOVER=1 (the long tests) runs the load
for minutes.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import Any

import pytest
from test_outages import begin, end, login, logout

from mangonel import AsyncMongoClient
from mangonel.errors import PyMongoError
from mangonel.server import start
from mangonel.websessions import WebSessions
from mangonel.websessions.errors import StoreError

VISITORS = 50

pytestmark = [
    pytest.mark.skipif(not os.environ.get("MANGONEL_FAILOVER"), reason="takes minutes: MANGONEL_FAILOVER=1"),
    pytest.mark.timeout(600),
]


class Visitors:
    """The acknowledged actions of fifty visitors."""

    def __init__(self, sessions: WebSessions[Any]) -> None:
        self.sessions = sessions
        self.carts: dict[str, set[str]] = {}
        self.ended: list[str] = []
        self.done = self.refused = 0
        self.stop = asyncio.Event()

    async def play(self, number: int) -> None:
        story = 0
        while not self.stop.is_set():
            story += 1
            try:
                await self.live(f"user{number}-{story}", story)
                self.done += 1
            except StoreError:
                self.refused += 1

    async def live(self, user: str, story: int) -> None:
        cookie = await login(self.sessions, user)
        cart: set[str] = set()
        self.carts[cookie] = cart
        for item in ("tea", "cup"):
            session = await begin(self.sessions, cookie)
            assert session.user == user, "an acknowledged login is lost"
            assert cart <= set(session), "an acknowledged cart item is lost"
            session[item] = story
            await end(self.sessions, session)
            cart.add(item)
        if story % 3 == 1:
            return
        # An end without an acknowledgement may have happened or not.
        del self.carts[cookie]
        if story % 3 == 2:
            await logout(self.sessions, cookie)
        else:
            await self.sessions.revoke_user(user)
        self.ended.append(cookie)

    async def more(self, count: int) -> None:
        before, deadline = self.done, time.monotonic() + 60
        while self.done < before + count and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        assert self.done > before, "no request was answered any more"


@pytest.mark.parametrize("option", ["", "&durable=1"], ids=["default", "durable"])
async def test_nothing_acknowledged_is_lost_while_the_primary_is_killed_steps_down_and_is_paused(
    option: str,
) -> None:
    with start(replica_set=3) as server:
        server.wait_until_settled()
        sessions: WebSessions[Any] = WebSessions(
            server.uri.replace("/?", "/failover?") + option, events=lambda event: None
        )
        await sessions.setup()
        visitors = Visitors(sessions)
        players = [asyncio.ensure_future(visitors.play(number)) for number in range(VISITORS)]
        await visitors.more(100)
        primary = await asyncio.to_thread(server.wait_for_primary)
        primary.kill()
        await visitors.more(100)
        await asyncio.to_thread(primary.restart)
        await visitors.more(100)
        client: Any = AsyncMongoClient(server.uri)
        with suppress(PyMongoError):
            await client.admin.command({"replSetStepDown": 5, "force": True})
        await visitors.more(100)
        primary = await asyncio.to_thread(server.wait_for_primary)
        primary.pause()
        try:
            await visitors.more(100)
        finally:
            primary.resume()
        await visitors.more(100)
        visitors.stop.set()
        await asyncio.gather(*players)
        revived = [cookie for cookie in visitors.ended if not (await begin(sessions, cookie)).new]
        lost = []
        for cookie, cart in visitors.carts.items():
            session = await begin(sessions, cookie)
            if not cart <= set(session):
                lost.append(cookie)
        print(
            f"{visitors.done} stories, {visitors.refused} refused, {len(visitors.ended)} ended, "
            f"{len(revived)} came back, {len(visitors.carts)} live, {len(lost)} lost something"
        )
        assert (revived, lost) == ([], [])
        await client.close()
        await sessions.aclose()
