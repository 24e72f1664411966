"""Transactions of three insert_one, a session for each: what `with_transaction` costs beside the commands in it."""

from __future__ import annotations

from typing import Any

from mangonel.lab.contender import ASYNCIO, BLOCKING, SESSIONS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows

IN_FLIGHT = 50
# Inserts inside a transaction carry none, so the server counts them under its default: nothing to check them by.
CONCERN = "commit w:1"
INSERTS = 3


class TransactionTask(Task):
    """So many transactions; what is stored is counted the collection afterwards."""

    def __init__(self, part: Part, bench: Bench, in_flight: int) -> None:
        self._bench = bench
        self._in_flight = in_flight
        self._operations = part.operations
        self._adapter = bench.connect(in_flight)
        self._work: list[Any] = []
        self._written = 0

    def verify(self) -> str:
        """Run one; the collection must exist before many of them want to make it."""
        self._transact(1, 1)
        return digest("committed")

    def warm_up(self) -> None:
        """Open every connection and let the server make its session records."""
        self._transact(3 * self._in_flight, self._in_flight)

    def arrange(self) -> None:
        """Make the documents: each is its own, since drivers add `_id` to it."""
        self._work = _documents(self._operations)

    def act(self) -> int:
        self._bench.drive(self._adapter.transact, self._work, self._in_flight)
        self._written += INSERTS * self._operations
        return self._operations

    def written(self) -> int | None:
        return self._written

    def _transact(self, count: int, in_flight: int) -> None:
        self._bench.drive(self._adapter.transact, _documents(count), in_flight)
        self._written += INSERTS * count


def _documents(count: int) -> list[list[dict[str, str]]]:
    return [[{"1": "one", "2": "two"} for _ in range(INSERTS)] for _ in range(count)]


class Transaction(Experiment):
    """One at a time on both faces, and many in flight."""

    id = "transaction"
    title = "transactions of three insert_one"

    def parts(self, size: Size) -> list[Part]:
        one, many = (BLOCKING, SESSIONS), (ASYNCIO, SESSIONS)
        few = (300, 1000, 60)
        table = [
            ("blocking", "one at a time, blocking", one, few, (2, 4)),
            ("asyncio", "one at a time, event loop", many, few, (2, 4)),
            (f"tasks-{IN_FLIGHT}", f"{IN_FLIGHT} in flight", many, (500, 2000, 150), (2, 4)),
        ]
        return rows(size, table, unit="transaction", write_concern=CONCERN)

    def task(self, part: Part, bench: Bench) -> Task:
        return TransactionTask(part, bench, IN_FLIGHT if part.id.startswith("tasks") else 1)


EXPERIMENT = Transaction()
