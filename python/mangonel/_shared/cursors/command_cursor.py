"""The cursor of all commands except find: it starts with its first batch.

Spec: find-getmore-killcursors-commands, enumerate-collections, enumerate-indexes.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import told_by_public_name
from mangonel._core import READ_RAW_BATCH
from mangonel._light import Generic, Mapping
from mangonel._shared.cursors.cursor import BatchedCursor
from mangonel._shared.face_result import FaceResult
from mangonel._shared.find_command import check_size
from mangonel.errors import InvalidOperation
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession


@told_by_public_name
class _CommandCursor(BatchedCursor[_DocumentType], Generic[_DocumentType]):
    """The results of a command, fetched in batches on demand.

    Made by `aggregate`, `list_collections`, `list_indexes` and similar methods; it has its first batch from the start.

    Args:
        collection: the collection that the command ran on.
        batch: the first batch. None: there are no results. Or the `cursor` field of a command's reply, without
            documents; then the next argument is the address of the server.
        codec: how to decode the documents. None: with the collection's options.
        batch_size: documents per later reply; 0 lets the server choose.
        max_await_time_ms: milliseconds that the server may wait for new data in each later reply.
        comment: shown in the server's logs and profile.
        session: the session of the command.

    Example:
        >>> for total in client.shop.orders.aggregate([{"$group": {"_id": "$customer", "n": {"$sum": 1}}}]):
        ...     print(total["n"])
    """

    def __init__(
        self,
        collection: _Collection[_DocumentType],
        batch: _core.Batch | Mapping[str, Any] | None,
        codec: _core.Codec | None = None,
        batch_size: int = 0,
        max_await_time_ms: int | None = None,
        comment: Any | None = None,
        session: _ClientSession | None = None,
    ) -> None:
        # PyMongo's own arguments: the cursor field of a reply, and the server's address.
        is_adopted = batch is not None and type(batch) is not _core.Batch
        self._begin_state(collection, collection._codec if codec is None or is_adopted else codec)
        self._explicit = session
        self._batch_size = batch_size
        self._max_await_time_ms = max_await_time_ms
        self._comment = comment
        if batch is None:
            self._id = 0
            self._end()
        elif type(batch) is _core.Batch:
            self._take(batch)
        else:
            self._adopt(batch, codec)

    def _adopt(self, reply: Mapping[str, Any], address: Any) -> None:
        """Take over a cursor that the user's own command opened."""
        if reply.get("firstBatch"):
            raise NotImplementedError(
                "expected an empty firstBatch, got documents; use Database.cursor_command, which keeps them"
            )
        database, _, name = str(reply["ns"]).partition(".")
        self._namespace = (database, name)
        self._server = "" if address is None else f"{address[0]}:{address[1]}"
        id = int(reply["id"])
        if id:
            core = self._collection._client._core
            self._note_opened(_core.OpenCursor(core, self._server, str(reply["ns"]), id))
        self._id = id

    def batch_size(self, batch_size: int) -> Self:
        """Request `batch_size` documents per later reply; 0 lets the server choose. Return the cursor.

        Raises:
            TypeError, ValueError: not an integer, or negative.

        Example:
            >>> client.shop.orders.aggregate([]).batch_size(500)
        """
        check_size(batch_size)
        self._batch_size = batch_size
        return self

    def try_next(self) -> FaceResult[_DocumentType | None]:
        """Return the next document, or None if there is none now; sends at most one request.

        Raises:
            OperationFailure, AutoReconnect: as for iterating.

        Example:
            >>> client.shop.orders.aggregate([{"$project": {"_id": 1}}, {"$limit": 1}]).try_next()
            {'_id': 1}
        """
        return self._port.flow(self._try_next_flow())

    async def _try_next_flow(self) -> _DocumentType | None:
        for is_last_try in (False, True):
            if self._batch is not None:
                for document in self._batch:
                    return document
            if is_last_try or not await self._fetch_once_flow():
                return None
        return None


@told_by_public_name
class _RawBatchCommandCursor(_CommandCursor[_DocumentType], Generic[_DocumentType]):
    """The results of an aggregation, a batch at a time, as the concatenated bytes of its documents.

    Made by `Collection.aggregate_raw_batches`.
    """

    _reading = READ_RAW_BATCH

    def __getitem__(self, index: Any) -> Any:
        raise InvalidOperation("Cannot call __getitem__ on RawBatchCommandCursor")
