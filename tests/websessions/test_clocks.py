"""Servers whose clocks differ: revocations, logins and limits mean the same on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from applications import FRAMEWORKS, served
from browser import Browser
from store_names import STORES

from mangonel.websessions import MemoryStore, TooManySessions, WebSessions, new_key
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import FakeClock, RecordingEvents

NO_USERS = ("memcached", "directory")
stores = pytest.mark.parametrize("name", STORES)
SKEWS = (-20.0, -5.0, 0.0, 5.0, 20.0)


class Servers:
    """Two servers on one store; the second one's clock is wrong by `skew` seconds."""

    def __init__(self, store: Any, skew: float, **settings: Any) -> None:
        self.clock = FakeClock()
        self.sites: list[WebSessions[Any]] = [
            WebSessions(store, clock=clock, events=lambda event: None, **settings)
            for clock in (self.clock, lambda: self.clock() + skew)
        ]

    def browsers(self) -> list[Browser]:
        return [Browser(site) for site in self.sites]


def served_by_two(name: str, skew: float, store_url: Callable[[str], str], **settings: Any) -> Servers:
    if name == "cookie":
        return Servers("cookie:", skew, epochs=MemoryStore(), seal=new_key(), **settings)
    if name in NO_USERS:
        settings["epochs"] = MemoryStore()
    return Servers(open_store(store_url(name)), skew, **settings)


async def closed(servers: Servers) -> None:
    store: Any = servers.sites[0].asynchronous.store()
    if hasattr(store, "aclose"):
        await store.aclose()


@pytest.mark.parametrize("name", [*STORES, "cookie"])
@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.each_once("name", "skew")
async def test_a_revocation_ends_what_there_was_and_nothing_that_comes_later(
    name: str, skew: float, store_url: Callable[[str], str]
) -> None:
    servers = served_by_two(name, skew, store_url)
    for revoking in (0, 1):
        for logging_in in (0, 1):
            old, new = servers.browsers()[logging_in], servers.browsers()[logging_in]
            await old.login("ada")
            # The older websession was made ten seconds ago, or at this moment.
            servers.clock.advance(10.0 * (revoking ^ logging_in))
            await servers.sites[revoking].revoke_user("ada")
            assert (await old.begin()).user is None
            await new.login("ada")
            for site in servers.sites:
                new.sessions = site
                assert (await new.begin()).user == "ada"
    await closed(servers)


@pytest.mark.parametrize("name", [*STORES, "cookie"])
@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.each_once("name", "skew")
async def test_what_is_spared_goes_on_and_ends_with_the_next_revocation(
    name: str, skew: float, store_url: Callable[[str], str]
) -> None:
    servers = served_by_two(name, skew, store_url)
    first, second = servers.browsers()
    await first.login("ada")
    await second.login("ada")
    for browser in (second, first):
        browser.cookie = first.cookie
        session = await browser.begin()
        session["n"] = 1
        await browser.sessions.revoke_user("ada", except_=session)
        await browser.end(session)
        first.cookie = browser.cookie
        assert await browser.read() == {"n": 1}
        assert (await browser.begin()).user == "ada"
    await second.sessions.revoke_user("ada")
    assert (await first.begin()).user is None
    await closed(servers)


@stores
@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.each_once("name", "skew")
async def test_the_oldest_gives_way_by_the_order_of_logins_not_by_clocks(
    name: str, skew: float, store_url: Callable[[str], str]
) -> None:
    if name in NO_USERS:
        return
    servers = served_by_two(name, skew, store_url, max_per_user=2)
    browsers = [browser for _ in range(3) for browser in servers.browsers()]
    for number, browser in enumerate(browsers):
        await browser.login("ada")
        alive = [(await each.begin()).user == "ada" for each in browsers[: number + 1]]
        assert alive == [False] * (number - 1) + [True] * min(number + 1, 2)
    await closed(servers)


