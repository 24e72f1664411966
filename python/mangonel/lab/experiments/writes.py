"""Writes: insert_one, insert_many, transactions, and the change events that they cause.

insert_one of a document with two strings is the workload of the published comparison of sync and async: in steady
state, and as whole processes as printed. insert_many is the specification's task SmallDocBulkInsert with five times as
many documents. A transaction is one of three insert_one with its own session: the cost of `with_transaction` in
addition to its commands. Changes are read from a resume token on. Reading in large batches and insert_many are also
played over a compressed connection, with each compressor, and the compression is checked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contenders._pymongo_like import with_option
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size, Task, expect
from mangonel.lab.experiments import reads
from mangonel.lab.experiments._parts import CallsTask, Tabled
from mangonel.lab.experiments.process import OriginalTask, ProgramTask

STEPS = 10_000


class InsertTask(CallsTask):
    """Repeated insert_one; the stored documents are counted afterwards."""

    verb, leaves = "insert_one", 1

    def arguments(self, count: int) -> Sequence[Any]:
        # Each document is a separate object, since drivers add `_id` to it.
        return [{"1": "one", "2": "two"} for _ in range(count)]

    def verify(self) -> str:
        """Insert one document; the final count checks that it arrived."""
        self.drive(self.arguments(1))
        return digest("inserted")


class MixedTask(InsertTask):
    """The same with 10 000 steps of plain Python after each."""

    def act(self) -> int:
        insert_one = self.adapter.insert_one

        def insert(document: Any) -> None:
            insert_one(document)
            _steps()

        async def insert_async(document: Any) -> None:
            await insert_one(document)
            _steps()

        self.drive(self._ready, insert_async if self.bench.is_async else insert)
        return len(self._ready)


def _steps() -> None:
    total = 0
    while total < STEPS:
        total += 1


class InsertManyTask(Task):
    """A sample is one insert_many; the stored documents are counted afterwards."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._count = part.operations
        self._adapter = bench.connect()
        self._documents: list[dict[str, Any]] = []
        self._written = 0

    def verify(self) -> str:
        """Insert a first thousand; the final count checks that they arrived."""
        self._make(1000)
        self.act()
        return digest("inserted")

    def arrange(self) -> None:
        self._make(self._count)

    def act(self) -> int:
        self._bench.run(self._adapter.insert_many(self._documents))
        self._written += len(self._documents)
        return len(self._documents)

    def written(self) -> int | None:
        return self._written

    def _make(self, count: int) -> None:
        """Make documents without `_id`: drivers add it, and that is part of the work."""
        self._documents = [documents.user(number) for number in range(count)]
        # Only lower bounds encode ahead: they show the costs that remain if a driver's own work costs nothing.
        if hasattr(self._adapter, "arrange_many"):
            self._adapter.arrange_many(self._documents)


def in_thousands(size: Size, known: dict[str, Any]) -> dict[str, Any]:
    return {"thousands": known["count"] // 1000}


class TransactionTask(CallsTask):
    verb, leaves, warmth = "transact", 3, 3

    def arguments(self, count: int) -> Sequence[Any]:
        # Each document is a separate object, since drivers add `_id` to it.
        return [[{"1": "one", "2": "two"} for _ in range(self.leaves)] for _ in range(count)]

    def verify(self) -> str:
        """Run one; the collection must exist before many calls try to create it."""
        self.drive(self.arguments(1))
        return digest("committed")


class ChangeStreamTask(Task):
    """Insert, then read the change events; a sample opens a stream and reads all of them."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._operations = part.operations
        self._adapter = bench.connect()
        self._token: Any = None

    def verify(self) -> str:
        """Make the changes, and compare the events with them."""
        self._token = self._bench.run(self._adapter.mark())
        inserted = [{"_id": number, **documents.user(number)} for number in range(self._operations)]
        self._bench.run(self._adapter.insert_many(inserted))
        changes = self._changes()
        for change, document in zip(changes, inserted, strict=True):
            told = change["operationType"], {**change["fullDocument"]}
            expect("change", told, ("insert", document))
        return digest([change["documentKey"]["_id"] for change in changes])

    def act(self) -> int:
        return len(self._changes())

    def written(self) -> int | None:
        return self._operations

    def _changes(self) -> list[Any]:
        return self._bench.run(self._adapter.changes(self._token, self._operations))


# Less than this in either direction would mean that most of the data was sent uncompressed.
LEAST_BYTES = 50_000


def _compressed(bench: Bench, compressor: str) -> Bench:
    """Return the bench with a target that uses this compressor, or none."""
    uri = re.sub(r"[?&]compressors=[a-z]+", "", bench.target.uri)
    if compressor != "none":
        uri = with_option(uri, f"compressors={compressor}")
    bench.target = dataclasses.replace(bench.target, uri=uri)
    return bench


class _Compressed(Task):
    """Adds to another task's check: asks the server whether the bytes were compressed in both directions."""

    direction, counter = "compressor", "bytesIn"

    def __init__(self, part: Part, bench: Bench) -> None:
        self._compressor = part.id.split("-")[0]
        super().__init__(part, _compressed(bench, self._compressor))  # type: ignore[call-arg]  # the other base, a task of a part and a bench, is known to subclasses
        self._client = bench

    def verify(self) -> str:
        if self._compressor == "none":
            return super().verify()
        before = self._counted()
        seen = super().verify()
        if (moved := self._counted() - before) < LEAST_BYTES:
            raise AssertionError(
                f"expected at least {LEAST_BYTES} bytes compressed with {self._compressor}, the server counted {moved}"
            )
        return seen

    def _counted(self) -> int:
        status: Any = self._client.run(self._client.adapter.command("serverStatus"))
        return int(status["network"]["compression"][self._compressor][self.direction][self.counter])


class CompressedReadTask(_Compressed, reads.IterateTask):
    batching = reads.BATCHINGS["batch"]


class CompressedInsertTask(_Compressed, InsertManyTask):
    direction, counter = "decompressor", "bytesOut"


EXPERIMENTS = (
    Tabled("insert", {"original": OriginalTask, "insert-": ProgramTask, "mixed": MixedTask, "": InsertTask}),
    Tabled("insert-many", InsertManyTask, in_thousands),
    Tabled("transaction", TransactionTask),
    Tabled("change-stream", ChangeStreamTask),
    Tabled("compression", CompressedReadTask),
    Tabled("compression-insert", CompressedInsertTask, in_thousands),
)
