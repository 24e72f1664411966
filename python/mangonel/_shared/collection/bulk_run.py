"""Running a bulk write on one collection: runs of equal writes, split into commands, their replies merged.

Knows commands and limits, not the models that users write. Spec: crud (bulk write), bulk-write, retryable-writes.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, KIND_WRITE, READ_DOCUMENT, REPLIES_NONE, REPLIES_ONE
from mangonel._shared.collection.write_support import (
    COMMAND_OVERHEAD,
    HALTING_CODES,
    new_group,
    server_facts_flow,
    write_codec,
)
from mangonel._shared.replies import ReplyTo
from mangonel._shared.settings import concern_in, session_handle, session_of
from mangonel.common import validate_is_document_type
from mangonel.errors import BulkWriteError, ConfigurationError, ConnectionFailure, OperationFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn

    from mangonel._shared.base import CommandSource
    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.sessions.session import _ClientSession

# The field of each command that holds its writes.
_FIELDS = {"insert": "documents", "update": "updates", "delete": "deletes"}
_SORT_WIRE_VERSION = 25


class Run:
    """Writes of one command in the order in which they are sent.

    `indexes[i]` is where the caller had the write that stands at `i` here.
    """

    __slots__ = ("command", "indexes", "is_retryable", "writes")

    def __init__(self, command: str, writes: list[Any], indexes: Sequence[int]) -> None:
        self.command = command
        self.writes = writes
        self.indexes = indexes
        self.is_retryable = True

    def add(self, index: int, write: Any) -> None:
        """Add a write that the caller had at `index`. Only for a run that was made with an empty list of indexes."""
        self.writes.append(write)
        self.indexes.append(index)  # type: ignore[attr-defined]
        if self.command != "insert" and (write.get("multi") or write.get("limit") == 0):
            # A repetition would change or delete other documents than the first time.
            self.is_retryable = False

    def source(self, codec: _core.Codec, largest: int) -> _core.DocumentSource | _core.ArrowSource:
        """Return what encodes the writes; none may have more bytes than `largest`."""
        return _core.DocumentSource(
            self.writes, codec, _FIELDS[self.command], self.command == "insert", largest
        )


class TableRun(Run):
    """Inserts of the rows of a table."""

    __slots__ = ()
    writes: _core.ArrowRows  # type: ignore[assignment]  # rows stand in for the list of writes

    def source(self, codec: _core.Codec, largest: int) -> _core.ArrowSource:
        """Return what encodes the rows."""
        return _core.ArrowSource(self.writes, codec, largest)


class BulkRunner:
    """One bulk write on one collection. Used once."""

    def __init__(
        self,
        collection: CommandSource,
        client: _MongoClient[Any],
        name: str,
        ordered: bool,
        bypass_document_validation: bool | None,
        comment: Any,
        let: Mapping[str, Any] | None,
        session: _ClientSession | None = None,
    ) -> None:
        explicit = session_of(client._port, session)
        self._session = session_handle(explicit)
        self._client = client
        self._port = client._port
        self._database_name = collection._database_name
        self._codec = write_codec(collection._codec_options)
        self._name = name
        self._concern = concern_in(explicit, collection._write_concern)
        self._ordered = ordered
        self._bypass = bypass_document_validation
        self._comment = comment
        self._let = let
        self._group = new_group()
        # The `_id`s of inserted documents that were encoded so far; those inside raw documents are not known.
        self.ids: list[Any] = []

    async def run_flow(
        self, runs: Iterable[Run], *, name: str = "bulkWrite", first: str = "insert"
    ) -> dict[str, Any] | None:
        """Send everything; return the merged counts, or None when the write concern asks for no answer.

        Args:
            runs: what to send.
            name: what tracers call it.
            first: the command of the first run, by which the log calls the search for a server.

        Raises:
            BulkWriteError: some writes failed, or were not confirmed; the counts tell what was done.
        """
        tracer = self._client._tracer
        if tracer is None:
            return await self._run_flow(runs, first)
        session = None if self._session is None else self._session.number
        with tracer.bulk(self._group, name, self._database_name, self._name, session):
            return await self._run_flow(runs, first)

    async def _run_flow(self, runs: Iterable[Run], first: str) -> dict[str, Any] | None:
        facts = await server_facts_flow(self._client, first, self._group)
        if not self._concern.acknowledged:
            await self._send_flow(list(runs), facts)
            return None
        result = new_result()
        for run in runs:
            source = self._source(run, facts)
            offset = 0
            while made := self._next(source, run, facts):
                operation, count = made
                await self._take_reply_flow(operation, run, offset, result)
                offset += count
            self.ids.extend(source.ids)
        if result["writeErrors"] or result["writeConcernErrors"]:
            raise_bulk_error(result)
        return result

    async def _take_reply_flow(
        self, operation: _core.Operation, run: Run, offset: int, result: dict[str, Any]
    ) -> None:
        try:
            reply = await self._port.arun(operation)
        except ConnectionFailure as error:
            from mangonel.results import BulkWriteResult

            error.partial_result = BulkWriteResult(result, True)
            raise
        with ReplyTo(run.command):
            merge(run, offset, reply, result)
            concern_error = reply.get("writeConcernError")
            is_halted = concern_error is not None and concern_error.get("code") in HALTING_CODES
        if is_halted or (self._ordered and "writeErrors" in reply):
            raise_bulk_error(result)

    # Without answers (w=0).

    async def _send_flow(self, runs: list[Run], facts: Mapping[str, Any]) -> None:
        """Send without waiting. Ordered writes need to know how the command before went, so only the last has w=0."""
        self._check_unacknowledged(runs, facts)
        result = new_result()
        for run in runs:
            source = self._source(run, facts)
            offset, is_last_run = 0, run is runs[-1]
            while True:
                rest = len(run.writes) - offset
                may_be_last = is_last_run and rest <= facts["max_write_batch_size"]
                is_unsure = may_be_last or not self._ordered
                made = self._next(source, run, facts, is_acknowledged=not is_unsure)
                if made is None:
                    break
                operation, count = made
                if is_unsure and self._ordered and count < rest:
                    # It was split by size after all, so more follows: make it again, this time with an answer.
                    part = type(run)(run.command, run.writes[offset : offset + count], range(count))
                    part.is_retryable = run.is_retryable
                    again = self._next(self._source(part, facts), part, facts)
                    operation, is_unsure = again[0] if again is not None else operation, False
                if is_unsure:
                    await self._port.arun(operation)
                else:
                    try:
                        await self._take_reply_flow(operation, run, offset, result)
                    except OperationFailure:
                        return  # Nobody asked how it went, and nothing after it may run.
                offset += count
            self.ids.extend(source.ids)

    def _check_unacknowledged(self, runs: list[Run], facts: Mapping[str, Any]) -> None:
        writes = [write for run in runs if run.command != "insert" for write in run.writes]
        for option, name in (("collation", "Collation"), ("arrayFilters", "arrayFilters")):
            if any(option in write for write in writes):
                raise ConfigurationError(f"{name} is unsupported for unacknowledged writes.")
        if facts["max_wire_version"] < _SORT_WIRE_VERSION and any("sort" in write for write in writes):
            raise ConfigurationError("sort in an unacknowledged update needs MongoDB 8.0 or newer")
        if self._bypass:
            raise OperationFailure("cannot set bypass_document_validation with unacknowledged write concern")

    # Commands.

    def _source(self, run: Run, facts: Mapping[str, Any]) -> _core.DocumentSource | _core.ArrowSource:
        # The server says which documents are too large and goes on with the others; without its answer we must.
        largest = facts["max_message_size"] if self._concern.acknowledged else facts["max_bson_size"]
        if run.command != "insert" and self._concern.acknowledged:
            largest += COMMAND_OVERHEAD
        return run.source(self._codec, largest)

    def _next(
        self,
        source: _core.DocumentSource | _core.ArrowSource,
        run: Run,
        facts: Mapping[str, Any],
        is_acknowledged: bool = True,
    ) -> tuple[_core.Operation, int] | None:
        command: dict[str, Any] = {run.command: self._name, "ordered": self._ordered}
        if self._comment is not None:
            command["comment"] = self._comment
        if not is_acknowledged:
            command["writeConcern"] = {"w": 0}
        elif self._concern.acknowledged and not self._concern.is_server_default:
            command["writeConcern"] = self._concern.document
        if self._bypass is not None:
            command["bypassDocumentValidation"] = self._bypass
        if self._let is not None and run.command != "insert":
            command["let"] = self._let
        made = source.next_operation(
            self._database_name,
            command,
            KIND_RETRYABLE_WRITE if run.is_retryable else KIND_WRITE,
            READ_DOCUMENT,
            REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            facts["max_write_batch_size"],
            # The envelope (session, cluster time) and the allowance for fields of the command itself.
            min(facts["max_message_size"] - COMMAND_OVERHEAD, self._port.largest_batch),
            self._session,
        )
        if made is not None:
            made[0].join(self._group)
        return made


def new_result() -> dict[str, Any]:
    """Return a merged result that counts nothing yet."""
    return {
        "writeErrors": [],
        "writeConcernErrors": [],
        "nInserted": 0,
        "nUpserted": 0,
        "nMatched": 0,
        "nModified": 0,
        "nRemoved": 0,
        "upserted": [],
    }


def merge(run: Run, offset: int, reply: Mapping[str, Any], result: dict[str, Any]) -> None:
    """Add the reply to one command, whose first write stands at `offset` of the run, to the merged result."""
    affected = reply.get("n", 0)
    if run.command == "insert":
        result["nInserted"] += affected
    elif run.command == "delete":
        result["nRemoved"] += affected
    else:
        upserted = reply.get("upserted") or ()
        for upsert in upserted:
            upsert["index"] = run.indexes[upsert["index"] + offset]
            result["upserted"].append(upsert)
        result["nUpserted"] += len(upserted)
        result["nMatched"] += affected - len(upserted)
        result["nModified"] += reply.get("nModified", 0)
    for error in reply.get("writeErrors") or ():
        place = error["index"] + offset
        error["index"] = run.indexes[place]
        error["op"] = run.writes[place]
        result["writeErrors"].append(error)
    concern_error = reply.get("writeConcernError")
    if concern_error:
        if labels := reply.get("errorLabels"):
            concern_error = {**concern_error, "errorLabels": labels}
        result["writeConcernErrors"].append(concern_error)


def raise_bulk_error(result: dict[str, Any]) -> NoReturn:
    """Raise for a merged result with errors, in the order in which the caller gave the writes."""
    result["writeErrors"].sort(key=lambda error: error["index"])
    raise BulkWriteError(result)


def check_documents(documents: Iterable[Any]) -> None:
    """Raise TypeError unless each of the documents can be stored; quick when all of them are dicts."""
    if set(map(type, documents)) != {dict}:
        for document in documents:
            validate_is_document_type("document", document)


def chunks(documents: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield the documents in lists of at most `size`."""
    from itertools import islice

    while chunk := list(islice(documents, size)):
        yield chunk
