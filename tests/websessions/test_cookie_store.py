"""Websessions in a sealed cookie: no store, both limits inside the seal, 4096 bytes at most."""

from __future__ import annotations

from typing import Any

import pytest
from browser import Browser, Site

from mangonel.websessions import (
    Keys,
    MemoryStore,
    SessionTooLarge,
    Unsupported,
    UsageError,
    WebSessions,
    new_key,
)
from mangonel.websessions.answer import headers_of


def a_site(**settings: Any) -> Site:
    return Site(store="cookie:", seal=settings.pop("seal", new_key()), **settings)


async def test_a_cookie_is_4096_bytes_at_most_and_the_error_names_the_largest_key() -> None:
    """Requirement 29."""
    browser = a_site().browser()
    session = await browser.begin()
    session["small"] = "x" * 100
    session["photo"] = "x" * 2900
    with pytest.raises(SessionTooLarge, match="'photo'"):
        await browser.end(session)
    assert headers_of(session) == []
    session["photo"] = "x" * 2700
    await browser.end(session)
    assert len(browser.last_headers[0][1]) <= 4096
    assert (await browser.read())["small"] == "x" * 100


async def test_values_travel_unreadably() -> None:
    site = a_site()
    browser = site.browser()
    await browser.store(diagnosis="secret value")
    first = browser.cookie
    assert await browser.read() == {"diagnosis": "secret value"}
    assert browser.last_headers == [("Vary", "Cookie")]
    await browser.store(diagnosis="another")
    assert browser.cookie != first
    assert "diagnosis" not in repr(browser.cookie)
    assert site.meter.calls == 0


async def test_both_limits_are_the_servers() -> None:
    site = a_site(idle="30m", absolute="12h")
    browser = site.browser()
    await browser.store(n=1)
    stale = browser.cookie
    elapsed = 0
    while elapsed < 13 * 3600:
        site.clock.advance(28 * 60)
        elapsed += 28 * 60
        alive = bool(await browser.read())
        assert alive == (elapsed < 12 * 3600)
    assert await browser.read(stale) == {}


async def test_tampered_and_foreign_cookies_are_empty_sessions() -> None:
    site = a_site()
    browser = site.browser()
    await browser.store(n=1)
    assert browser.cookie is not None
    value = browser.cookie.partition("=")[2]
    flipped = ("A" if value[50] != "A" else "B").join((value[:50], value[51:]))
    for wrong in (flipped, value[:-4], value + "AAAA", "A" * 60):
        assert await browser.read(f"__Host-sid={wrong}") == {}
    assert set(site.events.kinds()[1:]) == {"rejected(sealed)"}
    assert await a_site().browser().read(browser.cookie) == {}


async def test_keys_rotate() -> None:
    old, new = new_key(), new_key()
    site = a_site(seal=old)
    browser = site.browser()
    await browser.store(n=1)
    browser.sessions = a_site(seal=Keys(current=new, previous=[old]), clock=site.clock).sessions
    assert await browser.read() == {"n": 1}
    await browser.store(n=2)
    browser.sessions = a_site(seal=new, clock=site.clock).sessions
    assert await browser.read() == {"n": 2}


async def test_login_logout_and_farewell() -> None:
    site = a_site()
    browser = site.browser()
    await browser.store(cart=[1], other=2)
    await browser.login("alice", keep=("cart",))
    session = await browser.begin()
    assert (session.user, dict(session)) == ("alice", {"cart": [1]})
    session.destroy()
    session.flash("bye")
    await browser.end(session)
    session = await browser.begin()
    assert session.user is None
    assert [flash.text for flash in session.flashes()] == ["bye"]
    assert site.events.kinds() == ["created", "login", "destroyed", "created"]


async def test_an_epoch_store_can_end_all_of_a_users_cookies() -> None:
    clock_site = Site()
    epochs = MemoryStore(clock_site.clock)
    site = a_site(epochs=epochs, clock=clock_site.clock)
    browsers = [site.browser() for _ in range(2)]
    for browser in browsers:
        await browser.login("alice")
    clock_site.clock.advance(1)
    await site.sessions.revoke_user("alice")
    assert [(await browser.begin()).user for browser in browsers] == [None, None]
    clock_site.clock.advance(1)
    await browsers[0].login("alice")
    assert (await browsers[0].begin()).user == "alice"
    without: Browser = a_site().browser()
    with pytest.raises(Unsupported):
        await without.sessions.revoke_user("alice")
    with pytest.raises(Unsupported):
        await without.sessions.of("alice")


def test_it_needs_keys() -> None:
    with pytest.raises(UsageError, match="seal"):
        WebSessions("cookie:")
    with pytest.raises(UsageError, match="16, 24 or 32"):
        WebSessions("cookie:", seal=b"short")
