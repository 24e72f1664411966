"""How each contender stores and reads a file, as its users would write it: the verbs of experiment `gridfs`.

A shelf is made inside the worker, of a contender's id; the driver is imported then. The file that is read was stored
before by PyMongo, the same for all.
"""

from __future__ import annotations

import struct
from typing import Any

from mangonel.lab.contenders import _wire
from mangonel.lab.contenders._faces import AtOnce, wait

BUCKET = "fs"


class Shelf:
    """A client with PyMongo's names, on an event loop."""

    def __init__(self, uri: str, database: str, client: Any, bucket: Any) -> None:
        self._client = client(uri)
        self.database = self._client[database]
        self.bucket = bucket(self.database, BUCKET)

    async def read(self, file_id: Any) -> Any:
        """Return the whole file."""
        source = await wait(self.bucket.open_download_stream(file_id))
        return await wait(source.read())

    async def read_over(self, file_id: Any, connections: int) -> Any:
        """Return the whole file, read over several connections."""
        return await wait(self.bucket.download(file_id, connections))

    async def store(self, data: bytes) -> Any:
        """Store a file; return its id."""
        return await wait(self.bucket.upload_from_stream("stored", data))

    async def remove(self, file_id: Any) -> None:
        """Remove a stored file."""
        await wait(self.bucket.delete(file_id))

    async def close(self) -> None:
        """Close the client."""
        await wait(self._client.close())


class BlockingShelf(AtOnce, Shelf):
    """A blocking client with PyMongo's names."""


class ByChunkShelf(BlockingShelf):
    """PyMongo as it read files until 2019: one `find_one` for each chunk."""

    def read(self, file_id: Any) -> Any:
        """Return the whole file."""
        file = self.database[BUCKET].files.find_one(file_id)
        chunks = self.database[BUCKET].chunks
        count = -(-file["length"] // file["chunkSize"])
        return b"".join(chunks.find_one({"files_id": file_id, "n": n})["data"] for n in range(count))


class MongojetShelf:
    """mongojet's own verbs for files."""

    def __init__(self, client: Any, database: str) -> None:
        self._client = client
        self._bucket = client[database].gridfs_bucket()

    async def read(self, file_id: Any) -> Any:
        return await self._bucket.get_by_id(file_id)

    async def store(self, data: bytes) -> Any:
        return (await self._bucket.put(data, "stored"))["file_id"]

    async def remove(self, file_id: Any) -> None:
        await self._bucket.delete(file_id)

    async def close(self) -> None:
        await self._client.close()


class RawShelf:
    """The floor: a socket that asks for the chunks in batches of the server's choice, and drains them."""

    def __init__(self, uri: str, database: str) -> None:
        self._socket = _wire.connect(uri)
        self._buffer = bytearray(17 * 1024 * 1024)
        self._view = memoryview(self._buffer)
        self._database = database

    def read(self, file_id: Any) -> bytes:
        """Return how many bytes the replies have, as bytes: what they hold nobody looks at."""
        from bson.int64 import Int64

        chunks = f"{BUCKET}.chunks"
        total = self._ask({"find": chunks, "filter": {"files_id": file_id}, "sort": {"n": 1}})
        cursor = _wire.cursor_id(self._view, _wire.FIRST_ARRAY)
        while cursor:
            total += self._ask({"getMore": Int64(cursor), "collection": chunks})
            cursor = _wire.cursor_id(self._view, _wire.NEXT_ARRAY)
        return struct.pack("<q", total)

    def close(self) -> None:
        self._socket.close()

    def _ask(self, command: dict[str, Any]) -> int:
        import bson

        self._socket.sendall(_wire.frame(bson.encode({**command, "$db": self._database})))
        filled = self._socket.recv_into(self._buffer)
        (length,) = _wire.INT32.unpack_from(self._buffer)
        while filled < length:
            filled += self._socket.recv_into(self._view[filled:length])
        return int(length)


async def open_shelf(contender: str, uri: str, database: str) -> Any:
    """Return a contender's shelf, connected to `uri`; on its event loop where it has one.

    The URI states the write concern: all inherit it, while the server's default would be majority.
    """
    if contender.startswith("raw-socket"):
        return RawShelf(uri, database)
    if contender == "mongojet":
        from mongojet import create_client

        return MongojetShelf(await create_client(uri), database)
    if contender == "motor":
        from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket

        return Shelf(uri, database, AsyncIOMotorClient, AsyncIOMotorGridFSBucket)
    files: Any
    if contender.startswith("mangonel"):
        import mangonel as driver
        from mangonel import gridfs as files
    else:
        import pymongo as driver  # type: ignore[no-redef]

        import gridfs as files
    if contender in ("mangonel", "pymongo", "by-chunk"):
        shelf = ByChunkShelf if contender == "by-chunk" else BlockingShelf
        return shelf(uri, database, driver.MongoClient, files.GridFSBucket)
    return Shelf(uri, database, driver.AsyncMongoClient, files.AsyncGridFSBucket)
