"""Experiments as tables, since most parts differ by a name, a flag and two figures; and the task that most play."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from mangonel.lab.contender import ASYNCIO, BLOCKING
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task

__all__ = ["FACES", "CallsTask", "Figure", "Table", "Tabled", "rows"]

# Of the short form, the full one, and perhaps the brief one; or the same for all.
Figure: TypeAlias = "int | tuple[int, int] | tuple[int, int, int]"
Table: TypeAlias = Iterable[Sequence[Any]]
Play: TypeAlias = Callable[[Part, Bench], Task]

# Part, words and flag of either face.
FACES = (("blocking", "blocking", BLOCKING), ("asyncio", "event loop", ASYNCIO))


def rows(size: Size, table: Table, **shared: Any) -> list[Part]:
    """Return the parts of a table.

    Args:
        table: id, title, a flag or several, operations, samples; last may come what else this part alone has.
        shared: what all have.
    """
    made = []
    for name, title, needs, operations, samples, *more in table:
        flags = frozenset([needs] if isinstance(needs, str) else needs)
        options = {**shared, **(more[0] if more else {})}
        made.append(Part(name, title, flags, _chosen(size, operations), _chosen(size, samples), **options))
    return made


def _chosen(size: Size, figure: Figure) -> int:
    return figure if isinstance(figure, int) else size.choose(*figure)


class Tabled(Experiment):
    """An experiment whose parts are rows of a table.

    Args:
        play: makes the task of a part; or what does by the beginning of the part's name, the first that fits.
        table: the rows, see `rows`, or what returns them for a size.
        shared: what all parts have.
        more: attributes of `Experiment`.
    """

    def __init__(
        self,
        id: str,
        title: str,
        play: Play | dict[str, Play],
        table: Table | Callable[[Size], Table],
        shared: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.id, self.title = id, title
        self._kinds = play if isinstance(play, dict) else {"": play}
        self._table, self._shared = table, shared or {}
        for name, value in more.items():
            if not hasattr(Experiment, name):
                raise TypeError(f"an experiment has no attribute {name!r}")
            setattr(self, name, value)

    def parts(self, size: Size) -> list[Part]:
        return rows(size, self._table(size) if callable(self._table) else self._table, **self._shared)

    def task(self, part: Part, bench: Bench) -> Task:
        return next(play for name, play in self._kinds.items() if part.id.startswith(name))(part, bench)


class CallsTask(Task):
    """So many calls of one verb: one at a time, or as many in flight as the name of a part of tasks or threads says.

    Attributes:
        verb: of the adapter.
        leaves: documents that each call adds to the collection.
        warmth: calls before the first sample, or three times as many as are in flight.
    """

    verb = "find_one"
    leaves = 0
    warmth = 50

    def __init__(self, part: Part, bench: Bench, in_flight: int = 0) -> None:
        named = int(part.id.rpartition("-")[2]) if part.id.startswith(("tasks-", "threads-")) else 1
        self.bench, self.in_flight = bench, in_flight or named
        self.adapter = bench.connect(self.in_flight)
        self.count = part.operations
        self._ready: Sequence[Any] = ()
        self._written = 0

    def arguments(self, count: int) -> Sequence[Any]:
        """Return what the next so many calls are given."""
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
