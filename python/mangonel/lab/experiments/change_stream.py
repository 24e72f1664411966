"""Changes of a collection read from a resume token on: what a change stream costs per change."""

from __future__ import annotations

from typing import Any

from mangonel.lab import documents
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled


class ChangeStreamTask(Task):
    """Insert, then read the changes that say so; a sample opens a stream and reads all of them."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._operations = part.operations
        self._adapter = bench.connect()
        self._token: Any = None

    def verify(self) -> str:
        """Make the changes, and compare what the stream says of them."""
        self._token = self._bench.run(self._adapter.mark())
        inserted = [{"_id": number, **documents.user(number)} for number in range(self._operations)]
        self._bench.run(self._adapter.insert_many(inserted))
        changes = self._changes()
        for number, change in enumerate(changes):
            if change["operationType"] != "insert" or {**change["fullDocument"]} != inserted[number]:
                raise AssertionError(f"expected the insert of {number}, got {str(change)[:200]}")
        return digest([change["documentKey"]["_id"] for change in changes])

    def act(self) -> int:
        return len(self._changes())

    def written(self) -> int | None:
        return self._operations

    def _changes(self) -> list[Any]:
        found: list[Any] = self._bench.run(self._adapter.changes(self._token, self._operations))
        return found


EXPERIMENT = Tabled("change-stream", ChangeStreamTask)
