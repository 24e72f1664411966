"""Encoding and decoding without a server, on documents of the benchmarking specification's shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import CODEC, Codec
from mangonel.lab.digest import digest, digest_bytes
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows

BATCH = 200
# How often a document is coded per sample in the short form, for a sample of about 20 ms.
TIMES = {"flat": 1000, "deep": 1000, "full": 600, "tweet": 2500, "small": 8000, "user": 8000}


class CodecTask(Task):
    """One direction on one document, again and again."""

    def __init__(self, bench: Bench, part: Part, direction: str, shape: str) -> None:
        self._codec = _codec(bench)
        self._times = part.operations
        self._document = _documents(self._codec.types)[shape]
        self._data = self._codec.encode(self._document)
        self._call: Callable[[Any], Any] = self._codec.decode if direction == "decode" else self._codec.encode
        self._argument: Any = self._data if direction == "decode" else self._document

    def verify(self) -> str:
        """Encode and decode once; all contenders must give the same bytes and the same values."""
        return f"{digest_bytes(self._data)}-{digest(self._codec.decode(self._data))}"

    def warm_up(self) -> None:
        """Code it until caches of keys and shapes are full."""
        for _ in range(self._times // 4):
            self._call(self._argument)

    def act(self) -> int:
        call, argument = self._call, self._argument
        for _ in range(self._times):
            call(argument)
        return self._times


class BatchTask(Task):
    """Decode a batch of small documents to a list; an operation is a document."""

    def __init__(self, bench: Bench, part: Part) -> None:
        codec = _codec(bench)
        self._times = part.operations // BATCH
        self._decode_all = codec.decode_all
        self._data = b"".join(codec.encode(document) for document in documents.users(codec.types, BATCH))

    def verify(self) -> str:
        found = self._decode_all(self._data)
        return f"{digest_bytes(self._data)}-{digest(found)}"

    def warm_up(self) -> None:
        for _ in range(self._times // 4):
            self._decode_all(self._data)

    def act(self) -> int:
        call, argument = self._decode_all, self._data
        for _ in range(self._times):
            call(argument)
        return self._times * BATCH


class Bson(Experiment):
    """Spec tasks FlatEncoding to FullDecoding, a tweet, and small documents."""

    id = "bson"
    title = "BSON"
    brief_s = 4.0

    def parts(self, size: Size) -> list[Part]:
        """Both directions for each shape, and the batch."""
        table = [
            (f"{direction}-{shape}", f"{direction} {shape}", CODEC, (times, 4 * times), (5, 11))
            for direction in ("decode", "encode")
            for shape, times in TIMES.items()
        ]
        title = f"decode a batch of {BATCH} users of 5 keys"
        table.append((f"decode-batch-{BATCH}", title, CODEC, (BATCH * 100, BATCH * 400), (5, 11)))
        return rows(size, table, unit="document", judge="client", server=False)

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task of one document or of the batch."""
        if "batch" in part.id:
            return BatchTask(bench, part)
        direction, _, shape = part.id.partition("-")
        return CodecTask(bench, part, direction, shape)


def _codec(bench: Bench) -> Codec:
    assert bench.contender.codec is not None
    return bench.contender.codec()


def _documents(types: Any) -> dict[str, Any]:
    return {
        "flat": documents.flat(types),
        "deep": documents.deep(),
        "full": documents.full(types),
        "tweet": documents.tweet(),
        "small": documents.small(),
        "user": documents.users(types, 1)[0],
    }


EXPERIMENT = Bson()
