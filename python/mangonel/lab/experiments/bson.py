"""Encoding and decoding without a server, on documents of the benchmarking specification's shapes.

Spec tasks FlatEncoding to FullDecoding, a tweet, and small documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mangonel.lab import documents
from mangonel.lab.digest import digest, digest_bytes
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled

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
    """One direction on one document, again and again."""

    each = 1

    def __init__(self, part: Part, bench: Bench, direction: str = "", shape: str = "") -> None:
        assert bench.contender.codec is not None
        codec = bench.contender.codec()
        self._times = part.operations // self.each
        if not shape:
            direction, _, shape = part.id.partition("-")
        self._call, self._argument, self._data, self._value = self.work(codec, direction, shape)

    def work(self, codec: Any, direction: str, shape: str) -> tuple[Callable[[Any], Any], Any, bytes, Any]:
        """Return what is called with what, the bytes, and the value that they stand for."""
        document = SHAPES[shape](codec.types)
        data = codec.encode(document)
        call, argument = (codec.decode, data) if direction == "decode" else (codec.encode, document)
        return call, argument, data, codec.decode(data)

    def verify(self) -> str:
        """All contenders must give the same bytes and the same values."""
        return f"{digest_bytes(self._data)}-{digest(self._value)}"

    def warm_up(self) -> None:
        """Code it until caches of keys and shapes are full."""
        for _ in range(self._times // 4):
            self._call(self._argument)

    def act(self) -> int:
        call, argument = self._call, self._argument
        for _ in range(self._times):
            call(argument)
        return self._times * self.each


class BatchTask(CodecTask):
    """Decode a batch of small documents to a list; an operation is a document."""

    each = BATCH

    def work(self, codec: Any, direction: str, shape: str) -> tuple[Callable[[Any], Any], Any, bytes, Any]:
        data = b"".join(map(codec.encode, documents.users(codec.types, BATCH)))
        return codec.decode_all, data, data, codec.decode_all(data)


EXPERIMENT = Tabled("bson", {"decode-batch": BatchTask, "": CodecTask})
