"""Changes of a collection read from a resume token on: what a change stream costs per change."""

from __future__ import annotations

from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import ASYNCIO, BLOCKING, SESSIONS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task


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
            found = {**change["fullDocument"]}
            if change["operationType"] != "insert" or found != inserted[number]:
                raise AssertionError(f"expected the insert of {number}, got {str(change)[:200]}")
        return digest([change["documentKey"]["_id"] for change in changes])

    def act(self) -> int:
        """Read all changes."""
        return len(self._changes())

    def written(self) -> int | None:
        """Return the number of documents."""
        return self._operations

    def _changes(self) -> list[Any]:
        found: list[Any] = self._bench.run(self._adapter.changes(self._token, self._operations))
        return found


class ChangeStream(Experiment):
    """Both faces."""

    id = "change-stream"
    title = "changes read from a resume token on"
    together = False

    def parts(self, size: Size) -> list[Part]:
        """Each face."""
        count = size.choose(3000, 20_000, 1500)
        return [
            Part(
                face,
                f"{title}, from a token to the present",
                frozenset({flag, SESSIONS}),
                count,
                size.choose(2, 5),
                unit="change",
                judge="client",
            )
            for face, title, flag in (
                ("blocking", "blocking", BLOCKING),
                ("asyncio", "event loop", ASYNCIO),
            )
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task."""
        return ChangeStreamTask(part, bench)


EXPERIMENT = ChangeStream()
