"""Experiments: parts with fixed work; each has a task whose result is checked before it is timed.

An experiment knows contenders only by their methods and flags.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from mangonel.lab.contender import Contender, Target
from mangonel.lab.latency import Paced, at_rate, at_rate_async, in_threads


@dataclass(frozen=True)
class Size:
    """The amount of work of a run: brief, short or full form, and figures that the caller set by name.

    The brief form is a short one with still less work, in which contenders alternate sample by sample.
    """

    quick: bool = False
    parameters: dict[str, int] = field(default_factory=dict)
    brief: bool = False

    @property
    def form(self) -> str:
        return "brief" if self.brief else "short" if self.quick else "full"

    def choose(self, quick: int, full: int, brief: int | None = None) -> int:
        """Return the figure for the current form; the brief form uses the short one's unless `brief` is given."""
        if self.brief and brief is not None:
            return brief
        return quick if self.quick or self.brief else full

    def of(self, figure: int | list[int]) -> int:
        return figure if isinstance(figure, int) else self.choose(*figure)


@dataclass(frozen=True)
class Part:
    """One measurement of an experiment. Each contender with the needed capabilities gets a row."""

    id: str
    title: str
    needs: frozenset[str]  # capability flags a contender must offer
    operations: int  # operations per sample; times are divided by it
    samples: int = 3  # samples per round. The first is like the others, since warm-up comes before it
    unit: str = "operation"  # the name of one operation, for the table
    write_concern: str = ""  # write concern of parts that write, "" for reads
    refuses: frozenset[str] = frozenset()  # flags that keep a contender out
    meter: str = "self"  # processor time of "self", or of "children" for parts that start programs
    # The figure that compares contenders: "wall"; for parts that never wait, "client" CPU time, which a busy machine
    # disturbs less, or "user", which leaves out system time; at a constant rate, an extra in µs such as "p50".
    judge: str = "wall"
    server: bool = True  # ask the server for its processor time around each sample
    bytes_each: int = 0  # bytes of one operation, if speed is also reported in MB/s; otherwise 0
    sleeps: bool = False  # its work is waiting, so in the brief form all contenders play it at the same time
    rounds: int = 0  # played only in this many first rounds, since it takes long; 0: in every round

    def is_due(self, turn: int) -> bool:
        """Return whether the part is played in the round with this number."""
        return not self.rounds or turn < self.rounds

    def excludes(self, contender: Contender) -> str:
        """Return why this contender has no row here, or ""."""
        if lacking := self.needs - contender.offers:
            return f"does not offer {', '.join(sorted(lacking))}"
        if refused := self.refuses & contender.offers:
            return f"left out because it is {', '.join(sorted(refused))}"
        return ""


class Bench:
    """The tools of a task inside a worker: the contender's adapter, and a way to run it on its face.

    `shared` is a folder that all workers of an interleaved round use to share servers, or "". `scratch` is the
    collection that a task may write to; its documents are counted afterwards. `plant` is the share by which the
    contender is slowed down.
    """

    def __init__(
        self,
        contender: Contender,
        target: Target,
        size: Size,
        seed: int,
        shared: str = "",
        *,
        scratch: str = "",
        plant: float = 0.0,
    ) -> None:
        self.contender = contender
        self.shared = shared
        self.scratch = scratch or target.collection
        self.plant = plant
        self.target = target
        self.size = size
        self.random = random.Random(seed)
        self.adapter: Any = None
        self._is_client = False
        # Objects that several parts use, by name; closed with the bench.
        self.kept: dict[str, Any] = {}
        self._runner: asyncio.Runner | None = None

    def first(self, name: str, make: Callable[[], str]) -> str:
        """Return the object that an interleaved round's first worker made under this name, or make it.

        It lives as long as that worker; all workers of a round leave together.
        """
        if not self.shared:
            return make()
        import fcntl

        path = Path(self.shared) / name
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_text(make())
            return path.read_text()

    def connect(self, connections: int = 1) -> Any:
        """Return the contender's adapter, connected to the target; an earlier one is closed."""
        self.close_adapter()
        target = replace(self.target, connections=connections)
        if self.contender.asynchronous is not None:
            adapter: Any = self.contender.asynchronous(target)
            self.run(adapter.open())
            self.adapter = adapter
        elif self.contender.blocking is not None:
            self.adapter = self.contender.blocking(target)
        self._is_client = True
        return self.adapter

    @property
    def name(self) -> str:
        """Return the contender's name; for a null control, that of the contender that it repeats."""
        return self.contender.copy_of or self.contender.id

    @property
    def is_async(self) -> bool:
        return self.contender.asynchronous is not None

    def run(self, result: Any) -> Any:
        """Return the result of a method: on an event loop, the coroutine's result; otherwise the value itself."""
        return self._loop_runner().run(result) if asyncio.iscoroutine(result) else result

    def drive(self, call: Callable[[Any], Any], arguments: Sequence[Any], in_flight: int = 1) -> None:
        """Call a method once per argument with `in_flight` calls at once: tasks on a loop, threads otherwise."""
        if self.is_async:
            shape = _serial_async(call, arguments) if in_flight == 1 else _tasks(call, arguments, in_flight)
            self._loop_runner().run(shape)
        elif in_flight == 1:
            for argument in arguments:
                call(argument)
        else:
            in_threads(lambda turn: [call(argument) for argument in arguments[turn::in_flight]], in_flight)

    def drive_at_rate(
        self, call: Callable[[Any], Any], arguments: Sequence[Any], rate: float, in_flight: int = 1
    ) -> Paced:
        """Call a method once per argument, `rate` times a second, and return latencies counted from the due times.

        On a loop, tasks start regardless of earlier ones; blocking methods are called by `in_flight` threads.
        """
        if self.is_async:
            return self._loop_runner().run(at_rate_async(call, arguments, rate))
        return at_rate(call, arguments, rate, in_flight)

    def close_adapter(self) -> int | None:
        """Close the adapter and return the duration in ns; None if there was no connected client."""
        is_client, self._is_client = self._is_client and self.adapter is not None, False
        start = time.perf_counter_ns()
        if self.adapter is not None:
            adapter, self.adapter = self.adapter, None
            self.run(adapter.close())
        return time.perf_counter_ns() - start if is_client else None

    def close(self) -> None:
        """Close the adapter, the shared objects and the loop."""
        self.close_adapter()
        while self.kept:
            self.kept.popitem()[1].close()
        if self._runner is not None:
            self._runner.close()

    def _loop_runner(self) -> asyncio.Runner:
        if self._runner is None:
            factory = None
            if self.contender.loop == "uvloop":
                import uvloop

                factory = uvloop.new_event_loop
            self._runner = asyncio.Runner(loop_factory=factory)
        return self._runner


