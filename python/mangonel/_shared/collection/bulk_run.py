"""Runs a bulk write on one collection: runs of equal writes, split into commands, their replies merged.

Spec: crud (bulk write), bulk-write, retryable-writes.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, KIND_WRITE, READ_WRITE, REPLIES_NONE, REPLIES_ONE
from mangonel._shared.collection.write_support import (
    COMMAND_OVERHEAD,
    HALTING_CODES,
    UNTOLD,
    WRITE_FIELDS,
    are_dicts,
    new_group,
    server_limits_flow,
    write_codec,
)
from mangonel._shared.replies import REPLY_ERRORS, malformed
from mangonel._shared.settings import BOUND, write_in
from mangonel.common import validate_is_document_type
from mangonel.errors import BulkWriteError, ConfigurationError, ConnectionFailure, OperationFailure
from mangonel.operations import _WriteModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from mangonel._shared.collection.write_support import WritingSource
    from mangonel._shared.sessions.session import _ClientSession

_SORT_WIRE_VERSION = 25


class Run:
    """The writes of one command, in the order of sending.

    `indexes[i]` is the caller's index of the write at `i`.
    """

    __slots__ = ("command", "indexes", "is_retryable", "writes")

    def __init__(
        self, command: str, writes: list[Any], indexes: Sequence[int], is_retryable: bool = True
    ) -> None:
        self.command = command
        self.writes = writes
        self.indexes = indexes
        self.is_retryable = is_retryable


class TableRun(Run):
    """Inserts of the rows of a table."""

    __slots__ = ()
    writes: _core.ArrowRows  # type: ignore[assignment]  # rows stand in for the list of writes


class BulkRunner:
    """One bulk write on one collection. Used once."""

    def __init__(
        self,
        collection: WritingSource,
        *,
        ordered: bool,
        bypass_document_validation: bool | None = None,
        comment: Any = None,
        let: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
    ) -> None:
        _, self._database_name, self._name, _, _, concern, _ = collection._context
        self._client = client = collection._client
        # The collection's port, which may have a limit of its own, runs the whole flow.
        self._port = port = client._port
        self._session: _core.Session | None = None
        if session is not None or BOUND:
            self._session, concern = write_in(port, session, concern)
        codec = collection._reply_codec
        if codec is None:
            codec = collection._reply_codec = write_codec(collection._codec_options)
        self._codec = codec
        self._concern = concern
        self._is_acknowledged = concern._acknowledged
        self._ordered = ordered
        self._bypass = bypass_document_validation
        self._comment = comment
        self._let = let
        self._group = new_group()
        # The `_id`s of the inserted documents encoded so far; those in raw documents are unknown.
        self.ids: list[Any] = []
        # How many bytes the writes of one command may have: a message minus the envelope (session, cluster time) and
        # the allowance for the command's own fields.
        self._room = 0

    @staticmethod
    def runs_of(requests: Sequence[Any], ordered: bool) -> list[Run]:
        """Return the user's models as runs of equal commands.

        Raises:
            TypeError, ValueError: an element is not a model, or its document is wrong.
        """
        runs: list[Run] = _core.write_runs(requests, bool(ordered), _WriteModel, Run)
        return runs

    @staticmethod
    def result_of(run: Run, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a run that one command sent, from its reply."""
        result = new_result()
        merge(run, 0, reply, result)
        return result

    @staticmethod
    def insert_run(documents: list[Any], first: int = 0) -> Run:
        """Return the inserts of documents; `first` is the caller's index of the first one.

        Raises:
            TypeError: an element is not a document.
        """
        if not are_dicts(documents):
            for document in documents:
                validate_is_document_type("document", document)
        return Run("insert", documents, range(first, first + len(documents)))

    async def run_flow(
        self,
        runs: Iterable[Run],
        *,
        name: str = "bulkWrite",
        first: str = "insert",
        is_traced: bool = False,
        limits: _core.ServerLimits | None = None,
        told: Any = UNTOLD,
    ) -> dict[str, Any] | None:
        """Send all writes; return the merged counts, or None for an unacknowledged write concern.

        Args:
            runs: the runs to send.
            name: name of the operation for tracing.
            first: command of the first run; the log names it during server selection.
            is_traced: whether a span for the bulk write exists already.
            limits: the server's, if they are known.
            told: what came of the only command, if it was sent before with these limits: a reply or an exception.

        Raises:
            BulkWriteError: some writes failed, or were not confirmed; the counts cover the applied ones.
        """
        tracer = self._client._tracer
        if tracer is not None and not is_traced:
            session = None if self._session is None else self._session.number
            # Runs that are made on demand cannot be counted before.
            size = sum(len(run.writes) for run in runs) if isinstance(runs, list) else None
            with tracer.bulk(self._group, name, self._database_name, self._name, session, size):
                return await self.run_flow(runs, first=first, is_traced=True)
        port = self._port
        if limits is None:
            limits = self._client._core.limits()
        if limits is None:
            limits = await server_limits_flow(self._client, first, self._group)
        self._room = room = limits.max_message_size - COMMAND_OVERHEAD
        if room > port.largest_batch:
            self._room = room = port.largest_batch
        if not self._is_acknowledged:
            await self._send_flow(list(runs), limits)
            return None
        result = new_result()
        answered = sent = 0
        unconfirmed: list[tuple[int, int, int, int]] = []
        try:
            for run in runs:
                source, command = self._begin(run, limits)
                start, end = answered, answered + len(run.writes)
                while answered < end:
                    made = source.next_operation(command, limits.max_write_batch_size, room)
                    if made is None:
                        break
                    sent = answered + made[1]
                    reply = await port.arun(made[0]) if told is UNTOLD else _told(told)
                    is_last = merge(run, answered - start, reply, result)
                    if "writeConcernError" in reply:
                        matched = (
                            reply.get("n", 0) - len(reply.get("upserted") or ())
                            if run.command == "update"
                            else 0
                        )
                        unconfirmed.append((answered, sent, matched, reply.get("nModified", 0)))
                    answered = sent
                    if is_last or (self._ordered and "writeErrors" in reply):
                        raise_bulk_error(result)
                self.ids.extend(source.ids)
            if result["writeErrors"] or result["writeConcernErrors"]:
                raise_bulk_error(result)
        except BaseException as error:
            # For callers that track each write; plain numbers, so that the error can be pickled.
            refused = [refusal["index"] for refusal in result["writeErrors"]]
            error.bulk_progress = (  # type: ignore[attr-defined]
                answered,
                sent,
                result["nMatched"],
                result["nModified"],
                refused,
                unconfirmed,
            )
            if isinstance(error, ConnectionFailure):
                take_partial_result(error, result)
            raise
        return result

    # Without replies (w=0).

    async def _send_flow(self, runs: list[Run], limits: _core.ServerLimits) -> None:
        """Send without waiting. Ordered writes need the result of each command, so only the last has w=0."""
        self._check_unacknowledged(runs, limits)
        result, room = new_result(), self._room
        for run in runs:
            source, answered = self._begin(run, limits)
            _, unanswered = self._begin(run, limits, is_acknowledged=False)
            offset, is_last_run = 0, run is runs[-1]
            while rest := len(run.writes) - offset:
                may_be_last = is_last_run and rest <= limits.max_write_batch_size
                is_unsure = may_be_last or not self._ordered
                command = unanswered if is_unsure else answered
                made = source.next_operation(command, limits.max_write_batch_size, room)
                if made is None:
                    break
                operation, count = made
                if is_unsure and self._ordered and count < rest:
                    # The run had to be split by size, so more follows: build this command again, now with a reply.
                    part = type(run)(run.command, run.writes[offset : offset + count], range(count))
                    again, _ = self._begin(part, limits)
                    made = again.next_operation(answered, limits.max_write_batch_size, room)
                    operation, is_unsure = made[0] if made is not None else operation, False
                if is_unsure:
                    await self._port.arun(operation)
                else:
                    try:
                        reply = await self._port.arun(operation)
                    except ConnectionFailure as error:
                        take_partial_result(error, result)
                        raise
                    except OperationFailure:
                        return  # The caller wants no result, and no later write may run.
                    if merge(run, offset, reply, result) or "writeErrors" in reply:
                        return
                offset += count
            self.ids.extend(source.ids)

    def _check_unacknowledged(self, runs: list[Run], limits: _core.ServerLimits) -> None:
        # Writes that are still models have no options.
        writes = [
            write for run in runs if run.command != "insert" for write in run.writes if type(write) is dict
        ]
        for option, name in (("collation", "Collation"), ("arrayFilters", "arrayFilters")):
            if any(option in write for write in writes):
                raise ConfigurationError(f"{name} is unsupported for unacknowledged writes.")
        if limits.max_wire_version < _SORT_WIRE_VERSION and any("sort" in write for write in writes):
            raise ConfigurationError("sort in an unacknowledged update needs MongoDB 8.0 or newer")
        if self._bypass:
            raise OperationFailure("cannot set bypass_document_validation with unacknowledged write concern")

    # Commands.

    def _begin(
        self, run: Run, limits: _core.ServerLimits, is_acknowledged: bool = True
    ) -> tuple[_core.DocumentSource | _core.ArrowSource, _core.WriteCommand]:
        """Return the encoder of a run's writes, and the command that carries each part of them."""
        # The server reports a document that is too large and continues; without a reply the driver must check.
        largest = limits.max_message_size if self._is_acknowledged else limits.max_bson_size
        is_insert = run.command == "insert"
        if not is_insert and self._is_acknowledged:
            largest += COMMAND_OVERHEAD
        source: _core.DocumentSource | _core.ArrowSource
        if type(run) is TableRun:
            source = _core.ArrowSource(run.writes, largest)
        else:
            field = WRITE_FIELDS[run.command]
            source = _core.DocumentSource(run.writes, self._codec, field, is_insert, largest)
        command: dict[str, Any] = {run.command: self._name, "ordered": self._ordered}
        if self._comment is not None:
            command["comment"] = self._comment
        if not is_acknowledged:
            command["writeConcern"] = {"w": 0}
        elif self._is_acknowledged and self._concern._document:
            command["writeConcern"] = self._concern._document
        if self._bypass is not None:
            command["bypassDocumentValidation"] = self._bypass
        if self._let is not None and not is_insert:
            command["let"] = self._let
        return source, _core.WriteCommand(
            self._database_name,
            command,
            self._codec,
            KIND_RETRYABLE_WRITE if run.is_retryable else KIND_WRITE,
            READ_WRITE,
            REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            self._session,
            self._group,
        )


