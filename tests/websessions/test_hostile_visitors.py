"""One visitor's requests cannot harm another; a search for a user's websessions takes a value, never a query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from applications import FRAMEWORKS, served
from browser import Browser
from store_names import STORES

from mangonel.websessions import Handle, MemoryStore, RequestView, WebSessions
from mangonel.websessions.answer import headers_of
from mangonel.websessions.errors import UsageError, WebSessionError
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import a_record
from mangonel.websessions.writes import changed

stores = pytest.mark.parametrize("name", STORES)
BAD = ("\ud800", "a\0b", "x" * 256, "", 7, {"$ne": None})


async def opened(store_url: Callable[[str], str], name: str, **settings: Any) -> WebSessions[Any]:
    sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None, **settings)
    await sessions.setup()
    return sessions


@stores
async def test_one_visitor_s_bad_value_fails_alone_among_those_who_come_at_once(
    name: str, store_url: Callable[[str], str]
) -> None:
    for codec in ("msgpack", "bson"):
        sessions = await opened(store_url, name, codec=codec)

        async def visit(number: int, sessions: WebSessions[Any] = sessions) -> Any:
            session = await sessions.asynchronous.load(RequestView())
            # A value that the session object itself would refuse is smuggled past it.
            session.state.label = "\ud800" if number == 7 else "Firefox"
            session["n"] = "\udfff" if number == 8 else number
            await sessions.asynchronous.commit(session)
            return headers_of(session)[0][1].partition(";")[0]

        results = await asyncio.gather(*(visit(number) for number in range(20)), return_exceptions=True)
        failed = [number for number, result in enumerate(results) if isinstance(result, BaseException)]
        # Some engines store any label.
        assert failed in ([7, 8], [8]), failed
        assert all(isinstance(results[number], WebSessionError) for number in failed)
        for number, cookie in enumerate(results):
            if number not in failed and number != 7:
                session = await sessions.asynchronous.load(RequestView(cookie))
                assert session["n"] == number
        await sessions.aclose()


@stores
async def test_a_user_is_nobody_whose_name_looks_alike(name: str, store_url: Callable[[str], str]) -> None:
    sessions = await opened(store_url, name)
    users = ("ada", "ada ", "Ada", "ád", "ad", "ada%", "a_a")
    browsers = [Browser(sessions) for _ in users]
    for user, browser in zip(users, browsers, strict=True):
        await browser.login(user)
    if name not in ("memcached", "directory"):
        for user in users:
            assert [handle.user for handle in await sessions.of(user)] == [user]
        assert await sessions.revoke_user("ada") == 1
        assert [(await browser.begin()).user for browser in browsers] == [None, *users[1:]]
    await sessions.aclose()


async def test_one_write_that_the_server_refuses_fails_alone(store_url: Callable[[str], str]) -> None:
    store: Any = open_store(store_url("mongodb"))
    await store.put(a_record(), 0)
    rules = {"validator": {"b": {"$ne": "refused"}}}
    await store._plain.database.command({"collMod": store._plain.name, **rules})
    records = [a_record(label="refused" if number == 7 else "x") for number in range(20)]
    results = await asyncio.gather(*(store.put(record, 0) for record in records), return_exceptions=True)
    assert [number for number, result in enumerate(results) if result is not True] == [7]
    news = [changed(record, label="refused" if number == 9 else "y") for number, record in enumerate(records)]
    del news[7]
    results = await asyncio.gather(*(store.put(record, 1) for record in news), return_exceptions=True)
    assert [number for number, result in enumerate(results) if result is not True] == [8]
    await store.aclose()


@stores
@pytest.mark.parametrize("bad", BAD, ids=ascii)
async def test_a_user_s_name_and_a_label_are_checked_where_they_come_in(
    name: str, bad: Any, store_url: Callable[[str], str]
) -> None:
    sessions = await opened(store_url, name)
    session = await sessions.asynchronous.load(RequestView())
    with pytest.raises(UsageError, match="expected the user"):
        session.login(bad)
    with pytest.raises(UsageError, match="expected the label"):
        session.label = bad
    for ask in (sessions.of, sessions.revoke_user):
        with pytest.raises(UsageError, match="expected the user"):
            await ask(bad)
    for handle in (Handle(bad, "ada", 0, 0, 0), Handle("00", bad, 0, 0, 0)):
        with pytest.raises(UsageError, match="expected the handle"):
            await sessions.revoke(handle)
    session.login("ada")
    session.label = "x" * 255
    await sessions.asynchronous.commit(session)
    await sessions.aclose()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_visitor_s_bad_label_is_an_error_of_theirs_alone_in_every_framework(framework: str) -> None:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    with served(framework, sessions) as send:
        cookie = send("do=login,write&k=a&v=1").cookie
        for label in (r'"\ud800"', r'"a\u0000b"', '{"$gt": ""}', "[]", "7"):
            try:
                answer = send(f"do=login,label&label={quote(label)}")
            except UsageError:
                continue  # WSGI servers answer 500 when an application raises
            assert answer.status == 500
            assert answer.cookie is None
        found = send("", cookie).found
        assert (found["user"], found["values"]) == ("ada", {"a": "1"})
