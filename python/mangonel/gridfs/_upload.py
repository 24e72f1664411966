"""Sends a file's chunks: packed into inserts while the caller writes, several inserts in flight at once.

`_core.ChunkPacker` copies bytes from the caller's memory into an insert; this module handles each insert.
Spec: gridfs (file upload, indexes).
"""

from __future__ import annotations

from collections import deque

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, READ_ANSWER, READ_FIRST
from mangonel._faces.deadline import anew
from mangonel._light import Any
from mangonel._shared.overtaking import overtake_flow
from mangonel._shared.settings import concern_in, session_handle, session_of
from mangonel.errors import DUPLICATE_KEY_CODES, AutoReconnect, OperationFailure, PyMongoError
from mangonel.gridfs._names import equal_to, is_in_transaction
from mangonel.gridfs._opening import is_far
from mangonel.gridfs.errors import FileExists
from mangonel.read_preferences import ReadPreference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession

# Bytes of one insert, and how many inserts are in flight at once, one connection each: the server stores one insert
# while it reads the next. At 5.4 ms of latency, two would leave the server idle.
BATCH_SIZE = 4 * 1024 * 1024
IN_FLIGHT = 4

_FILES_INDEX = {"filename": 1, "uploadDate": 1}
_CHUNKS_INDEX = {"files_id": 1, "n": 1}
# The most buckets whose indexes a client remembers to exist.
_KNOWN_BUCKETS = 1000
# Chunk ids in one delete.
_IDS_AT_ONCE = 50_000


