"""The tasks of the driver benchmarking specification in MB/s, with its composite scores.

A task's megabytes are the sizes of the specification's source files on disk; some sizes in its text are stale. The
client's bulk writes need MongoDB 8.0: `--set client_bulk_write=1` plays them. The counts are the specification's own
with `--set published=1`; MB/s hardly depend on them, except for the cost of a first batch. The single-process tasks
check their result after every sample, untimed. `bson` is encoding and decoding without a server: the specification's
tasks FlatEncoding to FullDecoding, a tweet, and small documents.
Spec: benchmarking.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mangonel.lab import documents
from mangonel.lab.digest import digest, digest_bytes
from mangonel.lab.experiment import Bench, Part, Task, expect
from mangonel.lab.experiments import _spec_parallel
from mangonel.lab.experiments._parts import TABLES, SpecTask, Tabled, content

COMPOSITES: dict[str, list[str]] = TABLES["spec"]["composites"]
BSON, SINGLE, MULTI, PARALLEL, READS, WRITES, _ = COMPOSITES.values()


class Spec(Tabled):
    """25 tasks; three of them need a newer server than most deployments have."""

    def stand_in(self, part: str, contender: str) -> str:
        """Return the codec contender: this driver's own, since it has two codecs, or PyMongo's for the others."""
        if part not in BSON:
            return contender
        return "mangonel-bson" if contender.startswith("mangonel") else "pymongo"


FILE_BYTES = 52_428_800
TWEETS = 10_000


class RunCommand(SpecTask):
    verb = "hello"

    def check(self) -> str:
        expect("ok", self._result["ok"], 1)
        return digest(int(self._result["maxWireVersion"]))


class FindOne(SpecTask):
    verb = "find_one"

    def check(self) -> str:
        expect("document", dict(self._result), {"_id": self.part.operations, **documents.tweet()})
        return digest(self._result)


class FindMany(SpecTask):
    def act(self) -> int:
        self._result = self.call("find_many")
        return int(self._result)

    def check(self) -> str:
        expect("documents", self._result, TWEETS)
        return digest(self.call("find_one", 1))


class WriteTask(SpecTask):
    """Copies of one document, written to an empty collection; drivers add the `_id`.

    The part's name states the way: one after another, in one call, as a bulk write of the collection or of the client,
    or mixed, with a replacement and a deletion after each insert.
    """

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        size, _, way = part.id.partition("-doc-")
        self._document = _large() if size == "large" else documents.small()
        self._is_mixed = way.endswith("-mixed")
        way = way.removesuffix("-mixed").replace("-", "_")
        self.verb = {"insert_one": "insert_each", "bulk_insert": "insert_many"}.get(way, way)

    def arrange(self) -> None:
        """Recreate the collection, and make copies without an `_id`."""
        self.call("create")
        made = [dict(self._document) for _ in range(self.part.operations)]
        if self.verb.endswith("bulk_write"):
            database = self._bench.target.database if self.verb.startswith("client") else ""
            made = self._player.models(made, database, mixed=self._is_mixed)
        self._arguments = [made]

    def check(self) -> str:
        """Check the number of written documents; a mixed write leaves none, so its result is checked."""
        count = self.part.operations
        expect("documents", self.call("count"), 0 if self._is_mixed else count)
        if not self._is_mixed:
            return digest(count)
        counts = [self._result.inserted_count, self._result.modified_count, self._result.deleted_count]
        expect("inserted, modified, deleted", counts, [count] * 3)
        return digest(counts)


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
        expect("lengths", [length for _, length in self.call("stored")], [FILE_BYTES])
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
        expect("bytes", digest_bytes(self._result), digest_bytes(self._data))
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


BATCH = 200
SHAPES: dict[str, Callable[[Any], Any]] = {
    "flat": documents.flat,
    "deep": lambda types: documents.deep(),
    "full": documents.full,
    "tweet": lambda types: documents.tweet(),
    "small": lambda types: documents.small(),
    "user": lambda types: documents.users(types, 1)[0],
}


class CodecTask(Task):
    """Repeated encoding or decoding of one document."""

    each = 1

    def __init__(self, part: Part, bench: Bench, direction: str = "", shape: str = "") -> None:
        assert bench.contender.codec is not None
        codec = bench.contender.codec()
        self._times = part.operations // self.each
        if not shape:
            direction, _, shape = part.id.partition("-")
        self._call, self._argument, self._data, self._value = self.work(codec, direction, shape)

    def work(self, codec: Any, direction: str, shape: str) -> tuple[Callable[[Any], Any], Any, bytes, Any]:
        """Return the function and its argument, the bytes, and the value that they encode."""
        document = SHAPES[shape](codec.types)
        data = codec.encode(document)
        call, argument = (codec.decode, data) if direction == "decode" else (codec.encode, document)
        return call, argument, data, codec.decode(data)

    def verify(self) -> str:
        """Check that all contenders produce the same bytes and the same values."""
        return f"{digest_bytes(self._data)}-{digest(self._value)}"

    def warm_up(self) -> None:
        """Encode or decode until the caches of keys and shapes are full."""
        for _ in range(self._times // 4):
            self._call(self._argument)

    def act(self) -> int:
        call, argument = self._call, self._argument
        for _ in range(self._times):
            call(argument)
        return self._times * self.each


class BatchTask(CodecTask):
    """Decode a batch of small documents to a list; a document is an operation."""

    each = BATCH

    def work(self, codec: Any, direction: str, shape: str) -> tuple[Callable[[Any], Any], Any, bytes, Any]:
        data = b"".join(map(codec.encode, documents.users(codec.types, BATCH)))
        return codec.decode_all, data, data, codec.decode_all(data)


def _task(part: Part, bench: Bench) -> Task:
    if part.id in BSON:
        shape, _, direction = part.id.partition("-")
        return CodecTask(part, bench, direction.replace("coding", "code"), shape)
    tasks = {**TASKS, **_spec_parallel.TASKS}
    return tasks.get(part.id, WriteTask)(part, bench)


EXPERIMENT = Spec("spec", _task)


EXPERIMENTS = (Tabled("bson", {"decode-batch": BatchTask, "": CodecTask}),)
