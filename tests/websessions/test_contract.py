"""Every store keeps the contract, blocking and asynchronous, on a real server; each side reads the other's records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from store_names import STORES

from mangonel.websessions import RequestView, UsageError, WebSessions
from mangonel.websessions.answer import headers_of
from mangonel.websessions.stores._threads import FlowsOfMethods, flows_of
from mangonel.websessions.stores.urls import SCHEMES, open_blocking, open_store
from mangonel.websessions.testing import CONTRACT, a_record, store_contract

CHECKS = [pytest.param(capability, check, id=check.__name__.strip("_")) for capability, check in CONTRACT]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, store_url: Callable[[str], str]) -> str:
    return store_url(request.param)


def test_the_suite_meets_every_scheme() -> None:
    # test_redis_groups.py covers a cluster.
    modules = {"cookie": "cookie", "redis_cluster": "redis_cluster", **{name: name for name in STORES}}
    assert set(SCHEMES.values()) == set(modules)


@pytest.mark.parametrize(("capability", "check"), CHECKS)
async def test_the_asynchronous_side(url: str, capability: str, check: Any) -> None:
    store = open_store(url)
    if capability and not hasattr(store, capability):
        pytest.skip(f"this engine has no {capability}")
    if hasattr(store, "setup"):
        await store.setup()
    try:
        await check(store)
    finally:
        await store.aclose()


async def test_the_blocking_side(url: str) -> None:
    store = open_blocking(url)
    if hasattr(store, "setup"):
        store.setup()
    assert len(await store_contract(flows_of(store))) >= 12
    done = await store_contract(FlowsOfMethods(store))
    assert len(done) >= 12
    if hasattr(store, "close"):
        store.close()


async def test_both_sides_read_each_other(url: str) -> None:
    asynchronous, blocking = open_store(url), open_blocking(url)
    if hasattr(asynchronous, "setup"):
        await asynchronous.setup()
    one, other = a_record(user="ada"), a_record(label="x")
    assert await asynchronous.put(one, 0)
    assert blocking.put(other, 0)
    assert blocking.get(one.key) == one
    assert await asynchronous.get(other.key) == other
    assert hasattr(flows_of(blocking), "find") == hasattr(asynchronous, "find")
    await asynchronous.aclose()


async def test_a_story_on_every_store(url: str) -> None:
    """A login, a parallel writer, a listing where the engine has one, and a logout, without store-specific names."""
    sessions: WebSessions[Any] = WebSessions(url)
    face = sessions.asynchronous
    await sessions.setup()
    session = await face.load(RequestView())
    session["n"] = 1
    await face.commit(session)
    cookie = headers_of(session)[0][1].partition(";")[0]
    session = await face.load(RequestView(cookie))
    session.login("ada", keep=("n",))
    await face.commit(session)
    anonymous, cookie = cookie, headers_of(session)[0][1].partition(";")[0]
    one, other = await asyncio.gather(face.load(RequestView(cookie)), face.load(RequestView(cookie)))
    one["a"], other["b"] = 1, 2
    await asyncio.gather(face.commit(one), face.commit(other))
    session = await face.load(RequestView(cookie))
    assert dict(session) == {"n": 1, "a": 1, "b": 2}
    assert session.user == "ada"
    if hasattr(face.store(), "find"):
        (handle,) = await sessions.of("ada", session)
        assert handle.is_current
    session.destroy()
    await face.commit(session)
    for dead in (anonymous, cookie):
        assert (await face.load(RequestView(dead))).new
    await sessions.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "nothing",
        "gopher://x",
        "redis://localhost?colour=blue",
        "redis://localhost?connections=many",
        "mysql://localhost",
        "sqlite://app.db",
        "sqlite:///",
        "files:",
        "files://host/path",
        "file:",
        "memcached://user:secret@host",
        "memcached://host:port",
        "postgresql://localhost/app?table=a;drop",
        "memory:?a=1",
        "redis://[::1",
    ],
)
def test_urls_that_cannot_be_meant_are_refused(url: str) -> None:
    async def open_it() -> None:
        open_store(url)

    with pytest.raises(UsageError):
        asyncio.run(open_it())


@pytest.mark.parametrize(
    "url",
    [
        "gopher://user:secret@host/",
        "redis://user:secret@host:port",
        # Not escaped: the host ends inside the password.
        "redis://:secret/more-secret@host",
        "postgresql://user:secret#more-secret@host/app",
        "mysql://user:secret?more-secret@host/app",
    ],
)
def test_passwords_are_not_in_the_message(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_blocking(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
