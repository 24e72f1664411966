"""A stored file, open for reading. One definition for both faces. Spec: gridfs (file download)."""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect, told_by_public_name
from mangonel._light import Any
from mangonel._shared.cursors.cursor import refuse_second
from mangonel._shared.face_result import FaceResult
from mangonel.errors import InvalidOperation
from mangonel.gridfs._download import ChunkStream, target_flow
from mangonel.gridfs._in_use import OneAtATime
from mangonel.gridfs._names import check_root, file_operation, size_in, warn_deprecated, without_custom_types
from mangonel.gridfs._opening import may_open, opening_flow
from mangonel.gridfs._parallel import fill_flow
from mangonel.gridfs.errors import NoFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping
    from typing import NoReturn, Self

    from typing_extensions import Buffer

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.gridfs._opening import FirstBatch

_SEEK_SET, _SEEK_CUR, _SEEK_END = 0, 1, 2
_EINVAL = 22


@told_by_public_name
class _GridOut(OneAtATime):
    """A stored file, open for reading: a file object with the file's document as attributes.

    Made by `GridFS.get`, `GridFSBucket.open_download_stream` and similar methods. Every chunk is checked against the
    file's document; a damaged one raises CorruptGridFile, and none of its bytes are returned.

    Args:
        root_collection: the bucket's root collection, such as `database.fs`.
        file_id: the file's `_id`; its document is read when first needed.
        file_document: the file's document, if the caller has it.
        session: run inside this session.

    Example:
        >>> with bucket.open_download_stream(file_id) as source:
        ...     head = source.read(100)
    """

    _instead = "pass its _id, and open it there"
    _is_async = False

    def __init__(
        self,
        root_collection: _Collection[Any],
        file_id: Any = None,
        file_document: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
    ) -> None:
        check_root(root_collection, self._is_async)
        super().__init__()
        self._root = without_custom_types(root_collection)
        self._port = root_collection._port
        self._file_id = file_id
        self._file = file_document
        self._session = session
        self._position = 0
        self._stream: ChunkStream | None = None
        # The first chunks, if they came with the document and were not read yet.
        self._first: FirstBatch | None = None

    # The file's document.

    def open(self) -> FaceResult[None]:
        """Load the file's document, unless it is loaded.

        Raises:
            NoFile: no file has this id.

        Example:
            >>> source.open()
        """
        return self._port.flow(self._load_flow())

    async def _load_flow(self) -> None:
        await self._open_flow()

    async def _open_flow(self) -> Mapping[str, Any]:
        if not self._file:
            operation = file_operation(self._root["files"], self._file_id, self._session)
            self._file = await self._port.arun(operation)
        return self._found()

    async def _begin_flow(self) -> Mapping[str, Any]:
        """Load the file's document before reading bytes; if the server is far away, with the first chunks."""
        if self._file:
            return self._file
        if not self._position and may_open(self._port, self._session):
            opened = await opening_flow(self._root, self._file_id, self._session)
            if opened is not None:
                self._file, self._first = opened
                return self._found()
        return await self._open_flow()

    async def _opened_flow(self) -> Self:
        await self._begin_flow()
        return self

    def _starting_with(self, first: FirstBatch | None) -> Self:
        self._first = first
        return self

    def _found(self) -> Mapping[str, Any]:
        if not self._file:
            name = self._root["files"].full_name
            raise NoFile(f"no file in gridfs collection {name!r} with _id {self._file_id!r}")
        return self._file

    def _document(self, name: str) -> Mapping[str, Any]:
        if not self._file:
            if self._is_async:
                raise InvalidOperation(
                    f"call open() before using {name!r}: it is a field of the file's document"
                )
            self._port.flow(self._open_flow())
        assert self._file is not None
        return self._file

    @property
    def _id(self) -> Any:
        """The file's `_id`."""
        return self._document("_id").get("_id")

    @property
    def filename(self) -> str | None:
        """The file's name."""
        return self._document("filename").get("filename")

    @property
    def name(self) -> str | None:
        """The same as `filename`."""
        return self._document("filename").get("filename")

    @property
    def content_type(self) -> str | None:
        """Deprecated: the file's type; new files keep it in `metadata`."""
        warn_deprecated("GridOut", "contentType")
        return self._document("contentType").get("contentType")

    @property
    def length(self) -> int:
        """How many bytes the file has."""
        return self._document("length").get("length", 0)

    @property
    def chunk_size(self) -> int:
        """How many bytes each chunk has, except the last."""
        return self._document("chunkSize").get("chunkSize")  # type: ignore[return-value]

    @property
    def upload_date(self) -> datetime.datetime | None:
        """When the upload was complete."""
        return self._document("uploadDate").get("uploadDate")

    @property
    def aliases(self) -> list[str] | None:
        """Deprecated: further names."""
        warn_deprecated("GridOut", "aliases")
        return self._document("aliases").get("aliases")

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """The metadata stored with the file."""
        return self._document("metadata").get("metadata")

    @property
    def md5(self) -> str | None:
        """Deprecated: the digest that older drivers stored."""
        warn_deprecated("GridOut", "md5")
        return self._document("md5").get("md5")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and not self.__dict__.get("_file"):
            # Copying, pickling and finalizing look up such names, and must not send a command.
            raise AttributeError(f"{type(self).__name__} object has no attribute {name!r}")
        file = self._document(name)
        if name in file:
            return file[name]
        raise AttributeError(f"{type(self).__name__} object has no attribute {name!r}")

    # Reading.

    def _refuse_second(self) -> NoReturn:
        refuse_second("file", "bytes", "bytes")

    def _break_off(self) -> None:
        # Received bytes were not returned, so the next read starts again at the position.
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.drop()

    def read(self, size: int | None = -1) -> FaceResult[bytes]:
        """Return the next `size` bytes, fewer at the file's end; if negative or None, all remaining bytes.

        Raises:
            NoFile: the file does not exist.
            CorruptGridFile: a chunk is damaged, or the file was replaced during the read.
            AutoReconnect: the connection broke and no other server could continue the read.

        Example:
            >>> source.read(5)
            b'hello'
        """
        return self._port.flow(self._alone_flow(self._read_flow, -1 if size is None else size))

    async def _read_flow(self, size: int) -> bytes:
        file = await self._begin_flow()
        left = size_in(file, "length") - self._position
        if size < 0 or size > left:
            size = max(left, 0)
        if size == 0:
            return b""
        stream = self._reading(file)
        if size <= stream.reader.ready:
            found = await stream.piece_flow(size)
        else:
            target = await target_flow(self._root, file, self._position, size, self._session)
            await stream.fill_flow(target)
            found = target.finish()
        return await self._moved_flow(stream, found, size == left)

    def readinto(self, buffer: Buffer) -> FaceResult[int]:
        """Read into a writable buffer up to the file's end; return the number of bytes read.

        Args:
            buffer: a bytearray, memoryview, array or the like; chunks are copied straight into it.

        Raises:
            NoFile, CorruptGridFile, AutoReconnect: as for `read`; the buffer may then hold a part of the bytes.

        Example:
            >>> room = bytearray(1024)
            >>> source.readinto(room)
            5
        """
        return self._port.flow(self._alone_flow(self._read_into_flow, buffer))

    async def _read_into_flow(self, buffer: Buffer) -> int:
        file = await self._begin_flow()
        left = max(size_in(file, "length") - self._position, 0)
        view = memoryview(buffer).cast("B")
        if left == 0 or not view.nbytes:
            return 0
        stream = self._reading(file)
        target = _core.ChunkTarget(view[:left])
        await stream.fill_flow(target)
        count: int = target.finish()
        await self._moved_flow(stream, b"", count == left)
        return count

    def download(self, connections: int = 1, buffer: Buffer | None = None) -> FaceResult[Any]:
        """Return all remaining bytes, read over several connections at once.

        Args:
            connections: the most connections to use; each reads a part of the file of at least a few megabytes. A
                session uses one. More connections than the server has idle cores bring no gain.
            buffer: a writable buffer with room for all bytes; then the result is their number. None: return bytes.

        Raises:
            ValueError: `connections` is below 1, or `buffer` is too small.
            NoFile, CorruptGridFile, AutoReconnect: as for `read`.

        Example:
            >>> len(source.download(connections=2))
            52428800
        """
        return self._port.flow(self._alone_flow(self._download_flow, connections, buffer))

    async def _download_flow(self, connections: int, buffer: Buffer | None) -> Any:
        if expect("connections", connections, int, "an int") < 1:
            raise ValueError(f"expected 1 connection or more, got {connections}")
        file = await self._begin_flow()
        left = max(size_in(file, "length") - self._position, 0)
        if buffer is None:
            target = await target_flow(self._root, file, self._position, left, self._session)
        else:
            view = memoryview(buffer).cast("B")
            if view.nbytes < left:
                raise ValueError(f"expected a buffer with room for {left} bytes, got {view.nbytes}")
            target = _core.ChunkTarget(view[:left])
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close_flow()
        if left:
            first = self._take_first()
            await fill_flow(self._root, file, self._position, target, connections, self._session, first)
        self._position += left
        return target.finish()

    def readchunk(self) -> FaceResult[bytes]:
        """Return the rest of the current chunk, or the next one; nothing at the file's end.

        Raises:
            NoFile, CorruptGridFile, AutoReconnect: as for `read`.

        Example:
            >>> len(source.readchunk())
            5
        """
        return self._port.flow(self._alone_flow(self._read_chunk_flow))

    async def _read_chunk_flow(self) -> bytes:
        file = await self._begin_flow()
        left = size_in(file, "length") - self._position
        if left <= 0:
            return b""
        stream = self._reading(file)
        found = await stream.piece_flow()
        return await self._moved_flow(stream, found, len(found) == left)

    def readline(self, size: int | None = -1) -> FaceResult[bytes]:
        """Return the bytes up to the end of the line, at most `size` of them unless it is negative or None.

        Raises:
            NoFile, CorruptGridFile, AutoReconnect: as for `read`.

        Example:
            >>> source.readline()
            b'first line\\n'
        """
        return self._port.flow(self._alone_flow(self._read_line_flow, -1 if size is None else size))

    async def _read_line_flow(self, size: int = -1) -> bytes:
        file = await self._begin_flow()
        left = size_in(file, "length") - self._position
        if size < 0 or size > left:
            size = max(left, 0)
        if size == 0:
            return b""
        stream = self._reading(file)
        line = stream.reader.line(size)
        if line is None:
            pieces: list[bytes] = []
            missing = size
            while line is None and missing:
                if stream.reader.ready:
                    pieces.append(await stream.piece_flow(min(missing, stream.reader.ready)))
                    missing -= len(pieces[-1])
                else:
                    await stream.next_flow()
                line = stream.reader.line(missing) if missing else None
            if line is not None:
                pieces.append(line)
            line = b"".join(pieces)
        return await self._moved_flow(stream, line, len(line) == left)

    def readlines(self, size: int | None = -1) -> FaceResult[list[bytes]]:
        """Return the remaining lines; with `size`, stop after about that many bytes.

        Raises:
            NoFile, CorruptGridFile, AutoReconnect: as for `read`.

        Example:
            >>> source.readlines()
            [b'first line\\n', b'second line']
        """
        return self._port.flow(self._alone_flow(self._read_lines_flow, -1 if size is None else size))

    async def _read_lines_flow(self, size: int) -> list[bytes]:
        lines: list[bytes] = []
        total, start = 0, self._position
        try:
            while line := await self._read_line_flow():
                lines.append(line)
                total += len(line)
                if 0 < size < total:
                    break
        except BaseException:
            self._position = start
            raise
        return lines

    def tell(self) -> int:
        """Return the current position in bytes."""
        return self._position

    def seek(self, pos: int, whence: int = _SEEK_SET) -> FaceResult[int]:
        """Move to another position in the file and return it. Chunks in between are not read.

        Args:
            pos: bytes relative to `whence`; may be negative unless it counts from the start.
            whence: 0 (`os.SEEK_SET`) counts from the start, 1 from the current position, 2 from the end.

        Raises:
            OSError: `whence` has another value, or the position is before the start.
            NoFile: the file does not exist; detected only when counting from its end.

        Example:
            >>> source.seek(-128, 2)
            872
        """
        return self._port.flow(self._alone_flow(self._seek_flow, pos, whence))

    async def _seek_flow(self, pos: int, whence: int) -> int:
        length = size_in(await self._open_flow(), "length") if whence == _SEEK_END else 0
        left = self._move(pos, whence, length)
        if left is not None:
            await left.close_flow()
        return self._position

    def _move(self, pos: int, whence: int, length: int) -> ChunkStream | None:
        """Set another position; if the chunk stream cannot continue there, return it for the caller to end."""
        expect("pos", pos, int, "an int")
        if whence == _SEEK_SET:
            place = pos
        elif whence == _SEEK_CUR:
            place = self._position + pos
        elif whence == _SEEK_END:
            place = length + pos
        else:
            raise OSError(_EINVAL, f"expected 0, 1 or 2 as whence, got {whence!r}")
        if place < 0:
            raise OSError(_EINVAL, f"expected a place of 0 or more, got {place}")
        left = self._stream
        if left is None or place == self._position or left.reader.move_to(place):
            left = None
        else:
            self._stream = None
        self._position = place
        return left

    def _reading(self, file: Mapping[str, Any]) -> ChunkStream:
        if self._stream is None:
            first = self._take_first()
            self._stream = ChunkStream(self._root, file, self._position, None, self._session, first)
        return self._stream

    def _take_first(self) -> FirstBatch | None:
        first, self._first = self._first, None
        if first is None or not self._position:
            return first
        self._root._client._keeps_opening_cursor = False
        return None

    async def _moved_flow(self, stream: ChunkStream, found: bytes, is_at_end: bool) -> bytes:
        """Store the new position; check for surplus chunks after the file's last byte."""
        self._position = stream.reader.position
        if is_at_end:
            await stream.check_end_flow()
        return found

    # The end.

    def close(self) -> FaceResult[None]:
        """Close the file, and its cursor on the server.

        Example:
            >>> source.close()
        """
        return self._port.flow(self._close_flow())

    async def _close_flow(self) -> None:
        stream, self._stream = self._stream, None
        if self._first is not None:
            self._first = None
            self._root._client._first_chunks = 0
            self._root._client._keeps_opening_cursor = False
        self._mark_closed()
        if stream is not None:
            await stream.close_flow()

    if TYPE_CHECKING:

        def _mark_closed(self) -> None: ...

    # Methods of file objects.

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def isatty(self) -> bool:
        """Return False."""
        return False

    def flush(self) -> None:
        """Do nothing: nothing was written."""

    def write(self, value: Any) -> NoReturn:
        """Raise UnsupportedOperation: the file is open for reading.

        Raises:
            io.UnsupportedOperation: always.

        Example:
            >>> source.write(b"hello")
            Traceback (most recent call last):
                ...
            io.UnsupportedOperation: ...
        """
        raise _unsupported("write")

    def writelines(self, lines: Any) -> NoReturn:
        """Raise UnsupportedOperation, as `write` does."""
        raise _unsupported("writelines")

    def fileno(self) -> NoReturn:
        """Raise UnsupportedOperation: the operating system has no such file.

        Raises:
            io.UnsupportedOperation: always.
        """
        raise _unsupported("fileno")

    def truncate(self, size: int | None = None) -> NoReturn:
        """Raise UnsupportedOperation, as `write` does."""
        raise _unsupported("truncate")

    def __repr__(self) -> str:
        file = self.__dict__.get("_file")
        shown = repr(file["_id"]) if file else repr(self.__dict__.get("_file_id"))
        return f"<{type(self).__name__} {shown}>"


def _unsupported(what: str) -> Exception:
    import io

    return io.UnsupportedOperation(what)
