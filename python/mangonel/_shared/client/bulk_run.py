"""Runs a client's bulk write: its commands, the cursor over their results, and the merging of both.

Knows the `bulkWrite` command, not the arguments of `bulk_write`. Spec: bulk-write, retryable-writes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mangonel import _core
from mangonel._core import (
    KIND_READ_ONCE,
    KIND_RETRYABLE_WRITE,
    KIND_WRITE,
    READ_BATCH,
    READ_UNCHECKED,
    READ_WITH_BATCH,
    REPLIES_NONE,
    REPLIES_ONE,
)
from mangonel._shared.client.bulk_models import as_write
from mangonel._shared.collection.write_support import (
    COMMAND_OVERHEAD,
    HALTING_CODES,
    new_group,
    server_limits_flow,
    write_codec,
)
from mangonel._shared.operation import build_operation
from mangonel._shared.replies import ReplyTo
from mangonel.common import MAX_BSON_SIZE
from mangonel.errors import (
    ClientBulkWriteException,
    ConfigurationError,
    DocumentTooLarge,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from mangonel.results import ClientBulkWriteResult, DeleteResult, InsertOneResult, UpdateResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from mangonel._shared.client.bulk import ClientBulkWrite
    from mangonel._shared.client.client import _MongoClient
    from mangonel.write_concern import WriteConcern

_MIN_WIRE_VERSION = 25
# The specification's allowance for the message around the two sequences.
_MESSAGE_OVERHEAD = 1000


class ClientBulkRunner:
    """One bulk write of a client. Used once."""

    def __init__(
        self,
        client: ClientBulkWrite,
        concern: WriteConcern,
        ordered: bool,
        has_verbose_results: bool,
        session: _core.Session | None = None,
    ) -> None:
        self._session = session
        self._client: _MongoClient[Any] = client  # type: ignore[assignment]
        self._port = client._port
        self._codec = write_codec(client._codec_options)
        self._concern = concern
        self._ordered = ordered
        self._has_verbose_results = has_verbose_results
        self._writes: list[dict[str, Any]] = []
        self._namespaces: list[str] = []
        self._is_retryable = True
        self._comment: Any | None = None
        self._result: dict[str, Any] = {
            "anySuccessful": False,
            "error": None,
            "writeErrors": [],
            "writeConcernErrors": [],
            "nInserted": 0,
            "nUpserted": 0,
            "nMatched": 0,
            "nModified": 0,
            "nDeleted": 0,
            "insertResults": {},
            "updateResults": {},
            "deleteResults": {},
        }

    def add(self, model: Any) -> None:
        """Add one write; raise if it cannot be sent."""
        write, namespace = as_write(model)
        if write.get("multi"):
            # A repeated multi-document write would change or delete documents that the first attempt did not.
            self._is_retryable = False
        self._writes.append(write)
        self._namespaces.append(namespace)

    async def run_flow(self, command: dict[str, Any]) -> ClientBulkWriteResult:
        """Send all writes; return the merged result.

        Raises:
            ClientBulkWriteException: some writes failed, or were not confirmed.
        """
        tracer = self._client._tracer
        if tracer is None:
            return await self._run_flow(command, new_group())
        group, session = new_group(), None if self._session is None else self._session.number
        with tracer.bulk(group, "bulkWrite", "admin", None, session, len(self._writes)):
            return await self._run_flow(command, group)

    async def _run_flow(self, command: dict[str, Any], group: int) -> ClientBulkWriteResult:
        limits = await server_limits_flow(self._client, "bulkWrite", group)
        if limits.max_wire_version < _MIN_WIRE_VERSION:
            raise InvalidOperation(
                "MongoClient.bulk_write needs MongoDB 8.0 or newer (wire version 25), got wire version "
                f"{limits.max_wire_version}; use the collection's bulk_write"
            )
        is_acknowledged = self._concern.acknowledged
        if not is_acknowledged:
            self._check_unacknowledged(command)
        largest = limits.max_message_size if is_acknowledged else limits.max_bson_size + COMMAND_OVERHEAD
        source = _core.NamespacedSource(self._writes, self._namespaces, self._codec, largest)
        self._comment = command.get("comment")
        write_command = _core.WriteCommand(
            "admin",
            command,
            self._codec,
            KIND_RETRYABLE_WRITE if self._is_retryable else KIND_WRITE,
            READ_WITH_BATCH,
            REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            self._session,
            group,
        )
        room = limits.max_message_size - _MESSAGE_OVERHEAD
        offset = 0
        while made := source.next_operation(write_command, limits.max_write_batch_size, room):
            operation, count = made
            if is_acknowledged:
                await self._take_reply_flow(operation, offset, count)
            else:
                await self._port.arun(operation)
            offset += count
        if not is_acknowledged:
            return ClientBulkWriteResult({}, False, False)
        if self._result["writeErrors"] or self._result["writeConcernErrors"]:
            self._raise()
        return ClientBulkWriteResult(self._result, True, self._has_verbose_results)

    def _check_unacknowledged(self, command: Mapping[str, Any]) -> None:
        for option, name in (("collation", "Collation"), ("arrayFilters", "arrayFilters")):
            if any(option in write for write in self._writes):
                raise ConfigurationError(f"{name} is unsupported for unacknowledged writes.")
        if "bypassDocumentValidation" in command:
            raise OperationFailure("cannot set bypass_document_validation with unacknowledged write concern")
        self._check_unanswered_sizes()

    def _check_unanswered_sizes(self) -> None:
        """Refuse documents that the server would not store, since an unacknowledged write reports no error."""
        from mangonel.bson import encode

        for write in self._writes:
            document = write.get("document", write.get("updateMods"))
            # A pipeline or operators may be larger than their result.
            if not isinstance(document, Mapping) or next(iter(document), "").startswith("$"):
                continue
            size = len(encode(document, codec_options=self._client._codec_options))
            if size > MAX_BSON_SIZE:
                raise DocumentTooLarge(
                    f"expected a document of at most {MAX_BSON_SIZE} bytes for an unacknowledged write, got {size}"
                )

    async def _take_reply_flow(self, operation: _core.Operation, offset: int, count: int) -> None:
        """Run one command and merge its reply; raise if no command may follow."""
        try:
            reply, batch = await self._port.arun(operation)
        except PyMongoError as error:
            was_sent = not isinstance(
                error, (ServerSelectionTimeoutError, WaitQueueTimeoutError, InvalidOperation)
            )
            if not was_sent and not self._result["anySuccessful"]:
                raise
            self._result["error"] = error
            self._raise(error)
        result = self._result
        with ReplyTo("bulkWrite"):
            if reply.get("nErrors", 0) < count:
                result["anySuccessful"] = True
            for name in ("nInserted", "nDeleted", "nMatched", "nModified", "nUpserted"):
                result[name] += reply.get(name, 0)
            is_halted = self._take_concern_error(reply)
        if is_halted:
            self._raise()
        if batch is not None:
            try:
                await self._take_results_flow(batch, offset)
            except PyMongoError as error:
                # The writes are done; only their results are unknown.
                result["error"] = {
                    "errmsg": str(error),
                    "code": getattr(error, "code", None),
                    "errtype": type(error).__name__,
                }
        if result["error"] or (self._ordered and result["writeErrors"]):
            self._raise()

    def _take_concern_error(self, reply: dict[str, Any]) -> bool:
        """Record a write concern error; return whether no command may follow it."""
        concern_error = reply.get("writeConcernError")
        if not concern_error:
            return False
        if labels := reply.get("errorLabels"):
            concern_error = {**concern_error, "errorLabels": labels}
        self._result["writeConcernErrors"].append(concern_error)
        return self._is_retryable and concern_error.get("code") in HALTING_CODES

    async def _take_results_flow(self, batch: _core.Batch, offset: int) -> None:
        """Read the cursor over the results of single writes to its end, or to the error that ended an ordered bulk."""
        opened = batch.opened
        while True:
            cursor_id, (database, _, collection) = batch.id, batch.namespace.partition(".")
            is_over = False
            for found in batch:
                with ReplyTo("bulkWrite"):
                    is_over = self._take_result(found, offset)
                if is_over:
                    break
            if opened is None:
                return
            if not cursor_id:
                opened.disown()
                return
            if is_over:
                await self._kill_flow(database, collection, cursor_id)
                opened.disown()
                return
            command: dict[str, Any] = {"getMore": cursor_id, "collection": collection}
            if self._comment is not None:
                command["comment"] = self._comment
            operation = build_operation(
                command,
                database=database,
                codec=self._codec,
                kind=KIND_READ_ONCE,
                reading=READ_BATCH,
                session=self._session or batch.session,
            )
            try:
                batch = await self._port.arun(operation)
            except PyMongoError:
                await self._kill_flow(database, collection, cursor_id)
                opened.disown()
                raise

    async def _kill_flow(self, database: str, collection: str, cursor_id: int) -> None:
        command = {"killCursors": collection, "cursors": [cursor_id]}
        operation = build_operation(
            command,
            database=database,
            codec=self._codec,
            kind=KIND_WRITE,
            reading=READ_UNCHECKED,
            session=self._session or False,
        )
        try:
            await self._port.arun(operation)
        except PyMongoError:
            return  # The server ends idle cursors by itself.

    def _take_result(self, found: dict[str, Any], offset: int) -> bool:
        """Record the result of one write; return whether it ended an ordered bulk."""
        index = found["idx"] + offset
        write = self._writes[index]
        if not found["ok"]:
            found["idx"] = index
            found["op"] = write
            self._result["writeErrors"].append(found)
            return self._ordered
        if self._has_verbose_results:
            kind = next(iter(write))
            outcome: Any
            if kind == "insert":
                outcome = InsertOneResult(write["document"]["_id"], True)
            elif kind == "update":
                outcome = UpdateResult(found, True, in_client_bulk=True)
            else:
                outcome = DeleteResult(found, True)
            self._result[f"{kind}Results"][index] = outcome
        return False

    def _raise(self, cause: Exception | None = None) -> NoReturn:
        self._result["writeErrors"].sort(key=lambda error: error["idx"])
        partial: ClientBulkWriteResult | None = None
        if self._result["anySuccessful"]:
            partial = ClientBulkWriteResult(dict(self._result), True, self._has_verbose_results)
        raise ClientBulkWriteException(self._result, self._has_verbose_results, partial) from cause
