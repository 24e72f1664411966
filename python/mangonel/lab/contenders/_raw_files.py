"""The lower bound of GridFS: sockets that send the requests for a file and receive the replies undecoded.

It takes the fewest dependent round trips that give the same answer on servers before 8.0:

- A read by id or name takes one for a file of at most `FIRST` chunks: one aggregate finds the document and joins its
  first chunks. The document holds the length, so a longer file takes one more: all other ranges are requested together.
- An upload takes two: all chunks are sent together, but the file's document only after the server has confirmed them,
  since readers must not see a file whose chunks are missing. Indexes are not checked.

Spec: gridfs.
"""

from __future__ import annotations

import datetime
import itertools
import mmap
from collections.abc import Mapping
from typing import Any, TypeAlias

from mangonel.lab.contender import Target
from mangonel.lab.contenders import _wire

FIRST = 6  # a file of 1 MiB has five chunks of the default size
CHUNK = 255 * 1024
RANGE = 16  # chunks in one message: about 4 MiB, so the server reads or stores one range while another is on its way
LINES = 4  # connections of an upload
ROOM = 64 * 2**20

# The replies to the requests for one file.
Replies: TypeAlias = list[memoryview]


class RawFiles:
    """One bucket's files. The replies of a call's reads stay in a buffer until the next call."""

    def __init__(self, target: Target, bucket: str) -> None:
        self._files, self._chunks = f"{bucket}.files", f"{bucket}.chunks"
        self._lines = [Line(target) for _ in range(LINES)]
        self._ready: list[tuple[Any, list[bytearray], bytearray]] = []

    def read_by_id(self, file_id: Any, times: int) -> list[Replies]:
        return self._read({"_id": file_id}, file_id, times)

    def read_by_name(self, name: str, times: int) -> list[Replies]:
        """Read the newest file of a name; its `_id` is the name too."""
        return self._read({"filename": name}, name, times)

    def content(self, replies: Replies) -> bytes:
        """Return the bytes of a file that was read; untimed."""
        found: list[Mapping[str, Any]] = []
        for document in itertools.chain.from_iterable(map(self._lines[0].commands.documents, replies)):
            found += document.get("chunks", [document] if "data" in document else [])
        return b"".join(chunk["data"] for chunk in found)

    def arrange_uploads(self, name: str, data: bytes, times: int) -> None:
        """Encode the messages of the next uploads, untimed: the lower bound only sends and receives."""
        self._ready = [self._messages(name, data) for _ in range(times)]

    def upload_each(self, name: str, data: bytes, times: int) -> list[Any]:
        """Store the file that `arrange_uploads` encoded, `times` times; return the ids."""
        stored = []
        for file_id, inserts, file in self._ready:
            used = self._lines[: len(inserts)]
            for line, insert in zip(itertools.cycle(used), inserts, strict=False):
                line.send(insert)
            for number, line in enumerate(used):
                line.receive(len(inserts[number :: len(used)]))
            used[0].send(file)
            used[0].receive(1)
            stored.append(file_id)
        return stored

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def _read(self, wanted: dict[str, Any], file_id: Any, times: int) -> list[Replies]:
        line, found = self._lines[0], []
        opening = line.commands.aggregate(self._joined(wanted), self._files)
        line.clear()
        for _ in range(times):
            line.send(opening)
            replies = line.receive(1)
            rest = range(FIRST, -(-_length(replies[0]) // CHUNK), RANGE)
            if rest:
                line.send(b"".join(self._range(file_id, start) for start in rest))
                replies += line.receive(len(rest))
            found.append(replies)
        return found

    def _joined(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        chunks = [
            {"$match": {"$expr": {"$eq": ["$files_id", "$$id"]}}},
            {"$sort": {"n": 1}},
            {"$limit": FIRST},
        ]
        return [
            {"$match": wanted},
            {"$sort": {"uploadDate": -1}},
            {"$limit": 1},
            {"$lookup": {"from": self._chunks, "let": {"id": "$_id"}, "pipeline": chunks, "as": "chunks"}},
        ]

    def _range(self, file_id: Any, start: int) -> bytearray:
        wanted = {"files_id": file_id, "n": {"$gte": start}}
        options = {"filter": wanted, "sort": {"n": 1}, "limit": RANGE, "singleBatch": True}
        return self._lines[0].commands.find(options, self._chunks)

    def _messages(self, name: str, data: bytes) -> tuple[Any, list[bytearray], bytearray]:
        """Return a new file's id, the inserts of its chunks and that of its document."""
        from bson import int64, objectid

        file_id, date = objectid.ObjectId(), datetime.datetime.now(datetime.UTC)
        chunks = [
            {"_id": objectid.ObjectId(), "files_id": file_id, "n": n, "data": data[at : at + CHUNK]}
            for n, at in enumerate(range(0, len(data), CHUNK))
        ]
        inserts = [
            line.commands.insert_many(chunks[at : at + RANGE], self._chunks)
            for line, at in zip(itertools.cycle(self._lines), range(0, len(chunks), RANGE), strict=False)
        ]
        file = {"_id": file_id, "filename": name, "chunkSize": CHUNK, "length": int64.Int64(len(data))}
        return (
            file_id,
            inserts,
            self._lines[0].commands.insert_many([{**file, "uploadDate": date}], self._files),
        )


class Line:
    """One connection, on which several requests may be in flight."""

    def __init__(self, target: Target) -> None:
        self._socket = _wire.connect(target.uri)
        self._room = memoryview(mmap.mmap(-1, ROOM))
        self._start = self._filled = 0
        self.send(_wire.hello())
        self.commands = _wire.Commands(target, _wire.cluster_time(self.receive(1)[0]))

    def clear(self) -> None:
        """Receive the next replies at the start of the buffer."""
        self._start = self._filled = 0

    def send(self, messages: bytes | bytearray) -> None:
        self._socket.sendall(messages)

    def receive(self, count: int) -> Replies:
        """Receive the next replies, which are all that are outstanding."""
        found: Replies = []
        while len(found) < count:
            filled = self._filled - self._start
            length = _wire.INT32.unpack_from(self._room, self._start)[0] if filled >= _wire.INT32.size else 0
            if 0 < length <= filled:
                found.append(self._room[self._start : self._start + length])
                self._start += length
            elif size := self._socket.recv_into(self._room[self._filled :]):
                self._filled += size
            else:
                raise ConnectionResetError(
                    "the server closed the connection, or the replies exceed the buffer"
                )
        return found

    def close(self) -> None:
        self._socket.close()


def _length(reply: memoryview) -> int:
    """Return the length of the file whose document is the first in a reply."""
    name = b"\x12length\0"
    _, found, rest = bytes(reply[:4096]).partition(name)
    if not found:
        raise _wire.Refused("expected a file's document with a length, got none")
    (length,) = _wire.INT64.unpack_from(rest)
    return int(length)
