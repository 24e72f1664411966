"""The matrix framework by store by operation: parallel requests of visitors, each checked against a serial model.

A round of a visitor sends requests with one cookie at once: writes of one key, of keys of their own, increments, and at
most one of `MOVERS`. Afterwards the browser's cookie must show what some serial order of the acknowledged requests
gives, and ids that have ended must be dead. Half of the visitors are remembered: when their websession has expired, or
the browser has dropped its cookie, their writes come side by side with one token, which logs in once; a copy of a used
token ends the websession that the token led to. Several visitors play their rounds at the same time, since most of a
round is waiting. `python tests/websessions/matrix.py --seconds 600 --seed 1` plays all stores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from applications import DEFINED, LISTENING
from browser import after

from mangonel.lab.experiments._in_process import call_asgi, call_wsgi
from mangonel.websessions import MemoryStore, Unsupported, WebSessions
from mangonel.websessions.testing import FakeClock

WRITERS = ("same", "own", "increment")
MOVERS = (
    "nothing",
    "rotate",
    "reauthenticated",
    "step_up",
    "login",
    "logout",
    "everywhere",
    "recall",
    "theft",
)
# Events for all visitors of a cell, since they share a clock.
TIMES = ("expire", "pause")
ENDS = ("logout", "everywhere", "theft")
KEYS = "k,n,a,b,c,d,s"
IDLE = 1800.0
FRESH = 600.0
PAUSE = 601.0
GRACE = 30.0
ABSOLUTE = 30 * 86_400.0
# Seconds, so that a busy machine does not look like a failing store.
TIMEOUT_S = 600
# Longer than any record is kept.
AGES = 500 * 86_400.0
VISITORS = 8


class Answer(NamedTuple):
    """An answer: its status, its cookies, and the cookie that the browser has afterwards."""

    status: int
    set_cookies: list[str]
    cookie: str | None
    body: bytes

    @property
    def found(self) -> dict[str, Any]:
        """What the handler saw: `user` and `values`."""
        found: dict[str, Any] = json.loads(self.body)
        return found


Send = Callable[[str, str | None], Awaitable[Answer]]


def by_asgi(app: Any) -> Send:
    """Return a function that calls an ASGI application."""

    async def send(query: str, cookie: str | None) -> Answer:
        status, cookies, body = await call_asgi(app, f"/?{query}", cookie)
        return Answer(status, cookies, after(cookie, cookies), body)

    return send


def by_wsgi(app: Any, pool: ThreadPoolExecutor) -> Send:
    """Return a function that calls a WSGI application in a thread."""

    async def send(query: str, cookie: str | None) -> Answer:
        loop = asyncio.get_running_loop()
        status, cookies, body = await loop.run_in_executor(pool, call_wsgi, app, f"/?{query}", cookie)
        return Answer(status, cookies, after(cookie, cookies), body)

    return send


class ByNetwork:
    """Asks a server, over connections that stay open."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def __call__(self, query: str, cookie: str | None) -> Answer:
        """Send one request and read its answer."""
        connection = self._free.pop() if self._free else None
        reader, writer = connection or await asyncio.open_connection("127.0.0.1", self._port)
        with_cookie = f"Cookie: {cookie}\r\n" if cookie else ""
        writer.write(f"GET /?{query} HTTP/1.1\r\nHost: shop.example\r\n{with_cookie}\r\n".encode())
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [line.partition(": ")[::2] for line in lines]
        length = next(int(value) for name, value in headers if name.lower() == "content-length")
        body = await reader.readexactly(length)
        self._free.append((reader, writer))
        cookies = [value for name, value in headers if name.lower() == "set-cookie"]
        return Answer(int(first.split(" ", 2)[1]), cookies, after(cookie, cookies), body)

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._free:
            writer.close()


@contextlib.asynccontextmanager
async def site(
    framework: str, sessions: WebSessions[Any]
) -> AsyncIterator[tuple[Send, Callable[[str], Awaitable[object]]]]:
    """Yield `send(query, cookie)` and `everywhere(user)`, many of which may run at once."""
    defined = DEFINED[framework]
    app = defined.make(sessions)
    if defined.on == "wsgi":
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(2 * VISITORS) as pool:
            revoke = sessions.blocking.revoke_user
            yield by_wsgi(app, pool), lambda user: loop.run_in_executor(pool, revoke, user)
        sessions.blocking.close()
        return
    try:
        if defined.on == "asgi":
            yield by_asgi(app), sessions.revoke_user
        else:
            url, _, stop = await LISTENING[defined.on](app)
            network = ByNetwork(url)
            yield network, sessions.revoke_user
            network.close()
            await stop()
    finally:
        await sessions.aclose()


