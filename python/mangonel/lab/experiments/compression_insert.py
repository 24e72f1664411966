"""insert_many of 50 000 small documents over a compressed wire, with each compressor."""

from __future__ import annotations

from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments import _compression, insert_many


class CompressionInsert(Experiment):
    """The documents of insert-many."""

    id = "compression-insert"
    title = "insert_many of 50 000 over a compressed wire"

    def parts(self, size: Size) -> list[Part]:
        """Each compressor, and none."""
        return _compression.parts(
            "50 000 small documents in one call", insert_many.DOCUMENTS, size.choose(1, 4), "w:1"
        )

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task of insert-many on a client that compresses."""
        return _compression.task(
            part, bench, "decompressor.bytesOut", lambda: insert_many.InsertManyTask(part, bench)
        )


EXPERIMENT = CompressionInsert()
