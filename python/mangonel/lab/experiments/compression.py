"""Reading in large batches and insert_many over a compressed wire, with each compressor; and that it was compressed."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from mangonel.lab.contenders._pymongo_like import with_option
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments import reads, writes
from mangonel.lab.experiments._parts import Tabled

# Less than this of either direction would mean that most of the work went over the wire as it was.
LEAST_BYTES = 50_000


def _compressed(bench: Bench, compressor: str) -> Bench:
    """Return the bench with a target that asks for this compressor, or for none."""
    uri = re.sub(r"[?&]compressors=[a-z]+", "", bench.target.uri)
    if compressor != "none":
        uri = with_option(uri, f"compressors={compressor}")
    bench.target = dataclasses.replace(bench.target, uri=uri)
    return bench


class _Compressed(Task):
    """Asks the server, beside another experiment's own check, whether the bytes came and went compressed."""

    direction, counter = "compressor", "bytesIn"

    def __init__(self, part: Part, bench: Bench) -> None:
        self._compressor = part.id.split("-")[0]
        super().__init__(part, _compressed(bench, self._compressor))  # type: ignore[call-arg]  # the other base, a task of a part and a bench, is known to subclasses
        self._client = bench

    def verify(self) -> str:
        if self._compressor == "none":
            return super().verify()
        before = self._counted()
        seen = super().verify()
        if (moved := self._counted() - before) < LEAST_BYTES:
            raise AssertionError(
                f"expected at least {LEAST_BYTES} bytes compressed with {self._compressor}, the server counted {moved}"
            )
        return seen

    def _counted(self) -> int:
        status: Any = self._client.run(self._client.adapter.command("serverStatus"))
        return int(status["network"]["compression"][self._compressor][self.direction][self.counter])


class CompressedReadTask(_Compressed, reads.IterateTask):
    batching = reads.BATCHINGS["batch"]


class CompressedInsertTask(_Compressed, writes.InsertManyTask):
    direction, counter = "decompressor", "bytesOut"


EXPERIMENTS = (
    Tabled("compression", CompressedReadTask),
    Tabled("compression-insert", CompressedInsertTask, writes.in_thousands),
)
