"""The parallel tasks of the driver benchmarking specification: many files, as many processes as there are cores.

The processes are started, and connected, before the clock runs; what is written is on the disk when it stops.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from dataclasses import asdict
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contenders._spec import CHUNK
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part
from mangonel.lab.experiments._spec_tasks import SpecTask, content
from mangonel.lab.protocol import Child

HELPER = "mangonel.lab.contenders._spec_helper"
PATIENCE = 300.0
PHOTO_BYTES = 5 * 1024 * 1024


_helpers: list[Child] = []


def helpers(bench: Bench) -> list[Child]:
    """Return the processes of this worker, started and connected when the first task asks."""
    if _helpers:
        return _helpers
    order = {
        "contender": bench.contender.copy_of or bench.contender.id,
        "target": asdict(bench.target),
        "is_async": bench.is_async,
    }
    atexit.register(_finish)
    _helpers.extend(Child(HELPER) for _ in range(max(2, os.cpu_count() or 2)))
    for helper in _helpers:
        helper.tell(order)
    for helper in _helpers:
        helper.hear(PATIENCE)
    return _helpers


def _finish() -> None:
    for helper in _helpers:
        helper.dismiss()
    for helper in _helpers:
        helper.finish()


class ParallelTask(SpecTask):
    """What they share: a folder, the processes, and which file goes to whom."""

    verb = ""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self.folder = tempfile.mkdtemp(prefix="mangonel-lab-spec-")
        self._cpu_ns = 0
        try:
            self._helpers = helpers(bench)
            self.set_up()
        except BaseException:
            self.close()
            raise

    def set_up(self) -> None:
        """Make what is read."""

    def items(self) -> list[list[Any]]:
        """Return for each file the arguments of the verb."""
        raise NotImplementedError

    def act(self) -> int:
        """Give every process its share of the files, and wait for all."""
        items = self.items()
        for place, helper in enumerate(self._helpers):
            helper.tell({"verb": self.verb, "items": items[place :: len(self._helpers)]})
        self._cpu_ns = sum(helper.hear(PATIENCE)["cpu_ns"] for helper in self._helpers)
        return len(items)

    def extras(self) -> dict[str, float]:
        """Check the sample just taken, and return what the processes spent on it: they live on unmetered."""
        self.check()
        return {"cpu_ns": float(self._cpu_ns)}

    def close(self) -> None:
        """Remove the folder; the processes stay for the next task."""
        shutil.rmtree(self.folder, ignore_errors=True)
        super().close()


class LinesTask(ParallelTask):
    """Files of 5000 lines, each of the same shape and length."""

    def path(self, number: int) -> str:
        """Return where a file lies."""
        return os.path.join(self.folder, f"lines-{number:03d}.txt")


class Import(LinesTask):
    """Insert the lines of all files."""

    verb = "import_file"

    def set_up(self) -> None:
        """Write the files."""
        line = json.dumps(documents.message(), separators=(",", ":")) + "\n"
        for number in range(self.part.operations):
            with open(self.path(number), "w", encoding="utf-8") as file:
                file.write(line * CHUNK)

    def items(self) -> list[list[Any]]:
        """Return the files."""
        return [[self.path(number)] for number in range(self.part.operations)]

    def arrange(self) -> None:
        """Make the collection anew."""
        self.call("create")

    def check(self) -> str:
        """Count the documents."""
        self.expect("documents", self.call("count"), CHUNK * self.part.operations)
        return digest(documents.message())


class Export(LinesTask):
    """Write the collection into files, by ranges of its ids: those have an index in every collection."""

    verb = "export_file"

    def set_up(self) -> None:
        """Store the documents, unless they are there."""
        self.call("fill_lines", documents.message(), CHUNK * self.part.operations)

    def items(self) -> list[list[Any]]:
        """Return ranges and files."""
        return [[number * CHUNK, CHUNK, self.path(number)] for number in range(self.part.operations)]

    def arrange(self) -> None:
        """Remove the files."""
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))

    def check(self) -> str:
        """Compare the first line of every file, and count the others."""
        for number in range(self.part.operations):
            with open(self.path(number), encoding="utf-8") as file:
                lines = file.readlines()
            self.expect("lines", len(lines), CHUNK)
            self.expect("line", json.loads(lines[0]), {"_id": number * CHUNK, **documents.message()})
        return digest(documents.message())


class PhotosTask(ParallelTask):
    """Files of 5 MiB that do not compress."""

    def path(self, number: int) -> str:
        """Return where a file lies."""
        return os.path.join(self.folder, f"photo-{number:03d}.bin")

    def photo(self) -> bytes:
        """Return what is in each of them."""
        return content(PHOTO_BYTES)

    def write_photos(self) -> None:
        """Write the files that are stored."""
        data = self.photo()
        for number in range(self.part.operations):
            with open(self.path(number), "wb") as file:
                file.write(data)


class UploadMany(PhotosTask):
    """Store all files."""

    verb = "upload_file"

    def set_up(self) -> None:
        """Write the files."""
        self.write_photos()

    def items(self) -> list[list[Any]]:
        """Return the files."""
        return [[self.path(number)] for number in range(self.part.operations)]

    def arrange(self) -> None:
        """Empty the bucket."""
        self.call("empty_bucket")

    def check(self) -> str:
        """Compare the lengths of all files, and the bytes of one."""
        stored = self.call("stored")
        self.expect("lengths", [length for _, length in stored], [PHOTO_BYTES] * self.part.operations)
        found = self.call("download", stored[-1][0])
        self.expect("bytes", digest(found), digest(self.photo()))
        return digest(found)


class DownloadMany(PhotosTask):
    """Write all stored files to the disk."""

    verb = "download_file"

    def set_up(self) -> None:
        """Store the files, untimed."""
        self.write_photos()
        self.call("empty_bucket")
        for number in range(self.part.operations):
            self.call("upload_file", self.path(number))

    def items(self) -> list[list[Any]]:
        """Return ids and files."""
        paths = [self.path(number) for number in range(self.part.operations)]
        return [[os.path.basename(path), path] for path in paths]

    def arrange(self) -> None:
        """Remove the files."""
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))

    def check(self) -> str:
        """Compare the bytes of every file."""
        data = self.photo()
        for number in range(self.part.operations):
            with open(self.path(number), "rb") as file:
                if file.read() != data:
                    raise AssertionError(f"expected the stored bytes in {self.path(number)}, got others")
        return digest(data)


TASKS: dict[str, type[ParallelTask]] = {
    "ldjson-import": Import,
    "ldjson-export": Export,
    "gridfs-multi-upload": UploadMany,
    "gridfs-multi-download": DownloadMany,
}
