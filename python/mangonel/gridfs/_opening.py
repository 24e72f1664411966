"""Reads a file's document and its first chunks with one command, if a round trip to the server takes milliseconds.

The server reads the document before the chunks, as with two commands. By id the command is a union of both collections;
by name the chunks are joined to the document, since only the document has their id. Spec: gridfs (file download).
"""

from __future__ import annotations

from mangonel import _core
from mangonel._light import Any
from mangonel._shared.cursors.command_cursor import _CommandCursor
from mangonel._shared.settings import session_of
from mangonel.errors import ExecutionTimeout, OperationFailure
from mangonel.gridfs._names import equal_to, is_in_transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._faces.port import Port
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession

# A round trip of at least this many seconds costs more than a saved command gains elsewhere.
LEAST_DISTANCE = 0.0007

# How many first chunks to request: a file of 1 MiB has five of the default size, and a sixth would be surplus. After a
# larger file was read to its end, as many are requested of the next one, if that pays (`ChunkStream._remember`).
FIRST_CHUNKS = 6

# The server has no `aggregate`, no such stage, none in its stable API, or none for a sharded collection.
_UNSUPPORTED_CODES = frozenset({59, 115, 168, 238, 303, 323, 28769, 40324})

# The document stands before its first chunk, and alone if it has no chunk at all.
_DOCUMENT = {"file": "$file"}
_BRANCHES = [
    {"case": {"$eq": ["$chunk.n", 0]}, "then": [_DOCUMENT, "$chunk"]},
    {"case": {"$eq": [{"$type": "$chunk"}, "object"]}, "then": ["$chunk"]},
]


class _OpeningCursor(_CommandCursor[Any], _core.BatchCursor):
    """The cursor of that command; only its first batch is read."""


class FirstBatch:
    """The first chunks of a file, which came with its document.

    Attributes:
        batch: the chunks.
        is_whole: whether the server had no further chunk.
        has_cursor: whether the server's cursor can be read on; it ends when the batch is dropped.
    """

    __slots__ = ("batch", "has_cursor", "is_whole")

    def __init__(self, batch: _core.Batch, is_whole: bool, has_cursor: bool) -> None:
        self.batch = batch
        self.is_whole = is_whole
        self.has_cursor = has_cursor


def is_far(port: Port) -> bool:
    """Return whether the nearest server is so far away that a round trip should be saved."""
    return port.distance >= LEAST_DISTANCE


def may_open(port: Port, session: _ClientSession | None) -> bool:
    """Return whether to read the document and the first chunks of a file at once."""
    # Transactions have no `$unionWith`, and a query analyser accepts none.
    return is_far(port) and not port.is_encrypting and not is_in_transaction(session_of(port, session))


async def opening_flow(
    root: _Collection[Any], file_id: Any, session: _ClientSession | None
) -> tuple[Mapping[str, Any] | None, FirstBatch | None] | None:
    """Return a file's document (None if there is none) and its first chunks.

    Return None instead if the server refused the command, or the file is damaged; then read the document alone.
    """
    if not root._client._knows_unions:
        return None
    keeps_cursor = _keeps_cursor(root, session)
    chunks = _chunks({"files_id": equal_to(file_id)}, count := _count(root), keeps_cursor)
    pipeline: list[dict[str, Any]] = [
        {"$match": {"_id": equal_to(file_id)}},
        # Wrapped, so that no chunk is taken for the file's document: every chunk has an `_id`.
        {"$replaceWith": {"file": "$$ROOT"}},
        {"$unionWith": {"coll": root["chunks"]._name, "pipeline": chunks}},
    ]
    try:
        return await _opened_flow(root, pipeline, count, session, keeps_cursor)
    except OperationFailure as error:
        root._client._knows_unions = _may_ask_again(error)
        return None


async def opening_version_flow(
    root: _Collection[Any],
    query: Mapping[str, Any],
    order: int,
    skip: int,
    session: _ClientSession | None,
) -> tuple[Mapping[str, Any] | None, FirstBatch | None] | None:
    """Return what `opening_flow` does for the file that a query, sorted by upload date, finds after `skip` others."""
    if not root._client._knows_joins:
        return None
    keeps_cursor = _keeps_cursor(root, session)
    of_file = {"$expr": {"$eq": ["$files_id", "$$id"]}}
    join = {
        "from": root["chunks"]._name,
        "let": {"id": "$file._id"},
        "pipeline": _chunks(of_file, count := _count(root), keeps_cursor),
        "as": "chunk",
    }
    pipeline: list[dict[str, Any]] = [
        {"$match": query},
        {"$sort": {"uploadDate": order}},
        {"$skip": skip},
        {"$limit": 1},
        {"$replaceWith": {"file": "$$ROOT"}},
        {"$lookup": join},
        # Not one list of all chunks, which may be too large for a document.
        {"$unwind": {"path": "$chunk", "preserveNullAndEmptyArrays": True}},
        {"$project": {"each": {"$switch": {"branches": _BRANCHES, "default": [_DOCUMENT]}}}},
        {"$unwind": "$each"},
        {"$replaceWith": "$each"},
    ]
    try:
        return await _opened_flow(root, pipeline, count, session, keeps_cursor)
    except OperationFailure as error:
        root._client._knows_joins = _may_ask_again(error)
        return None


def _keeps_cursor(root: _Collection[Any], session: _ClientSession | None) -> bool:
    """Return whether the cursor goes on to all chunks, so that the rest of a large file needs no other one."""
    return root._client._keeps_opening_cursor and session_of(root._port, session) is None


def _count(root: _Collection[Any]) -> int:
    return max(FIRST_CHUNKS, root._client._first_chunks)


def _chunks(of_file: Mapping[str, Any], count: int, is_to_the_end: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"$match": of_file}, {"$sort": {"n": 1}}]
    return found if is_to_the_end else [*found, {"$limit": count}]


def _may_ask_again(error: OperationFailure) -> bool:
    """Return whether the next file may be opened in this way; raise the error if the caller's time is over."""
    if isinstance(error, ExecutionTimeout):
        raise error
    return error.code not in _UNSUPPORTED_CODES


async def _opened_flow(
    root: _Collection[Any],
    pipeline: list[dict[str, Any]],
    count: int,
    session: _ClientSession | None,
    keeps_cursor: bool,
) -> tuple[Mapping[str, Any] | None, FirstBatch | None] | None:
    """Run a pipeline whose first result is `{file: DOCUMENT}` and whose others are chunks; receive about `count`."""
    files = root["files"]
    # One more than the file's document and `count` chunks, so that a pipeline with this limit leaves no cursor.
    command = {"aggregate": files._name, "pipeline": pipeline, "cursor": {"batchSize": count + 2}}
    batch = await files._port.arun(files._read_operation(command, _core.READ_BATCH, session=session))
    if batch is None:
        return None
    first = next(batch, None)
    is_whole = not batch.id and (keeps_cursor or len(batch) < count)
    if batch.id and not (keeps_cursor and batch.pinned is None and first is not None):
        # Large chunks do not fit into one reply; another cursor reads the others.
        _OpeningCursor(files, batch, session=session)._abandon()
        keeps_cursor = False
    if first is None:
        return None, None
    if tuple(first) != ("file",):
        # Chunks of no document, or of one whose first chunk is missing: the document alone decides.
        return None
    return first["file"], FirstBatch(batch, is_whole, keeps_cursor and bool(batch.id))
