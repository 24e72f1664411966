"""Requests with an id that was just given up: an end reaches the new websession, and no acknowledged write is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from applications import FRAMEWORKS, served
from browser import Browser, Site
from store_names import STORES

from mangonel.websessions import MemoryStore, SessionMoved, WebSessions

stores = pytest.mark.parametrize("name", STORES)
CHANGES = ("rotate", "reauthenticated", "login")
TURNS = 8


def opened(name: str, store_url: Callable[[str], str]) -> WebSessions[Any]:
    return WebSessions(store_url(name), events=lambda event: None)


async def change(browser: Browser, what: str) -> None:
    session = await browser.begin()
    if what == "login":
        session.login("ada")
    else:
        getattr(session, what)()
    await browser.end(session)


@stores
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("what", CHANGES)
async def test_a_logout_with_an_id_that_was_given_up_ends_what_goes_on(
    name: str, what: str, times: int, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    browser = Browser(sessions)
    await browser.login("ada")
    old = browser.cookie
    for _ in range(times):
        await change(browser, what)
    assert (await browser.begin()).user == "ada"
    late = await browser.begin(old)
    assert late.user is None
    late.destroy()
    headers = await browser.end(late, is_lost=True)
    assert any("Max-Age=0" in value for _, value in headers)
    assert (await browser.begin()).user is None
    await sessions.aclose()


@stores
async def test_a_logout_with_an_id_that_was_renewed_and_then_rotated_ends_what_goes_on(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url(name), renew="1ms", events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    old = browser.cookie
    await asyncio.sleep(0.01)
    await browser.end(await browser.begin())
    assert browser.cookie != old
    await change(browser, "rotate")
    late = await browser.begin(old)
    late.destroy()
    await browser.end(late, is_lost=True)
    assert (await browser.begin()).user is None
    await sessions.aclose()


@stores
@pytest.mark.parametrize("what", CHANGES)
async def test_a_write_with_an_id_that_was_just_given_up_makes_nobody_a_stranger(
    name: str, what: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    browser = Browser(sessions)
    await browser.login("ada")
    old = browser.cookie
    await change(browser, what)
    late = await browser.begin(old)
    late["n"] = 1
    with pytest.raises(SessionMoved, match="just given up"):
        await browser.end(late)
    assert late.state.cookie is None
    assert (await browser.begin()).user == "ada"
    # Reading is no error, and neither is logging in.
    assert await browser.read(old) == {}
    again = await browser.begin(old)
    again.login("bob")
    await browser.end(again)
    assert (await browser.begin()).user == "bob"
    await sessions.aclose()


async def test_an_id_that_was_given_up_longer_ago_is_an_unknown_one() -> None:
    site = Site()
    browser = site.browser()
    await browser.login("ada")
    old = browser.cookie
    await change(browser, "rotate")
    site.clock.advance(31)
    browser.cookie = old  # the answer with the new one was lost
    await browser.store(n=1)
    assert await browser.read() == {"n": 1}


@stores
@pytest.mark.parametrize("what", ["rotate", "reauthenticated"])
async def test_a_write_beside_a_rotation_is_in_what_goes_on(
    name: str, what: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    for turn in range(TURNS):
        browser = Browser(sessions)
        await browser.login("ada")
        writer, other = await browser.begin(), await browser.begin()
        writer["written"] = turn
        getattr(other, what)()
        if turn % 2:
            await browser.end(other)
            await browser.end(writer)
            was_stored = True
        else:
            results = await asyncio.gather(
                browser.end(writer, is_lost=True), browser.end(other), return_exceptions=True
            )
            was_stored = not isinstance(results[0], BaseException)
            assert was_stored or isinstance(results[0], SessionMoved)
            assert not isinstance(results[1], BaseException)
        assert not was_stored or await browser.read() == {"written": turn}
        assert (await browser.begin()).user == "ada"
    await sessions.aclose()


@stores
async def test_a_write_beside_a_login_is_refused_and_not_let_into_it(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    browser = Browser(sessions)
    await browser.store(cart=[1])
    writer = await browser.begin()
    writer["cart"] = [1, 2]
    await browser.login("ada", keep=("cart",))
    with pytest.raises(SessionMoved, match="beside it"):
        await browser.end(writer)
    assert await browser.read() == {"cart": [1]}
    await sessions.aclose()


async def test_of_two_rotations_side_by_side_the_second_is_refused_and_the_first_goes_on() -> None:
    browser = Site().browser()
    await browser.login("ada")
    first, second = await browser.begin(), await browser.begin()
    second["n"] = 1
    first.rotate()
    second.rotate()
    await browser.end(first)
    with pytest.raises(SessionMoved):
        await browser.end(second)
    assert (await browser.begin()).user == "ada"


async def test_what_an_end_met_when_it_came_with_a_given_up_id_stays_ended_though_the_handler_fails() -> None:
    from mangonel.websessions.answer import last_plan

    browser = Site().browser()
    await browser.login("ada")
    old = browser.cookie
    await change(browser, "rotate")
    late = await browser.begin(old)
    late.destroy()
    await late.state.face.commit(late, last_plan(late, 500))
    assert (await browser.begin()).user is None


@pytest.mark.parametrize("what", CHANGES)
async def test_a_forms_token_dies_with_every_change_of_privilege(what: str) -> None:
    from mangonel.websessions import CSRFError

    browser = Site().browser()
    await browser.login("ada")
    session = await browser.begin()
    token = session.csrf_token()
    await browser.end(session)
    (await browser.begin()).check_csrf(token)
    await change(browser, what)
    with pytest.raises(CSRFError):
        (await browser.begin()).check_csrf(token)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_write_with_an_id_that_was_just_given_up_is_a_conflict(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        for what in CHANGES:
            old = send("do=login&user=ada").cookie
            new = send(f"do={what}&user=ada", old).cookie
            answer = send("do=write&k=n&v=1", old)
            assert (answer.status, answer.set_cookies) == (409, []), what
            assert send("", new).found["user"] == "ada"
            assert send("do=destroy", old).status == 200
            assert send("", new).found["user"] is None, what