def _told(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def new_result() -> dict[str, Any]:
    """Return an empty merged result."""
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


def merge(run: Run, offset: int, reply: Mapping[str, Any], result: dict[str, Any]) -> bool:
    """Add the reply to one command to the merged result; return whether no command may follow it.

    Args:
        run: the run that the command belongs to.
        offset: the index of the command's first write in the run.
        reply: the server's reply.
        result: from `new_result`.

    Raises:
        ProtocolError: the reply lacks a required field.
    """
    try:
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
            write = run.writes[place]
            error["op"] = _core.write_form(write) if isinstance(write, _WriteModel) else write
            result["writeErrors"].append(error)
        concern_error = reply.get("writeConcernError")
        if not concern_error:
            return False
        if labels := reply.get("errorLabels"):
            concern_error = {**concern_error, "errorLabels": labels}
        result["writeConcernErrors"].append(concern_error)
        return concern_error.get("code") in HALTING_CODES
    except REPLY_ERRORS as error:
        raise malformed(run.command, error) from error


def take_partial_result(error: ConnectionFailure, result: dict[str, Any]) -> None:
    """Add to the error the writes that the server confirmed before it."""
    from mangonel.results import BulkWriteResult

    error.partial_result = BulkWriteResult(result, True)


def raise_bulk_error(result: dict[str, Any]) -> NoReturn:
    """Raise the error for a merged result, with the errors in the caller's order."""
    result["writeErrors"].sort(key=lambda error: error["index"])
    raise BulkWriteError(result)