def split(cookie: str | None) -> tuple[str, str]:
    """Return the parts of a Cookie header: without the device's cookie, and that cookie alone."""
    parts = cookie.split("; ") if cookie else []
    own = [each for each in parts if "-device=" not in each]
    return "; ".join(own), "; ".join(each for each in parts if each not in own)


class Played:
    """A visitor in one cell of the matrix, and the serial model's knowledge of them.

    Args:
        seed: of the choices; the threads' order is the machine's.
        count: counts requests by operation.
        is_remembered: their logins are remembered.
        thefts: the users of whose remembered logins the application was told that they were copied.
    """

    def __init__(
        self,
        cell: str,
        sessions: WebSessions[Any],
        clock: FakeClock,
        seed: str,
        count: Counter[str],
        is_remembered: bool,
        thefts: list[str],
    ) -> None:
        self.cell = cell
        self.sessions = sessions
        self.clock = clock
        self.draw = random.Random(seed)
        self.count = count
        self.remember = "&remember=30d" if is_remembered else ""
        self.thefts = thefts
        # The device's cookie before the last use of its token, and the time of that use.
        self.copied: tuple[str, float] | None = None
        # The cookies of websessions that the browser has dropped.
        self.dropped: list[str] = []
        self.cookie: str | None = None
        self.user: str | None = None
        self.values: dict[str, Any] = {}
        self.dead: list[str] = []
        self.serial = 0
        self.proved = 0.0
        self.has_find = hasattr(sessions.blocking.store(), "find")

    def movers(self) -> list[str]:
        """Return the actions that are possible for this visitor now."""
        can = {"everywhere": self.has_find, "recall": bool(self.remember)}
        # During the grace period a reused token counts as a request that was on its way.
        can["theft"] = self.copied is not None and self.clock() - self.copied[1] > GRACE
        # Instead of waiting that long the visitor returns at once, or an end comes first.
        return ["theft"] if can["theft"] else [each for each in MOVERS if can.get(each, True)]

    def writes(self) -> list[tuple[str, str, Any]]:
        """Return the writes of a round, as `query` does each, and count them."""
        drawn = [self.draw.choice(WRITERS) for _ in range(self.draw.randint(1, 4))]
        self.count.update(drawn)
        return [self.query(each) for each in drawn]

    def query(self, what: str) -> tuple[str, str, Any]:
        """Return a query, the key that it changes, and the new value."""
        self.serial += 1
        if what == "increment":
            return "do=increment", "n", 1
        key = "k" if what == "same" else "abcd"[self.serial % 4]
        return f"do=write&k={key}&v={self.serial}", key, str(self.serial)

    async def round(self, send: Send, everywhere: Callable[[str], Awaitable[object]]) -> None:
        """Play one round and check it against the model."""
        if self.user is None:
            await self.log_in(send)
        mover = self.draw.choice(self.movers())
        if mover == "recall":
            self.dropped.append(split(self.cookie)[0])
            await self.recall(send, split(self.cookie)[1])
            return
        cookie = self.cookie
        writes = self.writes()
        new_user = f"{self.user}x" if len(self.user or "") < 40 else "ada" + self.user[3:20]  # type: ignore[index]
        moves = {
            "rotate": "do=rotate",
            "reauthenticated": "do=reauthenticated",
            "login": f"do=login&user={new_user}&keep={KEYS}{self.remember}",
            "logout": "do=destroy",
        }
        jobs: list[Any] = [send(query, cookie) for query, _, _ in writes]
        is_fresh = self.clock() - self.proved <= FRESH
        if mover == "everywhere":
            jobs.append(everywhere(self.user or ""))
        elif mover == "theft":
            jobs.append(self.steal(send))
        elif mover == "step_up":
            self.serial += 1
            jobs.append(self.step_up(send, is_fresh, str(self.serial)))
        elif mover != "nothing":
            jobs.append(send(moves[mover], cookie))
        self.draw.shuffle(order := list(range(len(jobs))))
        # asyncio.gather awaits these in this order, which is the order in which the requests begin.
        began = dict(zip(order, await asyncio.gather(*(jobs[each] for each in order)), strict=True))
        answers = [began[each] for each in range(len(jobs))]
        self.count.update([mover] if mover != "nothing" else [])
        if mover == "step_up":
            # The guarded write came last, with or without a new proof of identity.
            writes.append(("", "s", str(self.serial)))
            mover = "nothing" if is_fresh else "reauthenticated"
        acked = []
        for write, answer in zip(writes, answers, strict=False):
            self.must(answer.status in (200, 409), f"a write was answered {answer.status}")
            # A request may be refused with "repeat" only if a concurrent request gave up the id.
            self.must(
                answer.status == 200 or mover in ("rotate", "reauthenticated", "login"), "409 for no reason"
            )
            acked += [write] if answer.status == 200 else []
        if mover in ENDS:
            if mover == "theft":
                self.must(self.thefts.count(self.user or "") == 1, f"a theft was told as {self.thefts}")
            # A logout ends one websession; a theft ends all that are found for the device.
            if self.has_find and mover != "logout":
                self.dead += self.dropped
            await self.ended(send)
            return
        if mover != "nothing":
            moved = answers[-1]
            self.must(moved.status == 200, f"{mover} was answered {moved.status}")
            self.must(bool(moved.cookie) and moved.cookie != cookie, f"{mover} gave no new cookie")
            self.proved = self.clock() if mover in ("login", "reauthenticated") else self.proved
            # Only another user's login ends a remembered one.
            self.dead.append(cookie or "" if mover == "login" else split(cookie)[0])
            self.cookie = moved.cookie
            if mover == "login":
                self.dead += [self.copied[0]] if self.copied is not None else []
                self.user, self.copied, self.dropped = new_user, None, []
        for answer, (query, _, _) in zip(answers, writes, strict=False):
            self.must(not (query and answer.set_cookies), f"a write beside {mover} changed the cookie")
        await self.agree(send, acked)

    async def agree(self, send: Send, acked: list[tuple[str, str, Any]]) -> None:
        """Check a page against the model after these acknowledged writes, in any order."""
        found = await self.read(send, self.cookie)
        expected = dict(self.values)
        expected["n"] = self.values.get("n", 0) + sum(1 for _, key, _ in acked if key == "n")
        if not expected["n"]:
            del expected["n"]
        for key in "kabcds":
            given = [value for _, name, value in acked if name == key]
            if given:
                self.must(found["values"].get(key) in given, f"{key} is none of {given}: {found}")
                expected[key] = found["values"][key]
        self.must(found == {"user": self.user, "values": expected}, f"expected {expected}, found {found}")
        self.must(self.user not in self.thefts, "a theft was told that was none")
        self.values = expected

    async def recall(self, send: Send, cookie: str | None) -> None:
        """Return with a remembered login: parallel writes, one of which uses the token for all."""
        writes = self.writes()
        self.count["recall"] += 1
        answers = await asyncio.gather(*(send(query, cookie) for query, _, _ in writes))
        for answer in answers:
            self.must(answer.status == 200, f"a write of a remembered browser was answered {answer.status}")
        used = [answer.cookie for answer in answers if answer.set_cookies]
        self.must(len(used) == 1, f"a token was used {len(used)} times")
        self.must(split(used[0])[1] != split(cookie)[1], "a token was left as it was")
        self.copied = split(cookie)[1], self.clock()
        # Returning proves no identity.
        self.cookie, self.values, self.proved = used[0], {}, float("-inf")
        await self.agree(send, writes)

    async def steal(self, send: Send) -> Answer:
        """Send a copy of a token that the browser has used."""
        assert self.copied is not None
        answer = await send("", self.copied[0])
        self.must(answer.status == 200, f"a thief was answered {answer.status}")
        self.must(answer.found == {"user": None, "values": {}}, f"a thief was served: {answer.found}")
        self.dead.append(self.copied[0])
        return answer

    async def expired(self, send: Send) -> None:
        """Return after the websession has expired."""
        if self.user is None:
            return
        self.dead += self.dropped
        self.dropped = []
        if not self.remember:
            await self.ended(send)
            return
        self.dead.append(split(self.cookie)[0])
        await self.recall(send, self.cookie)

    async def step_up(self, send: Send, is_fresh: bool, value: str) -> Answer:
        """Write behind a guard, after a proof of identity if it asks for one; return the last answer."""
        guarded = f"do=check_fresh,write&within={FRESH:g}&k=s&v={value}"
        answer = await send(guarded, self.cookie)
        self.must(
            answer.status == (200 if is_fresh else 403),
            f"fresh is {is_fresh}, a guard answered {answer.status}",
        )
        if is_fresh:
            return answer
        self.must(not answer.set_cookies, "a refused page changed the cookie")
        proved = await send("do=reauthenticated", self.cookie)
        self.must(proved.status == 200, f"a proof was answered {proved.status}")
        self.count["reauthenticated"] += 1
        answer = await send(guarded, proved.cookie)
        self.must(
            answer.status == 200 and not answer.set_cookies, f"a proved user was answered {answer.status}"
        )
        return answer

    async def ended(self, send: Send) -> None:
        """Check that the old id is dead after an end; a later write may have started a websession of its own."""
        self.dead.append(self.cookie or "")
        found = await self.read(send, self.cookie)
        self.must(found == {"user": None, "values": {}}, f"an ended websession is served: {found}")
        self.cookie, self.user, self.values = None, None, {}
        self.copied, self.dropped = None, []

    async def log_in(self, send: Send) -> None:
        """Start again; ended ids stay dead."""
        for each in self.draw.sample(self.dead, min(2, len(self.dead))):
            found = await self.read(send, each)
            self.must(found == {"user": None, "values": {}}, f"an ended id is served: {found}")
        del self.dead[:-50]
        self.user = f"ada{self.draw.getrandbits(32):x}"
        answer = await send(f"do=login&user={self.user}{self.remember}", None)
        self.count["login"] += 1
        self.must(answer.status == 200 and bool(answer.cookie), "a login was refused")
        self.cookie, self.values, self.proved = answer.cookie, {}, self.clock()

    async def read(self, send: Send, cookie: str | None) -> dict[str, Any]:
        """Return the values that a page shows."""
        self.count["read"] += 1
        answer = await send("", cookie)
        self.must(answer.status == 200, f"a read was answered {answer.status}: {answer.body!r}")
        return answer.found

    def must(self, holds: bool, said: str) -> None:
        """Raise an error that shows how model and responses differ."""
        assert holds, f"{self.cell}: {said}"


