"""insert_one of a document of two strings, w:1: what the field's sync against async comparison measured, as a
steady state, and as whole processes as it was printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import ASYNCIO, BLOCKING, PROGRAM
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
from mangonel.lab.experiments._process import OriginalTask, ProgramTask

IN_FLIGHT = 100
STEPS = 10_000
ORIGINALS = (
    ("original-a", "A, one insert and three prints"),
    ("original-b", "B, 1000 inserts in a loop"),
    ("original-c", "C, 100 inserts, each with callbacks that print 10 100 lines"),
    ("original-c-silent", "C without its prints"),
)


class InsertTask(Task):
    """So many insert_one; what is stored is counted the collection afterwards."""

    def __init__(self, part: Part, bench: Bench, in_flight: int, mixed: bool) -> None:
        self._bench = bench
        self._in_flight = in_flight
        self._mixed = mixed
        self._operations = part.operations
        self._adapter = bench.connect(in_flight)
        self._documents: list[dict[str, str]] = []
        self._written = 0

    def verify(self) -> str:
        """Insert one document; that it arrived is checked with the count at the end."""
        self._bench.run(self._adapter.insert_one({"1": "one", "2": "two"}))
        self._written += 1
        return digest("inserted")

    def warm_up(self) -> None:
        """Open every connection and let the server make its session records."""
        self._insert(max(50, 3 * self._in_flight))

    def arrange(self) -> None:
        """Make the documents: each is its own, since drivers add `_id` to it."""
        self._documents = [{"1": "one", "2": "two"} for _ in range(self._operations)]

    def act(self) -> int:
        call = self._adapter.insert_one
        if self._mixed:
            call = _then_count_async(call) if self._bench.is_async else _then_count(call)
        self._bench.drive(call, self._documents, self._in_flight)
        self._written += self._operations
        return self._operations

    def written(self) -> int | None:
        return self._written

    def _insert(self, count: int) -> None:
        self._bench.drive(
            self._adapter.insert_one, [{"1": "one", "2": "two"} for _ in range(count)], self._in_flight
        )
        self._written += count


def _steps() -> None:
    total = 0
    while total < STEPS:
        total += 1


def _then_count(insert_one: Callable[[Any], Any]) -> Callable[[Any], None]:
    def play(document: Any) -> None:
        insert_one(document)
        _steps()

    return play


def _then_count_async(insert_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def play(document: Any) -> None:
        await insert_one(document)
        _steps()

    return play


class Insert(Experiment):
    """Steady state on both faces, and whole processes."""

    id = "insert"
    title = "insert_one"
    passes = 2
    brief_s = 9.0

    def parts(self, size: Size) -> list[Part]:
        """One at a time, 100 in flight; processes with 1, 1000 and 100 inserts mixed with plain Python."""
        steps = "100 inserts, each with 10 000 steps of Python"
        parts = rows(
            size,
            [
                ("blocking", "one at a time, blocking", BLOCKING, (700, 3000, 300), (3, 5)),
                ("asyncio", "one at a time, event loop", ASYNCIO, (500, 3000, 200), (2, 4)),
                ("tasks-100", "100 in flight", ASYNCIO, (2000, 10_000, 500), (3, 5)),
                ("mixed", f"{steps}, blocking", BLOCKING, 100, (2, 4)),
                ("mixed-asyncio", f"{steps}, event loop", ASYNCIO, 100, (2, 4)),
            ],
            write_concern="w:1",
        )
        kinds: list[tuple[Any, ...]] = [
            ("insert-1", "whole process, 1 insert", PROGRAM, 1, (1, 3)),
            ("insert-1000", "whole process, 1000 inserts", PROGRAM, 1, (1, 3)),
            ("insert-mixed", f"whole process, {steps}", PROGRAM, 1, (1, 3)),
        ]
        # The short form has the one-insert process in the experiment `process` only, the brief one no mixed one.
        chosen = kinds[1:2] if size.brief else kinds[1:] if size.quick else kinds
        printed = "as printed, a whole process on a terminal: "
        originals: list[tuple[Any, ...]] = [
            (name, printed + title, PROGRAM, 1, 1) for name, title in ORIGINALS
        ]
        return parts + rows(
            size,
            chosen if size.quick else chosen + originals,
            unit="process",
            write_concern="w:1",
            meter="children",
            refuses=frozenset({"floor"}),
            server=False,
        )

    def task(self, part: Part, bench: Bench) -> Task:
        if part.id.startswith("original"):
            return OriginalTask(bench, part.id)
        if part.unit == "process":
            return ProgramTask(
                bench, part.id, {"insert-1": 1, "insert-1000": 1000, "insert-mixed": 100}[part.id]
            )
        return InsertTask(
            part, bench, IN_FLIGHT if part.id == "tasks-100" else 1, part.id.startswith("mixed")
        )


EXPERIMENT = Insert()
