"""A model of websessions as a hypothesis state machine: two browsers, three servers, and everything that may go wrong.

Requests overlap at every store call: a flow is stopped before each, and the machine chooses which one goes on. Answers
are delivered in any order or lost, handlers fail, old cookies are sent again, strangers send what they like, servers
crash in the middle, answers of the store are lost and writes sent again, time passes. In half of the runs the servers
are in the middle of a change of keys, and in most their clocks differ. This one plays the flows on a blocking store;
`model_async.py` plays an asynchronous one's, whose calls overlap as well.

The invariants:
  - an ended websession (logout, login, rotation, revocation) is never served again;
  - a logout ends what a rotation beside it made of the websession, whichever comes first;
  - a write beside a rotation is in what that made of the websession, or its answer is no success;
  - a request with an id that was just given up does not make the browser a stranger;
  - a login that a revocation met on its way is ended by it;
  - a write that was acknowledged is in every later read, until a login drops it;
  - of an answer that failed nothing is kept but an end, and an id that was given up is dead;
  - what a stranger sends opens nothing, and is an error of theirs alone;
  - no browser sees another's values or user;
  - no websession is served beyond its limits;
  - a user who only comes back in time with the newest cookie stays logged in.
"""

from __future__ import annotations

import types
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator
from typing import Any, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mangonel.websessions import (
    EncodeError,
    Keys,
    RequestView,
    SessionMoved,
    UsageError,
    WebSession,
    WebSessions,
)
from mangonel.websessions.answer import headers_of, last_plan
from mangonel.websessions.commit import commit_flow
from mangonel.websessions.follow import FOLLOW
from mangonel.websessions.load import load_flow
from mangonel.websessions.machine import END, INSERT, NOTHING, ROTATE, TOUCH, WRITE, decide
from mangonel.websessions.testing import FakeClock
from mangonel.websessions.users import revoke_user_flow

IDLE, ABSOLUTE, RENEW, GRACE, TOUCH_AFTER = 1800.0, 2700.0, 600.0, 30.0, 180.0

BROWSERS, SERVERS = 2, 3

# The errors of the servers' clocks, in seconds.
SKEWS = ((0.0, 0.0, 0.0), (0.0, 5.0, -5.0), (0.0, 20.0, 0.0), (-20.0, 0.0, 5.0))

OLD, NEW = "o" * 32, "n" * 32

# The ids that a stranger derives from another browser's.
FORMS = ("junk", "changed", "key", "longer", "shorter")

BROWSER, SERVER = st.integers(0, BROWSERS - 1), st.integers(0, SERVERS - 1)
ACTION = st.sampled_from(
    ["write", "read", "write", "login", "rotate", "reauthenticated", "write", "destroy", "read"]
)


@types.coroutine
def paused() -> Generator[None, None, None]:
    yield


