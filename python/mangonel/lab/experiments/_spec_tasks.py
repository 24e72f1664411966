"""The single-process tasks of the driver benchmarking specification: one command, one document, many, one file.

Each checks what it did after every sample, outside the time.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Document
from mangonel.lab.contenders._spec import open_player
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task

FILE_BYTES = 52_428_800
TWEETS = 10_000


class SpecTask(Task):
    """What all have: the contender's player, which the bench closes as its adapter."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self.part = part
        self._bench = bench
        bench.close_adapter()
        name = bench.contender.copy_of or bench.contender.id
        opening = open_player(name, bench.target)
        self._player: Any = bench.run(opening) if bench.is_async else asyncio.run(opening)
        bench.adapter = self

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Return what the player's verb returns, on its loop where it has one."""
        return self._bench.run(getattr(self._player, verb)(*arguments, **options))

    def verify(self) -> str:
        """Do the whole work once, untimed, and check it."""
        self.arrange()
        self.act()
        return self.check()

    def extras(self) -> dict[str, float]:
        """Check the sample just taken."""
        self.check()
        return {}

    def check(self) -> str:
        """Check what was done last and return its digest.

        Raises:
            AssertionError: it is not what the task asks for.
        """
        raise NotImplementedError

    def expect(self, what: str, found: Any, expected: Any) -> None:
        """Raise AssertionError unless both are equal."""
        if found != expected:
            raise AssertionError(f"expected {what} {str(expected)[:200]}, got {str(found)[:200]}")

    def close(self) -> Any:
        """Close the player: the bench takes this task for its adapter."""
        if self._player is not None:
            player, self._player = self._player, None
            self._bench.run(player.close())


class RunCommand(SpecTask):
    """A command and its reply."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._reply: Any = None

    def act(self) -> int:
        """Run it so often."""
        self._reply = self.call("hello", self.part.operations)
        return self.part.operations

    def check(self) -> str:
        """Look into the last reply."""
        self.expect("ok", self._reply["ok"], 1)
        return digest(int(self._reply["maxWireVersion"]))


class FindOne(SpecTask):
    """One document after the other by its `_id`."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._found: Any = None

    def act(self) -> int:
        """Read so many."""
        self._found = self.call("find_one", self.part.operations)
        return self.part.operations

    def check(self) -> str:
        """Compare the last one."""
        self.expect("document", dict(self._found), {"_id": self.part.operations, **documents.tweet()})
        return digest(self._found)


class FindMany(SpecTask):
    """Empty a cursor."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._count = 0

    def act(self) -> int:
        """Read the collection."""
        self._count = self.call("find_many")
        return self._count

    def check(self) -> str:
        """Compare the number, and the document itself once."""
        self.expect("documents", self._count, TWEETS)
        return digest(self.call("find_one", 1))


class WriteTask(SpecTask):
    """Copies of one document, written in some way into an empty collection; drivers add the `_id`."""

    verb = ""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._document = _large() if part.id.startswith("large") else documents.small()
        self._arguments: list[Any] = []
        self._result: Any = None

    def prepared(self, copies: list[Document]) -> list[Any]:
        """Return what the verb takes."""
        return copies

    def arrange(self) -> None:
        """Make the collection anew, and copies without an `_id`."""
        self.call("create")
        self._arguments = self.prepared([dict(self._document) for _ in range(self.part.operations)])

    def act(self) -> int:
        """Write them."""
        self._result = self.call(self.verb, self._arguments)
        return self.part.operations

    def check(self) -> str:
        """Count them."""
        self.expect("documents", self.call("count"), self.part.operations)
        return digest(self.part.operations)


class InsertOne(WriteTask):
    """One after the other."""

    verb = "insert_each"


class InsertMany(WriteTask):
    """In one call."""

    verb = "insert_many"


class BulkWrite(WriteTask):
    """As inserts of a collection's bulk write."""

    verb = "bulk_write"

    def prepared(self, copies: list[Document]) -> list[Any]:
        """Return an insert of each."""
        models: list[Any] = self._player.models(copies)
        return models


class BulkWriteMixed(WriteTask):
    """An insert, a replacement and a deletion of each."""

    verb = "bulk_write"

    def prepared(self, copies: list[Document]) -> list[Any]:
        """Return three models of each."""
        models: list[Any] = self._player.models(copies, mixed=True)
        return models

    def check(self) -> str:
        """Compare the result's counts; nothing is left."""
        counts = (self._result.inserted_count, self._result.modified_count, self._result.deleted_count)
        self.expect("inserted, modified, deleted", counts, (self.part.operations,) * 3)
        self.expect("documents", self.call("count"), 0)
        return digest(list(counts))


class ClientBulkWrite(WriteTask):
    """As inserts of the client's bulk write."""

    verb = "client_bulk_write"

    def prepared(self, copies: list[Document]) -> list[Any]:
        """Return an insert of each."""
        models: list[Any] = self._player.client_models(copies, self._bench.target.database)
        return models


class ClientBulkWriteMixed(BulkWriteMixed):
    """The same over ten collections, by the client."""

    verb = "client_bulk_write"

    def prepared(self, copies: list[Document]) -> list[Any]:
        """Return three models of each."""
        models: list[Any] = self._player.client_models(copies, self._bench.target.database, mixed=True)
        return models


def content(size: int) -> bytes:
    """Return a file's bytes: such as no compression makes smaller, and the same in every run."""
    return random.Random(size).randbytes(size)


class FileTask(SpecTask):
    """A file of 50 MiB that does not compress."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._data = content(FILE_BYTES)
        self.call("empty_bucket")


class Upload(FileTask):
    """Store it from memory."""

    def arrange(self) -> None:
        """Empty the bucket."""
        self.call("empty_bucket")

    def act(self) -> int:
        """Store it."""
        self.call("upload", self._data)
        return 1

    def check(self) -> str:
        """Compare the length that is stored."""
        self.expect("lengths", [length for _, length in self.call("stored")], [FILE_BYTES])
        return digest(FILE_BYTES)


class Download(FileTask):
    """Read it into memory."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._file_id = self.call("upload", self._data)
        self._found = b""

    def arrange(self) -> None:
        """Let the last one go, untimed."""
        self._found = b""

    def act(self) -> int:
        """Read it."""
        if self._bench.is_async:
            self._bench.run(self._keep())
        else:
            self._found = self._player.download(self._file_id)
        return 1

    def check(self) -> str:
        """Compare the bytes."""
        if self._found != self._data:
            raise AssertionError("expected the stored bytes, got others")
        return digest(FILE_BYTES)

    async def _keep(self) -> None:
        # Not as the result of the runner's task: `asyncio.Runner` makes a repr of that at its end.
        self._found = await self._player.download(self._file_id)


_large = functools.cache(documents.large)

TASKS: dict[str, Callable[[Part, Bench], Task]] = {
    "run-command": RunCommand,
    "find-one-by-id": FindOne,
    "small-doc-insert-one": InsertOne,
    "large-doc-insert-one": InsertOne,
    "find-many": FindMany,
    "small-doc-bulk-insert": InsertMany,
    "large-doc-bulk-insert": InsertMany,
    "small-doc-bulk-write": BulkWrite,
    "large-doc-bulk-write": BulkWrite,
    "small-doc-bulk-write-mixed": BulkWriteMixed,
    "small-doc-client-bulk-write": ClientBulkWrite,
    "large-doc-client-bulk-write": ClientBulkWrite,
    "small-doc-client-bulk-write-mixed": ClientBulkWriteMixed,
    "gridfs-upload": Upload,
    "gridfs-download": Download,
}
