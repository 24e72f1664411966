"""Files of 50 MiB: reading and storing one, locally and with a latency of 5 ms, over one connection and several.

The specification's tasks GridFSUpload and GridFSDownload, and the same with some milliseconds of latency. PyMongo
stored the file to read, the same for all.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mangonel.engines.delay import Delay
from mangonel.lab.contenders import _wire
from mangonel.lab.digest import digest, digest_bytes
from mangonel.lab.experiment import Bench, Part, expect
from mangonel.lab.experiments._parts import SpecTask, Tabled, content

DELAY_MS = 2.5  # each way; a round trip is about 5.4 ms, the machine's own time included
CONNECTIONS = 4
BUCKET, FILE_ID = "fs", "lab"


class FileTask(SpecTask):
    """The common base of reading and storing: the contender's player, with a delay if the part has one."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._data = content(EXPERIMENT.figures(bench.size)["mebibytes"] * 2**20)
        self._delay: Delay | None = None
        target = bench.target
        if part.id.endswith("-delayed"):
            self._delay = Delay(_wire.address(target.uri)[1], DELAY_MS)
            nearby = f"mongodb://127.0.0.1:{self._delay.port}/?directConnection=true"
            target = dataclasses.replace(target, uri=nearby)
        super().__init__(part, bench, target, BUCKET)

    def warm_up(self) -> None:
        for _ in range(2):
            self.arrange()
            self.act()

    def extras(self) -> dict[str, float]:
        """Return nothing: the file is checked only once, since that takes as long as the sample."""
        return {}

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._delay is not None:
                self._delay.close()


class ReadTask(FileTask):
    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._ensure_file()

    def check(self) -> str:
        """Compare the file; for a lower bound, only its length."""
        if "floor" in self._bench.contender.offers:
            if int.from_bytes(self._result, "little") < len(self._data):
                raise AssertionError(f"expected more than {len(self._data)} bytes of replies")
        else:
            expect("bytes", digest_bytes(self._result), digest_bytes(self._data))
        return digest(len(self._data))

    def arrange(self) -> None:
        """Release the last result, untimed: freeing it is not part of reading."""
        self._result = b""

    def act(self) -> int:
        if self.part.id.startswith("download-shared"):
            self.keep("download_over", FILE_ID, CONNECTIONS)
        else:
            self.keep("download", FILE_ID)
        return 1

    def _ensure_file(self) -> None:
        import pymongo

        import gridfs

        with pymongo.MongoClient[Any](self._bench.target.uri) as client:
            database = client[self._bench.target.database]
            bucket = gridfs.GridFSBucket(database, BUCKET)
            known = database[BUCKET]["files"].find_one(FILE_ID)
            if known is None or known["length"] != len(self._data):
                if known is not None:
                    bucket.delete(FILE_ID)
                bucket.upload_from_stream_with_id(FILE_ID, "lab", self._data)


class StoreTask(FileTask):
    def __init__(self, part: Part, bench: Bench) -> None:
        self._stored: list[Any] = []
        super().__init__(part, bench)

    def check(self) -> str:
        expect("bytes", digest_bytes(self.call("download", self._stored[-1])), digest_bytes(self._data))
        return digest(len(self._data))

    def arrange(self) -> None:
        while self._stored:
            self.call("remove", self._stored.pop())

    def act(self) -> int:
        self._stored.append(self.call("upload", self._data))
        return 1

    def close(self) -> None:
        self.arrange()
        super().close()


EXPERIMENT = Tabled("gridfs", {"upload": StoreTask, "": ReadTask})
