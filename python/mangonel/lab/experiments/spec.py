"""The tasks of the driver benchmarking specification in MB/s, and its composite scores.

A task's megabytes are those of the specification's source files, at the sizes the files have on disk; some that its
text states are stale. The client's bulk writes need MongoDB 8.0: `--set client_bulk_write=1` plays them. The counts
are the specification's own with `--set published=1`; MB/s do not depend on them, but for what a first batch costs.
Spec: benchmarking.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mangonel.lab.contender import BULK_WRITE, CODEC, SPEC
from mangonel.lab.experiment import Bench, Part, Size, Task
from mangonel.lab.experiments import _spec_parallel, _spec_tasks
from mangonel.lab.experiments._parts import TABLES, Tabled
from mangonel.lab.experiments.bson import CodecTask


class Row(NamedTuple):
    """One task: what it is, an operation's bytes and unit; how many in the short form, the full one, as published."""

    title: str
    bytes_each: int
    unit: str
    counts: list[int]

    @property
    def writes(self) -> bool:
        return self.title.startswith(("insert", "bulk_write", "client.bulk", "store", "import"))


ROWS = {name: Row(*row) for name, *row in TABLES["spec"]["tasks"]}
COMPOSITES: dict[str, list[str]] = TABLES["spec"]["composites"]
BSON, SINGLE, MULTI, PARALLEL, READS, WRITES, _ = COMPOSITES.values()


class Spec(Tabled):
    """25 tasks, of which three need another server than most have."""

    def parts(self, size: Size) -> list[Part]:
        figures, made = self.figures(size), []
        for name, row in ROWS.items():
            if ("client" in name and not figures["client_bulk_write"]) or (size.brief and name in PARALLEL):
                continue
            is_codec = name in BSON
            needs = {CODEC} if is_codec else {SPEC, BULK_WRITE} if "bulk-write" in name else {SPEC}
            count = row.counts[2] if figures["published"] else size.choose(*row.counts[:2])
            own: dict[str, Any] = {"judge": "client" if is_codec else "wall", "server": not is_codec}
            own |= {
                "unit": row.unit,
                "write_concern": "w:1" if row.writes else "",
                "bytes_each": row.bytes_each,
            }
            samples = 1 if size.quick and not is_codec else 2
            made.append(Part(name, row.title, frozenset(needs), count, samples, **own))
        return made

    def stand_in(self, part: str, contender: str) -> str:
        """The codec of this driver is a contender by itself, since it has two; that of the others is PyMongo's."""
        if part not in BSON:
            return contender
        return "mangonel-bson" if contender.startswith("mangonel") else "pymongo"


def _task(part: Part, bench: Bench) -> Task:
    if part.id in BSON:
        shape, _, direction = part.id.partition("-")
        return CodecTask(part, bench, direction.replace("coding", "code"), shape)
    tasks = {**_spec_tasks.TASKS, **_spec_parallel.TASKS}
    return tasks.get(part.id, _spec_tasks.WriteTask)(part, bench)


EXPERIMENT = Spec("spec", _task)
