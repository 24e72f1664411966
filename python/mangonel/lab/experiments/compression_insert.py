"""insert_many of 50 000 small documents over a compressed wire, with each compressor."""

from __future__ import annotations

from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments import _compression, insert_many


class CompressionInsert(Experiment):
    """The documents of insert-many."""

    id = "compression-insert"
    title = "insert_many of 50 000 over a compressed wire"
    at_once = 1

    def parts(self, size: Size) -> list[Part]:
        title = f"{size.choose(*insert_many.COUNTS) // 1000} 000 small documents in one call"
        return _compression.parts(size, title, insert_many.COUNTS, write_concern="w:1")

    def task(self, part: Part, bench: Bench) -> Task:
        return _compression.task(
            part, bench, "decompressor.bytesOut", lambda: insert_many.InsertManyTask(part, bench)
        )


EXPERIMENT = CompressionInsert()
