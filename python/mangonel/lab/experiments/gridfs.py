"""Files of 50 MiB: reading and storing one, on this machine and over a line of 5 ms, one connection and several.

Spec tasks GridFSUpload and GridFSDownload, with a line of some milliseconds as well. The file that is read was stored
before by PyMongo, the same for all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from typing import Any

from mangonel.engines.delay import Delay
from mangonel.lab.contenders import _wire
from mangonel.lab.contenders._faces import play
from mangonel.lab.contenders._players import open_player
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled

DELAY_MS = 2.5  # each way; with what is left of the machine's own a round trip is about 5.4 ms
CONNECTIONS = 4
BUCKET, FILE_ID = "fs", "lab"


def content(size: int) -> bytes:
    """Return the file's bytes: such as no compression makes smaller, and the same in every run."""
    return random.Random(1721).randbytes(size)


class FileTask(Task):
    """What reading and storing share: the contender's player, behind a delay where the part asks for one."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._part = part
        self._data = content(EXPERIMENT.figures(bench.size)["mebibytes"] * 2**20)
        self._digest = digest(hashlib.sha256(self._data).hexdigest())
        self._delay: Delay | None = None
        target = bench.target
        if part.id.endswith("-delayed"):
            self._delay = Delay(_wire.address(target.uri)[1], DELAY_MS)
            nearby = f"mongodb://127.0.0.1:{self._delay.port}/?directConnection=true"
            target = dataclasses.replace(target, uri=nearby)
        bench.close_adapter()
        name = bench.contender.copy_of or bench.contender.id
        self._player: Any = play(bench, open_player(name, target, BUCKET))
        bench.adapter = self

    def warm_up(self) -> None:
        for _ in range(2):
            self.arrange()
            self.act()

    def close(self) -> Any:
        """Close the player and the delay: the bench takes this task for its adapter."""
        try:
            self._bench.run(self._player.close())
        finally:
            if self._delay is not None:
                self._delay.close()


class ReadTask(FileTask):
    """A sample is one reading of the whole file into memory."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._found: Any = b""
        self._ensure_file()

    def verify(self) -> str:
        """Read once and compare; of a floor, only that it drained so much."""
        self.act()
        if "floor" in self._bench.contender.offers:
            if int.from_bytes(self._found, "little") < len(self._data):
                raise AssertionError(f"expected more than {len(self._data)} bytes of replies")
        elif self._found != self._data:
            raise AssertionError("expected the file's bytes, got others")
        return self._digest

    def arrange(self) -> None:
        """Let the last result go, untimed: freeing it is not reading."""
        self._found = b""

    def act(self) -> int:
        if self._part.id.startswith("download-shared"):
            reading = self._player.download_over(FILE_ID, CONNECTIONS)
        else:
            reading = self._player.download(FILE_ID)
        if self._bench.is_async:
            self._bench.run(self._keep(reading))
        else:
            self._found = reading
        return 1

    async def _keep(self, reading: Any) -> None:
        # Not as the result of the runner's task: `asyncio.Runner` makes a repr of that at its end.
        self._found = await reading

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
    """A sample is one upload of the whole file from memory."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._stored: list[Any] = []

    def verify(self) -> str:
        self.act()
        if self._bench.run(self._player.download(self._stored[-1])) != self._data:
            raise AssertionError("expected the stored bytes, got others")
        return self._digest

    def arrange(self) -> None:
        while self._stored:
            self._bench.run(self._player.remove(self._stored.pop()))

    def act(self) -> int:
        self._stored.append(self._bench.run(self._player.upload(self._data)))
        return 1

    def close(self) -> Any:
        self.arrange()
        return super().close()


EXPERIMENT = Tabled("gridfs", {"upload": StoreTask, "": ReadTask})
