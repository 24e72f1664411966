"""The parallel tasks of the driver benchmarking specification: many files, one process for each core.

The processes are started and connected before the clock runs; written data is on disk when it stops.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contenders._players import CHUNK
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, expect
from mangonel.lab.experiments._parts import SpecTask, content
from mangonel.lab.protocol import Child

HELPER = "mangonel.lab.contenders._players"
TIMEOUT = 300.0
PHOTO_BYTES = 5 * 1024 * 1024


class Helpers:
    """The helper processes of a worker, started and connected; they exit with its bench."""

    def __init__(self, bench: Bench) -> None:
        name, target = bench.name, asdict(bench.target)
        self.each = [Child(HELPER) for _ in range(max(2, os.cpu_count() or 2))]
        for helper in self.each:
            helper.tell({"contender": name, "target": target})
        for helper in self.each:
            helper.hear(TIMEOUT)

    def close(self) -> None:
        for helper in self.each:
            helper.channel.close()
        for helper in self.each:
            helper.finish()


class ParallelTask(SpecTask):
    """The common base: a folder of files, the processes, and the assignment of files to them."""

    verb = ""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        folder = Path(tempfile.mkdtemp(prefix="mangonel-lab-spec-"))
        self._folder = folder
        self.paths = [folder / f"file-{number:03d}" for number in range(part.operations)]
        self._cpu_ns = 0
        try:
            if "helpers" not in bench.kept:
                bench.kept["helpers"] = Helpers(bench)
            self._helpers = bench.kept["helpers"].each
            self.set_up()
        except BaseException:
            self.close()
            raise

    def set_up(self) -> None:
        """Make the data to read."""

    def items(self) -> list[list[Any]]:
        """Return the method's arguments for each file."""
        return [[str(path)] for path in self.paths]

    def arrange(self) -> None:
        """Remove the files of the previous sample."""
        for path in self.paths:
            path.unlink(missing_ok=True)

    def act(self) -> int:
        items = self.items()
        for place, helper in enumerate(self._helpers):
            helper.tell({"verb": self.verb, "items": items[place :: len(self._helpers)]})
        self._cpu_ns = sum(helper.hear(TIMEOUT)["cpu_ns"] for helper in self._helpers)
        return len(items)

    def extras(self) -> dict[str, float]:
        """Check the last sample, and return the processes' CPU time, which the worker's own does not include."""
        self.check()
        return {"cpu_ns": float(self._cpu_ns)}

    def close(self) -> None:
        """Remove the folder; the processes stay for the next task."""
        shutil.rmtree(self._folder, ignore_errors=True)
        super().close()


class Import(ParallelTask):
    """Insert files of 5000 JSON lines, all of the same form and length."""

    verb = "import_file"

    def set_up(self) -> None:
        line = json.dumps(documents.message(), separators=(",", ":")) + "\n"
        for path in self.paths:
            path.write_text(line * CHUNK)

    def arrange(self) -> None:
        self.call("create")

    def check(self) -> str:
        expect("documents", self.call("count"), CHUNK * len(self.paths))
        return digest(documents.message())


class Export(ParallelTask):
    """Write the collection into files by ranges of a number that every collection has an index on."""

    verb = "export_file"

    def set_up(self) -> None:
        self.call("fill_lines", documents.message(), CHUNK * len(self.paths))

    def items(self) -> list[list[Any]]:
        return [[number * CHUNK, CHUNK, str(path)] for number, path in enumerate(self.paths)]

    def check(self) -> str:
        for number, path in enumerate(self.paths):
            lines = path.read_text().splitlines()
            expect("lines", len(lines), CHUNK)
            expect("line", json.loads(lines[0]), {"_id": number * CHUNK, **documents.message()})
        return digest(documents.message())


class UploadMany(ParallelTask):
    verb = "upload_file"

    def set_up(self) -> None:
        for path in self.paths:
            path.write_bytes(content(PHOTO_BYTES))

    def arrange(self) -> None:
        self.call("empty_bucket")

    def check(self) -> str:
        stored = self.call("stored")
        expect("lengths", [length for _, length in stored], [PHOTO_BYTES] * len(self.paths))
        found = self.call("download", stored[-1][0])
        expect("bytes", digest(found), digest(content(PHOTO_BYTES)))
        return digest(found)


class DownloadMany(ParallelTask):
    verb = "download_file"

    def set_up(self) -> None:
        self.call("empty_bucket")
        for path in self.paths:
            path.write_bytes(content(PHOTO_BYTES))
            self.call("upload_file", str(path))

    def items(self) -> list[list[Any]]:
        return [[path.name, str(path)] for path in self.paths]

    def check(self) -> str:
        for path in self.paths:
            expect(f"in {path}", digest(path.read_bytes()), digest(content(PHOTO_BYTES)))
        return digest(content(PHOTO_BYTES))


TASKS: dict[str, type[ParallelTask]] = {
    "ldjson-import": Import,
    "ldjson-export": Export,
    "gridfs-multi-upload": UploadMany,
    "gridfs-multi-download": DownloadMany,
}