async def play(
    framework: str, name: str, url: str, seed: int, rounds: int, until: float, count: Counter[str]
) -> None:
    """Play rounds in one cell, at most until a monotonic time."""
    clock = FakeClock(time.time())
    # Without a delay no two requests on a loop would overlap in memory.
    store = MemoryStore(delay=0.0005) if name == "memory" else url
    # A long absolute limit, since clocks are moved often.
    thefts: list[str] = []
    sessions: WebSessions[Any] = WebSessions(
        store,
        clock=clock,
        devices=True,
        on_theft=lambda device: thefts.append(device.user),
        idle=IDLE,
        absolute=ABSOLUTE,
        timeout=TIMEOUT_S,
        renew=None,
        grace=GRACE,
        events=lambda event: None,
    )
    draw = random.Random(f"{seed} {framework} {name}")
    visitors = [
        Played(
            f"{framework} by {name}",
            sessions,
            clock,
            f"{seed} {framework} {name} {number}",
            count,
            number % 2 == 1,
            thefts,
        )
        for number in range(VISITORS)
    ]
    async with site(framework, sessions) as (send, everywhere):
        for _ in range(rounds):
            if time.monotonic() > until:
                return
            happens = draw.choice((*TIMES, *["nothing"] * 7))
            if happens == "pause":
                clock.advance(PAUSE)
                count["pause"] += VISITORS
            elif happens == "expire":
                clock.advance(IDLE + 1)
                count["expire"] += VISITORS
                await asyncio.gather(*(each.expired(send) for each in visitors))
            await asyncio.gather(*(each.round(send, everywhere) for each in visitors))
        # A store that rewrites its whole content must not get slower from cell to cell.
        clock.advance(AGES)
        with contextlib.suppress(Unsupported):
            await sessions.purge()
    await sessions.aclose()


