"""What was asked to end has ended, in every framework and on every store, also when the handler fails afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from applications import FRAMEWORKS, served
from store_names import STORES

from mangonel.websessions import MemoryStore, WebSessions
from mangonel.websessions.testing import FakeClock

pytestmark = pytest.mark.each_once("framework", "name")
frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)
stores = pytest.mark.parametrize("name", STORES)


def opened(store_url: Callable[[str], str], name: str, **settings: Any) -> WebSessions[Any]:
    sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None, **settings)
    sessions.blocking.setup()
    return sessions


@frameworks
@stores
def test_an_end_is_an_end_although_the_handler_fails(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    with served(framework, opened(store_url, name)) as send:
        for fail in ("raise", "500"):
            for do in ("destroy", "destroy,login", "login,destroy", "destroy,write"):
                old = send("do=login,write&user=ada&k=a&v=1").cookie
                answer = send(f"do={do}&user=bob&k=b&v=2&fail={fail}", old)
                assert answer.status == 500
                found = send("", old).found
                assert found == {"user": None, "values": {}}, (do, fail, found)
                if answer.cookie != old and answer.cookie is not None:
                    assert send("", answer.cookie).found["user"] is None


@frameworks
@stores
def test_an_id_that_was_given_up_is_dead_although_the_handler_fails(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    with served(framework, opened(store_url, name)) as send:
        for fail in ("raise", "500"):
            for do in ("login", "rotate", "reauthenticated"):
                old = send("do=login,write&user=ada&k=a&v=1").cookie
                answer = send(f"do=write,{do},write&user=bob&k=b&v=2&fail={fail}", old)
                assert answer.status == 500
                assert send("", old).found == {"user": None, "values": {}}, (do, fail)
                if framework == "flask-debug" and fail == "raise":
                    continue  # the debugger answers, and no cookie can reach the browser
                # Nobody is logged in by a request that failed, and nothing is lost.
                assert send("", answer.cookie).found == {"user": "ada", "values": {"a": "1"}}, (do, fail)


@frameworks
def test_a_login_in_an_answer_that_failed_logs_nobody_in(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        for fail in ("raise", "500"):
            answer = send(f"do=login&user=ada&fail={fail}")
            assert (answer.status, answer.cookie) == (500, None)


@frameworks
def test_the_cookie_of_a_renewal_reaches_the_browser_with_a_failure_too(framework: str) -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(
        MemoryStore(clock), clock=clock, renew="1m", events=lambda event: None
    )
    with served(framework, sessions) as send:
        for fail in ("raise", "500"):
            if framework == "flask-debug" and fail == "raise":
                continue
            old = send("do=login,write&user=ada&k=a&v=1").cookie
            clock.advance(61)
            answer = send(f"fail={fail}", old)
            assert answer.status == 500
            assert answer.cookie != old
            assert send("", answer.cookie).found["user"] == "ada"


@frameworks
def test_a_login_beyond_the_limit_is_a_conflict_and_changes_nothing(framework: str) -> None:
    sessions: WebSessions[Any] = WebSessions(
        MemoryStore(), max_per_user=1, over_limit="refuse", events=lambda event: None
    )
    with served(framework, sessions) as send:
        first = send("do=login&user=ada").cookie
        other = send("do=write&k=a&v=1").cookie
        answer = send("do=login&user=ada", other)
        assert (answer.status, answer.set_cookies) == (409, [])
        assert send("", first).found["user"] == "ada"
        assert send("", other).found == {"user": None, "values": {"a": "1"}}


@stores
@pytest.mark.parametrize("framework", ["starlette", "flask"])
def test_the_limit_of_logins_holds_on_every_store(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(store_url, name, max_per_user=1, over_limit="refuse")
    with served(framework, sessions) as send:
        if name in ("memcached", "directory"):
            # These cannot list a user's, so nobody is let in unlimited.
            assert send("do=login&user=ada").status == 500
            return
        first = send("do=login&user=ada").cookie
        answer = send("do=login&user=ada")
        assert (answer.status, answer.set_cookies) == (409, [])
        assert send("do=destroy", first).status == 200
        assert send("do=login&user=ada").status == 200


@frameworks
def test_an_end_or_a_login_that_could_not_be_stored_is_an_error_under_every_policy(framework: str) -> None:
    store = MemoryStore()
    sessions: WebSessions[Any] = WebSessions(
        Both(store), on_store_error="anonymous", events=lambda event: None
    )
    with served(framework, sessions) as send:
        cookie = send("do=login&user=ada").cookie
        for do in ("destroy", "login", "rotate"):
            for calls in (0, 1):  # at the beginning, at the end
                store.blocking.fail_after = calls  # type: ignore[attr-defined]
                answer = send(f"do={do}&user=bob", cookie)
                assert (answer.status, answer.set_cookies) == (503, []), (do, calls)
        store.blocking.fail_after = 0  # type: ignore[attr-defined]
        assert send("", cookie).found == {"user": None, "values": {}}
        store.blocking.fail_after = None  # type: ignore[attr-defined]
        assert send("", cookie).found["user"] == "ada"


class Both:
    """A memory store both of whose sides fail after so many calls."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store.blocking
        self.blocking = _Failing(store.blocking)
        store.blocking = self.blocking  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.blocking, name)

        async def call(*arguments: Any) -> Any:
            return method(*arguments)

        return call


class _Failing:
    def __init__(self, store: Any) -> None:
        self._store = store
        self.fail_after: int | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any) -> Any:
            if self.fail_after is not None:
                if self.fail_after <= 0:
                    raise ConnectionError("told to fail")
                self.fail_after -= 1
            return method(*arguments)

        return call
