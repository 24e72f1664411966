"""The fork's settings and names work; docs/websessions/migration.md explains them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from browser import Site

from mangonel.websessions import Keys, UsageError, WebSessions
from mangonel.websessions.migration import arguments_of, storage_url


def test_the_forks_defaults() -> None:
    sessions = WebSessions.from_tornado_settings({"session_storage": "memory:"})
    assert (sessions.idle, sessions.renew, sessions.cookie.name) == (900, 240, "session_id")


@pytest.mark.parametrize("value", [600, "600", "10m", timedelta(minutes=10)])
def test_durations_in_every_form_the_fork_took(value: Any) -> None:
    settings = {"session_storage": "memory:", "session_age": value, "session_regeneration_interval": value}
    sessions = WebSessions.from_tornado_settings(settings)
    assert (sessions.idle, sessions.renew) == (600, 600)


def test_never_means_thirty_days_and_no_renewal() -> None:
    settings = {"session_storage": "memory:", "session_age": None, "session_regeneration_interval": None}
    sessions = WebSessions.from_tornado_settings(settings)
    assert (sessions.idle, sessions.absolute, sessions.renew) == (30 * 86_400, 30 * 86_400, float("inf"))


def test_cookie_settings_and_signals() -> None:
    arguments = arguments_of(
        {
            "session_storage": "memory:",
            "session_cookie_name": "sid",
            "session_cookie_path": "/app",
            "session_cookie_domain": "example.org",
            "session_security_model": ["ip", "user_agent"],
            "cookie_secret": {1: "old", 2: "new"},
        }
    )
    assert (arguments["cookie"], arguments["path"], arguments["domain"]) == ("sid", "/app", "example.org")
    assert arguments["bind"] == ("network", "user_agent")
    assert arguments["sign"] == Keys(current="new", previous=["old"])
    WebSessions(**arguments)


@pytest.mark.parametrize(
    ("fork", "today"),
    [
        ("redis://", "redis://localhost"),
        ("redis://host", "redis://host"),
        ("redis://secret@host/2", "redis://:secret@host/2"),
        ("redis://secret@/2", "redis://:secret@localhost/2"),
        ("redis://user:secret@host:1", "redis://user:secret@host:1"),
        ("redis://[::1]:6379", "redis://[::1]:6379"),
        ("mongodb:///app", "mongodb://localhost/app"),
        ("mongodb://host/app", "mongodb://host/app"),
        ("mysql://user:pw@my-host/app", "mysql://user:pw@my-host/app"),
        ("memcached://a,b:11212", "memcached://a,b:11212"),
        ("memcached://", "memcached://localhost"),
        ("file:///tmp/sessions", "file:///tmp/sessions"),
        ("dir:///tmp/sessions", "dir:///tmp/sessions"),
    ],
)
def test_storage_urls(fork: str, today: str) -> None:
    assert storage_url(fork) == today


def test_what_cannot_be_meant_is_refused() -> None:
    for settings in (
        {},
        {"session_storage": "dir://"},
        {"session_storage": "memory:", "session_security_model": ["x"]},
    ):
        with pytest.raises(UsageError):
            arguments_of(settings)


async def test_invalidate_and_refresh_work_by_their_old_names() -> None:
    site = Site(idle="30m", renew=None)
    browser = site.browser()
    await browser.store(n=1)
    cookie = browser.cookie
    session = await browser.begin()
    session.refresh(duration=7200)
    await browser.end(session)
    site.clock.advance(7000)
    assert await browser.read() == {"n": 1}
    session = await browser.begin()
    session.refresh(new_session_id=True)
    await browser.end(session)
    assert browser.cookie != cookie
    assert await browser.read() == {"n": 1}
    session = await browser.begin()
    session.invalidate()
    await browser.end(session)
    assert browser.cookie is None
    assert site.live() == []
