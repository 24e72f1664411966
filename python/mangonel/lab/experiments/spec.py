"""The tasks of the driver benchmarking specification in MB/s, and its composite scores.

A task's megabytes are those of the specification's source files, at the sizes the files have on disk; some that its
text states are stale. The client's bulk writes need MongoDB 8.0: `--set client_bulk_write=1` plays them. The counts
are the specification's own with `--set published=1`; MB/s do not depend on them, but for what a first batch costs.
Spec: benchmarking.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

from mangonel.lab.contender import BULK_WRITE, CODEC, SPEC
from mangonel.lab.experiment import Bench, Part, Size, Task
from mangonel.lab.experiments import _spec_parallel, _spec_tasks
from mangonel.lab.experiments._parts import Table, Tabled
from mangonel.lab.experiments.bson import CodecTask

FLAT, DEEP, FULL, TWEET, SMALL, LARGE = 8100, 2284, 6722, 1621, 275, 2_731_089
HELLO = 13
LINES_FILE = 5_650_000
FILE, PHOTO = _spec_tasks.FILE_BYTES, _spec_parallel.PHOTO_BYTES
# Operations in the short form, in the full one and as published.
CODING, FULL_CODING = (1500, 5000, 10_000), (1000, 5000, 10_000)
SINGLE_COUNTS, BULK, LARGE_COUNTS = (250, 1500, 10_000), (2500, 10_000, 10_000), (2, 10, 10)


class Row(NamedTuple):
    """One task: what it is, bytes of an operation, how many operations, and of what."""

    title: str
    bytes_each: int
    counts: tuple[int, int, int]
    unit: str = "document"

    @property
    def writes(self) -> bool:
        """Return whether it states a write concern."""
        return self.title.startswith(("insert", "bulk_write", "client.bulk", "store", "import"))


ROWS: dict[str, Row] = {
    "flat-encoding": Row("BSON, flat document, encode", FLAT, CODING),
    "flat-decoding": Row("BSON, flat document, decode", FLAT, CODING),
    "deep-encoding": Row("BSON, deep document, encode", DEEP, CODING),
    "deep-decoding": Row("BSON, deep document, decode", DEEP, CODING),
    "full-encoding": Row("BSON, full document, encode", FULL, FULL_CODING),
    "full-decoding": Row("BSON, full document, decode", FULL, FULL_CODING),
    "run-command": Row("run a command", HELLO, SINGLE_COUNTS, "operation"),
    "find-one-by-id": Row("find one by its id", TWEET, SINGLE_COUNTS, "operation"),
    "small-doc-insert-one": Row("insert one small document", SMALL, SINGLE_COUNTS, "operation"),
    "large-doc-insert-one": Row("insert one large document", LARGE, LARGE_COUNTS, "operation"),
    "find-many": Row("find many and empty the cursor", TWEET, (10_000,) * 3),
    "small-doc-bulk-insert": Row("insert_many of small documents", SMALL, BULK),
    "large-doc-bulk-insert": Row("insert_many of large documents", LARGE, LARGE_COUNTS),
    "small-doc-bulk-write": Row("bulk_write, inserts of small documents", SMALL, BULK),
    "large-doc-bulk-write": Row("bulk_write, inserts of large documents", LARGE, LARGE_COUNTS),
    # An insert and a replacement bring a document along, the deletion none.
    "small-doc-bulk-write-mixed": Row(
        "bulk_write, insert, replace, delete", 2 * SMALL, (60, 500, 10_000), "three writes"
    ),
    "small-doc-client-bulk-write": Row("client.bulk_write, small inserts", SMALL, BULK),
    "large-doc-client-bulk-write": Row("client.bulk_write, large inserts", LARGE, LARGE_COUNTS),
    "small-doc-client-bulk-write-mixed": Row(
        "client.bulk_write, insert, replace, delete", 2 * SMALL, (2000, 10_000, 10_000), "three writes"
    ),
    "gridfs-upload": Row("store a file of 50 MiB from memory", FILE, (1, 1, 1), "file"),
    "gridfs-download": Row("read a file of 50 MiB into memory", FILE, (1, 1, 1), "file"),
    "ldjson-import": Row("import files of 5000 lines, in parallel", LINES_FILE, (2, 8, 100), "file"),
    "ldjson-export": Row("export files of 5000 lines, in parallel", LINES_FILE, (2, 8, 100), "file"),
    "gridfs-multi-upload": Row("store files of 5 MiB from disk, in parallel", PHOTO, (4, 10, 50), "file"),
    "gridfs-multi-download": Row(
        "write stored files of 5 MiB to disk, in parallel", PHOTO, (4, 10, 50), "file"
    ),
}

BSON = tuple(name for name in ROWS if name.endswith("coding"))
SINGLE = ("find-one-by-id", "small-doc-insert-one", "large-doc-insert-one")
PARALLEL = tuple(_spec_parallel.TASKS)
MULTI = tuple(name for name in ROWS if name not in {*BSON, *SINGLE, *PARALLEL, "run-command"})
READS = ("find-one-by-id", "find-many", "gridfs-download", "ldjson-export", "gridfs-multi-download")
WRITES = tuple(name for name, row in ROWS.items() if row.writes)


class Spec(Tabled):
    """25 tasks, of which three need another server than most have."""

    def stand_in(self, part: str, contender: str) -> str:
        """The codec of this driver is a contender by itself, since it has two; that of the others is PyMongo's."""
        if part not in BSON:
            return contender
        return "mangonel-bson" if contender.startswith("mangonel") else "pymongo"


def _table(size: Size) -> Table:
    """All tasks, those of the client's bulk write only where they are asked for.

    The brief form leaves out those of several processes: their processes take longer to start than the rest to run.
    """
    with_client, published = (size.parameters.get(name, 0) for name in ("client_bulk_write", "published"))
    for name, row in ROWS.items():
        if ("client" in name and not with_client) or (size.brief and name in PARALLEL):
            continue
        is_codec = name in BSON
        needs = (CODEC,) if is_codec else (SPEC, BULK_WRITE) if "bulk-write" in name else (SPEC,)
        count = row.counts[2] if published else size.choose(*row.counts[:2])
        own: dict[str, Any] = {"judge": "client" if is_codec else "wall", "server": not is_codec}
        own |= {"unit": row.unit, "write_concern": "w:1" if row.writes else "", "bytes_each": row.bytes_each}
        yield name, row.title, needs, count, 1 if size.quick and not is_codec else 2, own


def _task(part: Part, bench: Bench) -> Task:
    if part.id in BSON:
        shape, _, direction = part.id.partition("-")
        return CodecTask(part, bench, direction.replace("coding", "code"), shape)
    tasks = {**_spec_tasks.TASKS, **_spec_parallel.TASKS}
    return tasks.get(part.id, _spec_tasks.WriteTask)(part, bench)


COMPOSITES = {
    "BSONBench": BSON,
    "SingleBench": SINGLE,
    "MultiBench": MULTI,
    "ParallelBench": PARALLEL,
    "ReadBench": READS,
    "WriteBench": WRITES,
    "DriverBench": ("ReadBench", "WriteBench"),
}
EXPERIMENT = Spec(
    "spec",
    "the driver benchmarking specification",
    _task,
    _table,
    passes=1,
    dataset="tweets",
    together=False,
    brief_s=15.0,
    composites=MappingProxyType(COMPOSITES),
)
