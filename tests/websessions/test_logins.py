"""Remembered logins, and logins that end when their password changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from applications import FRAMEWORKS, served
from browser import Browser
from store_names import STORES

from mangonel.websessions import MemoryStore, UsageError, WebSessions, new_key
from mangonel.websessions.testing import FakeClock

DAY = 86_400.0

frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)
stores = pytest.mark.parametrize("name", [*STORES, "cookie"])


def opened(name: str, store_url: Callable[[str], str], **settings: Any) -> WebSessions[Any]:
    if name == "cookie":
        return WebSessions("cookie:", seal=new_key(), events=lambda event: None, **settings)
    return WebSessions(store_url(name), events=lambda event: None, **settings)


@frameworks
def test_a_login_that_is_remembered_outlives_browser_and_limits(framework: str) -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(MemoryStore(clock), clock=clock, events=lambda event: None)
    with served(framework, sessions) as send:
        plain, kept = send("do=login"), send("do=login&remember=14d")
        assert "Max-Age" not in plain.set_cookies[0]
        assert f"Max-Age={14 * 86_400}" in kept.set_cookies[0]
        clock.advance(7 * DAY)
        assert send("", plain.cookie).found["user"] is None
        renewed = send("", kept.cookie)
        assert renewed.found["user"] == "ada"
        # The cookie of a renewal is remembered no longer than the login.
        assert f"Max-Age={7 * 86_400}" in renewed.set_cookies[0]
        rotated = send("do=rotate", renewed.cookie)
        assert f"Max-Age={7 * 86_400}" in rotated.set_cookies[0]
        clock.advance(7 * DAY + 1)
        assert send("", rotated.cookie).found["user"] is None


@stores
async def test_remembering_is_asked_for_by_each_login(name: str, store_url: Callable[[str], str]) -> None:
    sessions = opened(name, store_url, remember="60d")
    browser = Browser(sessions)
    for remember, days in ((True, 60), ("2d", 2), (False, 0.5), (1.5 * DAY, 1.5)):
        session = await browser.begin()
        session.login("ada", remember=remember)
        headers = await browser.end(session)
        assert ("Max-Age" in headers[0][1]) is bool(remember)
        found = await browser.begin()
        assert found.created is not None
        assert found.deadline == pytest.approx(found.created + days * DAY)
        assert found.expires == pytest.approx(found.created + (days * DAY if remember else 1800))
    await sessions.aclose()


def test_nobody_is_remembered_for_longer_than_the_settings_allow() -> None:
    session = WebSessions[Any]("memory:").blocking.anonymous(_request_view())
    for too_long in ("31d", float("inf"), 1e12):
        with pytest.raises(UsageError, match="expected remember of at most 2592000 s"):
            session.login("ada", remember=too_long)
    assert session.user is None
    for aal, most in ((1, 30 * DAY), (2, DAY), (3, DAY / 2)):
        assert WebSessions[Any]("memory:", aal=aal).longest == most
    with pytest.warns(UserWarning, match="assurance level 2 allows 86400 s in all, remember= 172800"):
        WebSessions("memory:", aal=2, remember="2d")
    assert WebSessions[Any]("memory:", absolute="90d").longest == 90 * DAY


async def test_a_revocation_ends_what_is_remembered_and_listings_say_when_it_was_seen() -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(MemoryStore(clock), clock=clock, events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada", remember=True)
    began = clock()
    clock.advance(DAY)
    await browser.end(await browser.begin())
    (handle,) = await sessions.of("ada")
    assert (handle.created, handle.last_seen, handle.expires) == (began, began + DAY, began + 30 * DAY)
    late = await browser.begin()
    assert await sessions.revoke_user("ada") == 1
    assert (await browser.begin()).user is None
    late["n"] = 1
    with pytest.raises(UsageError, match="has ended"):
        await late.save()
    # The epoch outlives every session that could be remembered.
    epoch = await sessions.asynchronous.store().get(sessions.epoch_key("ada"))
    assert epoch is not None
    assert epoch.expires > clock() + 30 * DAY


@frameworks
def test_a_change_of_the_password_ends_the_logins_with_the_old_one(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        cookie = send("do=login&print=old").cookie
        assert send("do=check&print=old", cookie).found["same"] is True
        changed = send("do=check&print=new", cookie)
        assert changed.found["same"] is False
        assert changed.cookie is None
        assert send("", cookie).found["user"] is None
        assert send("do=check&print=new").found["same"] is False


@stores
@pytest.mark.each_once("name", "codec")
@pytest.mark.parametrize("codec", ["msgpack", "json", "bson"])
async def test_a_fingerprint_is_kept_over_renewals_and_unreadable(
    codec: str, name: str, store_url: Callable[[str], str]
) -> None:
    clock = FakeClock()
    sessions = opened(name, store_url, codec=codec, clock=clock, renew="1m")
    browser, other = Browser(sessions), Browser(sessions)
    await browser.login("ada", fingerprint="hash of the old one")
    await other.login("ada")
    clock.advance(61)
    session = await browser.begin()
    assert "hash" not in repr(session.state.extra)
    assert session.check_fingerprint("hash of the old one")
    # The session that changed the password continues under a new id; one that logged in without a fingerprint does not.
    session.reauthenticated(fingerprint=b"hash of the new one")
    await browser.end(session)
    assert (await browser.begin()).check_fingerprint("hash of the new one")
    for each, value in ((browser, "hash of the old one"), (other, "hash of the new one")):
        session = await each.begin()
        assert session.user == "ada"
        assert not session.check_fingerprint(value)
        await each.end(session)
        assert each.cookie is None
    await sessions.aclose()


@pytest.mark.parametrize("codec", ["msgpack", "json", "bson"])
async def test_binding_knows_the_same_browser_again_with_every_codec(codec: str) -> None:
    told: list[Any] = []
    sessions: WebSessions[Any] = WebSessions(
        MemoryStore(), codec=codec, bind=("user_agent",), bind_secret="s", events=told.append
    )
    browser = Browser(sessions)
    await browser.login("ada")
    await browser.end(await browser.begin())
    assert [event.kind for event in told if event.kind == "mismatch"] == []
    browser.agent = "Tests/2"
    await browser.begin()
    assert [event.kind for event in told if event.kind == "mismatch"] == ["mismatch"]


def _request_view() -> Any:
    from mangonel.websessions import RequestView

    return RequestView()
