"""GridFS on a database that is not this driver's own, such as mongomock's or Ming's in memory.

This driver's GridFS sends commands, and an in-memory database has no server to receive them. Here the database's own
methods store the files. Blocking only, and chunk by chunk: speed matters little where nothing leaves the process.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from mangonel._faces.stand_in import StandInPort
from mangonel.bson.binary import Binary
from mangonel.bson.int64 import Int64
from mangonel.bson.objectid import ObjectId
from mangonel.errors import ConfigurationError, DuplicateKeyError, PyMongoError
from mangonel.gridfs import DEFAULT_CHUNK_SIZE, CorruptGridFile, GridFS, GridFSBucket, GridIn, GridOut, NoFile
from mangonel.gridfs._names import equal_to, size_in
from mangonel.gridfs._upload import file_exists

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self


class ForeignCursor:
    """A cursor of the foreign database, with the cursor methods that GridFS's flows call.

    Args:
        cursor: the foreign one.
    """

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cursor, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            # Methods that set an option return their cursor.
            return self if result is self._cursor else result

        return call

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._cursor)

    async def _next_or_none_flow(self) -> Any:
        return next(self, None)

    async def _to_list_flow(self, length: int | None) -> list[Any]:
        return list(self)


class ForeignCollection:
    """A collection of the foreign database, whose cursors GridFS's flows can read.

    Args:
        collection: the foreign one.
    """

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def find(self, *args: Any, **kwargs: Any) -> ForeignCursor:
        """Return the documents that match."""
        return ForeignCursor(self._collection.find(*args, **kwargs))


class ForeignFiles(ForeignCursor):
    """The files that match a query, each open for reading.

    Args:
        collection: the bucket's root collection.
        filter: query document over the files' documents.
        session: passed to the database.
        *args, **kwargs: passed to its `find`: `skip`, `limit`, `sort` and others.
    """

    def __init__(
        self, collection: Any, filter: Any = None, *args: Any, session: Any = None, **kwargs: Any
    ) -> None:
        if args:
            # The order of `GridOutCursor`'s arguments, which differs from that of `find`.
            names = ("skip", "limit", "no_cursor_timeout", "sort", "batch_size")
            kwargs.update(zip(names, args, strict=False))
        super().__init__(collection.files.find(filter, session=session, **kwargs))
        self._root = collection
        self._session = session

    def __next__(self) -> ForeignGridOut:
        return ForeignGridOut(self._root, file_document=super().__next__(), session=self._session)

    next = __next__

    def __getitem__(self, index: Any) -> Any:
        return ForeignGridOut(self._root, file_document=self._cursor[index], session=self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._cursor.close()

    def to_list(self, length: int | None = None) -> list[ForeignGridOut]:
        """Return the remaining files, at most `length`."""
        found: list[ForeignGridOut] = []
        while length is None or len(found) < length:
            file = next(self, None)
            if file is None:
                break
            found.append(file)
        return found

    def _find_one(self) -> ForeignGridOut | None:
        return next(self, None)


class ForeignSender:
    """Stores the chunks of one new file.

    Args:
        root: the bucket's root collection.
        file_id: the file's `_id`.
        chunk_size: bytes per chunk.
        session: passed to the database.
    """

    def __init__(self, root: Any, file_id: Any, chunk_size: int, session: Any) -> None:
        self._chunks = root.chunks
        self._file_id = file_id
        self._chunk_size = chunk_size
        self._session = session
        self._rest = bytearray()
        self._kept: list[Any] = []
        self.length = 0

    @property
    def room(self) -> int:
        """How many more bytes fit in the current chunk."""
        return self._chunk_size - len(self._rest)

    def write_at_once(self) -> None:
        """Do nothing: there is no server, so writing early would save no time."""

    async def finish_check_flow(self) -> None:
        """Do nothing: no index was checked."""

    async def write_flow(self, data: Any) -> None:
        """Accept all of `data`, and store each full chunk."""
        self._rest += data
        self.length += memoryview(data).nbytes
        while len(self._rest) >= self._chunk_size:
            self._keep(self._chunk_size)

    async def finish_flow(self) -> None:
        """Store the last chunk."""
        if self._rest:
            self._keep(len(self._rest))

    def _keep(self, size: int) -> None:
        data = Binary(bytes(self._rest[:size]))
        chunk = {"_id": ObjectId(), "files_id": self._file_id, "n": len(self._kept), "data": data}
        self._chunks.insert_one(chunk, session=self._session)
        self._kept.append(chunk["_id"])
        del self._rest[:size]

    async def discard_flow(self) -> None:
        """Remove the chunks stored so far. The file's document is never stored before they are complete."""
        for kept in self._kept:
            self._chunks.delete_one({"_id": kept}, session=self._session)


