"""Two requests of one browser, whose store calls are played in every order, also with a lost answer to a write.

A logout also ends the websession that a concurrent rotation or renewal makes. A concurrent request's writes are kept in
the new websession, or the request is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from browser import after
from model import Stepping, paused

from mangonel.websessions import RequestView, SessionMoved, WebSession, WebSessions
from mangonel.websessions.answer import last_plan, take_headers
from mangonel.websessions.commit import commit_flow
from mangonel.websessions.load import load_flow
from mangonel.websessions.stores.memory import BlockingMemoryStore
from mangonel.websessions.testing import FakeClock

# Actions of a request; for "renewal", a renewal is due for both requests.
DEEDS: dict[str, Callable[[WebSession[Any]], object]] = {
    "rotate": lambda session: session.rotate(),
    "renew": lambda session: None,
    "write": lambda session: session.update(b=2),
    "logout": lambda session: session.destroy(),
}
LATER = 601.0


class Losing(Stepping):
    """Stops before each call; the answer to one write is lost, and the write is repeated after other calls."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.lost = 0
        self.puts = 0

    async def put(self, record: Any, expected: int) -> Any:
        self.puts += 1
        is_lost = self.puts == self.lost
        done = await super().put(record, expected)
        if is_lost:
            await paused()
            return self.store.put(record, expected)
        return done


Visit = Coroutine[Any, Any, tuple[WebSession[Any], list[str] | None]]


class Play:
    """A browser with one websession, and two requests of it.

    Args:
        user: who is logged in. None: the websession has a value only.
        deeds: the actions of the requests.
        lost: the number of the write whose answer is lost. 0: none.
    """

    def __init__(self, user: str | None, deeds: tuple[str, str], lost: int) -> None:
        clock = FakeClock()
        self.store = Losing(BlockingMemoryStore(clock))
        self.sessions: WebSessions[Any] = WebSessions(
            self.store, clock=clock, renew="10m", events=lambda event: None
        )

        def come(session: WebSession[Any]) -> None:
            session["a"] = 1
            if user is not None:
                session.login(user, keep=("a",))

        self.cookie = after(None, played(self.visit(None, come))[1] or [])
        if "renew" in deeds:
            clock.advance(LATER)
        self.store.puts, self.store.lost = 0, lost
        self.requests = [self.visit(self.cookie, DEEDS[deed]) for deed in deeds]
        # The cookies of each response in the order of sending; None for a request that must be repeated.
        self.answers: dict[int, list[str] | None] = {}

    async def visit(
        self, cookie: str | None, act: Callable[[WebSession[Any]], object]
    ) -> tuple[WebSession[Any], list[str] | None]:
        """Play a request; return the websession and the cookies of its answer. None: it must be repeated."""
        session = await load_flow(self.sessions, self.store, RequestView(cookie))
        act(session)
        try:
            await commit_flow(self.sessions, self.store, session, last_plan(session, 200))
        except SessionMoved:
            return session, None
        return session, [value for name, value in take_headers(session) if name == "Set-Cookie"]

    def step(self, number: int) -> None:
        """Let a request go on to its next call of the store."""
        try:
            self.requests[number].send(None)
        except StopIteration as end:
            self.answers[number] = end.value[1]

    def read(self, cookie: str | None) -> tuple[str | None, dict[str, Any]]:
        """Return the user and the values that a cookie leads to."""
        session, _ = played(self.visit(cookie, lambda session: None))
        return session.user, dict(session)


def played(visit: Visit) -> tuple[WebSession[Any], list[str] | None]:
    """Play a request from its beginning to its end."""
    while True:
        try:
            visit.send(None)
        except StopIteration as end:
            found: tuple[WebSession[Any], list[str] | None] = end.value
            return found


def every_order(user: str | None, deeds: tuple[str, str], lost: int) -> Iterator[Play]:
    """Yield a play for each order of the calls, once both requests are over."""
    order: list[int] = []
    choices: list[bool] = []
    while True:
        play = Play(user, deeds, lost)
        for number in order:
            play.step(number)
        while len(play.answers) < 2:
            order.append(int(0 in play.answers))
            choices.append(not play.answers)
            play.step(order[-1])
        yield play
        # At the last step where the second request could have continued too, it now does.
        while order and not choices[-1]:
            order.pop()
            choices.pop()
        if not order:
            return
        order[-1], choices[-1] = 1, False


deeds = pytest.mark.parametrize("deed", ["rotate", "renew"])
# The logged-in user, and the number of the write whose reply is lost; each pair of requests makes five or six writes.
cases = pytest.mark.parametrize(
    ("user", "lost"),
    [
        pytest.param(user, lost, marks=() if (user, lost) == ("ada", 0) else pytest.mark.no_sample)
        for user, lost in [(None, 0), *(("ada", lost) for lost in range(6))]
    ],
)


@cases
@deeds
def test_a_logout_ends_what_is_made_beside_it_in_every_order(user: str | None, deed: str, lost: int) -> None:
    most = 0
    for play in every_order(user, (deed, "logout"), lost):
        most = max(most, play.store.puts)
        made, taken = (play.answers[number] or [] for number in (0, 1))
        jars = [after(None, made), play.cookie]
        # The answers arrive in either order.
        jars += [after(after(play.cookie, one), other) for one, other in ((made, taken), (taken, made))]
        for cookie in jars:
            assert play.read(cookie) == (None, {}), list(play.answers)
    assert lost <= most <= 6, most


@cases
@deeds
def test_a_write_is_in_what_is_made_beside_it_or_is_refused_in_every_order(
    user: str | None, deed: str, lost: int
) -> None:
    refused = 0
    for play in every_order(user, (deed, "write"), lost):
        cookies = [each for each in play.answers.values() if each]
        assert len(cookies) <= 1
        expected = {"a": 1} if play.answers[1] is None else {"a": 1, "b": 2}
        assert play.read(after(play.cookie, cookies[0] if cookies else [])) == (user, expected)
        refused += play.answers[1] is None
    assert bool(refused) == (deed == "rotate")
