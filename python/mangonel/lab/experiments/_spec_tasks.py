"""The single-process tasks of the driver benchmarking specification: one command, one document, many, one file.

Each checks what it did after every sample, outside the time.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Target
from mangonel.lab.contenders._faces import play
from mangonel.lab.contenders._players import BUCKET, open_player
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task

FILE_BYTES = 52_428_800
TWEETS = 10_000


class SpecTask(Task):
    """What all have: the contender's player, which the bench closes as its adapter, and a verb of it that is timed."""

    verb = ""

    def __init__(self, part: Part, bench: Bench, target: Target | None = None, bucket: str = BUCKET) -> None:
        self.part = part
        self._bench = bench
        bench.close_adapter()
        self._player: Any = play(bench, open_player(bench.name, target or bench.target, bucket))
        self._arguments: list[Any] = [part.operations]
        self._result: Any = None
        bench.adapter = self

    def call(self, verb: str, *arguments: Any) -> Any:
        return self._bench.run(getattr(self._player, verb)(*arguments))

    def keep(self, verb: str, *arguments: Any) -> None:
        """Let the player's verb return its result, which may be large, to this task.

        Not as the result of the runner's task: `asyncio.Runner` makes a repr of that at its end.
        """
        found = getattr(self._player, verb)(*arguments)

        async def steps() -> None:
            self._result = await found

        if self._bench.is_async:
            self._bench.run(steps())
        else:
            self._result = found

    def verify(self) -> str:
        """Do the whole work once, untimed, and check it."""
        self.arrange()
        self.act()
        return self.check()

    def act(self) -> int:
        self._result = self.call(self.verb, *self._arguments)
        return self.part.operations

    def extras(self) -> dict[str, float]:
        self.check()
        return {}

    def check(self) -> str:
        """Check what was done last and return its digest.

        Raises:
            AssertionError: it is not what the task asks for.
        """
        raise NotImplementedError

    def expect(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            raise AssertionError(f"expected {what} {str(expected)[:200]}, got {str(found)[:200]}")

    def close(self) -> Any:
        """Close the player: the bench takes this task for its adapter."""
        if self._player is not None:
            player, self._player = self._player, None
            self._bench.run(player.close())


class RunCommand(SpecTask):
    verb = "hello"

    def check(self) -> str:
        self.expect("ok", self._result["ok"], 1)
        return digest(int(self._result["maxWireVersion"]))


class FindOne(SpecTask):
    verb = "find_one"

    def check(self) -> str:
        self.expect("document", dict(self._result), {"_id": self.part.operations, **documents.tweet()})
        return digest(self._result)


class FindMany(SpecTask):
    def act(self) -> int:
        self._result = self.call("find_many")
        return int(self._result)

    def check(self) -> str:
        self.expect("documents", self._result, TWEETS)
        return digest(self.call("find_one", 1))


class WriteTask(SpecTask):
    """Copies of one document, written in some way into an empty collection; drivers add the `_id`.

    The part's name tells the way: one after the other, in one call, as a bulk write of the collection or of the client,
    and mixed, with a replacement and a deletion behind each insert.
    """

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        size, _, way = part.id.partition("-doc-")
        self._document = _large() if size == "large" else documents.small()
        self._is_mixed = way.endswith("-mixed")
        way = way.removesuffix("-mixed").replace("-", "_")
        self.verb = {"insert_one": "insert_each", "bulk_insert": "insert_many"}.get(way, way)

    def arrange(self) -> None:
        """Make the collection anew, and copies without an `_id`."""
        self.call("create")
        made = [dict(self._document) for _ in range(self.part.operations)]
        if self.verb.endswith("bulk_write"):
            database = self._bench.target.database if self.verb.startswith("client") else ""
            made = self._player.models(made, database, mixed=self._is_mixed)
        self._arguments = [made]

    def check(self) -> str:
        """Count what was written; of a mixed write nothing is left, and the result has the counts."""
        count = self.part.operations
        self.expect("documents", self.call("count"), 0 if self._is_mixed else count)
        if not self._is_mixed:
            return digest(count)
        counts = [self._result.inserted_count, self._result.modified_count, self._result.deleted_count]
        self.expect("inserted, modified, deleted", counts, [count] * 3)
        return digest(counts)


def content(size: int) -> bytes:
    """Return a file's bytes: such as no compression makes smaller, and the same in every run."""
    return random.Random(size).randbytes(size)


class FileTask(SpecTask):
    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._data = content(FILE_BYTES)
        self.call("empty_bucket")


class Upload(FileTask):
    verb = "upload"

    def arrange(self) -> None:
        self.call("empty_bucket")
        self._arguments = [self._data]

    def check(self) -> str:
        self.expect("lengths", [length for _, length in self.call("stored")], [FILE_BYTES])
        return digest(FILE_BYTES)


class Download(FileTask):
    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._file_id = self.call("upload", self._data)

    def arrange(self) -> None:
        self._result = b""

    def act(self) -> int:
        self.keep("download", self._file_id)
        return 1

    def check(self) -> str:
        if self._result != self._data:
            raise AssertionError("expected the stored bytes, got others")
        return digest(FILE_BYTES)


_large = functools.cache(documents.large)

# The others write documents.
TASKS: dict[str, type[SpecTask]] = {
    "run-command": RunCommand,
    "find-one-by-id": FindOne,
    "find-many": FindMany,
    "gridfs-upload": Upload,
    "gridfs-download": Download,
}