@pytest.mark.parametrize("policy", ["evict-oldest", "refuse"])
@pytest.mark.parametrize("at_once", [3, 6])
async def test_of_logins_at_once_on_a_slow_store_as_many_are_left_as_allowed(
    policy: str, at_once: int
) -> None:
    for limit in (1, 2):
        servers = Servers(MemoryStore(delay=0.001), 5.0, max_per_user=limit, over_limit=policy)
        browsers = [browser for _ in range(at_once) for browser in servers.browsers()][:at_once]
        results = await asyncio.gather(
            *(browser.login("ada") for browser in browsers), return_exceptions=True
        )
        alive = [(await browser.begin()).user == "ada" for browser in browsers]
        if policy == "evict-oldest":
            assert sum(alive) == limit
        else:
            assert sum(alive) <= limit
        for result, is_alive in zip(results, alive, strict=True):
            assert not isinstance(result, BaseException) or isinstance(result, TooManySessions)
            assert not (isinstance(result, TooManySessions) and is_alive)


async def test_an_epoch_that_expired_and_begins_anew_is_later_than_all_before() -> None:
    store = MemoryStore()
    servers = Servers(store, 0.0)
    browser = servers.browsers()[0]
    sessions = servers.sites[0]
    await sessions.revoke_user("ada")
    await browser.login("ada")
    await store.delete(sessions.epoch_key("ada"))
    servers.clock.advance(1)
    late = await browser.begin()
    late.rotate()
    await sessions.revoke_user("ada")
    await browser.end(late)
    assert (await browser.begin()).user is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_login_after_a_revocation_by_a_server_with_a_faster_clock_holds(framework: str) -> None:
    store, epochs = MemoryStore(), MemoryStore()
    fast: WebSessions[Any] = WebSessions(store, epochs=epochs, clock=FakeClock(1_900_000_020.0))
    slow: WebSessions[Any] = WebSessions(
        store, epochs=epochs, clock=FakeClock(1_900_000_000.0), events=lambda event: None
    )
    asyncio.run(fast.revoke_user("ada"))
    with served(framework, slow) as send:
        cookie = send("do=login&user=ada").cookie
        assert send("", cookie).found["user"] == "ada"
        asyncio.run(slow.revoke_user("ada"))
        assert send("", cookie).found["user"] is None


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("limit", ["idle", "absolute"])
async def test_a_limit_is_wrong_by_the_difference_of_the_clocks_at_most(limit: str, skew: float) -> None:
    settings = {
        "idle": 600,
        "absolute": 600 if limit == "absolute" else 6000,
        "touch_after": 599,
        "renew": None,
    }
    for first, second in ((0, 1), (1, 0)):
        for seconds, is_there in ((600 - abs(skew) - 1, True), (600 + abs(skew), False)):
            servers = Servers(MemoryStore(), skew, **settings)
            browser = servers.browsers()[first]
            await browser.login("ada")
            servers.clock.advance(seconds)
            browser.sessions = servers.sites[second]
            assert ((await browser.begin()).user == "ada") == is_there, (first, seconds)


@pytest.mark.parametrize("skew", [*SKEWS, 40.0, -40.0])
async def test_a_request_in_flight_beside_a_renewal_is_let_in_by_no_clock(skew: float) -> None:
    """Within the grace period it ends nothing; beyond, it may end the websession, and nothing else."""
    for first, second in ((0, 1), (1, 0)):
        servers = Servers(MemoryStore(), skew, renew="1m", grace="30s", idle="30m")
        told = RecordingEvents()
        for site in servers.sites:
            site._tell, site.listens = told, True
        browser = servers.browsers()[first]
        await browser.login("ada")
        old = browser.cookie
        servers.clock.advance(61 + abs(skew))
        await browser.read()
        assert browser.cookie != old
        await browser.read()  # the new id was seen
        servers.clock.advance(5)
        late = Browser(servers.sites[second])
        assert (await late.begin(old)).user is None
        is_fast = (skew if second else -skew) + 5 > 30
        assert ((await browser.begin()).user == "ada") == (not is_fast)
        events = {kind.partition("(")[0] for kind in told.kinds()}
        assert ("reused" in events) == is_fast
        assert ("clock" in events) == ((skew if second else -skew) == -40)