class ForeignGridIn(GridIn):
    """A new file, open for writing."""

    _closed: bool

    def __init__(self, root_collection: Any, session: Any = None, **kwargs: Any) -> None:
        _check_acknowledged(root_collection, "root_collection")
        for ours, stored in (("content_type", "contentType"), ("chunk_size", "chunkSize")):
            if ours in kwargs:
                kwargs[stored] = kwargs.pop(ours)
        kwargs.setdefault("_id", ObjectId())
        kwargs.setdefault("chunkSize", DEFAULT_CHUNK_SIZE)
        sender = ForeignSender(root_collection, kwargs["_id"], int(kwargs["chunkSize"]), session)
        fields = {
            "_port": StandInPort(),
            "_files": root_collection.files,
            "_file": kwargs,
            "_session": session,
            "_closed": False,
            "_failure": None,
            "_is_stored": False,
            "_sender": sender,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _is_parents(self) -> bool:
        return False

    async def _close_flow(self) -> None:
        if self._closed:
            return
        try:
            await self._sender.finish_flow()
            self._file["length"] = Int64(self._sender.length)
            self._file["uploadDate"] = datetime.datetime.now(tz=datetime.UTC).replace(tzinfo=None)
            self._files.insert_one(self._file, session=self._session)
        except PyMongoError as error:
            await self._give_up_flow()
            if isinstance(error, DuplicateKeyError):
                raise file_exists(self._id) from error
            raise
        self._is_stored = True
        self._closed = True


class ForeignGridOut(GridOut):
    """A stored file, open for reading."""

    def __init__(
        self,
        root_collection: Any,
        file_id: Any = None,
        file_document: Mapping[str, Any] | None = None,
        session: Any = None,
    ) -> None:
        self._root = root_collection
        self._port = StandInPort()
        self._file_id = file_id
        self._file = file_document
        self._session = session
        self._position = 0
        self._stream = None
        # The number of the chunk that was read last, and its bytes.
        self._chunk: tuple[int, bytes] | None = None

    async def _open_flow(self) -> Mapping[str, Any]:
        if not self._file:
            files: Any = self._root.files
            self._file = files.find_one({"_id": equal_to(self._file_id)}, session=self._session)
            if not self._file:
                raise NoFile(f"no file in gridfs collection {files.full_name!r} with _id {self._file_id!r}")
        return self._file

    async def _piece_flow(self, most: int) -> bytes:
        """Return the bytes from the position to the end of its chunk, at most `most`; none at the end of the file."""
        file = await self._open_flow()
        length, size = size_in(file, "length"), size_in(file, "chunkSize")
        if self._position >= length or most <= 0:
            return b""
        number, start = divmod(self._position, size)
        if self._chunk is None or self._chunk[0] != number:
            self._chunk = number, self._loaded(file["_id"], number, min(size, length - number * size))
        piece = self._chunk[1][start : start + most]
        self._position += len(piece)
        if self._position == length:
            self._check_end(file["_id"], number)
        return piece

    def _loaded(self, file_id: Any, number: int, size: int) -> bytes:
        wanted = {"files_id": equal_to(file_id), "n": number}
        chunk = self._root.chunks.find_one(wanted, session=self._session)
        if chunk is None:
            raise CorruptGridFile(f"missing chunk: expected chunk #{number}, got none")
        data = bytes(chunk["data"])
        if len(data) != size:
            raise CorruptGridFile(
                f"truncated chunk #{number}: expected chunk length to be {size} but found chunk with length {len(data)}"
            )
        return data

    def _check_end(self, file_id: Any, last: int) -> None:
        surplus = {"files_id": equal_to(file_id), "n": {"$gt": last}}
        if self._root.chunks.find_one(surplus, session=self._session) is not None:
            raise CorruptGridFile(f"extra chunk found: expected {last + 1} chunks but found more")

    async def _read_flow(self, size: int) -> bytes:
        left = size_in(await self._open_flow(), "length") - self._position
        wanted = left if size < 0 else min(size, left)
        pieces = []
        while wanted > 0:
            pieces.append(await self._piece_flow(wanted))
            wanted -= len(pieces[-1])
        return b"".join(pieces)

    async def _read_into_flow(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = await self._read_flow(view.nbytes)
        view[: len(data)] = data
        return len(data)

    async def _download_flow(self, connections: int, buffer: Any) -> Any:
        return await (self._read_flow(-1) if buffer is None else self._read_into_flow(buffer))

    async def _read_chunk_flow(self) -> bytes:
        return await self._piece_flow(size_in(await self._open_flow(), "chunkSize"))

    async def _read_line_flow(self, size: int = -1) -> bytes:
        line = b""
        while size < 0 or len(line) < size:
            start = self._position
            piece = await self._read_chunk_flow()
            if not piece:
                break
            if size >= 0:
                piece = piece[: size - len(line)]
            ends = piece.find(b"\n")
            if ends >= 0:
                piece = piece[: ends + 1]
            line += piece
            self._position = start + len(piece)
            if ends >= 0:
                break
        return line


class ForeignGridFS(GridFS):
    """Files in a foreign database; the older interface."""

    _in_class = ForeignGridIn
    _out_class = ForeignGridOut
    _cursor_class: Any = ForeignFiles

    def __init__(self, database: Any, collection: str = "fs") -> None:
        _check_acknowledged(database, "database")
        _take_root(self, database[collection])


class ForeignGridFSBucket(GridFSBucket):
    """Files in a foreign database."""

    _in_class = ForeignGridIn
    _out_class = ForeignGridOut
    _cursor_class: Any = ForeignFiles

    def __init__(
        self,
        db: Any,
        bucket_name: str = "fs",
        chunk_size_bytes: int = DEFAULT_CHUNK_SIZE,
        write_concern: Any = None,
        read_preference: Any = None,
    ) -> None:
        root = db[bucket_name]
        if write_concern is not None or read_preference is not None:
            root = root.with_options(write_concern=write_concern, read_preference=read_preference)
        _check_acknowledged(root, "database")
        _take_root(self, root)
        self._bucket_name = bucket_name
        self._chunk_size_bytes = chunk_size_bytes


def _take_root(files: Any, root: Any) -> None:
    files._collection = root
    files._port = StandInPort()
    files._files = ForeignCollection(root.files)
    files._chunks = ForeignCollection(root.chunks)


def _check_acknowledged(owner: Any, name: str) -> None:
    if not owner.write_concern.acknowledged:
        raise ConfigurationError(f"{name} must use acknowledged write_concern")
