"""Runs migrations: in batches by `_id`, each document changed exactly once, despite other writers and killed processes.

One atomic step writes a document together with the mark that it was changed, and only if the document is still as it
was read. So a killed process loses at most one batch of work, and its successor recognises marked documents. A
concurrent write is detected, and its document is read again. The marks are removed when all documents are changed.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mangonel.bson import encode
from mangonel.errors import BulkWriteError, OperationFailure, WriteError
from mangonel.odm.errors import OdmError
from mangonel.odm.migrations.files import Migration, check_target
from mangonel.odm.migrations.state import State
from mangonel.odm.store.schema import MARK
from mangonel.operations import ReplaceOne

BATCH = 1000
# The server's code for a command's part that is larger than a document may be.
_TOO_LARGE = 10334
# How often to retry a document that writers keep changing, and a collection that they keep adding to.
MOST_TRIES = 100
MOST_PASSES = 50


class MigrationError(OdmError):
    """A migration cannot continue. Its progress is recorded, and the next run continues from there."""


@dataclass(frozen=True)
class Progress:
    """The progress of a migration.

    Attributes:
        name: name of the migration.
        direction: "forward" or "backward".
        changed: how many documents were changed.
        total: how many documents there were to change at its start.
        seconds_left: estimate from the speed so far; None before the first change.
        is_trial: whether nothing is written.
    """

    name: str
    direction: str
    changed: int
    total: int
    seconds_left: float | None
    is_trial: bool = False

    def __str__(self) -> str:
        text = f"{self.name} {self.direction}: {self.changed} of {max(self.total, self.changed)} documents"
        if self.is_trial:
            return text + " would change"
        return text if self.seconds_left is None else f"{text}, {_duration(self.seconds_left)} left"


class Runner:
    """Migrates the documents of a database to a version.

    Args:
        database: the driver's database, of the blocking face.
        migrations: by number, as `load` returns them.
        batch: number of documents in one step.
        report: called with a Progress after each batch.

    Example:
        >>> Runner(db.database(), load("migrations")).migrate()
        []
    """

    def __init__(
        self,
        database: Any,
        migrations: list[Migration],
        *,
        batch: int = BATCH,
        report: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._database = database
        self._migrations = migrations
        self._batch = batch
        self._report = report
        self._state = State(database)

    def plan(self, to: int | None = None) -> list[tuple[Migration, bool]]:
        """Return the steps of `migrate`: each migration, and whether it runs forward.

        Args:
            to: number of the target version; 0 for none, None for all.

        Raises:
            MigrationError: a version has no way back, or the database has one without a file.
            ValueError: no migration has the number `to`.

        Example:
            >>> Runner(db.database(), load("migrations")).plan()
            []
        """
        check_target(to, self._migrations)
        last = to if to is not None else max((migration.number for migration in self._migrations), default=0)
        known = {migration.name: migration for migration in self._migrations}
        applied = self._state.applied()
        begun = self._state.unfinished()
        strange = [name for name in [*applied, *([begun["_id"]] if begun else [])] if name not in known]
        if strange:
            raise MigrationError(
                f"expected the files of {', '.join(strange)}, which were applied to this database, got none"
            )
        steps: list[tuple[Migration, bool]] = []
        if begun is not None:
            # An unfinished migration is completed first, in its own direction.
            migration, is_forward = known[begun["_id"]], begun["direction"] == "forward"
            steps.append((migration, is_forward))
            applied = [name for name in applied if name != migration.name] + [migration.name] * is_forward
        steps += [(one, True) for one in self._migrations if one.number <= last and one.name not in applied]
        back = [one for one in reversed(self._migrations) if one.number > last and one.name in applied]
        for migration in back:
            if migration.backward is None:
                raise MigrationError(
                    f"{migration.name} has no way back: expected backward(document) or BACKWARD in it"
                )
        return steps + [(migration, False) for migration in back]

    def migrate(self, to: int | None = None, *, is_trial: bool = False) -> list[str]:
        """Migrate documents to the target version; return the names of the migrations that ran.

        Args:
            to: number of the target version; 0 for none, None for all.
            is_trial: True: change each document only in memory, and write nothing.

        Raises:
            MigrationError: a document could not be changed; it is named, and the next run starts there.
            Busy: another process is migrating.
            ValueError: no migration has the number `to`.

        Example:
            >>> Runner(db.database(), load("migrations")).migrate(is_trial=True)
            []
        """
        if is_trial:
            return [self._try(migration, is_forward) for migration, is_forward in self.plan(to)]
        self._state.lock()
        try:
            return [self._run(migration, is_forward) for migration, is_forward in self.plan(to)]
        finally:
            self._state.release()

    def _try(self, migration: Migration, is_forward: bool) -> str:
        """Change documents in memory."""
        change, collection = migration.change(is_forward), self._database[migration.collection]
        meant = migration.meant(is_forward)
        total = collection.count_documents(meant)
        changed = 0
        if callable(change):
            for document in collection.find(meant):
                changed += _changed(migration, change, document) is not None
        else:
            changed = total
        self._report(Progress(migration.name, _direction(is_forward), changed, total, None, True))
        return migration.name

    def _run(self, migration: Migration, is_forward: bool) -> str:
        name, direction = migration.name, _direction(is_forward)
        collection = self._database[migration.collection]
        todo = {"$and": [migration.meant(is_forward), {MARK: {"$ne": f"{name} {direction}"}}]}
        kept = self._state.begin(name, direction, lambda: collection.count_documents(todo))
        if kept["stage"] == "running":
            self._change_all(migration, is_forward, collection, todo, kept)
            kept["position"] = None
            self._state.save(name, stage="cleaning", position=None)
        self._clean(collection, f"{name} {direction}", kept)
        self._state.save(name, stage="done")
        return name

    def _change_all(
        self,
        migration: Migration,
        is_forward: bool,
        collection: Any,
        todo: dict[str, Any],
        kept: dict[str, Any],
    ) -> None:
        """Change every document, including those that writers add meanwhile."""
        changed, total = kept["changed"], kept["total"]
        began, at_first = time.monotonic(), changed
        for documents in self._passes(migration.name, collection, todo, kept):
            self._change(migration, is_forward, collection, todo, documents)
            changed += len(documents)
            self._state.save(migration.name, position=documents[-1]["_id"], changed=changed)
            speed = (changed - at_first) / max(time.monotonic() - began, 0.001)
            left = max(total - changed, 0) / speed
            self._report(Progress(migration.name, _direction(is_forward), changed, total, left))

    def _passes(
        self, name: str, collection: Any, todo: dict[str, Any], kept: dict[str, Any], **options: Any
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield batches of documents to change, from the last process's position and then from the start, until a
        complete pass finds nothing. Each batch starts where the previous one ended: a pass reads each document once,
        however
        many there are and however often it is interrupted."""
        for _ in range(MOST_PASSES):
            is_whole, in_pass = kept["position"] is None, 0
            for documents in self._batches(collection, todo, kept["position"], **options):
                self._state.renew()
                yield documents
                in_pass += 1
            if is_whole and not in_pass:
                return
            # The next pass finds documents that writers added behind this position.
            kept["position"] = None
        raise MigrationError(
            f"{name}: after {MOST_PASSES} passes writers still add documents in the form that it changes; "
            "let them write the new form first, and FILTER tell the two apart"
        )

    def _batches(
        self, collection: Any, todo: dict[str, Any], position: Any, **options: Any
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield batches of documents to change, ordered by `_id` of any type."""
        while True:
            start: dict[str, Any] = {} if position is None else {"min": [("_id", position)]}
            found = collection.find(
                todo, hint=[("_id", 1)], limit=self._batch, sort=[("_id", 1)], **start, **options
            ).to_list()
            if not found:
                return
            yield found
            position = found[-1]["_id"]

    def _change(
        self,
        migration: Migration,
        is_forward: bool,
        collection: Any,
        todo: dict[str, Any],
        documents: list[dict[str, Any]],
    ) -> None:
        """Change the documents of a batch; retry those that writers changed meanwhile."""
        mark = f"{migration.name} {_direction(is_forward)}"
        change = migration.change(is_forward)
        ids = [document["_id"] for document in documents]
        mine = {"$and": [{"_id": {"$in": ids}}, todo]}
        if not callable(change):
            with _told(migration, documents):
                collection.update_many(mine, [*(change or ()), {"$set": {MARK: {"$literal": mark}}}])
            return
        for _ in range(MOST_TRIES):
            writes = []
            for document in documents:
                # If the lease is lost, a successor may already have ended the migration and removed its marks.
                self._state.keep()
                made = _changed(migration, change, document)
                new = dict(document if made is None else made)
                new[MARK] = mark
                is_same = {"$expr": {"$eq": ["$$ROOT", {"$literal": document}]}}
                writes.append(ReplaceOne({"_id": document["_id"], **is_same}, new))
            with _told(migration, documents):
                if collection.bulk_write(writes, ordered=False).matched_count == len(writes):
                    return
            self._state.renew()
            documents = collection.find(mine).to_list()
            if not documents:
                return
        raise MigrationError(
            f"{migration.name}: writers change {documents[0]['_id']!r} faster than it can be read"
        )

    def _clean(self, collection: Any, mark: str, kept: dict[str, Any]) -> None:
        """Remove the marks, also those that came back when another writer replaced a document by an old copy."""
        marked = {MARK: mark}
        for rows in self._passes(kept["_id"], collection, marked, kept, projection={"_id": 1}):
            ids = [row["_id"] for row in rows]
            collection.update_many({"_id": {"$in": ids}, **marked}, {"$unset": {MARK: ""}})
            self._state.save(kept["_id"], position=ids[-1])


@contextlib.contextmanager
def _told(migration: Migration, documents: list[dict[str, Any]]) -> Iterator[None]:
    """Raise the server's refusal as a MigrationError that names the document."""
    reason: OperationFailure
    try:
        yield
    except BulkWriteError as error:
        first = error.details["writeErrors"][0] if error.details["writeErrors"] else None
        if first is None:
            raise
        place, why = f"{migration.collection} {documents[first['index']]['_id']!r}", first["errmsg"]
        reason = error
    except WriteError as error:
        place, why, reason = f"a document of {migration.collection}", str(error), error
    except OperationFailure as error:
        if error.code != _TOO_LARGE:
            raise
        largest = max(documents, key=lambda document: len(encode(document)))
        raise MigrationError(
            f"{migration.name}: {migration.collection} {largest['_id']!r} is too large: a write has the old and the "
            "new document, and the server takes 16 MB; write the change as a pipeline, FORWARD = [...]"
        ) from error
    else:
        return
    raise MigrationError(
        f"{migration.name}: {place}: the server refused the changed document: {why}; correct the function, the other "
        "document of a unique index or the collection's validator, and run again"
    ) from reason


def _changed(migration: Migration, change: Any, document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a migration's function for a document."""
    id = document["_id"]
    before = {key: value for key, value in document.items() if key != MARK}
    # A deep copy: the stored document is compared with the document as it was read.
    given = copy.deepcopy(before)
    try:
        made = change(given)
    except Exception as error:
        raise MigrationError(
            f"{migration.name}: {migration.collection} {id!r}: {type(error).__name__}: {error}; nothing of it was "
            "written"
        ) from error
    if made is None and given == before:
        return None
    if not isinstance(made, Mapping):
        how = "it changed it and returned None" if made is None else f"got {type(made).__name__}"
        raise MigrationError(
            f"{migration.name}: expected the function to return the document of {migration.collection} {id!r}, or None "
            f"for one that it leaves alone: {how}; nothing of it was written"
        )
    if made.get("_id", id) != id or "_id" not in made:
        raise MigrationError(
            f"{migration.name}: expected the same _id for {migration.collection} {id!r}, got another"
        )
    return dict(made) if dict(made) != before or list(made) != list(before) else None


def _direction(is_forward: bool) -> str:
    return "forward" if is_forward else "backward"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
