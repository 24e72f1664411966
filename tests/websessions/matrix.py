"""The matrix framework by store by operation: parallel requests of one visitor, held against a serial model.

A round sends requests with one cookie at once: writes of one key, of keys of their own, increments, and at most one of
`MOVERS`. Afterwards the browser's cookie must show what some serial order of the acknowledged requests gives, and ids
that have ended must be dead. `python tests/websessions/matrix.py --seconds 600 --seed 1` plays all stores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent))

from applications import DEFINED, HOST, LISTENING, Reply, _on_a_loop

from mangonel.websessions import MemoryStore, WebSessions
from mangonel.websessions.testing import FakeClock

WRITERS = ("same", "own", "increment")
MOVERS = ("nothing", "rotate", "reauthenticated", "login", "logout", "everywhere", "expire")
ENDS = ("logout", "everywhere")
KEYS = "k,n,a,b,c,d"
IDLE = 1800.0

Send = Callable[[str, str | None], Reply]


@contextlib.contextmanager
def site(framework: str, sessions: WebSessions[Any]) -> Iterator[tuple[Send, Callable[[str], object]]]:
    """Yield `send(query, cookie)` and `everywhere(user)`; both may be called in several threads at once."""
    defined = DEFINED[framework]
    app = defined.make(sessions)
    if defined.on == "wsgi":
        transport = httpx.WSGITransport(app)

        def send(query: str, cookie: str | None) -> Reply:
            request = httpx.Request("GET", f"{HOST}/?{query}", headers={"Cookie": cookie} if cookie else {})
            answer = transport.handle_request(request)
            answer.read()
            return Reply(answer, cookie)

        yield send, sessions.blocking.revoke_user
        sessions.blocking.close()
        return
    with _on_a_loop() as run:
        url, stop, network = HOST, None, None
        if defined.on == "asgi":
            network = httpx.ASGITransport(app)
        else:
            url, _, stop = run(LISTENING[defined.on](app))
            network = httpx.AsyncHTTPTransport(verify=False)

        async def ask(query: str, cookie: str | None) -> Reply:
            request = httpx.Request("GET", f"{url}/?{query}", headers={"Cookie": cookie} if cookie else {})
            answer = await network.handle_async_request(request)
            await answer.aread()
            await answer.aclose()
            return Reply(answer, cookie)

        async def everywhere(user: str) -> None:
            await sessions.asynchronous.revoke_user(user)

        try:
            yield lambda query, cookie: run(ask(query, cookie)), lambda user: run(everywhere(user))
        finally:
            if stop is not None:
                run(network.aclose())
                run(stop())
            run(sessions.aclose())


class Played:
    """A visitor in one cell of the matrix, and what the serial model knows of them.

    Args:
        seed: of the choices; the threads' order is the machine's.
        count: counts requests by operation.
    """

    def __init__(
        self, cell: str, sessions: WebSessions[Any], clock: FakeClock, seed: str, count: Counter[str]
    ) -> None:
        self.cell = cell
        self.sessions = sessions
        self.clock = clock
        self.draw = random.Random(seed)
        self.count = count
        self.cookie: str | None = None
        self.user: str | None = None
        self.values: dict[str, Any] = {}
        self.dead: list[str] = []
        self.serial = 0
        store = sessions.blocking.store()
        self.movers = tuple(each for each in MOVERS if each != "everywhere" or hasattr(store, "find"))

    def query(self, what: str) -> tuple[str, str, Any]:
        """Return a query, the key that it changes, and the value."""
        self.serial += 1
        if what == "increment":
            return "do=increment", "n", 1
        key = "k" if what == "same" else "abcd"[self.serial % 4]
        return f"do=write&k={key}&v={self.serial}", key, str(self.serial)

    def round(self, send: Send, everywhere: Callable[[str], object], pool: ThreadPoolExecutor) -> None:
        """Play one round and hold it against the model."""
        if self.user is None:
            self.log_in(send)
        mover = self.draw.choice(self.movers)
        if mover == "expire":
            self.expire(send)
            return
        cookie = self.cookie
        writes = [self.query(self.draw.choice(WRITERS)) for _ in range(self.draw.randint(1, 4))]
        new_user = f"{self.user}x" if len(self.user or "") < 40 else "ada"
        moves = {
            "rotate": "do=rotate",
            "reauthenticated": "do=reauthenticated",
            "login": f"do=login&user={new_user}&keep={KEYS}",
            "logout": "do=destroy",
        }
        jobs: list[Callable[[], Any]] = [lambda query=query: send(query, cookie) for query, _, _ in writes]
        if mover == "everywhere":
            jobs.append(lambda: everywhere(self.user or ""))
        elif mover != "nothing":
            jobs.append(lambda: send(moves[mover], cookie))
        self.draw.shuffle(order := list(range(len(jobs))))
        futures = {each: pool.submit(jobs[each]) for each in order}
        answers = [futures[each].result(60) for each in range(len(jobs))]
        self.count.update([mover] if mover != "nothing" else [])
        self.count.update(
            "increment" if key == "n" else "same" if key == "k" else "own" for _, key, _ in writes
        )
        acked = []
        for write, answer in zip(writes, answers, strict=False):
            self.must(answer.status in (200, 409), f"a write was answered {answer.status}")
            # A request can be told to come again only if the id was given up beside it.
            self.must(
                answer.status == 200 or mover in ("rotate", "reauthenticated", "login"), "409 for no reason"
            )
            acked += [write] if answer.status == 200 else []
        if mover in ENDS:
            self.ended(send, cookie, acked)
            return
        if mover != "nothing":
            moved = answers[-1]
            self.must(moved.status == 200, f"{mover} was answered {moved.status}")
            self.must(bool(moved.cookie) and moved.cookie != cookie, f"{mover} gave no new cookie")
            self.dead.append(cookie or "")
            self.cookie = moved.cookie
            self.user = new_user if mover == "login" else self.user
        for answer in answers[: len(writes)]:
            self.must(not answer.set_cookies, f"a write beside {mover} changed the cookie")
        found = self.read(send, self.cookie)
        expected = dict(self.values)
        expected["n"] = self.values.get("n", 0) + sum(1 for _, key, _ in acked if key == "n")
        if not expected["n"]:
            del expected["n"]
        for key in "kabcd":
            given = [value for _, name, value in acked if name == key]
            if given:
                self.must(found["values"].get(key) in given, f"{key} is none of {given}: {found}")
                expected[key] = found["values"][key]
        self.must(found == {"user": self.user, "values": expected}, f"expected {expected}, found {found}")
        self.values = expected

    def ended(self, send: Send, cookie: str | None, acked: list[Any]) -> None:
        """After an end the old id is dead; a write that came after it may have begun a websession of its own."""
        self.dead.append(cookie or "")
        found = self.read(send, cookie)
        self.must(found == {"user": None, "values": {}}, f"an ended websession is served: {found}")
        self.cookie, self.user, self.values = None, None, {}

    def expire(self, send: Send) -> None:
        """Let the idle limit pass."""
        self.clock.advance(IDLE + 1)
        self.count["expire"] += 1
        self.ended(send, self.cookie, [])

    def log_in(self, send: Send) -> None:
        """Begin again; ids that have ended stay dead."""
        for each in self.draw.sample(self.dead, min(2, len(self.dead))):
            found = self.read(send, each)
            self.must(found == {"user": None, "values": {}}, f"an ended id is served: {found}")
        del self.dead[:-50]
        self.user = f"ada{self.draw.getrandbits(32):x}"
        answer = send(f"do=login&user={self.user}", None)
        self.count["login"] += 1
        self.must(answer.status == 200 and bool(answer.cookie), "a login was refused")
        self.cookie, self.values = answer.cookie, {}

    def read(self, send: Send, cookie: str | None) -> dict[str, Any]:
        """Return what a page shows."""
        self.count["read"] += 1
        answer = send("", cookie)
        self.must(answer.status == 200, f"a read was answered {answer.status}")
        return answer.found

    def must(self, holds: bool, said: str) -> None:
        """Say where the model and the answers differ."""
        assert holds, f"{self.cell}: {said}"


def play(
    framework: str, name: str, url: str, seed: int, rounds: int, until: float, count: Counter[str]
) -> None:
    """Play rounds in one cell, at most until a monotonic time."""
    clock = FakeClock(time.time())
    # Without a delay no request on a loop would meet another one in memory.
    store = MemoryStore(delay=0.0005) if name == "memory" else url
    sessions: WebSessions[Any] = WebSessions(
        store, clock=clock, idle=IDLE, renew=None, grace="30s", events=lambda event: None
    )
    played = Played(f"{framework} by {name}", sessions, clock, f"{seed} {framework} {name}", count)
    with site(framework, sessions) as (send, everywhere), ThreadPoolExecutor(5) as pool:
        for _ in range(rounds):
            if time.monotonic() > until:
                return
            played.round(send, everywhere, pool)


def main() -> None:
    """Play every cell in turn until the time is up; print the counts."""
    from store_names import STORES

    from mangonel.engines.stores import running
    from mangonel.server import start

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40, help="rounds in a cell before the next one")
    given = parser.parse_args()
    count: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        import tempfile

        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"memory": "memory:matrix", "sqlite": f"sqlite:///{folder}/w.db"}
        urls |= {"directory": f"files://{folder}/files", "single_file": f"file://{folder}/one"}
        server = stack.enter_context(start(replica_set=1))
        urls["mongodb"] = server.uri.replace("/?", "/matrix?")
        for name in STORES:
            if name not in urls:
                urls[name] = stack.enter_context(running(name)).url
        for url in urls.values():
            asyncio.run(WebSessions(url).setup())
        until = time.monotonic() + given.seconds
        turn = 0
        while time.monotonic() < until:
            for name in STORES:
                for framework in DEFINED:
                    play(framework, name, urls[name], given.seed + turn, given.rounds, until, count)
                    cells[f"{framework} by {name}"] += 1
            turn += 1
    operations = sum(count.values())
    print(f"seed {given.seed}: {operations} operations in {len(cells)} cells, no difference: {dict(count)}")


if __name__ == "__main__":
    main()
