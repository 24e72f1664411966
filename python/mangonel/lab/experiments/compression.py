"""Reading 100 000 small documents in large batches over a compressed wire, with each compressor."""

from __future__ import annotations

from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments import _compression, find_many


class Compression(Experiment):
    """The documents of find-many, in batches of 5000."""

    id = "compression"
    title = "reading 100 000 small documents over a compressed wire"
    at_once = 1
    dataset = "users"
    brief_dataset = "few-users"

    def parts(self, size: Size) -> list[Part]:
        return _compression.parts(size, "batches of 5000", find_many.COUNTS)

    def task(self, part: Part, bench: Bench) -> Task:
        batching = find_many.BATCHINGS["batch"]
        return _compression.task(
            part, bench, "compressor.bytesIn", lambda: find_many.IterateTask(part, bench, batching)
        )


EXPERIMENT = Compression()