class Task:
    """One part played by one contender. Only `act` is timed."""

    def verify(self) -> str:
        """Do the work once, check it, and return a digest that must be equal for all contenders."""
        raise NotImplementedError

    def warm_up(self) -> None:
        """Do the work untimed until caches and pools are in steady state."""

    def arrange(self) -> None:
        """Prepare the next sample, untimed."""

    def act(self) -> int:
        """Do the work of one sample and return how many operations were done."""
        raise NotImplementedError

    def extras(self) -> dict[str, float]:
        """Return further figures of the last sample, by name.

        `wall_ns` and `cpu_ns` replace the worker's own if another process did the work.
        """
        return {}

    def histograms(self) -> dict[str, str]:
        """Return latency histograms of the last sample, by name, encoded by `Latencies.encode`.

        "response" counts from when a request was due, "service" from when it was sent; the report draws both.
        """
        return {}

    def written(self) -> int | None:
        """Return how many documents the collection must now hold, or None if nothing was written."""
        return None


def expect(what: str, found: Any, expected: Any) -> None:
    """Raise AssertionError, with the beginnings of both values, unless they are equal."""
    if found != expected:
        raise AssertionError(f"expected {what} {str(expected)[:200]}, got {str(found)[:200]}")


class Experiment:
    """A subject of measurement. Raise `version` when the work changes: two versions are not comparable."""

    id: str = ""
    version: int = 1
    title: str = ""
    # A collection of `fixtures.py` that is filled beforehand, or "" for a new one in each worker.
    dataset: str = ""
    brief_dataset: str = ""  # the collection of the brief form, if different
    # Reference contenders: the others are compared with the first that plays. Each of them plays twice, and the second
    # time is the null control. Empty: the drivers' own references.
    references: tuple[str, ...] = ()
    shows: str = ""  # conclusions that the figures allow and do not allow, for the report
    # Seconds for all rounds in the short form, unless rounds were requested; 0: the lab's default.
    short_budget: float = 0.0
    full_rounds: int = 0  # rounds of the full form, unless rounds were requested; 0: the lab's default
    # In the brief form, all contenders' samples alternate; otherwise one contender follows another.
    together: bool = True
    paired: bool = False  # they alternate in the other forms too
    # Its workers exit with it, since they keep servers or report their memory.
    own_process: bool = False
    at_once: int = 2  # how many contenders get ready for a part at the same time
    # Other processes load a site, so equipment is kept off the site's cores; see `cores`.
    loads_site: bool = False
    # Played only if it is named: it needs more than Python packages.
    only_named: bool = False
    passes: int = 3  # minimum samples of each part in the brief form
    most_passes: int = 9  # maximum samples, however wide the intervals are
    brief_s: float = 5.0  # minimum seconds of the brief form; time is shared out in proportion to it
    #: Scores: the mean of the MB/s of parts, or of other scores, by the names of both.
    composites: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})

    def filled(self, size: Size) -> str:
        return (size.brief and self.brief_dataset) or self.dataset

    def parts(self, size: Size) -> list[Part]:
        raise NotImplementedError

    def task(self, part: Part, bench: Bench) -> Task:
        raise NotImplementedError

    def leaves_out(self, contender: Contender, size: Size) -> str:
        """Return why a contender is absent from this form, for the report, or ""."""
        return ""

    def stand_in(self, part: str, contender: str) -> str:
        """Return the contender whose row a score uses in parts where this contender has none."""
        return contender


async def _serial_async(call: Callable[[Any], Awaitable[Any]], arguments: Sequence[Any]) -> None:
    for argument in arguments:
        await call(argument)


async def _tasks(call: Callable[[Any], Awaitable[Any]], arguments: Sequence[Any], in_flight: int) -> None:
    # One shared iterator: a faster task does more, so none of them idles at the end.
    queue = iter(arguments)

    async def play() -> None:
        for argument in queue:
            await call(argument)

    players: list[Coroutine[Any, Any, None]] = [play() for _ in range(in_flight)]
    await asyncio.gather(*players)
