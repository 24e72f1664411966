"""Reads a file's chunks with one cursor: requests the next batch while the current one is used, checks every chunk.

`_core.ChunkReader` copies bytes from a batch into the caller's memory; this module handles each batch.
Spec: gridfs (file download).
"""

from __future__ import annotations

from mangonel import _core
from mangonel._light import Any
from mangonel._shared.cursors.find_cursor import _Cursor
from mangonel._shared.settings import session_of
from mangonel.errors import (
    NOT_PRIMARY_CODES,
    AutoReconnect,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from mangonel.gridfs._names import equal_to, file_operation, is_in_transaction, size_in
from mangonel.gridfs.errors import CorruptGridFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.gridfs._opening import FirstBatch

# Bytes of one reply: small enough to hold two replies, the current one and the next; large enough that a round trip of
# some milliseconds costs little.
BATCH_SIZE = 11 * 1024 * 1024

# A read of at least this many bytes receives chunks directly into its result.
_LEAST_LAID = 1024 * 1024

# For larger reads, memory is reserved only after counting the chunks and reading the last one, since the length in a
# file's document may be wrong. Two more round trips cost little compared with reading this many bytes.
_LEAST_DOUBTED = 64 * 1024 * 1024

# No document is larger, so no chunk has more data.
_LARGEST_CHUNK = 16 * 1024 * 1024

# Bytes of chunks to read with the file's document, per second of round trip: they save a round trip, but cost up to
# 0.3 ms a megabyte more than chunks from a cursor.
_SAVED_RATE = 2e9

# Bytes of one exhaust reply: small, so that the server prepares one reply while it sends the last.
_STREAM_SIZE = 4 * 1024 * 1024

# The server ended the cursor early: it was idle for too long or killed, or the member is shutting down.
# Routers return one reply for each request.
_NOT_STREAMING = frozenset({"Mongos", "LoadBalancer"})
_RESUMABLE_CODES = NOT_PRIMARY_CODES | _core.RETRYABLE_CODES | {43, 175, 237}


class _ChunkCursor(_Cursor[Any], _core.BatchCursor):
    """The cursor over one file's chunks; its reader decides how many to request next."""

    _stream: ChunkStream

    def _first_operation(self) -> _core.Operation:
        return self._stream.arm(super()._first_operation(), self._stream.reader.next_chunk)

    def _more_operation(self) -> _core.Operation:
        if self._pinned is not None:
            return super()._more_operation()
        first = self._stream.begin_batch(self)
        return self._stream.arm(super()._more_operation(), first)


async def target_flow(
    root: _Collection[Any],
    file: Mapping[str, Any],
    position: int,
    size: int,
    session: _ClientSession | None,
) -> _core.ChunkTarget:
    """Return memory for `size` bytes from `position` on.

    Raises:
        CorruptGridFile: `size` is large, and the chunks hold fewer bytes: chunks are missing, or the last one is too
            short. Nothing was reserved.
        MemoryError: there is not enough memory.
    """
    if size > _LEAST_DOUBTED:
        end = position + size
        stream = ChunkStream(root, file, end - 1, end, session)
        try:
            await stream.piece_flow(1)
        finally:
            await stream.close_flow()
        await stream.check_room_flow(position, size)
    return _core.ChunkTarget(size)


class ChunkStream:
    """The bytes of one file from `position` on, in order.

    Args:
        root: the bucket's root collection.
        file: the file's document.
        position: the first byte to read.
        end: the position after the last byte to read. None: read to the file's end and detect surplus chunks.
        session: run inside this session.
        first: the file's first chunks, if they came with its document; `position` is 0 then.
    """

    def __init__(
        self,
        root: _Collection[Any],
        file: Mapping[str, Any],
        position: int = 0,
        end: int | None = None,
        session: _ClientSession | None = None,
        first: FirstBatch | None = None,
    ) -> None:
        self._port = root._port
        self._chunks: _Collection[Any] = root["chunks"]
        self._files: _Collection[Any] = root["files"]
        self._file = file
        self._session = session_of(root._port, session)
        if "_id" not in file:
            raise CorruptGridFile(
                "expected a file's document with an _id, which its chunks refer to, got none"
            )
        if file.get("chunkSize") is None:
            raise CorruptGridFile(
                f"file {file['_id']!r}: expected chunkSize, the bytes of each chunk but the last, in the file's "
                f"document, got none; set it in {self._files.full_name} to the size of the first chunk's data"
            )
        self._chunk_size = size_in(file, "chunkSize")
        self._length = size_in(file, "length")
        try:
            self.reader = _core.ChunkReader(self._chunk_size, self._length, position)
        except (ValueError, OverflowError) as error:
            raise CorruptGridFile(f"file {file.get('_id')!r}: {error}") from None
        self._end = end
        count = -(-self._length // self._chunk_size)
        # Requesting one document more than the file has chunks detects surplus chunks without another round trip.
        self._last = count + 1 if end is None else -(-end // self._chunk_size)
        self._is_whole = position == 0 and end is None
        self._cursor: _ChunkCursor | None = None
        self._asked_until = 0
        self._batch_count = 0
        self._wanted = 0
        self._resumed_at = -1
        self._is_trusted = False
        self._is_closed = False
        # The current target, and the position of its first byte in the file.
        self._target: _core.ChunkTarget | None = None
        self._target_start = 0
        # The first batch, while it is the current one.
        self._first = first
        if first is not None:
            if first.has_cursor:
                self._asked_until = len(first.batch)
                self._cursor = self._new_cursor({})
                self._cursor._take(first.batch)
            self.reader.take(first.batch)
            self._batch_count = 1

    # Called by the caller.

    async def fill_flow(self, target: _core.ChunkTarget) -> None:
        """Read until `target` is full. According to its document the file has enough bytes.

        Raises:
            CorruptGridFile: the chunks hold fewer bytes.
        """
        self._pour(target)
        if target.size - target.filled >= _LEAST_LAID:
            self._target, self._target_start = target, self.reader.position - target.filled
        try:
            while target.filled < target.size:
                await self.load_flow(target.size - target.filled)
                self._pour(target)
        finally:
            self._target = None
        await self._trust_flow()

    def begin(self, target: _core.ChunkTarget) -> None:
        """Send the first request for `target` without waiting; `step_flow` continues."""
        self._target, self._target_start = target, self.reader.position
        self._wanted = target.size
        self._open()
        assert self._cursor is not None
        self._cursor._started = self._port.start(self._cursor._first_operation(), connects=True)

    async def step_flow(self, target: _core.ChunkTarget) -> bool:
        """Read one batch into the target of `begin`; return whether there is more to read."""
        await self.load_flow(target.size - target.filled)
        self._pour(target)
        return target.filled < target.size

    async def end_flow(self) -> None:
        """Finish the read that `begin` started, once its target is full."""
        await self._trust_flow()
        # All chunks were read, but the server may still have to report the end of the cursor.
        await self.check_end_flow()
        self._target = None

    def _pour(self, target: _core.ChunkTarget) -> None:
        self.reader.pour(target)
        if self.reader.is_misplaced:
            # The server's batches differed from the request; request the missing chunks again.
            self.reader.restart()
            self.drop()

    async def check_room_flow(self, position: int, size: int) -> None:
        """Raise CorruptGridFile when the chunks from `position` to the end cannot hold `size` bytes."""
        first = position // self._chunk_size
        wanted = {"files_id": equal_to(self._file["_id"]), "n": {"$gte": first, "$lt": self._last}}
        stages = [{"$match": wanted}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
        command = {"aggregate": self._chunks.name, "pipeline": stages, "cursor": {}}
        operation = self._chunks._read_operation(command, _core.READ_FIRST, session=self._session)
        counted = await self._port.arun(operation)
        found = 0 if counted is None else counted["n"]
        if found < self._last - first or found * min(self._chunk_size, _LARGEST_CHUNK) < size:
            raise CorruptGridFile(
                f"file {self._file['_id']!r}: missing chunk: expected {self._last - first} chunks from #{first} on for "
                f"{size} bytes, got {found}"
            )

    async def piece_flow(self, limit: int | None = None) -> bytes:
        """Return at most `limit` bytes of the current chunk's rest or the next chunk. Not for the end of the file."""
        while True:
            piece = self.reader.piece(limit)
            if piece is not None:
                await self._trust_flow()
                return piece
            await self.load_flow(self._chunk_size)

    async def next_flow(self) -> None:
        """Make the next chunk the current one. Do not call at the file's end."""
        while not self.reader.advance():
            await self.load_flow(self._chunk_size)
        await self._trust_flow()

    async def check_end_flow(self) -> None:
        """Check that no chunk follows the last one, once all bytes were read.

        Raises:
            CorruptGridFile: there is a surplus chunk.
        """
        first, self._first = self._first, None
        if first is not None:
            self.reader.check_rest()
            self._raise_fault()
            if not first.is_whole and self._cursor is None:
                self._open()
        while self._cursor is not None:
            self.reader.check_rest()
            self._raise_fault()
            if await self._fetch_flow():
                self._take_batch()
            else:
                self._cursor = None
        self._remember(self._last)

    def _remember(self, count: int) -> None:
        """Request `count` chunks with the next file's document if that pays and this file was read from its start."""
        if self._is_whole:
            most = min(BATCH_SIZE, self._port.distance * _SAVED_RATE)
            is_small = count * self._chunk_size <= most
            self._files._client._first_chunks = count if is_small else 0
            self._files._client._keeps_opening_cursor = not is_small

    async def load_flow(self, wanted: int) -> None:
        """Load the next batch; the caller wants `wanted` bytes now.

        Raises:
            CorruptGridFile: the next chunk is damaged or missing.
        """
        self._raise_fault()
        self._wanted = wanted
        if not await self._fetch_flow():
            if self._is_closed:
                raise InvalidOperation("the file was closed by another task or thread while this one read it")
            raise CorruptGridFile(
                f"missing chunk: expected chunk #{self.reader.next_chunk}, got no more chunks"
            )
        self._take_batch()

    async def close_flow(self) -> None:
        """End the cursor."""
        self._is_closed = True
        cursor, self._cursor = self._cursor, None
        if cursor is not None or self._first is not None:
            # The rest of the file was not wanted.
            self._remember(0)
        if cursor is not None:
            await cursor._close_flow()

    def drop(self) -> None:
        """End the cursor without waiting."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor._abandon()

    # One batch after another.

    def begin_batch(self, cursor: _ChunkCursor) -> int:
        """Set the next request of `cursor`; return its first chunk."""
        first = self._asked_until
        target = self._target
        cursor._is_exhaust = False
        if target is not None and self._may_stream():
            # The target reaches to the end, so an exhaust cursor may be used.
            is_to_the_end = self._target_start + target.size >= min(
                self._length, self._last * self._chunk_size
            )
            cursor._is_exhaust = is_to_the_end
        if cursor._is_exhaust:
            cursor._batch_size = max(1, _STREAM_SIZE // self._chunk_size)
            self._asked_until = self._last
        else:
            cursor._batch_size = self.plan_batch()
        return first

    def arm(self, operation: _core.Operation, first: int) -> _core.Operation:
        """Receive the reply of `operation` directly into the target, if the chunks from `first` on belong there."""
        target = self._target
        if target is not None:
            at = first * self._chunk_size - self._target_start
            # If the target begins inside a chunk, that chunk is copied instead.
            if 0 <= at < target.size:
                operation.receive_into(target, at)
        return operation

    def _may_stream(self) -> bool:
        if self._session is not None:
            return False
        core = self._files._client._core
        if self._port.is_async and (core.security is not None or core.compresses):
            # An event loop receives all available bytes at once; only direct receive limits them.
            return False
        return all(kind not in _NOT_STREAMING for _, kind in core.servers())

    def plan_batch(self) -> int:
        """Return how many chunks to request next: those wanted now, more if reading continues, within bounds."""
        left = self._last - self._asked_until
        most = max(1, BATCH_SIZE // self._chunk_size)
        size = -(-self._wanted // self._chunk_size) + 1
        if self._batch_count:
            size = max(size, 2 << min(self._batch_count, 16))
        elif self._wanted > BATCH_SIZE and self._may_stream():
            # A small first batch arrives sooner, so the later batches are requested sooner.
            size = _STREAM_SIZE // self._chunk_size
        size = max(1, min(size, most, left))
        self._asked_until += size
        return size

    def _open(self) -> None:
        first = self.reader.next_chunk
        numbers: dict[str, Any] = {"$gte": first} if first else {}
        if self._end is not None:
            numbers["$lt"] = self._last
        filter: dict[str, Any] = {"files_id": equal_to(self._file["_id"])}
        if numbers:
            filter["n"] = numbers
        self._asked_until = first
        self._cursor = self._new_cursor(filter)
        self._cursor._batch_size = self.plan_batch()

    def _new_cursor(self, filter: Mapping[str, Any]) -> _ChunkCursor:
        cursor = _ChunkCursor(self._chunks, filter, sort=[("n", 1)], session=self._session)
        cursor._stream = self
        return cursor

    async def _fetch_flow(self) -> bool:
        """Request the next batch; reopen a cursor that the server has ended, once for each position."""
        if self._cursor is None:
            self._open()
        cursor = self._cursor
        assert cursor is not None
        # A sequential reader needs the next batch too. No prefetch in a session, which runs one command at a time.
        cursor._prefetch = self._session is None and (self._batch_count > 0 or self._wanted > BATCH_SIZE)
        if not self._has_lost_server(cursor):
            try:
                return await cursor._fetch_flow()
            except PyMongoError as error:
                if not self._may_resume(error):
                    raise
        cursor._abandon()
        self._resumed_at = self.reader.next_chunk
        await self._verify_flow()
        self._open()
        assert self._cursor is not None
        return await self._cursor._fetch_flow()

    def _has_lost_server(self, cursor: _ChunkCursor) -> bool:
        """Return whether the cursor's server is gone, so that a getMore would wait for it to return."""
        if not cursor._id or cursor._pinned is not None or is_in_transaction(self._session):
            return False
        servers = dict(self._files._client._core.servers())
        if servers.get(cursor._server, "Unknown") != "Unknown":
            return False
        return cursor._started is None or self._port.may_wait(cursor._started)

    def _may_resume(self, error: PyMongoError) -> bool:
        if self._resumed_at == self.reader.next_chunk or is_in_transaction(self._session):
            return False
        if isinstance(error, ServerSelectionTimeoutError):
            return False
        if isinstance(error, OperationFailure):
            return error.code in _RESUMABLE_CODES
        return isinstance(error, AutoReconnect)

    def _take_batch(self) -> None:
        batch = None if self._cursor is None else self._cursor._batch
        if batch is not None:
            self.reader.take(batch)
        self._batch_count += 1
        self._is_trusted = False
        self._first = None

    def _raise_fault(self) -> None:
        if self.reader.fault is not None:
            fault = self.reader.fault
            self.drop()
            raise CorruptGridFile(fault)

    # The file may be replaced during the read.

    async def _trust_flow(self) -> None:
        """Read the file's document again if the chunks so far may belong to two files."""
        if self.reader.is_suspicious:
            if not self._is_trusted:
                await self._verify_flow()
                # Replacing a file removes its document first, so this document proves that the chunks are the file's.
                self._is_trusted = True
            self.reader.clear_suspicion()

    async def compare_flow(self, earlier: ChunkStream) -> None:
        """Read the file's document again, unless the chunks of `earlier` and of this stream surely are of one file."""
        if not self.reader.continues(earlier.reader):
            await self._verify_flow()

    async def _verify_flow(self) -> None:
        now = await self._port.arun(file_operation(self._files, self._file["_id"], self._session))
        if now is None:
            self.drop()
            raise CorruptGridFile(f"file {self._file['_id']!r} was removed while it was read")
        if any(now.get(name) != self._file.get(name) for name in ("length", "chunkSize", "uploadDate")):
            self.drop()
            raise CorruptGridFile(f"file {self._file['_id']!r} was replaced while it was read")
