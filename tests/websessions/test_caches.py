"""The headers for caches between an application and its visitors, in every framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from applications import FRAMEWORKS, served
from browser import Site

from mangonel.websessions import MemoryStore, WebSessions

frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)


def sessions_with(**settings: str) -> WebSessions[None]:
    return WebSessions(MemoryStore(), events=lambda event: None, **settings)


@frameworks
def test_an_answer_for_which_the_websession_was_read_differs_by_cookie(framework: str) -> None:
    with served(framework, sessions_with()) as send:
        cookie = send("do=login,write&k=a&v=1").cookie
        for each in (None, cookie):
            answer = send("", each)
            assert answer.found["user"] == ("ada" if each else None)
            assert "Cookie" in answer.headers.get("vary", ""), each
            # Without a length the middleware takes it for a stream, which may read once more.
            streams = framework in ("asgi", "wsgi-generator")
            assert answer.headers.get("cache-control") == ("private" if streams else None)


@frameworks
@pytest.mark.parametrize("control", ["no-store", "private"])
def test_an_answer_with_the_cookie_is_nobody_elses(framework: str, control: str) -> None:
    with served(framework, sessions_with(cache_control=control)) as send:
        given = send("do=login")
        renewed = send("do=rotate", given.cookie)
        left = send("do=destroy", renewed.cookie)
        for answer in (given, renewed, left):
            assert answer.set_cookies
            assert answer.headers["cache-control"] == control
            assert "Cookie" in answer.headers["vary"]


LOOKS: dict[str, Callable[[Any], Any]] = {
    "get": lambda session: session.get("a"),
    "in": lambda session: "a" in session,
    "len": len,
    "bool": bool,
    "equal": lambda session: session == {},
    "pop": lambda session: session.pop("a", None),
    "setdefault": lambda session: session.setdefault("a", 1),
    "dict": dict,
    "list": list,
    "items": lambda session: session.items(),
    "user": lambda session: session.user,
    "new": lambda session: session.new,
    "label": lambda session: session.label,
    "tag": lambda session: session.tag,
    "expires": lambda session: session.expires,
    "flashes": lambda session: session.flashes(),
    "csrf_token": lambda session: session.csrf_token(),
    "data": lambda session: session.data,
}


@pytest.mark.parametrize("look", LOOKS)
async def test_whatever_looks_into_the_websession_counts_as_reading(look: str) -> None:
    browser = Site().browser()
    await browser.login("ada")
    session = await browser.begin()
    assert not session.accessed
    LOOKS[look](session)
    assert session.accessed


async def test_what_the_package_does_by_itself_is_no_reading() -> None:
    site = Site(renew="1m", bind=("user_agent",), bind_secret="s")
    browser = site.browser()
    await browser.login("ada", keep=())
    site.clock.advance(61)
    session = await browser.begin()
    await site.sessions.asynchronous.commit(session)
    assert not session.accessed
    assert [name for name, _ in await browser.end(await browser.begin())] == []
