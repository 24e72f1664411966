"""Remembered logins: single-use tokens, concurrent requests, lost responses, copied tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from applications import FRAMEWORKS, served
from browser import Browser, Site
from store_names import STORES, sampled

from mangonel.websessions import Device, MemoryStore, SessionMoved, WebSessions
from mangonel.websessions.testing import FakeClock

LATER = 2 * 86_400


def a_site(**settings: Any) -> Site:
    return Site(devices=True, renew=None, **settings)


async def remembered(site: Site, **keywords: Any) -> Browser:
    browser = site.browser()
    await browser.login("ada", remember="30d", **keywords)
    site.clock.advance(LATER)
    return browser


def copy(browser: Browser) -> Browser:
    other = Browser(browser.sessions)
    other.cookie = browser.cookie
    return other


async def visit(browser: Browser) -> str | None:
    session = await browser.begin()
    await browser.end(session)
    return session.user


@pytest.mark.parametrize("name", sampled(STORES, "memory", "redis", "directory"))
async def test_a_remembered_browser_logs_in_again_with_another_token_and_proves_nothing(
    name: str, store_url: Callable[[str], str]
) -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(
        store_url(name), clock=clock, devices=True, renew=None, events=lambda event: None
    )
    await sessions.setup()
    browser = Browser(sessions)
    await browser.login("ada", remember="30d", fingerprint="hash 1")
    first = browser.cookie
    session = await browser.begin()
    session["cart"] = 1
    await browser.end(session)
    clock.advance(1801)
    session = await browser.begin()
    assert (session.user, session.remembered, session.fresh("1h"), dict(session)) == ("ada", True, False, {})
    assert session.check_fingerprint("hash 1")
    await browser.end(session)
    assert browser.cookie not in (first, None)
    session = await browser.begin()
    assert session.user == "ada"
    session.reauthenticated(fingerprint="hash 2")
    await browser.end(session)
    session = await browser.begin()
    assert (session.remembered, session.fresh("1h")) == (False, True)
    clock.advance(1801)
    session = await browser.begin()
    # The new password is known to the remembered login.
    assert (session.user, session.check_fingerprint("hash 2")) == ("ada", True)
    await browser.end(session)
    await browser.logout()
    assert await visit(browser) is None
    assert "." not in (browser.cookie or "").partition("-device=")[2]
    await sessions.aclose()


@pytest.mark.parametrize("framework", sampled(FRAMEWORKS, "starlette", "flask", "django"))
def test_a_remembered_browser_is_logged_in_by_every_framework(framework: str) -> None:
    clock = FakeClock()
    store: Any = MemoryStore(clock)
    if framework.startswith(("wsgi", "flask")) or framework == "django":
        store = store.blocking
    sessions: WebSessions[Any] = WebSessions(store, clock=clock, devices=True, events=lambda event: None)
    with served(framework, sessions) as send:
        cookie = send("do=login&remember=30d").cookie
        clock.advance(LATER)
        answer = send("", cookie)
        assert answer.found["user"] == "ada"
        assert len(answer.set_cookies) == 2
        assert answer.headers["cache-control"] == "no-store"
        cookie = answer.cookie
        assert send("", cookie).set_cookies == []
        cookie = send("do=destroy", cookie).cookie
        assert cookie
        assert send("", cookie).found == {"user": None, "values": {}}
        clock.advance(LATER)
        assert send("", answer.cookie).found == {"user": None, "values": {}}


async def test_requests_side_by_side_with_one_token_share_a_websession_and_are_no_theft() -> None:
    site = a_site(store=MemoryStore(FakeClock(), delay=0.001))
    browser = await remembered(site)
    begun = await asyncio.gather(*(browser.begin() for _ in range(8)))
    assert [session.user for session in begun] == ["ada"] * 8
    assert len({session.tag for session in begun}) == 1
    for number, session in enumerate(begun):
        session[f"k{number}"] = number
        await browser.end(session)
    assert len(await browser.read()) == 8
    assert "reused(remember)" not in site.events.kinds()
    assert len(await site.sessions.of("ada")) == 1


async def test_a_request_that_comes_late_with_the_token_before_is_asked_to_come_again() -> None:
    site = a_site()
    browser = await remembered(site)
    late = copy(browser)
    assert await visit(browser) == "ada"
    assert await visit(browser) == "ada"  # seen
    session = await late.begin()
    assert session.user is None
    session["a"] = 1
    with pytest.raises(SessionMoved):
        await late.end(session)
    session = await late.begin()
    session.destroy()  # an end follows
    await late.end(session)
    assert await visit(browser) is None
    assert "reused(remember)" not in site.events.kinds()


@pytest.mark.parametrize("what", ["rotate", "reauthenticated"])
async def test_a_request_beside_a_new_id_leaves_the_token_alone_until_the_grace_is_over(what: str) -> None:
    site = a_site()
    browser = site.browser()
    await browser.login("ada", remember="30d")
    late = copy(browser)
    session = await browser.begin()
    session["cart"] = 1
    getattr(session, what)()
    await browser.end(session)
    session = await late.begin()
    assert session.user is None
    session["a"] = 1
    with pytest.raises(SessionMoved):
        await late.end(session)
    assert await visit(late) is None
    assert late.cookie != browser.cookie
    assert await browser.read() == {"cart": 1}
    # If the response with the new id was lost, the browser logs in by itself.
    site.clock.advance(31)
    assert await visit(late) == "ada"


async def test_an_answer_that_was_lost_is_made_good_and_is_no_theft() -> None:
    site = a_site()
    browser = await remembered(site)
    for wait in (1, LATER):
        session = await browser.begin()
        assert session.user == "ada"
        await browser.end(session, is_lost=True)
        site.clock.advance(wait)
    assert await visit(browser) == "ada"
    assert await visit(browser) == "ada"
    assert len(await site.sessions.of("ada")) == 1
    assert "reused(remember)" not in site.events.kinds()


@pytest.mark.parametrize("first", ["thief", "visitor"])
async def test_a_token_that_comes_twice_ends_the_series_and_its_websessions_and_is_told(first: str) -> None:
    told: list[Device] = []
    site = a_site(on_theft=told.append)
    visitor = await remembered(site)
    thief = copy(visitor)
    one, other = (thief, visitor) if first == "thief" else (visitor, thief)
    for _ in range(2):
        assert await visit(one) == "ada"
    site.clock.advance(31)
    assert await visit(other) is None
    assert await visit(one) is None
    assert [each.user for each in told] == ["ada"]
    assert not told[0].is_remembered
    assert site.events.kinds().count("reused(remember)") == 1
    site.clock.advance(LATER)
    for each in (one, other):
        assert await visit(each) is None
    await visitor.login("ada", remember="30d")
    site.clock.advance(LATER)
    assert await visit(visitor) == "ada"
    assert await visit(thief) is None


async def test_a_thief_who_uses_a_token_unseen_is_found_when_he_comes_back() -> None:
    site = a_site()
    visitor = await remembered(site)
    thief = copy(visitor)
    session = await thief.begin()
    await thief.end(session)  # takes a token, and returns only later
    site.clock.advance(LATER)
    assert await visit(visitor) == "ada"
    assert await visit(visitor) == "ada"
    site.clock.advance(31)
    assert await visit(thief) is None
    assert "reused(remember)" in site.events.kinds()
    assert await visit(visitor) is None


async def test_a_copy_is_only_refused_where_the_policy_says_so() -> None:
    site = a_site(on_reuse="log")
    visitor = await remembered(site)
    thief = copy(visitor)
    for _ in range(2):
        assert await visit(visitor) == "ada"
    site.clock.advance(31)
    assert await visit(thief) is None
    assert await visit(visitor) == "ada"


async def test_it_ends_by_its_time_and_by_revocations_and_the_spared_one_stays() -> None:
    site = a_site()
    old = await remembered(site)
    site.clock.advance(30 * 86_400)
    assert await visit(old) is None
    one, other = site.browser(), site.browser()
    for browser in (one, other):
        await browser.login("ada", remember="30d")
    await site.sessions.revoke_user("ada", except_=await one.begin())
    site.clock.advance(LATER)
    assert await visit(other) is None
    assert await visit(one) == "ada"
    (handle,) = await site.sessions.of("ada")
    assert await site.sessions.revoke(handle)
    assert await visit(one) is None
    site.clock.advance(LATER)
    assert await visit(one) is None


async def test_a_revocation_beside_the_exchange_wins() -> None:
    site = a_site()
    browser = await remembered(site)
    put = site.memory.put
    revoked: list[bool] = []

    async def slow(record: Any, expected: int) -> bool:
        was_put = await put(record, expected)
        if record.label == "devices" and not revoked:
            revoked.append(True)
            await site.sessions.revoke_user("ada")
        return was_put

    site.memory.put = slow  # type: ignore[method-assign]
    assert await visit(browser) is None
    assert revoked
    assert await visit(browser) is None


async def test_another_users_login_on_the_browser_ends_the_first_ones() -> None:
    site = a_site()
    browser = await remembered(site)
    before = copy(browser)
    session = await browser.begin()
    session.login("bob")
    await browser.end(session)
    assert not (await site.sessions.devices("ada"))[0].is_remembered
    site.clock.advance(LATER)
    assert await visit(browser) is None
    assert await visit(before) is None


async def test_limits_hold_for_remembered_logins() -> None:
    site = a_site(max_per_user=1)
    browser = await remembered(site)
    other = site.browser()
    await other.login("ada")
    assert await visit(browser) == "ada"
    assert await visit(other) is None
    site = a_site(max_per_user=1, over_limit="refuse")
    browser = await remembered(site)
    await (other := site.browser()).login("ada")
    assert await visit(browser) is None
    await other.logout()
    assert await visit(browser) == "ada"


async def test_a_planted_or_forged_cookie_leads_nowhere_and_guesses_are_counted() -> None:
    site = a_site(guess_limit=2)
    browser = await remembered(site)
    token = (browser.cookie or "").rpartition(".")[2]
    name = f"{site.sessions.cookie.name}-device"
    other = site.browser()
    for _ in range(2):
        other.cookie = f"{name}={'a' * 43}.{'b' * 43}.{token}"
        assert await visit(other) is None
    assert "guessing" in site.events.kinds()
    other.cookie = f"{name}=nonsense"
    assert await visit(other) is None
    assert await visit(browser) == "ada"


async def test_over_plain_http_and_in_a_socket_nothing_is_exchanged() -> None:
    from mangonel.websessions import RequestView

    site = a_site()
    browser = await remembered(site)
    assert (await browser.begin(is_secure=False)).user is None
    found = await site.sessions.asynchronous.load(RequestView(browser.cookie, takes_cookies=False))
    assert found.user is None
    assert await visit(browser) == "ada"