def main() -> None:
    """Play every cell in turn until the time is up; print the counts."""
    from store_names import STORES

    from mangonel.engines.stores import running
    from mangonel.server import start

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40, help="rounds in a cell before the next one")
    parser.add_argument("--store", action="append", choices=STORES, help="only this one; may be repeated")
    given = parser.parse_args()
    stores = given.store or STORES
    # Every refused write is logged, and each is expected here.
    logging.disable(logging.CRITICAL)
    count: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        import tempfile

        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"memory": "memory:matrix", "sqlite": f"sqlite:///{folder}/w.db?timeout={TIMEOUT_S}"}
        urls |= {"directory": f"files://{folder}/files?timeout={TIMEOUT_S}"}
        urls |= {"single_file": f"file://{folder}/one?timeout={TIMEOUT_S}"}
        server = stack.enter_context(start(replica_set=1))
        urls["mongodb"] = server.uri.replace("/?", f"/matrix?socketTimeoutMS={TIMEOUT_S}000&")
        for name in stores:
            if name not in urls:
                urls[name] = f"{stack.enter_context(running(name)).url}?timeout={TIMEOUT_S}"
        for url in urls.values():
            asyncio.run(WebSessions(url).setup())
        until = time.monotonic() + given.seconds
        turn = 0
        while time.monotonic() < until:
            for name in stores:
                for framework in DEFINED:
                    asyncio.run(
                        play(framework, name, urls[name], given.seed + turn, given.rounds, until, count)
                    )
                    cells[f"{framework} by {name}"] += 1
                print(f"seed {given.seed + turn}, {name}: {sum(count.values())} operations", flush=True)
            turn += 1
    operations = sum(count.values())
    seeds = f"seeds {given.seed} to {given.seed + turn}"
    print(f"{seeds}: {operations} operations in {len(cells)} cells, no difference: {dict(count)}")


if __name__ == "__main__":
    main()
