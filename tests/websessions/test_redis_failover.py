"""A Redis Cluster whose master is killed under load: no end is undone, and no write that its replica had is lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from redis_groups import Cluster, cluster, server
from test_outages import begin, end, login, logout

from mangonel.engines.certificates import certify
from mangonel.engines.programs import Missing
from mangonel.websessions import StoreError, WebSessions
from mangonel.websessions.record import ENDED
from mangonel.websessions.stores import redis, redis_cluster
from mangonel.websessions.stores._threads import FlowsOfMethods
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import a_record
from tools.needed import go_without

VISITORS = 6
LIMIT = 60.0  # seconds until a request is answered again

long_only = pytest.mark.skipif(
    not os.environ.get("MANGONEL_FAILOVER"), reason="once in the clear is enough: MANGONEL_FAILOVER=1"
)


class Visitors:
    """Log in, put an item into a cart, and log out, have the account closed, or stay; keep the acknowledged actions."""

    def __init__(self, sessions: WebSessions[Any]) -> None:
        self.sessions = sessions
        self.carts: dict[str, set[str]] = {}
        self.ended: list[str] = []
        self.lost: set[str] = set()
        self.done = 0
        self.stop = asyncio.Event()

    async def play(self, number: int) -> None:
        story = number
        while not self.stop.is_set():
            story += 1
            try:
                await self.live(f"user{number}-{story}", story)
                self.done += 1
            except StoreError:
                await asyncio.sleep(0.05)

    async def live(self, user: str, story: int) -> None:
        cookie = await login(self.sessions, user)
        self.carts[cookie] = set()
        for item in ("tea", "cup"):
            session = await begin(self.sessions, cookie)
            if session.user != user or not self.carts[cookie] <= set(session):
                self.lost.add(cookie)
                return
            session[item] = story
            await end(self.sessions, session)
            self.carts[cookie].add(item)
        if story % 3:
            # An end without an acknowledgement may have happened or not.
            del self.carts[cookie]
            if story % 3 == 1:
                await logout(self.sessions, cookie)
            else:
                await self.sessions.revoke_user(user)
            self.ended.append(cookie)

    async def more(self, count: int) -> None:
        wanted, deadline = self.done + count, time.monotonic() + LIMIT
        while self.done < wanted:
            assert time.monotonic() < deadline, "no request was answered any more"
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "is_secure", [False, pytest.param(True, marks=long_only)], ids=["in the clear", "over TLS"]
)
async def test_a_failover_in_a_cluster_brings_no_end_back_and_loses_nothing_that_was_replicated(
    is_secure: bool, tmp_path: Path
) -> None:
    try:
        with cluster(certify(tmp_path) if is_secure else None, has_replicas=True) as servers:
            sessions: WebSessions[Any] = WebSessions(
                servers.url + "wait=1", timeout=LIMIT, events=lambda event: None
            )
            visitors = Visitors(sessions)
            players = [asyncio.ensure_future(visitors.play(number)) for number in range(VISITORS)]
            await visitors.more(20)
            settled = {cookie: set(cart) for cookie, cart in visitors.carts.items()}
            await asyncio.to_thread(servers.until_heard)
            await asyncio.to_thread(servers.kill_first)
            await visitors.more(10)
            before = set(visitors.carts)
            await visitors.more(10)
            visitors.stop.set()
            await asyncio.gather(*players)
            revived = [cookie for cookie in visitors.ended if not (await begin(sessions, cookie)).new]
            assert revived == []
            for cookie, cart in visitors.carts.items():
                if not cart <= set(await begin(sessions, cookie)):
                    visitors.lost.add(cookie)
            # The first server's last acknowledged writes may be lost with it, as Redis documents, and nothing else.
            for cookie in visitors.lost:
                assert cookie not in settled, "what the replica had is lost"
                assert cookie in before, "what was acknowledged after the failover is lost"
                assert is_of_first(servers, sessions, cookie), "another server's are lost"
            print(
                f"{visitors.done} stories, {len(visitors.ended)} ended, {len(visitors.lost)} lost something"
            )
            await sessions.aclose()
    except Missing as error:
        go_without(str(error))


def is_of_first(servers: Cluster, sessions: WebSessions[Any], cookie: str) -> bool:
    store: Any = sessions.asynchronous.store()
    key = sessions.cookie.key_of(cookie.partition("=")[2])
    return servers.of_first(store._commands.name(key))


@pytest.fixture(scope="module")
def lonely() -> Iterator[dict[str, str]]:
    """Servers without replicas."""
    try:
        with ExitStack() as stack:
            port = server(stack).port
            yield {"one": f"redis://127.0.0.1:{port}/0?", "cluster": stack.enter_context(cluster()).url}
    except Missing as error:
        go_without(str(error))


@pytest.mark.parametrize("kind", ["one", "cluster"])
async def test_an_end_that_too_few_replicas_have_is_an_error(
    kind: str, lonely: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (redis, redis_cluster):
        monkeypatch.setattr(module, "WAIT_MS", 10)
    url = lonely[kind] + "wait=1"
    blocking: Any = open_blocking(url)
    for store in (open_store(url), FlowsOfMethods(blocking)):
        alive, other, owned = a_record(), a_record(), a_record(user="ada")
        for record in (alive, other, owned):
            assert await store.put(record, 0)
        refused = pytest.raises(
            ConnectionError, match="expected 1 replicas to have the end of a websession, 0 do"
        )
        with refused:
            await store.put(structs.replace(alive, next=ENDED, version=2), 1)
        with refused:
            await store.put(structs.replace(owned, next=ENDED, user=None, version=2), 1)
        with refused:
            await store.delete(other.key)
        # All of a user's websessions: a new epoch, and then a later one.
        epoch = a_record(sid=b"")
        with refused:
            await store.put(epoch, 0)
        with refused:
            await store.put(structs.replace(epoch, version=2), 1)
        if not isinstance(store, FlowsOfMethods):
            await store.aclose()
    blocking.close()
