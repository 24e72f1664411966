"""OpenTelemetry spans: one for each operation or bulk write, one below it for each command, one for each transaction.

Loaded only if a client asks for it; `opentelemetry-api` is the extra `mangonel[otel]`. Holds no client.
Spec: open-telemetry.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from mangonel import _core
from mangonel._observe.command_events import shown
from mangonel._version import __version__
from mangonel.bson.raw_bson import RawBSONDocument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from mangonel._observe.command_events import Facts

# Operations whose name differs from their command's.
_OPERATION_NAMES = {"drop": "dropCollection", "create": "createCollection"}
# Commands that name their collection in their first field; for a getMore the core knows the collection.
_ON_COLLECTIONS = frozenset(
    [
        "aggregate",
        "collMod",
        "collStats",
        "count",
        "create",
        "createIndexes",
        "createSearchIndexes",
        "delete",
        "distinct",
        "drop",
        "dropIndexes",
        "dropSearchIndex",
        "find",
        "findAndModify",
        "getMore",
        "insert",
        "killCursors",
        "listIndexes",
        "mapReduce",
        "update",
        "updateSearchIndex",
        "validate",
    ]
)
# Fields of every command, which query text leaves out.
_NOT_SHOWN = ("lsid", "$db", "$clusterTime", "signature")


class Tracer:
    """Makes the spans of one client.

    Args:
        query_text_max_length: how many bytes of a command to show; 0: none.
        provider: the provider of the tracer. None: the global one.
    """

    def __init__(self, query_text_max_length: int, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("mangonel", __version__, provider)
        self._longest = query_text_max_length
        # By operation id, by request id, and by session number.
        self._operations: dict[int, tuple[Span, str | None]] = {}
        self._commands: dict[int, Span] = {}
        self._transactions: dict[int, Span] = {}
        # Running bulk writes: the commands of each share its span.
        self._bulks: set[int] = set()
        # The server's last error for an operation.
        self._refusals: dict[int, tuple[str, str]] = {}

    def transaction_started(self, session: int) -> None:
        """Start the span of a transaction."""
        span = self._tracer.start_span(
            "transaction", kind=SpanKind.CLIENT, attributes={"db.system.name": "mongodb"}
        )
        self._transactions[session] = span

    def transaction_ended(self, session: int) -> None:
        """End the span of a transaction; a second call does nothing."""
        span = self._transactions.pop(session, None)
        if span is not None:
            span.end()

    def operation_started(
        self, operation_id: int, name: str, database: str, target: str | None, session: int | None
    ) -> None:
        """Start the span of an operation; in a bulk write, operations share the bulk's span."""
        if operation_id in self._bulks:
            return
        collection = target if name in _ON_COLLECTIONS else None
        span = self._begin(_OPERATION_NAMES.get(name, name), database, collection, session)
        self._operations[operation_id] = (span, collection)

    @contextmanager
    def bulk(
        self, group: int, name: str, database: str, collection: str | None, session: int | None
    ) -> Iterator[None]:
        """Put one span around the commands of a bulk write, which listeners identify by its `group`."""
        span = self._begin(name, database, collection, session)
        self._operations[group] = (span, collection)
        self._bulks.add(group)
        try:
            yield
        except BaseException as error:
            # The details of a failed bulk contain the user's documents.
            _fail(span, type(error).__name__, str(error).partition(", full error: ")[0])
            raise
        finally:
            self._bulks.discard(group)
            self._operations.pop(group, None)
            self._refusals.pop(group, None)
            span.end()

    def _begin(self, name: str, database: str, collection: str | None, session: int | None) -> Span:
        summary = _summary(name, database, collection)
        attributes = {
            "db.system.name": "mongodb",
            "db.namespace": database,
            "db.operation.name": name,
            "db.operation.summary": summary,
        }
        if collection is not None:
            attributes["db.collection.name"] = collection
        transaction = None if session is None else self._transactions.get(session)
        return self._tracer.start_span(
            summary, _below(transaction), kind=SpanKind.CLIENT, attributes=attributes
        )

    def operation_ended(self, operation_id: int, failure: tuple[str, str] | None) -> None:
        """End the span of an operation."""
        if operation_id in self._bulks:
            return
        refusal = self._refusals.pop(operation_id, None)
        span, _ = self._operations.pop(operation_id, (None, None))
        if span is None:
            return
        if failure is not None:
            _fail(span, *(refusal or failure))
        span.end()

    def command_started(self, facts: Facts, command: bytes) -> None:
        """Start the span of a command, unless it is sensitive."""
        name, database, request_id, operation_id, (host, port), server_id, _, connection, is_secret, _ = facts
        if is_secret:
            return
        operation, collection = self._operations.get(operation_id or 0, (None, None))
        attributes: dict[str, Any] = {
            "db.system.name": "mongodb",
            "db.namespace": database,
            "db.command.name": name,
            "db.query.summary": _summary(name, database, collection),
            "server.address": host,
            "network.transport": "unix" if port is None else "tcp",
            "db.mongodb.driver_connection_id": connection,
        }
        if collection is not None:
            attributes["db.collection.name"] = collection
        if port is not None:
            attributes["server.port"] = port
        if server_id is not None:
            attributes["db.mongodb.server_connection_id"] = server_id
        document = RawBSONDocument(command)
        session = document.get("lsid")
        if session is not None:
            attributes["db.mongodb.lsid"] = str(uuid.UUID(bytes=bytes(session["id"])))
        if "txnNumber" in document:
            attributes["db.mongodb.txn_number"] = int(document["txnNumber"])
        if self._longest > 0:
            attributes["db.query.text"] = _core.shown_json(command, self._longest, _NOT_SHOWN)
        self._commands[request_id] = self._tracer.start_span(
            name, _below(operation), kind=SpanKind.CLIENT, attributes=attributes
        )

    def command_succeeded(self, facts: Facts, reply: bytes) -> None:
        """End the span of a command that was answered."""
        span = self._commands.pop(facts[2], None)
        if span is None:
            return
        cursor = RawBSONDocument(reply).get("cursor")
        if isinstance(cursor, RawBSONDocument) and cursor.get("id"):
            span.set_attribute("db.mongodb.cursor_id", int(cursor["id"]))
        span.end()

    def command_failed(self, facts: Facts, failure: bytes | tuple[str, str]) -> None:
        """End the span of a command that failed."""
        span = self._commands.pop(facts[2], None)
        if isinstance(failure, bytes):
            reply = shown(failure)
            if span is not None and "code" in reply:
                span.set_attribute("db.response.status_code", str(reply["code"]))
            failure = ("OperationFailure", str(reply.get("errmsg", reply.get("codeName", ""))))
            if facts[3] is not None and facts[3] in self._operations:
                self._refusals[facts[3]] = failure
        if span is not None:
            _fail(span, *failure)
            span.end()


def _summary(name: str, database: str, collection: str | None) -> str:
    return f"{name} {database}" if collection is None else f"{name} {database}.{collection}"


def _below(span: Span | None) -> Context | None:
    # None: below the caller's current span.
    return None if span is None else trace.set_span_in_context(span)


def _fail(span: Span, kind: str, message: str) -> None:
    span.set_attributes(
        {
            "error.type": kind,
            "exception.type": kind,
            "exception.message": message,
            # The exception object is created only when the caller gets it, after the span's end.
            "exception.stacktrace": f"{kind}: {message}",
        }
    )
    span.set_status(Status(StatusCode.ERROR, message))
