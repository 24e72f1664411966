"""A renewal survives lost responses, and tells a stolen old id from a returning visitor; on every store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser import Browser
from store_names import STORES

from mangonel.websessions import WebSessions, new_key
from mangonel.websessions.testing import FakeClock, RecordingEvents

stores = pytest.mark.parametrize("name", STORES)
sealed = pytest.mark.parametrize("seal", [None, new_key()], ids=["plain", "sealed"])


class Shop:
    """Websessions on a store by its URL, with a clock and a story."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.clock = FakeClock()
        self.events = RecordingEvents()
        self.sessions: WebSessions[Any] = WebSessions(
            url, clock=self.clock, events=self.events, renew="15m", grace="30s", idle="30m", **settings
        )

    async def renewed(self, browser: Browser) -> tuple[str | None, str | None]:
        """Log in, have the id renewed, and return the old cookie and the new one."""
        await browser.login("ada")
        old = browser.cookie
        self.clock.advance(15 * 60)
        await browser.read()
        return old, browser.cookie


@stores
@sealed
async def test_a_visitor_whose_answers_are_lost_stays_logged_in(
    name: str, seal: Any, store_url: Callable[[str], str]
) -> None:
    shop = Shop(store_url(name), seal=seal)
    await shop.sessions.setup() if name in ("mysql", "postgresql", "sqlite") else None
    browser = Browser(shop.sessions)
    await browser.login("ada")
    await browser.store(n=1)
    old = browser.cookie
    for waits in (15 * 60, 60):
        shop.clock.advance(waits)
        await browser.end(await browser.begin(), is_lost=True)
        # Concurrent requests neither renew again nor fail.
        beside = await browser.begin()
        assert (beside.user, beside["n"], beside.state.cookie) == ("ada", 1, None)
    shop.clock.advance(31)
    assert await browser.read() == {"n": 1}
    assert browser.cookie != old
    assert await browser.read() == {"n": 1}
    assert await browser.read(old) == {}
    await shop.sessions.aclose()


@stores
@sealed
async def test_who_is_remembered_may_come_back_days_after_an_answer_was_lost(
    name: str, seal: Any, store_url: Callable[[str], str]
) -> None:
    shop = Shop(store_url(name), seal=seal)
    browser = Browser(shop.sessions)
    await browser.login("ada", remember="14d")
    old = browser.cookie
    shop.clock.advance(3 * 86_400)
    await browser.end(await browser.begin(), is_lost=True)
    shop.clock.advance(3 * 86_400)
    session = await browser.begin()
    assert session.user == "ada"
    await browser.end(session)
    assert browser.cookie != old
    assert (await browser.begin()).user == "ada"
    shop.clock.advance(31)
    # Reuse after the grace period is still noticed.
    assert (await browser.begin(old)).user is None
    assert "reused" in shop.events.kinds()
    await shop.sessions.aclose()


@stores
@sealed
async def test_an_old_id_that_comes_after_the_new_one_was_seen_ends_the_websession(
    name: str, seal: Any, store_url: Callable[[str], str]
) -> None:
    for policy, is_there in (("destroy", False), ("log", True)):
        shop = Shop(store_url(name), seal=seal, on_reuse=policy)
        await shop.sessions.setup() if name in ("mysql", "postgresql", "sqlite") else None
        browser = Browser(shop.sessions)
        old, _ = await shop.renewed(browser)
        assert (await browser.begin()).user == "ada"
        # A request that was on its way is refused without further consequences.
        assert await browser.read(old) == {}
        assert (await browser.begin()).user == "ada"
        shop.clock.advance(31)
        assert (await browser.begin(old)).user is None
        assert "reused" in shop.events.kinds()
        assert (await browser.begin()).user == ("ada" if is_there else None)
        await shop.sessions.aclose()


@stores
async def test_a_thief_who_renews_first_is_thrown_out_when_the_visitor_comes_back(
    name: str, store_url: Callable[[str], str]
) -> None:
    shop = Shop(store_url(name))
    await shop.sessions.setup() if name in ("mysql", "postgresql", "sqlite") else None
    browser, thief = Browser(shop.sessions), Browser(shop.sessions)
    await browser.login("ada")
    thief.cookie = browser.cookie
    shop.clock.advance(15 * 60)
    await thief.read()
    assert (await thief.begin()).user == "ada"
    assert thief.cookie != browser.cookie
    shop.clock.advance(60)
    assert (await browser.begin()).user is None
    assert (await thief.begin()).user is None
    await shop.sessions.aclose()
