"""OpenTelemetry spans: one for each operation or bulk write, one below it for each command, one for each transaction.

Loaded only if a client uses tracing; `opentelemetry-api` is the extra `mangonel[otel]`. Holds no client. The core calls
`Tracer.operation_started` for each operation, and then the returned object for its events. If no span is recorded,
the result is None and the core calls nothing more.
Spec: open-telemetry; the names are also those of OpenTelemetry's conventions for databases.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import time_ns
from weakref import ref

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from mangonel import _core
from mangonel._observe.own_spans import maker_of
from mangonel._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from opentelemetry.trace import Span, TracerProvider

    from mangonel.typings import _Address

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
# Fields that query text without values leaves out too: only their values say something.
_ONLY_VALUES = (*_NOT_SHOWN, "txnNumber", "$readPreference", "apiVersion")


# How many different places and connections are remembered at once.
_MOST_REMEMBERED = 1000
_CLIENT = SpanKind.CLIENT


class Tracer:
    """Makes the spans of one client.

    Args:
        query_text_max_length: how many bytes of a command to show; 0: none.
        provider: the provider of the tracer. None: the global one.
        shows_values: whether the text of a command shows its values. False: "?" in their place.
    """

    def __init__(
        self,
        query_text_max_length: int,
        provider: TracerProvider | None = None,
        *,
        shows_values: bool = True,
    ) -> None:
        self._take(trace.get_tracer("mangonel", __version__, provider))
        self._longest = query_text_max_length
        self._shows_values = shows_values
        # By session number.
        self._transactions: dict[int, Span] = {}
        # The transactions' sessions, which a program may drop.
        self._sessions: dict[int, ref[Any]] = {}
        # Running bulk writes by the group of their commands; None for one that is not recorded.
        self._bulks: dict[int, _Operation | None] = {}
        # By name, database and collection.
        self._places: dict[tuple[str, str, str | None], _Place] = {}

    def _take(self, tracer: trace.Tracer) -> None:
        """Make the spans with this tracer, or with a faster maker in its place."""
        # A ProxyTracer represents the global provider, which may be set later, or never.
        self._is_stand_in = isinstance(tracer, trace.ProxyTracer)
        self._maker = None if self._is_stand_in else maker_of(tracer)
        # The SDK's method takes the same arguments in this order, and more.
        self.start_span: Callable[..., Span] = (self._maker or tracer).start_span
        # New Relic's agent drops spans below one of the kind "client": the commands, with their hosts and texts.
        is_new_relics = type(tracer).__module__.partition(".")[0] == "newrelic"
        self._outer_kind = SpanKind.INTERNAL if is_new_relics else _CLIENT

    def transaction_started(self, session: int, owner: object) -> None:
        """Start the span of a transaction.

        Args:
            session: the number of its session.
            owner: the session itself.
        """
        # Not done in a finalizer: a processor may hold a lock.
        for number, known in list(self._sessions.items()):
            if known() is None:
                self.transaction_ended(number, "the session was dropped")
        with _harmless():
            span = self.start_span("transaction", None, self._outer_kind, {"db.system.name": "mongodb"})
            self._transactions[session], self._sessions[session] = span, ref(owner)

    def transaction_ended(self, session: int, reason: str | None = None) -> None:
        """End the span of a transaction; a second call does nothing. `reason`: why it was given up."""
        span = self._transactions.pop(session, None)
        self._sessions.pop(session, None)
        if span is not None:
            with _harmless():
                if reason is not None:
                    _fail(span, "CancelledError", reason)
                span.end()

    def closed(self) -> None:
        """End the spans of transactions that the closed client cannot end."""
        for number, known in list(self._sessions.items()):
            reason = "the session was dropped" if known() is None else "the client was closed"
            self.transaction_ended(number, reason)

    def operation_started(
        self, name: str, database: str, collection: str | None, session: int | None, group: int | None
    ) -> _Operation | None:
        """Start the span of an operation.

        Args:
            name: the name of its command.
            database: its database.
            collection: the name in its command's first field.
            session: the number of the user's session, or None.
            group: the object that the commands of a bulk write share, or None. They share the bulk's span.

        Returns:
            The object to call for its commands and its end; None if nothing records the span.
        """
        # Without a provider no span can be recorded, and None is cheaper than a span that records nothing.
        if self._is_stand_in:
            if getattr(trace, "_TRACER_PROVIDER", self) is None:
                return None
            self._take(trace.get_tracer("mangonel", __version__))
        if group is not None and group in self._bulks:
            bulk = self._bulks[group]
            return None if bulk is None else bulk.part()
        place = self._places.get((name, database, collection))
        if place is None:
            place = self._remember(name, database, collection)
        span: Span | None
        if session is not None and session in self._transactions:
            context = trace.set_span_in_context(self._transactions[session])
            span = self.start_span(place.summary, context, self._outer_kind, place.attributes)
        elif self._maker is not None:
            span = self._maker.start_operation(place.summary, place.attributes)
            return None if span is None else _Operation(self, place, span)
        else:
            span = self.start_span(place.summary, None, self._outer_kind, place.attributes)
        return _Operation(self, place, span) if span.is_recording() else None

    def _remember(self, name: str, database: str, collection: str | None) -> _Place:
        if len(self._places) >= _MOST_REMEMBERED:
            self._places = {}
        place = self._places[name, database, collection] = _Place(
            _OPERATION_NAMES.get(name, name), database, collection if name in _ON_COLLECTIONS else None
        )
        return place

    @contextmanager
    def bulk(
        self,
        group: int,
        name: str,
        database: str,
        collection: str | None,
        session: int | None,
        size: int | None = None,
    ) -> Iterator[None]:
        """Put one span around the commands of a bulk write.

        Args:
            group: the object that its commands share.
            name: the name of the operation.
            database: its database.
            collection: its collection, or None.
            session: the number of the user's session, or None.
            size: the number of its writes, or None if that is not known.
        """
        # A bulk write is no command, so the collection cannot come from a command's first field.
        place = _Place(name, database, collection)
        context = None
        if session is not None and session in self._transactions:
            context = trace.set_span_in_context(self._transactions[session])
        attributes = place.attributes
        if size is not None and size > 1:
            attributes = {**attributes, "db.operation.batch.size": size}
        span: Span = trace.INVALID_SPAN
        with _harmless():
            span = self.start_span(place.summary, context, self._outer_kind, attributes)
        self._bulks[group] = _Operation(self, place, span) if span.is_recording() else None
        try:
            yield
        except BaseException as error:
            # The details of a failed bulk contain the user's documents.
            with _harmless():
                _fail(span, type(error).__name__, str(error).partition(", full error: ")[0])
            raise
        finally:
            del self._bulks[group]
            with _harmless():
                span.end()


class _Place:
    """The common part of the spans of one kind of operation."""

    __slots__ = ("_commands", "attributes", "collection", "database", "summary")

    def __init__(self, name: str, database: str, collection: str | None) -> None:
        self.database = database
        self.collection = collection
        self.summary = _summary(name, database, collection)
        self.attributes: dict[str, Any] = {
            "db.system.name": "mongodb",
            "db.namespace": database,
            "db.operation.name": name,
            "db.operation.summary": self.summary,
        }
        if collection is not None:
            self.attributes["db.collection.name"] = collection
        # The attributes of a command, by its name and connection.
        self._commands: dict[tuple[str, int], dict[str, Any]] = {}

    def of_command(
        self, name: str, connection: int, address: _Address, server_connection_id: int | None
    ) -> dict[str, Any]:
        """Return the attributes that a command on this connection always has; callers copy them before a change."""
        known = self._commands.get((name, connection))
        if known is not None:
            return known.copy()
        host, port = address
        attributes: dict[str, Any] = {
            "db.system.name": "mongodb",
            "db.namespace": self.database,
            "db.command.name": name,
            "db.query.summary": _summary(name, self.database, self.collection),
            "server.address": host,
            "network.transport": "unix" if port is None else "tcp",
            "db.mongodb.driver_connection_id": connection,
        }
        if self.collection is not None:
            attributes["db.collection.name"] = self.collection
        if port is not None:
            attributes["server.port"] = port
        if server_connection_id is not None:
            attributes["db.mongodb.server_connection_id"] = server_connection_id
        if len(self._commands) >= _MOST_REMEMBERED:
            self._commands = {}
        self._commands[name, connection] = attributes
        return attributes.copy()


class _Operation:
    """An operation whose span is recorded. The core calls its methods in the order of events."""

    _command: Span | None = None
    _refusal: tuple[str, str, int | None] | None = None
    _is_part = False

    def __init__(self, tracer: Tracer, place: _Place, span: Span) -> None:
        self._tracer = tracer
        self._place = place
        self._span = span
        # Whether the core must pass the commands.
        self.shows_commands = tracer._longest > 0

    def part(self) -> _Operation:
        """Return an object for one command of a bulk write, whose end does not end the bulk's span."""
        part = _Operation(self._tracer, self._place, self._span)
        part._is_part = True
        return part

    def command_started(
        self,
        name: str,
        connection: int,
        address: _Address,
        server_connection_id: int | None,
        session: str | None,
        number: int | None,
        command: bytes | None,
    ) -> None:
        """Start the span of a command; a sensitive one has none.

        Args:
            name: its name.
            connection: the driver's number for its connection.
            address: host and port of the server.
            server_connection_id: the server's number for the connection, or None.
            session: the id of its server session, or None.
            number: the number of its retryable write or transaction, or None.
            command: the whole command, if `shows_commands`.
        """
        attributes = self._place.of_command(name, connection, address, server_connection_id)
        if session is not None:
            attributes["db.mongodb.lsid"] = session
            if number is not None:
                attributes["db.mongodb.txn_number"] = number
        if command is not None:
            tracer = self._tracer
            attributes["db.query.text"] = _core.shown_json(
                command,
                tracer._longest,
                _NOT_SHOWN if tracer._shows_values else _ONLY_VALUES,
                tracer._shows_values,
            )
        maker = self._tracer._maker
        if maker is not None:
            self._command = maker.start_command(self._span, name, attributes)
        else:
            context = trace.set_span_in_context(self._span)
            self._command = self._tracer.start_span(name, context, _CLIENT, attributes)

    def answered(self, cursor: int) -> None:
        """End both spans: the reply ended the command and the operation; `cursor` as for `command_succeeded`."""
        now, span = time_ns(), self._command
        if span is not None:
            self._command = None
            if cursor:
                span.set_attribute("db.mongodb.cursor_id", cursor)
            span.end(now)
        if not self._is_part:
            self._span.end(now)

    def command_succeeded(self, cursor: int) -> None:
        """End the span of a command that was answered; `cursor`: the id of the open cursor in the reply, or 0."""
        span = self._command
        if span is not None:
            self._command = None
            if cursor:
                span.set_attribute("db.mongodb.cursor_id", cursor)
            span.end()

    def command_failed(self, kind: str, message: str, code: int | None) -> None:
        """End the span of a command that failed; `kind`: the class of the error; `code`: the server's."""
        if kind == "OperationFailure":
            self._refusal = (kind, message, code)
        span = self._command
        if span is not None:
            self._command = None
            _fail(span, kind, message, code)
            span.end()

    def operation_ended(self, failure: tuple[str, str] | tuple[str, str, int | None] | None) -> None:
        """End the span of the operation; `failure`: the class, the message, and the server's code of the error."""
        if self._is_part:
            return
        if failure is not None:
            # The server's own words say more.
            refusal = self._refusal if failure[0] == "OperationFailure" else None
            _fail(self._span, *(refusal or failure))
        self._span.end()

    def __call__(self) -> None:
        """End all open spans: the operation was given up, for example when the interpreter's exit cancels its task."""
        given_up = ("CancelledError", "the operation was given up")
        self.command_failed(*given_up, None)
        self.operation_ended(given_up)


@contextmanager
def _harmless() -> Iterator[None]:
    """Print an exception of an exporter, a processor or a sampler; the operation must not fail because of it."""
    try:
        yield
    except Exception as error:
        _Shown(error)


class _Shown:
    """Raises an exception where Python can only pass it to `sys.unraisablehook`, as the core does."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def _summary(name: str, database: str, collection: str | None) -> str:
    return f"{name} {database}" if collection is None else f"{name} {database}.{collection}"


def _fail(span: Span, kind: str, message: str, code: int | None = None) -> None:
    attributes: dict[str, Any] = {
        "error.type": kind,
        "exception.type": kind,
        "exception.message": message,
        # The exception object does not exist yet: it is created for the caller, after the span's end.
        "exception.stacktrace": f"{kind}: {message}",
    }
    if code is not None:
        attributes["db.response.status_code"] = str(code)
    span.set_attributes(attributes)
    span.set_status(Status(StatusCode.ERROR, message))
