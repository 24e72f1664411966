"""Step-up: a page that needs a recent proof of identity, in every framework; and the actions that count as proof."""

from __future__ import annotations

from typing import Any

import pytest
from applications import FRAMEWORKS, served
from browser import Site
from store_names import sampled

from mangonel.websessions import MemoryStore, NotFresh, UsageError, WebSessions
from mangonel.websessions.testing import FakeClock

frameworks = pytest.mark.parametrize("framework", sampled(FRAMEWORKS, "wsgi", "litestar", "tornado"))


@frameworks
def test_a_guarded_page_answers_403_until_the_user_has_proved_who_they_are(framework: str) -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(MemoryStore(clock), clock=clock, events=lambda event: None)
    if framework.startswith(("wsgi", "flask")) or framework == "django":
        sessions = WebSessions(MemoryStore(clock).blocking, clock=clock, events=lambda event: None)
    with served(framework, sessions, fresh="10m") as guarded, served(framework, sessions) as send:
        assert guarded("do=nothing").status == 403
        cookie = send("do=write&k=a&v=1").cookie
        assert guarded("do=nothing", cookie).status == 403
        cookie = send("do=login", cookie).cookie
        assert guarded("", cookie).found["user"] == "ada"
        clock.advance(601)
        refused = guarded("do=write&k=a&v=2", cookie)
        assert (refused.status, refused.set_cookies) == (403, [])
        assert send("do=check_fresh&within=10m", cookie).status == 403
        assert send("", cookie).found == {"user": "ada", "values": {}}
        cookie = send("do=reauthenticated", cookie).cookie
        assert guarded("", cookie).status == 200


async def test_a_rotation_and_a_renewal_prove_nothing_and_a_proof_restarts_the_time() -> None:
    site = Site(renew="5m")
    browser = site.browser()
    await browser.login("ada")
    site.clock.advance(400)
    session = await browser.begin()  # renewed
    assert (session.fresh("10m"), session.fresh("5m")) == (True, False)
    session.rotate()
    assert not session.fresh("5m")
    await browser.end(session)
    assert not (await browser.begin()).fresh("5m")
    session = await browser.begin()
    session.rotate()
    session.reauthenticated()  # an earlier rotation does not invalidate the proof
    assert session.fresh("1s")
    await browser.end(session)
    site.clock.advance(299)
    assert (await browser.begin()).fresh("5m")
    site.clock.advance(2)
    assert not (await browser.begin()).fresh("5m")


async def test_a_remembered_login_is_fresh_from_its_login_on() -> None:
    site = Site()
    browser = site.browser()
    await browser.login("ada", remember="14d")
    site.clock.advance(86_400)
    session = await browser.begin()
    assert session.user == "ada"
    assert (session.fresh("2d"), session.fresh("1h")) == (True, False)


async def test_an_end_a_challenge_and_a_visitor_without_a_login_are_not_fresh() -> None:
    site = Site(bind=("user_agent",), bind_secret="s", on_mismatch="challenge")
    browser = site.browser()
    await browser.store(a=1)
    session = await browser.login("ada")
    session.destroy()
    assert not session.fresh("1h")
    browser.agent = "Another/1"
    session = await browser.begin()
    assert session.challenged
    assert not session.fresh("1h")
    with pytest.raises(NotFresh, match="within 600 s, got no logged-in user"):
        session.check_fresh("10m")
    session.reauthenticated()
    session.check_fresh("10m")


async def test_a_time_that_is_none_is_refused_where_it_is_given() -> None:
    session = await Site().browser().begin()
    for call in (session.fresh, session.check_fresh, Site().sessions.fresh):
        with pytest.raises(UsageError, match="within"):
            call("soon")
