"""The tasks of the driver benchmarking specification in MB/s, and its composite scores.

A task's megabytes are those of the specification's source files, at the sizes the files have on disk; some that its
text states are stale. The client's bulk writes need MongoDB 8.0: `--set client_bulk_write=1` plays them. The counts
are the specification's own with `--set published=1`; MB/s do not depend on them, but for what a first batch costs.
Spec: benchmarking.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from mangonel.lab.contender import BULK_WRITE, CODEC, SPEC
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments import _spec_parallel, _spec_tasks
from mangonel.lab.experiments.bson import CodecTask

FLAT, DEEP, FULL, TWEET, SMALL, LARGE = 8100, 2284, 6722, 1621, 275, 2_731_089
HELLO = 13
LINES_FILE = 5_650_000
FILE, PHOTO = _spec_tasks.FILE_BYTES, _spec_parallel.PHOTO_BYTES


@dataclass(frozen=True)
class Row:
    """One task: bytes of an operation, and operations in the short form, the full one and the published one."""

    title: str
    bytes_each: int
    counts: tuple[int, int, int]
    unit: str = "operation"
    needs: str = ""
    writes: bool = False


ROWS: dict[str, Row] = {
    "flat-encoding": Row("BSON, flat document, encode", FLAT, (1500, 5000, 10_000), "document"),
    "flat-decoding": Row("BSON, flat document, decode", FLAT, (1500, 5000, 10_000), "document"),
    "deep-encoding": Row("BSON, deep document, encode", DEEP, (1500, 5000, 10_000), "document"),
    "deep-decoding": Row("BSON, deep document, decode", DEEP, (1500, 5000, 10_000), "document"),
    "full-encoding": Row("BSON, full document, encode", FULL, (1000, 5000, 10_000), "document"),
    "full-decoding": Row("BSON, full document, decode", FULL, (1000, 5000, 10_000), "document"),
    "run-command": Row("run a command", HELLO, (250, 1500, 10_000)),
    "find-one-by-id": Row("find one by its id", TWEET, (250, 1500, 10_000)),
    "small-doc-insert-one": Row("insert one small document", SMALL, (250, 1500, 10_000), writes=True),
    "large-doc-insert-one": Row("insert one large document", LARGE, (2, 10, 10), writes=True),
    "find-many": Row("find many and empty the cursor", TWEET, (10_000,) * 3, "document"),
    "small-doc-bulk-insert": Row(
        "insert_many of small documents", SMALL, (2500, 10_000, 10_000), "document", writes=True
    ),
    "large-doc-bulk-insert": Row(
        "insert_many of large documents", LARGE, (2, 10, 10), "document", writes=True
    ),
    "small-doc-bulk-write": Row(
        "bulk_write, inserts of small documents", SMALL, (2500, 10_000, 10_000), "document", BULK_WRITE, True
    ),
    "large-doc-bulk-write": Row(
        "bulk_write, inserts of large documents", LARGE, (2, 10, 10), "document", BULK_WRITE, True
    ),
    # An insert and a replacement bring a document along, the deletion none.
    "small-doc-bulk-write-mixed": Row(
        "bulk_write, insert, replace, delete", 2 * SMALL, (60, 500, 10_000), "three writes", BULK_WRITE, True
    ),
    "small-doc-client-bulk-write": Row(
        "client.bulk_write, small inserts", SMALL, (2500, 10_000, 10_000), "document", BULK_WRITE, True
    ),
    "large-doc-client-bulk-write": Row(
        "client.bulk_write, large inserts", LARGE, (2, 10, 10), "document", BULK_WRITE, True
    ),
    "small-doc-client-bulk-write-mixed": Row(
        "client.bulk_write, insert, replace, delete",
        2 * SMALL,
        (2000, 10_000, 10_000),
        "three writes",
        BULK_WRITE,
        True,
    ),
    "gridfs-upload": Row("store a file of 50 MiB from memory", FILE, (1, 1, 1), "file", writes=True),
    "gridfs-download": Row("read a file of 50 MiB into memory", FILE, (1, 1, 1), "file"),
    "ldjson-import": Row(
        "import files of 5000 lines, in parallel", LINES_FILE, (2, 8, 100), "file", writes=True
    ),
    "ldjson-export": Row("export files of 5000 lines, in parallel", LINES_FILE, (2, 8, 100), "file"),
    "gridfs-multi-upload": Row(
        "store files of 5 MiB from disk, in parallel", PHOTO, (4, 10, 50), "file", writes=True
    ),
    "gridfs-multi-download": Row(
        "write stored files of 5 MiB to disk, in parallel", PHOTO, (4, 10, 50), "file"
    ),
}

BSON = tuple(name for name in ROWS if name.endswith(("coding",)))
SINGLE = ("find-one-by-id", "small-doc-insert-one", "large-doc-insert-one")
PARALLEL = tuple(_spec_parallel.TASKS)
MULTI = tuple(name for name in ROWS if name not in {*BSON, *SINGLE, *PARALLEL, "run-command"})
READS = ("find-one-by-id", "find-many", "gridfs-download", "ldjson-export", "gridfs-multi-download")
WRITES = tuple(name for name, row in ROWS.items() if row.writes)


class Spec(Experiment):
    """25 tasks, of which three need another server than most have."""

    id = "spec"
    title = "the driver benchmarking specification"
    passes = 1
    dataset = "tweets"
    together = False
    brief_s = 15.0
    composites = MappingProxyType(
        {
            "BSONBench": BSON,
            "SingleBench": SINGLE,
            "MultiBench": MULTI,
            "ParallelBench": PARALLEL,
            "ReadBench": READS,
            "WriteBench": WRITES,
            "DriverBench": ("ReadBench", "WriteBench"),
        }
    )

    def parts(self, size: Size) -> list[Part]:
        """All tasks, those of the client's bulk write only where they are asked for.

        The brief form leaves out those of several processes: their processes take longer to start than the rest to run.
        """
        with_client = size.parameters.get("client_bulk_write", 0)
        published = size.parameters.get("published", 0)
        return [
            _part(name, row, row.counts[2] if published else size.choose(*row.counts[:2]), size)
            for name, row in ROWS.items()
            if (with_client or "client" not in name) and not (size.brief and name in PARALLEL)
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task of that name."""
        if part.id in BSON:
            return CodecTask(bench, part, *_shape(part.id))
        if part.id in PARALLEL:
            return _spec_parallel.TASKS[part.id](part, bench)
        return _spec_tasks.TASKS[part.id](part, bench)

    def stand_in(self, part: str, contender: str) -> str:
        """The codec of this driver is a contender by itself, since it has two; that of the others is PyMongo's."""
        if part not in BSON:
            return contender
        return "mangonel-bson" if contender.startswith("mangonel") else "pymongo"


def _part(name: str, row: Row, operations: int, size: Size) -> Part:
    is_codec = name in BSON
    return Part(
        name,
        row.title,
        frozenset({CODEC} if is_codec else {SPEC, row.needs} - {""}),
        operations,
        1 if size.quick and not is_codec else 2,
        unit=row.unit,
        write_concern="w:1" if row.writes else "",
        judge="client" if is_codec else "wall",
        server=not is_codec,
        bytes_each=row.bytes_each,
    )


def _shape(name: str) -> tuple[str, str]:
    """Return direction and shape of a codec task."""
    shape, _, direction = name.partition("-")
    return direction.replace("coding", "code"), shape


EXPERIMENT = Spec()
