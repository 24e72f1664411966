"""Transactions of three insert_one, a session for each: what `with_transaction` costs beside the commands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangonel.lab.digest import digest
from mangonel.lab.experiments._parts import CallsTask, Tabled


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


EXPERIMENT = Tabled("transaction", TransactionTask)
