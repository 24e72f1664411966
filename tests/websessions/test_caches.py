"""What caches between the application and its visitors are told, in every framework."""

from __future__ import annotations

import pytest
from applications import FRAMEWORKS, served

from mangonel.websessions import MemoryStore, WebSessions

frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)


def sessions_with(**settings: str) -> WebSessions[None]:
    return WebSessions(MemoryStore(), events=lambda event: None, **settings)


@frameworks
def test_an_answer_for_which_the_websession_was_read_differs_by_cookie(framework: str) -> None:
    with served(framework, sessions_with()) as send:
        cookie = send("do=login,write&k=a&v=1").cookie
        for each in (None, cookie):
            answer = send("", each)
            assert answer.found["user"] == ("ada" if each else None)
            assert "Cookie" in answer.headers.get("vary", ""), each
            assert "cache-control" not in answer.headers


@frameworks
@pytest.mark.parametrize("control", ["no-store", "private"])
def test_an_answer_with_the_cookie_is_nobody_elses(framework: str, control: str) -> None:
    with served(framework, sessions_with(cache_control=control)) as send:
        given = send("do=login")
        renewed = send("do=rotate", given.cookie)
        left = send("do=destroy", renewed.cookie)
        for answer in (given, renewed, left):
            assert answer.set_cookies
            assert answer.headers["cache-control"] == control
            assert "Cookie" in answer.headers["vary"]
