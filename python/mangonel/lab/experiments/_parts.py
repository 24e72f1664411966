"""Experiments as `experiments.toml` has them, since most parts differ by a name, a flag and two figures; and the tasks
that most play: so many calls of a verb, and what the contender's player does.
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

    `play` makes the task of a part, or what does by the beginning of the part's name, the first that fits; `further`
    returns figures beside those of the table, from these and a size.
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
    """So many calls of one verb: one at a time, or as many in flight as the name of a part of tasks or threads says."""

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
        """Call the verb, or what stands for it, once for each argument."""
        self.bench.drive(call or getattr(self.adapter, self.verb), arguments, self.in_flight)
        self._written += self.leaves * len(arguments)

    def written(self) -> int | None:
        return self._written if self.leaves else None


class SpecTask(Task):
    """What all have: the contender's player, which the bench closes as its adapter, and a verb of it that is timed."""

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
        """Let the player's verb return its result, which may be large, to this task.

        Not as the result of the runner's task: `asyncio.Runner` makes a repr of that at its end.
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
        """Check what was done last and return its digest; AssertionError: it is not what the task asks for."""
        raise NotImplementedError

    def close(self) -> Any:
        """Close the player: the bench takes this task for its adapter."""
        if self._player is not None:
            player, self._player = self._player, None
            self._bench.run(player.close())


def content(size: int) -> bytes:
    """Return a file's bytes: such as no compression makes smaller, and the same in every run."""
    return random.Random(size).randbytes(size)