class ChunkSender:
    """The chunks of one new file.

    Args:
        root: the bucket's root collection, reading from the primary.
        file_id: the file's `_id`.
        chunk_size: bytes per chunk.
        is_own_id: whether the driver generated the id, so that no other file can have it.
        session: run inside this session.
    """

    def __init__(
        self,
        root: _Collection[Any],
        file_id: Any,
        chunk_size: int,
        is_own_id: bool,
        session: _ClientSession | None = None,
    ) -> None:
        self._port = root._port
        self._root = root
        self._chunks: _Collection[Any] = root["chunks"]
        self._file_id = file_id
        self._is_own_id = is_own_id
        session = session_of(root._port, session)
        self._session = session
        self._packer = _core.ChunkPacker({"files_id": file_id}, root._codec, chunk_size, BATCH_SIZE)
        self._chunk_size = chunk_size
        # A session runs one command at a time.
        self._most = IN_FLIGHT if session is None else 1
        # The inserts in flight: collection, operation and what was started. Those without an answer may still arrive.
        self._started: deque[list[Any]] = deque()
        self._lost: list[tuple[Any, tuple[bytes, int]]] = []
        # The file's document, once it may be stored.
        self._file: Mapping[str, Any] | None = None
        self._has_indexes = False
        # The two requests that check whether the bucket is empty, if the first insert does not wait for them.
        self._asked: tuple[Any, Any] | None = None
        self._is_at_once = False
        self._has_sent = False

    @property
    def length(self) -> int:
        """How many bytes have been accepted so far."""
        return self._packer.length

    @property
    def room(self) -> int:
        """How many more bytes fit in the current chunk."""
        return self._packer.room

    def write_at_once(self) -> None:
        """Prepare for one call that writes the whole file: on a far server, inserts do not wait for the index check."""
        # With the caller's own id, only the index refuses a second upload's chunks, so it must exist before.
        is_safe = self._is_own_id or self._root.full_name in self._root._client._indexed_buckets
        self._is_at_once = self._session is None and is_safe and is_far(self._port)

    async def write_flow(self, data: Any) -> None:
        """Accept all of `data`, a buffer; send each full insert.

        Raises:
            FileExists: the id belongs to another file.
        """
        at, size = 0, memoryview(data).nbytes
        while at < size:
            at = self._packer.write(data, at)
            is_due = not self._has_indexes and not self._is_at_once
            if is_due and self._packer.length >= self._chunk_size:
                # Done at the first whole chunk, so that this call reports an unreachable server.
                await self._ensure_indexes_flow()
            if self._packer.is_full:
                await self._send_flow(is_last=False)

    async def finish_flow(self) -> None:
        """Send the rest and wait until the server has confirmed every chunk."""
        self.write_at_once()
        await self._send_flow(is_last=True)
        await self._ensure_indexes_flow()
        await self.finish_check_flow()
        while self._started:
            await self._settle_flow()

    async def store_flow(self, files: Any, file: Mapping[str, Any]) -> None:
        """Store the file's document.

        Raises:
            FileExists: the id belongs to another file.
        """
        # Set before sending: Ctrl-C may arrive as soon as the insert was sent.
        self._file = file
        self._start(files, files._insert_checked(file, self._session))
        await self._settle_flow()

    async def discard_flow(self) -> PyMongoError | None:
        """Remove what was sent so far, after the last insert has ended; return why something may be left or arrive."""
        asked, self._asked = self._asked, None
        for request in asked or ():
            self._port.give_up(request)
        # The upload's own time may be over.
        with anew():
            while self._started:
                await self._settle_flow(is_result_needed=False)
            if not self._has_sent:
                return None
            try:
                late = await self._overtake_flow()
                if self._file is not None:
                    files = self._root["files"]
                    # Another upload may have stored a file with this id.
                    own = {name: equal_to(self._file[name]) for name in ("_id", "uploadDate", "length")}
                    deleted = await self._port.call(lambda: files.delete_one(own, session=self._session))
                    if files.name in late and not deleted.deleted_count:
                        # Chunks without a file are better than a file without chunks.
                        return late[files.name]
                for filter in self._own_chunks():
                    await self._port.call(self._delete, filter)
            except PyMongoError as error:
                # The end of a transaction decides.
                return None if is_in_transaction(self._session) else error
            return next(iter(late.values()), None)

    async def _overtake_flow(self) -> dict[str, PyMongoError]:
        """Have the server refuse lost inserts; return the collections into which it may still insert."""
        late: dict[str, PyMongoError] = {}
        # Selects the servers of either collection.
        filter = {"_id": equal_to(self._file_id), "files_id": equal_to(self._file_id)}
        for collection, lost in () if is_in_transaction(self._session) else self._lost:
            try:
                if not lost[1]:
                    raise AutoReconnect(
                        "an insert was not answered, and has no number by which it could be refused"
                    )
                await overtake_flow(collection, self._port, lost, filter, self._session)
            except PyMongoError as error:
                late[collection.name] = error
        return late

    def _delete(self, filter: Mapping[str, Any]) -> Any:
        return self._chunks.delete_many(filter, session=self._session)

    def _own_chunks(self) -> list[dict[str, Any]]:
        if self._is_own_id:
            return [{"files_id": {"$eq": self._file_id}}]
        # Only these chunks: a file with that id may have existed before.
        ids = self._packer.ids
        parts = range(0, len(ids), _IDS_AT_ONCE)
        return [
            {"files_id": {"$eq": self._file_id}, "_id": {"$in": ids[at : at + _IDS_AT_ONCE]}} for at in parts
        ]

    async def _send_flow(self, is_last: bool) -> None:
        if not self._is_at_once:
            await self._ensure_indexes_flow()
        command: dict[str, Any] = {"insert": self._chunks._name, "ordered": True}
        concern = concern_in(self._session, self._chunks._write_concern)
        if not concern.is_server_default:
            command["writeConcern"] = concern.document
        write_command = _core.WriteCommand(
            self._chunks._database_name,
            command,
            self._root._codec,
            KIND_RETRYABLE_WRITE,
            READ_ANSWER,
            session=session_handle(self._session),
        )
        operation = self._packer.next_operation(write_command, is_last)
        if operation is None:
            return
        if len(self._started) >= self._most:
            await self.finish_check_flow()
        while len(self._started) >= self._most:
            await self._settle_flow()
        self._start(self._chunks, operation)
        # Behind the insert, so that the server works on the check while the insert's reply is on its way.
        await self._ensure_indexes_flow()

    def _start(self, collection: Any, operation: _core.Operation) -> None:
        operation.watch()
        self._has_sent = True
        insert = [collection, operation, None]
        self._started.append(insert)
        insert[2] = self._port.start(operation, connects=True)

    async def _settle_flow(self, *, is_result_needed: bool = True) -> None:
        """Wait for the oldest insert and remove it from the queue, even if it failed."""
        started = self._started[0][2]
        try:
            # None: interrupted in the call that sends it.
            if started is not None:
                await self._port.outlast(started)
        except BaseException as error:
            # A loop that is being closed cancels the insert itself.
            is_cancelled = self._port.is_async and not (is_result_needed or self._port.may_wait(started))
            if not (isinstance(error, PyMongoError) or is_cancelled):
                raise
            self._remove_failed()
            if is_result_needed:
                if isinstance(error, OperationFailure) and error.code in DUPLICATE_KEY_CODES:
                    self._file = None
                    raise file_exists(self._file_id) from error
                raise
        else:
            self._started.popleft() if started is not None else self._remove_failed()

    def _remove_failed(self) -> None:
        collection, operation, _ = self._started.popleft()
        if operation.lost:
            self._lost.append((collection, operation.lost))

    # Indexes.

    async def _ensure_indexes_flow(self) -> None:
        """Create the bucket's indexes if it is empty; an upload must not index a full collection.

        For a file that is written at once, this only sends the requests: `finish_check_flow` receives the replies
        before the upload waits for an insert. So no request holds a connection that another of this upload waits for.
        """
        if self._has_indexes:
            return
        self._has_indexes = True
        files, session = self._root["files"], self._index_session()
        # The second request is sent before the first reply, except in a session, which runs one command at a time.
        connects = self._is_at_once
        earlier = self._port.start(_any_document(files, {}, session), connects)
        later = None
        if session is None:
            # The server may have stored chunks of this upload before it runs the request.
            others = {"files_id": {"$ne": self._file_id}} if self._is_at_once else {}
            later = self._port.start(_any_document(self._chunks, others, None), connects)
        self._asked = (earlier, later)
        if later is None or not self._is_at_once:
            await self.finish_check_flow()

    async def finish_check_flow(self) -> None:
        """Wait for the index check, if it was sent, and create missing indexes."""
        asked, self._asked = self._asked, None
        if asked is None:
            return
        earlier, later = asked
        files, session = self._root["files"], self._index_session()
        try:
            first = await self._port.finish(earlier)
        except BaseException:
            if later is not None:
                self._port.give_up(later)
            raise
        if later is not None:
            second = await self._port.finish(later)
        else:
            second = await self._port.arun(_any_document(self._chunks, {}, session))
        if first is None or second is None:
            while self._started:
                await self._settle_flow()
        if first is None:
            await _create_index_flow(files, _FILES_INDEX, False, session)
        if second is None:
            await _create_index_flow(self._chunks, _CHUNKS_INDEX, True, session)
        known = self._root._client._indexed_buckets
        if len(known) < _KNOWN_BUCKETS:
            known.add(self._root.full_name)

    def _index_session(self) -> _ClientSession | None:
        # A transaction cannot create indexes on a collection with documents.
        return None if is_in_transaction(self._session) else self._session


def _any_document(
    collection: _Collection[Any], filter: Mapping[str, Any], session: _ClientSession | None
) -> _core.Operation:
    command = {
        "find": collection._name,
        "filter": filter,
        "projection": {"_id": 1},
        "limit": 1,
        "singleBatch": True,
    }
    return collection._read_operation(
        command, READ_FIRST, session=session, read_preference=ReadPreference.PRIMARY
    )


async def _create_index_flow(
    collection: _Collection[Any], keys: dict[str, int], is_unique: bool, session: _ClientSession | None
) -> None:
    port = collection._port
    try:
        cursor = await port.call(lambda: collection.list_indexes(session=session))
        known = [list(index["key"].items()) for index in await cursor._to_list_flow(None)]
    except OperationFailure:
        known = []
    if list(keys.items()) not in known:
        options = {"unique": True} if is_unique else {}
        await port.call(lambda: collection.create_index(list(keys.items()), session=session, **options))


def file_exists(file_id: Any) -> FileExists:
    """Return the exception for an id that belongs to another file."""
    return FileExists(f"file with _id {file_id!r} already exists")
