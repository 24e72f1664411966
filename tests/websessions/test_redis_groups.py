"""Redis Cluster and Sentinel: the contract of a store, a user's websessions, and a failover, on real servers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from browser import Browser
from redis_groups import cluster, guarded_by_sentinel

from mangonel.engines.certificates import certify
from mangonel.engines.programs import Missing
from mangonel.websessions import RequestView, StoreError, UsageError, WebSessions
from mangonel.websessions.stores._threads import FlowsOfMethods
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import store_contract
from tools.needed import go_without


@pytest.fixture(scope="module", params=["in the clear", "over TLS"])
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    tls = certify(tmp_path_factory.mktemp("authority")) if request.param == "over TLS" else None
    try:
        with pytest.MonkeyPatch.context() as patch:
            if tls is not None:
                # redis-py reads the machine's certificate authorities for each connection, which takes 23 ms.
                patch.setenv("SSL_CERT_FILE", str(tls.ca))
            with cluster(tls) as first, guarded_by_sentinel(tls) as (second, _):
                yield {"cluster": first.url, "sentinel": second}
    except Missing as error:
        go_without(str(error))


@pytest.fixture(params=["cluster", "sentinel"])
def url(request: pytest.FixtureRequest, urls: dict[str, str]) -> str:
    return f"{urls[request.param]}timeout=30&prefix={uuid.uuid4().hex}"


@pytest.mark.enough(2)
async def test_both_sides_keep_the_contract(url: str) -> None:
    store = open_store(url)
    await store.setup()
    await store_contract(store)
    await store.aclose()
    blocking = open_blocking(url)
    blocking.setup()
    await store_contract(FlowsOfMethods(blocking))
    blocking.close()


async def test_a_user_s_websessions_are_listed_and_ended(url: str) -> None:
    sessions: WebSessions[Any] = WebSessions(url, timeout=60.0, events=lambda event: None)
    browsers = [Browser(sessions) for _ in range(12)]
    await asyncio.gather(*(browser.login("ada") for browser in browsers))
    handles = await sessions.of("ada")
    assert len(handles) == 12
    assert await sessions.revoke(handles[0])
    await browsers[-1].logout()
    session = await browsers[-2].begin()
    session.rotate()
    await browsers[-2].end(session)
    store: Any = sessions.asynchronous.store()
    # An ended websession is in no user's set.
    members = await store._send("ZCARD", store._commands.users + b"ada")
    assert members == len(await sessions.of("ada")) <= 11
    assert await sessions.revoke_user("ada") == members
    assert {(await browser.begin()).user for browser in browsers} == {None}
    assert (await store.stats(0.0))["users"] == 0
    await sessions.aclose()


def test_the_blocking_side_lists_and_ends_too(url: str) -> None:
    sessions: WebSessions[Any] = WebSessions(url, timeout=60.0, events=lambda event: None)
    for _ in range(3):
        session = sessions.blocking.load(RequestView())
        session.login("ada")
        sessions.blocking.commit(session)
    assert len(sessions.blocking.of("ada")) == 3
    assert sessions.blocking.revoke_user("ada") == 3
    assert sessions.blocking.of("ada") == []
    sessions.blocking.close()


async def test_after_a_failover_sentinel_leads_to_the_new_master() -> None:
    try:
        with guarded_by_sentinel() as (url, kill):
            sessions: WebSessions[Any] = WebSessions(url + "wait=1", timeout=60.0, events=lambda event: None)
            member, gone = Browser(sessions), Browser(sessions)
            await member.login("ada")
            await gone.login("bob")
            old = gone.cookie
            await gone.logout()  # heard by the replica, as is what came before
            kill()
            deadline = time.monotonic() + 60
            while True:
                try:
                    session = await member.begin()
                    session["n"] = 1
                    await member.end(session)
                    break
                except StoreError:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.1)
            assert (await member.begin())["n"] == 1
            assert (await member.begin()).user == "ada"
            assert (await gone.begin(old)).user is None
            await sessions.aclose()
    except Missing as error:
        go_without(str(error))


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://a,b/0",
        "redis+cluster://a:x",
        "redis+cluster://",
        "redis+sentinel://a/app/zero",
        "redis+sentinel://a/app/0/more",
        "redis+sentinel://a?nonsense=1",
    ],
)
def test_urls_that_cannot_be_meant_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)
