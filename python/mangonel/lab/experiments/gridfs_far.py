"""GridFS from a server that is 1, 5 or 30 ms away: files of three sizes, read by id and by name, and stored.

A proxy delays every byte. PyMongo stores the files to read and reads back the stored ones, without the delay.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from mangonel.engines.delay import Delay
from mangonel.lab.contenders import _wire
from mangonel.lab.digest import digest_bytes
from mangonel.lab.experiment import Bench, Part, expect
from mangonel.lab.experiments._parts import SpecTask, Tabled, content

BUCKET, STORED = "far", "stored"
SIZES = {"1k": 2**10, "1m": 2**20, "50m": 50 * 2**20}


class FarTask(SpecTask):
    """The common base of reading and storing; one sample is `operations` files, one after another."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._verb, self._size, distance = part.id.rsplit("-", 2)
        self._data = content(SIZES[self._size])
        with _bucket(bench) as bucket:
            _ensure_file(bucket, self._size, self._data)
        self._delay = Delay(_wire.address(bench.target.uri)[1], float(distance.removesuffix("ms")) / 2)
        far = f"mongodb://127.0.0.1:{self._delay.port}/?directConnection=true"
        try:
            super().__init__(part, bench, dataclasses.replace(bench.target, uri=far), BUCKET)
        except BaseException:
            self._delay.close()
            raise

    def warm_up(self) -> None:
        """Repeat the work until connections are open and the round trip is known."""
        for _ in range(3):
            self.arrange()
            self.act()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._delay.close()


class ReadTask(FarTask):
    def arrange(self) -> None:
        """Release the last results, untimed: freeing them is not part of reading."""
        self._result = []

    def act(self) -> int:
        self.keep(f"read_{self._verb.replace('-', '_')}", self._size, self.part.operations)
        return self.part.operations

    def check(self) -> str:
        expect("files", len(self._result), self.part.operations)
        for found in self._result:
            _compare(self._player.content(found), self._data)
        return digest_bytes(self._data)


class StoreTask(FarTask):
    def arrange(self) -> None:
        """Remove the last files, and let a lower bound encode its messages; untimed."""
        self._remove()
        if hasattr(self._player, "arrange_uploads"):
            self._player.arrange_uploads(STORED, self._data, self.part.operations)

    def act(self) -> int:
        self._result = self.call("upload_each", STORED, self._data, self.part.operations)
        return self.part.operations

    def check(self) -> str:
        expect("files", len(self._result), self.part.operations)
        with _bucket(self._bench) as bucket:
            for file_id in self._result:
                _compare(bucket.open_download_stream(file_id).read(), self._data)
        return digest_bytes(self._data)

    def close(self) -> None:
        self._remove()
        super().close()

    def _remove(self) -> None:
        if self._result:
            with _bucket(self._bench) as bucket:
                for file_id in self._result:
                    bucket.delete(file_id)
        self._result = []


def _compare(found: bytes, expected: bytes) -> None:
    if found != expected:
        raise AssertionError(
            f"expected {len(expected)} bytes with the digest {digest_bytes(expected)}, got {len(found)} with "
            f"{digest_bytes(found)}"
        )


@contextlib.contextmanager
def _bucket(bench: Bench) -> Iterator[Any]:
    """Open the bucket without the delay."""
    import pymongo

    import gridfs

    with pymongo.MongoClient[Any](bench.target.uri, w=1) as client:
        yield gridfs.GridFSBucket(client[bench.target.database], BUCKET)


def _ensure_file(bucket: Any, name: str, data: bytes) -> None:
    """Store the file to read, with its name as its id, unless an earlier contender has stored it."""
    if not bucket.find({"_id": name}).to_list():
        bucket.upload_from_stream_with_id(name, name, data)


EXPERIMENT = Tabled("gridfs-far", {"upload": StoreTask, "": ReadTask})
