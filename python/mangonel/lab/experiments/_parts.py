"""Experiments defined in `experiments.toml`, since most parts differ by a name, a flag and two figures; and the
common tasks: repeated calls of a method, and the tasks of the contender's player.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from mangonel.lab.contender import Target
from mangonel.lab.contenders._faces import play
from mangonel.lab.contenders._players import BUCKET, open_player
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task

Play: TypeAlias = Callable[[Part, Bench], Task]
Figures: TypeAlias = dict[str, Any]

TABLES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8")
)


class Tabled(Experiment):
    """An experiment of the tables.

    `play` makes the task of a part: the entry whose key is the longest matching start of the part's name. `further`
    returns figures in addition to those of the table, given these and a size.
    """

    def __init__(
        self,
        id: str,
        play: Play | dict[str, Play],
        further: Callable[[Size, Figures], Figures] = lambda size, known: {},
    ) -> None:
        self.id = id
        self._kinds = play if isinstance(play, dict) else {"": play}
        self._further = further
        self._table = TABLES[id]
        for name, value in self._table.items():
            if hasattr(Experiment, name) and name != "parts":
                setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def figures(self, size: Size) -> Figures:
        named = self._table.get("figures", {})
        known = {name: size.parameters.get(name, size.of(figure)) for name, figure in named.items()}
        return {**known, **self._further(size, known)}

    def parts(self, size: Size) -> list[Part]:
        figures, kinds = self.figures(size), self._table.get("kinds", {})
        made = []
        for id, title, needs, operations, samples, *own in self._table["parts"]:
            options = {**self._table.get("all", {}), **(own[0] if own else {})}
            options = {**kinds.get(options.pop("like", ""), {}), **options}
            only, unless = options.pop("only", ""), options.pop("unless", "")
            count, samples = (
                figures[each] if isinstance(each, str) else size.of(each) for each in (operations, samples)
            )
            published, asked = (
                options.pop("published", 0),
                figures[options.pop("asked")] if "asked" in options else 1,
            )
            if published and figures["published"]:
                count = published
            if (
                (only and not getattr(size, only))
                or (unless and getattr(size, unless))
                or not (count and asked)
            ):
                continue
            if "refuses" in options:
                options["refuses"] = frozenset(options["refuses"])
            options["rounds"] = size.of(options.get("rounds", 0))
            made.append(Part(id, title.format(**figures), frozenset(needs), count, samples, **options))
        return made

    def task(self, part: Part, bench: Bench) -> Task:
        return next(play for name, play in self._kinds.items() if part.id.startswith(name))(part, bench)


class CallsTask(Task):
    """Repeated calls of one method: one at a time, or with the concurrency that the part's name states."""

    verb = "find_one"  # of the adapter
    leaves = 0  # documents that each call adds to the collection
    warmth = 50  # calls before the first sample, or three times as many as are in flight

    def __init__(self, part: Part, bench: Bench, in_flight: int = 0) -> None:
        named = int(part.id.rpartition("-")[2]) if part.id.startswith(("tasks-", "threads-")) else 1
        self.bench, self.in_flight = bench, in_flight or named
        self.adapter = bench.connect(self.in_flight)
        self.count = part.operations
        self._ready: Sequence[Any] = ()
        self._written = 0

    def arguments(self, count: int) -> Sequence[Any]:
        raise NotImplementedError

    def warm_up(self) -> None:
        self.drive(self.arguments(max(self.warmth, 3 * self.in_flight)))

    def arrange(self) -> None:
        self._ready = self.arguments(self.count)

    def act(self) -> int:
        self.drive(self._ready)
        return len(self._ready)

    def drive(self, arguments: Sequence[Any], call: Callable[[Any], Any] | None = None) -> None:
        """Call the method, or its substitute, once for each argument."""
        self.bench.drive(call or getattr(self.adapter, self.verb), arguments, self.in_flight)
        self._written += self.leaves * len(arguments)

    def written(self) -> int | None:
        return self._written if self.leaves else None


class SpecTask(Task):
    """Base of the specification's tasks: a player, closed as the bench's adapter, and its timed method."""

    verb = ""

    def __init__(self, part: Part, bench: Bench, target: Target | None = None, bucket: str = BUCKET) -> None:
        self.part = part
        self._bench = bench
        bench.close_adapter()
        self._player: Any = play(bench, open_player(bench.name, target or bench.target, bucket))
        self._arguments: list[Any] = [part.operations]
        self._result: Any = None
        bench.adapter = self

    def call(self, verb: str, *arguments: Any) -> Any:
        return self._bench.run(getattr(self._player, verb)(*arguments))

    def keep(self, verb: str, *arguments: Any) -> None:
        """Run the player's method and keep its result, which may be large, on this task.

        It must not be the result of the runner's task: `asyncio.Runner` makes a repr of that at its end.
        """
        found = getattr(self._player, verb)(*arguments)

        async def steps() -> None:
            self._result = await found

        if self._bench.is_async:
            self._bench.run(steps())
        else:
            self._result = found

    def verify(self) -> str:
        """Do the whole work once, untimed, and check it."""
        self.arrange()
        self.act()
        return self.check()

    def act(self) -> int:
        self._result = self.call(self.verb, *self._arguments)
        return self.part.operations

    def extras(self) -> dict[str, float]:
        self.check()
        return {}

    def check(self) -> str:
        """Check the last result and return its digest; AssertionError if it is wrong."""
        raise NotImplementedError

    def close(self) -> Any:
        """Close the player: the bench treats this task as its adapter."""
        if self._player is not None:
            player, self._player = self._player, None
            self._bench.run(player.close())


def content(size: int) -> bytes:
    """Return a file's bytes: incompressible, and the same in every run."""
    return random.Random(size).randbytes(size)
