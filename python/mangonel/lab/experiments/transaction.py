"""Transactions of three insert_one, a session for each: what `with_transaction` costs beside the commands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangonel.lab.contender import ASYNCIO, BLOCKING, SESSIONS
from mangonel.lab.digest import digest
from mangonel.lab.experiments._parts import CallsTask, Tabled

# Inserts inside a transaction carry none, so the server counts them under its default: nothing to check them by.
CONCERN = "commit w:1"
FEW = (300, 1000, 60)


class TransactionTask(CallsTask):
    """So many transactions; what is stored is counted afterwards."""

    verb, leaves, warmth = "transact", 3, 3

    def arguments(self, count: int) -> Sequence[Any]:
        # Each document is its own, since drivers add `_id` to it.
        return [[{"1": "one", "2": "two"} for _ in range(self.leaves)] for _ in range(count)]

    def verify(self) -> str:
        """Run one; the collection must exist before many of them want to make it."""
        self.drive(self.arguments(1))
        return digest("committed")


EXPERIMENT = Tabled(
    "transaction",
    "transactions of three insert_one",
    TransactionTask,
    [
        ("blocking", "one at a time, blocking", (BLOCKING, SESSIONS), FEW, (2, 4)),
        ("asyncio", "one at a time, event loop", (ASYNCIO, SESSIONS), FEW, (2, 4)),
        ("tasks-50", "50 in flight", (ASYNCIO, SESSIONS), (500, 2000, 150), (2, 4)),
    ],
    {"unit": "transaction", "write_concern": CONCERN},
)
