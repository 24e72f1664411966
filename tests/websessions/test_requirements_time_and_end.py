"""Requirements 14 to 26: time limits, and the end. Numbered as in the reference's section 3."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest
from browser import Site
from hypothesis import given, settings
from hypothesis import strategies as st
from model import Stepping

from mangonel.websessions import RequestView, SessionMoved, TooManySessions, WebSession, WebSessions
from mangonel.websessions.answer import headers_of
from mangonel.websessions.commit import commit_flow
from mangonel.websessions.load import load_flow
from mangonel.websessions.machine import decide
from mangonel.websessions.record import Record
from mangonel.websessions.settings import Lifetime, limits

MINUTE, HOUR, DAY = 60, 3600, 86_400


async def test_the_idle_limit_is_the_servers() -> None:
    """Requirement 14."""
    site = Site(idle="30m", renew=None)
    browser = site.browser()
    await browser.store(n=1)
    site.clock.advance(30 * MINUTE - 1)
    assert await browser.read() == {"n": 1}
    site.clock.advance(30 * MINUTE + 1)
    # The cookie is still sent, and nothing has reaped the record.
    assert browser.cookie is not None
    assert len(site.memory.records) == 1
    assert await browser.read() == {}
    assert site.memory.records == {}
    assert site.events.kinds()[-1] == "expired"


async def test_the_absolute_limit_holds_whatever_happens() -> None:
    """Requirement 15."""
    site = Site(idle="30m", absolute="12h")
    browser = site.browser()
    await browser.store(n=1)
    elapsed = 0
    while elapsed < 13 * HOUR:
        site.clock.advance(28 * MINUTE)
        elapsed += 28 * MINUTE
        is_alive = bool(await browser.read())
        assert is_alive == (elapsed < 12 * HOUR), elapsed


async def test_the_absolute_limit_holds_twice() -> None:
    """Requirement 15."""
    # The stored limit and the limit checked at reading: each is enough without the other.
    site = Site(idle="30m", absolute="1h", touch_after=1)
    browser = site.browser()
    await browser.store(n=1)
    site.clock.advance(1700)
    await browser.store(n=2)
    site.clock.advance(1500)
    await browser.read()
    (record,) = site.live()
    assert record.expires == record.deadline
    site.memory.records[record.key] = msgspec.structs.replace(record, expires=record.deadline + 3600)
    site.clock.advance(500)
    assert (await browser.begin()).new
    assert "expired" in site.events.kinds()


@pytest.mark.parametrize(
    ("aal", "idle", "absolute"),
    [
        (None, 30 * MINUTE, 12 * HOUR),
        (1, 30 * DAY, 30 * DAY),
        (2, HOUR, 24 * HOUR),
        (3, 15 * MINUTE, 12 * HOUR),
    ],
)
async def test_the_assurance_levels_set_the_limits(aal: int | None, idle: int, absolute: int) -> None:
    """Requirement 16."""
    site = Site(aal=aal)
    session = await site.browser().login("alice")
    assert session.expires == site.clock.now + idle
    assert session.deadline == site.clock.now + absolute


def test_limits_above_the_level_warn() -> None:
    """Requirement 16."""
    with pytest.warns(UserWarning, match="assurance level 3"):
        limits(Lifetime(idle="20m", aal=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limits(Lifetime(idle="10m", aal=3))
        limits(Lifetime())


async def test_activity_moves_idle_only_and_reauthentication_both() -> None:
    """Requirement 17."""
    site = Site(idle="30m", absolute="12h")
    browser = site.browser()
    first = await browser.login("alice")
    deadline = first.deadline
    site.clock.advance(20 * MINUTE)
    session = await browser.begin()
    await browser.end(session)
    assert session.expires == site.clock.now + 30 * MINUTE
    assert session.deadline == deadline
    session = await browser.begin()
    session.rotate()
    await browser.end(session)
    assert session.deadline == deadline
    session = await browser.begin()
    session.reauthenticated()
    await browser.end(session)
    assert session.deadline == site.clock.now + 12 * HOUR
    assert session.user == "alice"


async def test_what_the_client_thinks_of_time_does_not_matter() -> None:
    """Requirement 18."""
    site = Site(persistent=True, idle="30m")
    browser = site.browser()
    await browser.store(n=1)
    header = dict(browser.last_headers)["Set-Cookie"]
    assert "Max-Age=43200" in header
    # A browser that keeps the cookie longer or resends its attributes changes nothing.
    assert await browser.read(
        f"{browser.cookie}; Max-Age=99999999; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
    ) == {"n": 1}
    site.clock.advance(31 * MINUTE)
    assert await browser.read() == {}


@settings(deadline=None)
@given(st.lists(st.integers(1, 1700), max_size=12), st.integers(1, 900))
def test_throttled_touches_shorten_idle_by_the_throttle_at_most(pauses: list[int], touch_after: int) -> None:
    """Requirement 19."""

    async def story() -> None:
        site = Site(idle=1800, touch_after=touch_after, renew=None)
        browser = site.browser()
        await browser.store(n=1)
        last = site.clock.now
        for pause in pauses:
            if pause >= 1800 - touch_after:
                continue
            site.clock.advance(pause)
            assert await browser.read() == {"n": 1}
            last = site.clock.now
        (record,) = site.live()
        assert 1800 - touch_after <= record.expires - last <= 1800

    asyncio.run(story())


async def test_a_clock_that_jumps_prolongs_nothing() -> None:
    """Requirement 20."""
    site = Site(idle="30m", absolute="12h")
    browser = site.browser()
    session = await browser.store(n=1)
    deadline = session.deadline
    site.clock.advance(-HOUR)
    session = await browser.begin()
    session["n"] = 2
    await browser.end(session)
    assert session.deadline == deadline
    assert session.expires is not None
    assert deadline is not None
    assert session.expires <= deadline
    site.clock.advance(2 * HOUR)
    assert await browser.read() == {}


async def test_logout_ends_it_on_the_server_and_in_the_browser() -> None:
    """Requirement 21."""
    site = Site()
    browser = site.browser()
    await browser.login("alice")
    cookie = browser.cookie
    given = dict(browser.last_headers)["Set-Cookie"]
    await browser.logout()
    taken = dict(browser.last_headers)["Set-Cookie"]
    assert site.memory.records == {}
    assert "Max-Age=0" in taken
    name, _, attributes = given.partition("=")
    flags = set(attributes.split("; ")[1:])
    assert taken.startswith(f"{name}=;")
    assert flags < set(taken.split("; "))
    assert await browser.read(cookie) == {}


async def test_the_cookie_is_taken_back_with_its_domain_and_path() -> None:
    """Requirement 21."""
    site = Site(domain="example.org", path="/shop")
    browser = site.browser()
    await browser.login("alice")
    await browser.logout()
    assert dict(browser.last_headers)["Set-Cookie"] == (
        "__Secure-sid=; HttpOnly; Path=/shop; SameSite=Lax; Domain=example.org; Secure; "
        "Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
    )


async def test_logout_wins_over_a_slow_writer() -> None:
    """Requirement 22."""
    site = Site()
    browser = site.browser()
    await browser.login("alice")
    cookie = browser.cookie
    slow = await browser.begin()
    await browser.logout()
    slow["late"] = True
    headers = await browser.end(slow)
    assert site.memory.records == {}
    assert all("Max-Age=0" in value for name, value in headers if name == "Set-Cookie")
    assert await browser.read(cookie) == {}
    assert "gone" in site.events.kinds()


def step(flow: Coroutine[Any, Any, WebSession[Any]]) -> WebSession[Any] | None:
    """Let a flow go on to its next store call; return its value at the end."""
    try:
        flow.send(None)
    except StopIteration as end:
        session: WebSession[Any] = end.value
        return session
    return None


async def test_logout_wins_over_a_rotation_whatever_comes_first() -> None:
    """Requirement 22."""
    for change in ("rotate", "reauthenticated"):
        for begun in range(8):
            for logout in range(8):
                site = Site()
                browser = site.browser()
                await browser.login("alice")
                one, other = await browser.begin(), await browser.begin()
                getattr(one, change)()
                other.destroy()
                store: Any = Stepping(site.memory.blocking)
                rotating = commit_flow(site.sessions, store, one, decide(one))
                leaving = commit_flow(site.sessions, store, other, decide(other))
                for flow, steps in ((rotating, begun), (leaving, logout), (rotating, 99), (leaving, 99)):
                    for _ in range(steps):
                        if inspect.getcoroutinestate(flow) != inspect.CORO_CLOSED:
                            step(flow)
                # Whichever response arrives last.
                for session in (one, other):
                    browser.take(headers_of(session))
                    assert (await browser.begin()).user is None, (change, begun, logout)
                assert site.live() == []


async def test_logout_wins_over_a_renewal_under_way() -> None:
    """Requirement 22."""
    for steps in range(8):
        site = Site(renew="15m")
        browser = site.browser()
        await browser.login("alice")
        leaving = await browser.begin()
        site.clock.advance(15 * MINUTE)
        # The renewal is stopped before its n-th store call, and the logout goes in between.
        renewal = load_flow(site.sessions, Stepping(site.memory.blocking), RequestView(browser.cookie))
        renewed = None
        for _ in range(steps):
            if renewed is None:
                renewed = step(renewal)
        leaving.destroy()
        await browser.end(leaving, is_lost=True)
        while renewed is None:
            renewed = step(renewal)
        renewed.state.face = site.sessions.asynchronous
        headers = await browser.end(renewed, is_lost=True)
        for name, value in headers:
            if name == "Set-Cookie" and "Max-Age=0" not in value:
                assert await browser.read(value.partition(";")[0]) == {}, steps
        assert site.live() == [], steps


@pytest.mark.parametrize("sweeps", [True, False])
async def test_a_logout_in_a_socket_ends_what_was_renewed_long_ago(sweeps: bool) -> None:
    """Requirement 22."""
    site = Site()
    browser = site.browser()
    await browser.login("alice")
    # Two handlers of one websession, as on two WebSockets.
    socket, other = await browser.begin(), await browser.begin()
    for _ in range(3):
        site.clock.advance(20 * MINUTE)
        await browser.end(await browser.begin())
        if sweeps:
            await site.memory.purge(site.clock.now)
    other["said"] = "late"
    await other.save()
    assert (await browser.begin())["said"] == "late"
    assert await site.sessions.asynchronous.is_alive(other)
    socket.destroy()
    await socket.save()
    assert (await browser.begin()).user is None
    assert not await site.sessions.asynchronous.is_alive(other)


async def test_a_rotation_keeps_the_new_cookie_from_slow_writers() -> None:
    """Requirement 22."""
    site = Site()
    browser = site.browser()
    await browser.store(n=1)
    slow = await browser.begin()
    await browser.login("alice")
    slow["late"] = True
    # The slow response is an error, and must not overwrite the login's cookie.
    with pytest.raises(SessionMoved):
        await browser.end(slow)
    assert slow.state.cookie is None
    assert (await browser.begin()).user == "alice"


async def test_all_sessions_of_a_user_end_but_the_one_that_asks() -> None:
    """Requirement 23."""
    site = Site()
    browsers = [site.browser() for _ in range(4)]
    for browser in browsers:
        await browser.login("alice")
    other = site.browser()
    await other.login("bob")
    current = await browsers[0].begin()
    site.clock.advance(1)
    assert await site.sessions.revoke_user("alice", except_=current) == 3
    await browsers[0].end(current)
    users = [(await browser.begin()).user for browser in [*browsers, other]]
    assert users == ["alice", None, None, None, "bob"]
    # The spared websession can renew and rotate.
    session = await browsers[0].begin()
    session.rotate()
    await browsers[0].end(session)
    site.clock.advance(16 * MINUTE)
    assert (await browsers[0].begin()).user == "alice"
    later = site.browser()
    await later.login("alice")
    assert (await later.begin()).user == "alice"


async def test_a_login_during_the_revocation_ends_too() -> None:
    """Requirement 23."""
    # The login begins before the revocation, and its record arrives right after the search.
    site = Site()
    late = site.browser()
    find, put = site.memory.find, site.memory.put
    was_searched = asyncio.Event()

    async def put_later(record: Record, expected: int) -> bool:
        if record.user == "alice":
            await was_searched.wait()
        return await put(record, expected)

    async def find_then_wait(user: str) -> list[Record]:
        found = await find(user)
        was_searched.set()
        await login
        return found

    site.memory.find, site.memory.put = find_then_wait, put_later  # type: ignore[method-assign]
    login = asyncio.ensure_future(late.login("alice"))
    await asyncio.sleep(0)
    await site.sessions.revoke_user("alice")
    site.memory.find, site.memory.put = find, put  # type: ignore[method-assign]
    assert (await late.begin()).user is None
    assert [record for record in site.live() if record.user == "alice"] == []


async def test_a_login_that_the_revocation_overtakes_in_one_process_ends_too() -> None:
    """Requirement 23."""
    # The login has begun, and ends the earlier websession; the whole revocation happens meanwhile.
    site = Site()
    slow = site.browser()
    await slow.store(v=1)
    original = site.memory.put

    async def revoke_then_put(record: Record, expected: int) -> bool:
        site.memory.put = original  # type: ignore[method-assign]
        await site.sessions.revoke_user("alice")
        return await original(record, expected)

    session = await slow.begin()
    session.login("alice")
    site.memory.put = revoke_then_put  # type: ignore[method-assign]
    await slow.end(session)
    assert (await slow.begin()).user is None
    assert [record for record in site.live() if record.user == "alice"] == []


async def test_sessions_can_be_listed_and_ended() -> None:
    """Requirement 24."""
    site = Site()
    phone, desk = site.browser(), site.browser()
    for browser, label in ((phone, "phone"), (desk, "desk")):
        session = await browser.begin()
        session.login("alice")
        session.label = label
        await browser.end(session)
        site.clock.advance(600)
    current = await desk.begin()
    await desk.end(current)
    handles = await site.sessions.of("alice", current)
    assert [(handle.label, handle.is_current) for handle in handles] == [("desk", True), ("phone", False)]
    assert handles[1].created < handles[0].created
    assert handles[0].last_seen == site.clock.now
    for handle in handles:
        # A handle is neither a key nor a token.
        assert bytes.fromhex(handle.id) not in site.memory.records
        assert await desk.read(f"__Host-sid={handle.id}") == {}
        assert all(site.sessions.cookie.key_of(handle.id) != key for key in site.memory.records)
    assert await site.sessions.revoke(handles[1]) is True
    assert await site.sessions.revoke(handles[1]) is False
    assert (await phone.begin()).user is None
    assert (await desk.begin()).user == "alice"


async def test_a_session_is_ended_although_it_was_renewed_since_the_listing() -> None:
    """Requirement 24."""
    site = Site(renew="15m")
    browser = site.browser()
    await browser.login("alice")
    (handle,) = await site.sessions.of("alice")
    site.clock.advance(16 * MINUTE)
    await browser.read()
    assert await site.sessions.revoke(handle) is True
    assert (await browser.begin()).user is None


@pytest.mark.parametrize("policy", ["refuse", "evict-oldest"])
async def test_a_user_has_so_many_sessions_at_most(policy: str) -> None:
    """Requirement 25."""
    site = Site(max_per_user=3, over_limit=policy)
    browsers = [site.browser() for _ in range(4)]
    for browser in browsers[:3]:
        await browser.login("alice")
        site.clock.advance(10)
    if policy == "refuse":
        with pytest.raises(TooManySessions):
            await browsers[3].login("alice")
        expected = ["alice", "alice", "alice", None]
    else:
        await browsers[3].login("alice")
        expected = [None, "alice", "alice", "alice"]
    assert [(await browser.begin()).user for browser in browsers] == expected
    # Logging in again in the same browser adds no session.
    await browsers[1].logout()
    await browsers[1].login("alice")
    await browsers[1].login("alice")


async def test_clear_site_data_goes_with_the_logout_when_asked_for() -> None:
    """Requirement 26."""
    for value in ("", '"cache", "storage"'):
        browser = Site(clear_site_data=value).browser()
        await browser.login("alice")
        assert "Clear-Site-Data" not in dict(browser.last_headers)
        await browser.logout()
        assert dict(browser.last_headers).get("Clear-Site-Data", "") == value


async def test_an_end_stays_an_end_for_every_copy_of_a_session() -> None:
    site = Site()
    browser = site.browser()
    await browser.login("alice")
    copies = [await browser.begin() for _ in range(3)]
    await browser.logout()
    copies[0]["x"] = 1
    copies[1].rotate()
    copies[2].reauthenticated()
    for copy in copies:
        await browser.end(copy, is_lost=True)
    assert site.live() == []


def test_limits_that_cannot_be_meant_are_refused() -> None:
    for settings_ in (
        {"idle": "1d", "absolute": "1h"},
        {"idle": 0},
        {"renew": "soon"},
        {"touch_after": "2h"},
    ):
        with pytest.raises(ValueError, match="expected"):
            WebSessions("memory:", **settings_)