class Stepping:
    """A blocking store that stops before each call."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.repeats = 0  # coming writes whose first reply is lost, and which are sent again

    async def get(self, key: bytes) -> Any:
        await paused()
        return self.store.get(key)

    async def put(self, record: Any, expected: int) -> Any:
        await paused()
        done = self.store.put(record, expected)
        if self.repeats:
            self.repeats -= 1
            return self.store.put(record, expected)
        return done

    async def touch(self, key: bytes, expires: float) -> Any:
        await paused()
        return self.store.touch(key, expires)

    async def delete(self, *keys: bytes) -> Any:
        await paused()
        return self.store.delete(*keys)

    async def find(self, user: str) -> Any:
        await paused()
        return self.store.find(user)


class Steps(Protocol):
    """A flow that is driven step by step; a coroutine is one."""

    def send(self, value: None, /) -> Any:
        """Take a step; StopIteration with the value at the end."""

    def close(self) -> None:
        """Stop it where it is."""


class Request:
    """One request on its way through a server."""

    def __init__(self, browser: int, server: int, token: str | None, flow: Steps) -> None:
        self.browser = browser
        self.server = server
        self.token = token
        self.flow: Steps | None = flow
        self.session: WebSession[Any] | None = None
        self.plan = NOTHING
        self.change = ""
        self.old_sid: bytes | None = None
        self.keys: set[str] = set()
        self.steps = 0
        self.looked = 0.0  # when the load read the clock
        self.decided = 0.0  # when the commit was asked for
        self.committed = 0.0  # when it began; of a login, when it looked for the user's revocations
        self.was_crossed = False  # a revocation began meanwhile
        self.ended_before: frozenset[bytes] = frozenset()
        self.must_have: dict[bytes, frozenset[str]] = {}


class Revocation:
    """The end of all websessions that a user had when it began, and of the logins in progress."""

    def __init__(self, flow: Steps, user: str, at: float, doomed: set[bytes]) -> None:
        self.flow = flow
        self.user = user
        self.at = at
        self.doomed = doomed


class WebSessionModel(RuleBasedStateMachine):
    """The machine; a subclass says which store."""

    store_factory: Callable[[FakeClock], Any]
    runs = 0
    # The step of a load after which it reads the clock.
    LOOKS = 2
    MOST_REQUESTS = 6

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1
        self.clock = FakeClock()
        store = self._stepping(type(self).store_factory(self.clock))
        settings: dict[str, Any] = {
            "idle": IDLE,
            "absolute": ABSOLUTE,
            "renew": RENEW,
            "grace": GRACE,
            "touch_after": TOUCH_AFTER,
            # A browser with a newer cookie sends its old cookies again here.
            "on_reuse": "log",
            "events": lambda event: None,
            # In real time, which passes while hypothesis computes.
            "timeout": 3600.0,
        }
        self.settings = settings
        self.slack = 0.0
        self.store = store
        self.users = [f"user{browser}-{uuid.uuid4().hex[:8]}" for browser in range(BROWSERS)]
        self.jars: list[str | None] = [None] * BROWSERS
        self.issued: list[list[str]] = [[] for _ in range(BROWSERS)]
        self.requests: list[Request] = []
        self.answers: list[tuple[int, list[tuple[str, str]]]] = []
        self.revocations: list[Revocation] = []
        self.revoked: list[tuple[str, float]] = []
        self.serial = 0
        # What is known of each websession, by its sid.
        self.owner: dict[bytes, int] = {}
        self.user_of: dict[bytes, str | None] = {}
        self.ended: set[bytes] = set()
        # Websessions that logouts ended, and the new ids that rotations gave to others.
        self.left: set[bytes] = set()
        self.rotated: dict[bytes, bytes] = {}
        self.logged_in: dict[bytes, bytes] = {}
        self.followed: dict[bytes, set[str]] = {}
        self.uncertain: set[bytes] = set()
        self.written: dict[bytes, set[str]] = {}
        self.used: dict[bytes, float] = {}
        # A load in progress may have renewed or touched its record, whether it completes or not.
        self.touched: dict[bytes, float] = {}
        self.kept_alive: dict[bytes, float] = {}
        # The latest and the earliest time at which it may have begun.
        self.began: dict[bytes, float] = {}
        self.began_early: dict[bytes, float] = {}
        self.newest: dict[bytes, str] = {}

    # Rules.

    @initialize(actions=st.tuples(*[ACTION] * BROWSERS), has_keys=st.booleans(), skews=st.sampled_from(SKEWS))
    def come_in(self, actions: tuple[str, ...], has_keys: bool, skews: tuple[float, ...]) -> None:
        self.slack = max(skews) - min(skews)
        clocks = [lambda skew=skew: self.clock.now + skew for skew in skews]
        self.servers = [WebSessions(self.store, clock=clock, **self.settings) for clock in clocks]
        if has_keys:
            # One worker has the new key already; the others only know it.
            new, old = Keys(current=NEW, previous=[OLD]), Keys(current=OLD, previous=[NEW])
            self.servers = [
                WebSessions(self.store, seal=keys, sign=keys, clock=clock, **self.settings)
                for keys, clock in zip((new, old, old), clocks, strict=True)
            ]
        for browser, action in enumerate(actions):
            self.visit_in_peace(browser, browser, "write")
            self.visit_in_peace(browser, browser, action)

    @rule(browser=BROWSER, server=SERVER, steps=st.integers(0, 6))
    def request(self, browser: int, server: int, steps: int) -> None:
        self._go(self._begin(browser, server, self.jars[browser]), steps)

    @rule(browser=BROWSER, server=SERVER, which=st.integers(0, 50), steps=st.integers(0, 6))
    def replay_an_old_cookie(self, browser: int, server: int, which: int, steps: int) -> None:
        if self.issued[browser]:
            tokens = self.issued[browser]
            self._go(self._begin(browser, server, tokens[which % len(tokens)]), steps)

    @precondition(lambda self: self._running())
    @rule(which=st.integers(0, 50), steps=st.integers(1, 6))
    def go_on(self, which: int, steps: int) -> None:
        running = self._running()
        self._go(running[which % len(running)], steps)

    @precondition(lambda self: self.revocations)
    @rule(which=st.integers(0, 50), steps=st.integers(1, 6))
    def go_on_revoking(self, which: int, steps: int) -> None:
        revocation = self.revocations[which % len(self.revocations)]
        for _ in range(steps):
            if revocation in self.revocations:
                self._step_revocation(revocation)

    @precondition(lambda self: self._open())
    @rule(which=st.integers(0, 50), action=ACTION, steps=st.integers(0, 4))
    def act_and_answer(self, which: int, action: str, steps: int) -> None:
        found = self._open()
        request = found[which % len(found)]
        self._act(request, action)
        self._answer(request)
        self._go(request, steps)

    @precondition(lambda self: self._open())
    @rule(which=st.integers(0, 50), actions=st.tuples(ACTION, ACTION), steps=st.integers(0, 4))
    def act_and_fail(self, which: int, actions: tuple[str, str], steps: int) -> None:
        """A handler that raises after changing the websession."""
        found = self._open()
        request = found[which % len(found)]
        for action in actions:
            self._act(request, action)
        self._answer(request, status=500)
        self._go(request, steps)

    @rule(server=SERVER, which=st.integers(0, 50), form=st.sampled_from(FORMS), junk=st.text(max_size=60))
    def be_a_stranger(self, server: int, which: int, form: str, junk: str) -> None:
        """A request has a foreign cookie, or stores values that cannot be stored."""
        tokens = [token for issued in self.issued for token in issued] or ["x" * 43]
        token = tokens[which % len(tokens)]
        policy = self.servers[server].cookie
        key = urlsafe_b64encode(policy.key_of(token.partition(".")[0])).decode().rstrip("=")
        changed = ("B" if token[0] == "A" else "A") + token[1:]
        values = {"junk": junk, "changed": changed, "key": key, "longer": f"{token}A", "shorter": token[:-1]}
        header = f"__Host-sid={values[form]}; __Host-sid={junk}; other={token}"
        flow = self._loading(server, RequestView(header))
        session: Any = None
        while session is None:
            try:
                flow.send(None)
            except StopIteration as end:
                session = end.value
        assert session.state.record is None, "a stranger was let in"
        assert not session
        for smuggle in (lambda: session.login("\ud800"), lambda: setattr(session, "label", "a\0b")):
            try:
                smuggle()
            except UsageError:
                continue
            raise AssertionError("a name that no engine can store was taken")
        session["n"] = "\ud800"
        try:
            decide(session)
        except EncodeError:
            return
        raise AssertionError("a value that no codec can store was taken")

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 50))
    def deliver(self, which: int) -> None:
        self._deliver(which % len(self.answers))

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 50))
    def lose(self, which: int) -> None:
        self.answers.pop(which % len(self.answers))

    @precondition(lambda self: self._running())
    @rule(which=st.integers(0, 200))
    def crash(self, which: int) -> None:
        if which % 8:
            return  # rarely
        running = self._running()
        request = running[which % len(running)]
        assert request.flow is not None
        request.flow.close()
        if request.old_sid is not None:
            self.uncertain.add(request.old_sid)
        # A renewal may be half-way.
        self.uncertain.update(sid for sid, owner in self.owner.items() if owner == request.browser)
        self.requests.remove(request)

    @rule(seconds=st.sampled_from([1.0, 1.0, 29.0, 31.0, 200.0, 601.0, 601.0, 1801.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(writes=st.integers(1, 3))
    def lose_answers_of_the_store(self, writes: int) -> None:
        """Send some of the next writes twice, and deliver only the second answer."""
        self.store.repeats = writes

    @rule(browser=BROWSER, server=SERVER)
    def revoke(self, browser: int, server: int) -> None:
        self._revoke(browser, server)

    @rule(browser=BROWSER, server=SERVER, other=SERVER, begun=st.integers(0, 8), revoking=st.integers(0, 12))
    def log_in_and_revoke(self, browser: int, server: int, other: int, begun: int, revoking: int) -> None:
        """A login during which the account is closed."""
        request = self._begin(browser, server, self.jars[browser])
        self._go(request, 100)
        self._act(request, "login")
        self._answer(request)
        self._go(request, begun)
        revocation = self._revoke(browser, other)
        for steps in (revoking, 100):
            for _ in range(steps):
                if revocation in self.revocations:
                    self._step_revocation(revocation)
            self._go(request, 100)
        self._deliver(len(self.answers) - 1)
        self.visit_in_peace(browser, server, "read")

    @rule(
        browser=BROWSER,
        server=SERVER,
        other=SERVER,
        seconds=st.sampled_from([0.0, 601.0]),
        actions=st.tuples(ACTION, ACTION),
        begun=st.integers(0, 6),
        answered=st.integers(0, 8),
    )
    def send_two(
        self,
        browser: int,
        server: int,
        other: int,
        seconds: float,
        actions: tuple[str, str],
        begun: int,
        answered: int,
    ) -> None:
        """Two requests with one cookie; a renewal may come due between them."""
        token = self.jars[browser]
        first = self._begin(browser, server, token)
        self._go(first, 100)
        self.clock.advance(seconds)
        second = self._begin(browser, other, token)
        self._go(second, begun)
        self._act(first, actions[0])
        self._answer(first)
        self._go(first, answered)
        self._go(second, 100)
        self._act(second, actions[1])
        self._answer(second)
        self._go(first, 100)
        self._go(second, 100)
        self._deliver(len(self.answers) - 2)
        self._deliver(len(self.answers) - 1)
        self.visit_in_peace(browser, server, "read")

    @rule(browser=BROWSER, server=SERVER, visits=st.integers(1, 4))
    def stay(self, browser: int, server: int, visits: int) -> None:
        """Return so often that only the absolute limit ends the websession."""
        for _ in range(visits):
            self.clock.advance(900.0)
            self.visit_in_peace(browser, server, "read")

    @rule(browser=BROWSER, server=SERVER, action=ACTION)
    def visit_in_peace(self, browser: int, server: int, action: str) -> None:
        """A whole request without interruption: it must find the expected state."""
        token = self.jars[browser]
        expected = None
        if token is not None and not self._is_busy(browser):
            for sid, newest in self.newest.items():
                if newest == token and sid not in self.ended and sid not in self.uncertain:
                    age, idle = self.clock.now - self.began_early[sid], self.clock.now - self.kept_alive[sid]
                    if age < ABSOLUTE - self.slack and idle < IDLE - TOUCH_AFTER - self.slack:
                        expected = sid
        request = self._begin(browser, server, token)
        self._go(request, 100)
        session = request.session
        assert session is not None
        if expected is not None:
            assert session.state.record is not None, "a user who came back in time was logged out"
            assert session.state.record.sid == expected
            assert session.user == self.user_of[expected]
        self._act(request, action)
        self._answer(request)
        self._go(request, 100)
        if not self._is_busy(browser):
            self._deliver(len(self.answers) - 1)

    @invariant()
    def few_requests_are_under_way(self) -> None:
        # More than these explore nothing new and take time.
        while len(self.requests) > self.MOST_REQUESTS:
            request = self.requests.pop(0)
            if request.flow is not None:
                request.flow.close()
                self.uncertain.update(sid for sid, owner in self.owner.items() if owner == request.browser)

    def teardown(self) -> None:
        for request in self.requests:
            if request.flow is not None:
                request.flow.close()
        for revocation in self.revocations:
            revocation.flow.close()

    # Steps.

    def _stepping(self, store: Any) -> Any:
        return Stepping(store)

    def _loading(self, server: int, request_view: RequestView) -> Steps:
        return load_flow(self.servers[server], self.store, request_view)

    def _committing(self, server: int, session: WebSession[Any], plan: int) -> Steps:
        return commit_flow(self.servers[server], self.store, session, plan)

    def _revoking(self, server: int, user: str) -> Steps:
        return revoke_user_flow(self.servers[server], self.store, user, None)

    def _is_live(self, key: bytes) -> bool:
        record = self.store.store.get(key)
        return record is not None and record.is_live

    # Bookkeeping.

    def _open(self) -> list[Request]:
        return [request for request in self.requests if request.flow is None]

    def _running(self) -> list[Request]:
        return [request for request in self.requests if request.flow is not None]

    def _go(self, request: Request, steps: int) -> None:
        for _ in range(steps):
            if request.flow is None:
                return
            self._step(request)

    def _act(self, request: Request, action: str) -> None:
        session = request.session
        assert session is not None
        if action == "write":
            self.serial += 1
            key = f"b{request.browser}k{self.serial}"
            session[key] = self.serial
            request.keys.add(key)
        elif action == "login":
            session.login(self.users[request.browser])
            request.keys.clear()
        elif action == "destroy":
            session.destroy()
            request.keys.clear()
        elif action != "read":
            getattr(session, action)()

    def _answer(self, request: Request, status: int = 200) -> None:
        session = request.session
        assert session is not None
        request.plan = last_plan(session, status)
        request.change, request.decided = session.state.change, self.clock.now
        if status >= 500:
            request.keys.clear()
        known = session.state.record or (session.state.trail if request.plan == END else None)
        request.old_sid = known.sid if known is not None else None
        self._note_use(request)
        if request.plan == NOTHING:
            self._answered(request)
        else:
            request.flow = self._committing(request.server, session, request.plan)
            request.steps = 0

    def _deliver(self, number: int) -> None:
        browser, headers = self.answers.pop(number)
        for name, value in headers:
            if name == "Set-Cookie":
                self.jars[browser] = (
                    None if "Max-Age=0" in value else value.partition(";")[0].partition("=")[2]
                )

    def _goes_on(self, request: Request) -> bool:
        """Whether a rotation has certainly kept the request's websession alive."""
        sid = request.old_sid
        if sid not in self.rotated or self._is_busy(request.browser) or self.clock.now - request.looked > 1.0:
            return False
        while sid in self.rotated:
            sid = self.rotated[sid]
        return sid not in self.ended and sid not in self.uncertain

    def _is_busy(self, browser: int) -> bool:
        return bool(self.revocations) or any(
            request.flow is not None and request.browser == browser for request in self.requests
        )

    def _begin(self, browser: int, server: int, token: str | None) -> Request:
        cookie = f"__Host-sid={token}" if token else None
        request = Request(browser, server, token, self._loading(server, RequestView(cookie)))
        request.ended_before = frozenset(self.ended)
        request.must_have = {sid: frozenset(keys) for sid, keys in self.written.items()}
        self.requests.append(request)
        return request

    def _step(self, request: Request) -> None:
        assert request.flow is not None
        request.steps += 1
        if request.session is None:
            if request.steps == self.LOOKS:
                request.looked = self.clock.now
            for sid, owner in self.owner.items():
                if owner == request.browser and self.clock.now - self._last_use(sid) < IDLE + self.slack:
                    self.touched[sid] = self.clock.now
        else:
            if request.steps == (2 if request.change == "login" else 1):
                request.committed = self.clock.now
            self._note_use(request)
        try:
            request.flow.send(None)
        except SessionMoved:
            request.flow = None
            self.requests.remove(request)
            assert request.session is not None
            assert request.session.state.cookie is None, "an error took a cookie back"
            assert request.old_sid is not None or request.session.state.trail is not None, (
                "a stranger was refused"
            )
            self.answers.append((request.browser, []))
        except StopIteration as end:
            request.flow = None
            if request.session is None:
                request.session = end.value
                self._loaded(request)
            else:
                self._answered(request)

    def _revoke(self, browser: int, server: int) -> Revocation:
        user = self.users[browser]
        doomed = {sid for sid, name in self.user_of.items() if name == user}
        for request in self.requests:
            request.was_crossed = True
        revocation = Revocation(self._revoking(server, user), user, self.clock.now, doomed)
        self.revocations.append(revocation)
        self._step_revocation(revocation)
        self.clock.advance(0.002)  # so that later events have a later time
        return revocation

    def _step_revocation(self, revocation: Revocation) -> None:
        try:
            revocation.flow.send(None)
        except StopIteration:
            self.revocations.remove(revocation)
            self.revoked.append((revocation.user, revocation.at))
            self.ended |= revocation.doomed

    def _loaded(self, request: Request) -> None:
        session = request.session
        assert session is not None
        for key in session:
            assert key.startswith(f"b{request.browser}k"), f"browser {request.browser} sees {key}"
        record = session.state.record
        if record is None:
            assert not session
            return
        sid = record.sid
        assert sid not in request.ended_before, "an ended websession was served"
        assert self.owner[sid] == request.browser
        assert session.user == self.user_of[sid]
        if sid not in self.uncertain:
            missing = request.must_have.get(sid, frozenset()) - set(session)
            assert not missing, f"acknowledged writes are lost: {missing}"
        assert request.looked - self.began[sid] < ABSOLUTE + self.slack, (
            "a websession was served beyond its absolute limit"
        )
        idle = request.looked - self._last_use(sid)
        assert idle < IDLE + self.slack, "a websession was served beyond its idle limit"
        self._note_use(request)
        if session.state.cookie is not None:
            token = session.state.cookie.partition(";")[0].partition("=")[2]
            self.issued[request.browser].append(token)
            self.newest[sid] = token
            self.kept_alive[sid] = max(self.kept_alive[sid], request.looked)

    def _last_use(self, sid: bytes) -> float:
        return max(self.used[sid], self.touched.get(sid, 0.0))

    def _note_use(self, request: Request) -> None:
        session = request.session
        assert session is not None
        if session.state.record is not None:
            sid = session.state.record.sid
            self.used[sid] = max(self.used.get(sid, 0.0), self.clock.now)

    def _answered(self, request: Request) -> None:
        """Record that a response left: its writes are acknowledged from now on."""
        session = request.session
        assert session is not None
        self.requests.remove(request)
        headers = headers_of(session)
        session.state.cookie = None
        self.answers.append((request.browser, headers))
        now = self.clock.now
        record = session.state.record
        if request.plan in (END, ROTATE) and request.old_sid is not None:
            # An anonymous websession cannot be found again after renewals while a request was far behind.
            is_behind = (
                self.clock.now - request.looked > FOLLOW - self.slack
                and self.user_of[request.old_sid] is None
            )
            (self.uncertain if is_behind else self.ended).add(request.old_sid)
        if request.plan == END and request.old_sid is not None:
            # The trace of a rotation is kept this long.
            is_behind = self.clock.now - request.looked > FOLLOW - self.slack
            if not is_behind:
                self.left.add(request.old_sid)
            # Of a concurrent login and logout either may be the later one.
            self.uncertain.update(filter(None, [self.logged_in.get(request.old_sid)]))
            after = self.rotated.get(request.old_sid)
            while after is not None:
                (self.uncertain if is_behind else self.ended).add(after)
                self.uncertain.update(filter(None, [self.logged_in.get(after)]))
                after = self.rotated.get(after)
        if record is None:
            if request.plan == WRITE and request.keys:
                assert not self._goes_on(request), "a write beside a rotation was acknowledged and lost"
            return
        trail = session.state.trail
        assert (
            request.plan != INSERT or trail is None or self.clock.now - trail.issued > GRACE - self.slack
        ), "a browser whose websession goes on was made a stranger"
        sid = record.sid
        is_new = sid not in self.owner
        if is_new and request.plan in (WRITE, TOUCH):
            # It followed a rotation whose own response is still to come.
            self.followed.setdefault(sid, set()).update(request.keys)
            return
        if is_new:
            self.owner[sid] = request.browser
            self.user_of[sid] = record.user
            self.began[sid], self.began_early[sid] = now, request.decided
            self.used[sid] = now
            self.written[sid] = self.followed.pop(sid, set())
            # A rotation carries acknowledged writes over; a login drops them.
            if request.plan == ROTATE and request.change == "login" and request.old_sid is not None:
                self.logged_in[request.old_sid] = sid
            if request.plan == ROTATE and request.change != "login" and request.old_sid is not None:
                if request.old_sid in self.left:
                    # Its last read of the store may have been before the logout, which then met it.
                    assert not self._is_live(record.key), "a rotation brought back what a logout had ended"
                    self.ended.add(sid)
                self.rotated[request.old_sid] = sid
                if request.change == "rotated":
                    self.began[sid] = self.began[request.old_sid]
                    self.began_early[sid] = self.began_early[request.old_sid]
                if request.old_sid not in self.uncertain:
                    self.written[sid] |= self.written[request.old_sid]
            # A concurrent revocation may have met it, and a revocation that began later must have.
            if request.was_crossed or self.revocations:
                self.uncertain.add(sid)
            for revocation in self.revocations:
                if revocation.user == record.user and revocation.at >= request.committed:
                    revocation.doomed.add(sid)
            if any(user == record.user and at >= request.committed for user, at in self.revoked):
                self.ended.add(sid)
        self.written[sid] |= request.keys
        self.used[sid] = max(self.used[sid], now)
        self.kept_alive[sid] = max(self.kept_alive.get(sid, 0.0), request.decided)
        for name, value in headers:
            if name == "Set-Cookie" and "Max-Age=0" not in value:
                token = value.partition(";")[0].partition("=")[2]
                if token not in self.issued[request.browser]:
                    self.issued[request.browser].append(token)
                if is_new:
                    self.newest[sid] = token
