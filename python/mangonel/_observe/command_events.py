"""Command events, as listeners receive them. Knows no client; users find the classes in `monitoring`.

An event from the driver holds BSON and decodes it on access, with the options below instead of the collection's: a
listener sees the bytes on the wire. Spec: command-logging-and-monitoring.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect
from mangonel._light import Mapping
from mangonel.bson.codec_options import CodecOptions, DatetimeConversion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.typings import _Address

# Anything on the wire can be decoded: dates out of range as DatetimeMS, broken text with replacement characters.
SHOWN_AS: CodecOptions[Any] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO
)

# The form of a reply: a document, a raw document, or a document whose batch is one `bytes` object.
DOCUMENT, RAW, RAW_BATCH = 0, 1, 2

# Command name, database, request id, operation id, address, server's connection id, service id, driver's connection id,
# whether the command is sensitive, and the form of the reply.
Facts = tuple[str, str, int, "int | None", "_Address", "int | None", "ObjectId | None", int, bool, int]


def _is_secret(name: str, document: Mapping[str, Any]) -> bool:
    name = name.lower()
    return name in _core.SECRET_COMMANDS or (
        name in ("hello", "ismaster") and "speculativeAuthenticate" in document
    )


def shown(document: bytes | Mapping[str, Any], shape: int = DOCUMENT) -> Mapping[str, Any]:
    """Return a document as a mapping, decoding it if necessary.

    Args:
        document: BSON bytes, or a mapping.
        shape: DOCUMENT, RAW or RAW_BATCH.
    """
    if not isinstance(document, bytes):
        return document
    if shape == DOCUMENT:
        return _core.decode(document, SHOWN_AS)
    # Imported on demand: few programs use raw documents.
    from mangonel.bson.raw_bson import RawBSONDocument

    raw = RawBSONDocument(document, SHOWN_AS.with_options(document_class=RawBSONDocument))
    return raw if shape == RAW else _with_raw_batch(_core.decode(document, SHOWN_AS), raw)


def _with_raw_batch(reply: dict[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("firstBatch", "nextBatch"):
        if isinstance(cursor := reply.get("cursor"), dict) and isinstance(cursor.get(name), list):
            documents = b"".join(document.raw for document in raw["cursor"][name])
            cursor[name] = [documents] if documents else []
    return reply


class _CommandEvent:
    """Base of the command events."""

    __slots__ = ("_body", "_facts")

    _facts: Facts
    _body: Any

    def __init__(
        self,
        command_name: str,
        request_id: int,
        connection_id: _Address,
        operation_id: int | None,
        service_id: ObjectId | None = None,
        database_name: str = "",
        server_connection_id: int | None = None,
    ) -> None:
        self._facts = (
            command_name,
            database_name,
            request_id,
            operation_id,
            connection_id,
            server_connection_id,
            service_id,
            0,
            False,
            DOCUMENT,
        )

    @property
    def command_name(self) -> str:
        """The command's name."""
        return self._facts[0]

    @property
    def request_id(self) -> int:
        """The request id of the command's message."""
        return self._facts[2]

    @property
    def connection_id(self) -> _Address:
        """Host and port of the server."""
        return self._facts[4]

    @property
    def service_id(self) -> ObjectId | None:
        """The service behind a load balancer, or None."""
        return self._facts[6]

    @property
    def operation_id(self) -> int | None:
        """A number that the attempts of one operation share, and the commands of one bulk write."""
        return self._facts[3]

    @property
    def database_name(self) -> str:
        """The command's database."""
        return self._facts[1]

    @property
    def server_connection_id(self) -> int | None:
        """The server's own number for the connection, or None."""
        return self._facts[5]

    def _described(self, middle: str) -> str:
        return (
            f"<{type(self).__name__} {self.connection_id} db: {self.database_name!r}, "
            f"command: {self.command_name!r}, operation_id: {self.operation_id}, {middle}"
            f"service_id: {self.service_id}, server_connection_id: {self.server_connection_id}>"
        )


class CommandStartedEvent(_CommandEvent):
    """A command is about to be sent.

    Args:
        command: the whole command; not kept if it holds credentials.
        database_name: the command's database.
        request_id: the request id of its message.
        connection_id: host and port of the server.
        operation_id: number shared by the commands of one operation, or None.
        service_id: the service behind a load balancer, or None.
        server_connection_id: the server's number for the connection, or None.

    Raises:
        ValueError: `command` is empty.
    """

    __slots__ = ()

    def __init__(
        self,
        command: Mapping[str, Any],
        database_name: str,
        request_id: int,
        connection_id: _Address,
        operation_id: int | None,
        service_id: ObjectId | None = None,
        server_connection_id: int | None = None,
    ) -> None:
        if not command:
            raise ValueError(f"{command!r} is not a valid command")
        expect("command", command, Mapping, "a document")
        name = next(iter(command))
        super().__init__(
            name, request_id, connection_id, operation_id, service_id, database_name, server_connection_id
        )
        self._body = {} if _is_secret(name, command) else command

    @property
    def command(self) -> Mapping[str, Any]:
        """The command with all its documents, as sent; empty if it holds credentials."""
        body = self._body = shown(self._body)
        return body

    def __repr__(self) -> str:
        return self._described("")


class CommandSucceededEvent(_CommandEvent):
    """A command was answered with `ok: 1`, or needs no answer.

    Args:
        duration: from the start of sending to the end of receiving.
        reply: the whole reply; not kept if it holds credentials.
        command_name, request_id, connection_id, operation_id, service_id, database_name, server_connection_id: as
            for CommandStartedEvent.
    """

    __slots__ = ("_micros",)

    def __init__(
        self,
        duration: timedelta,
        reply: Mapping[str, Any],
        command_name: str,
        request_id: int,
        connection_id: _Address,
        operation_id: int | None,
        service_id: ObjectId | None = None,
        database_name: str = "",
        server_connection_id: int | None = None,
    ) -> None:
        super().__init__(
            command_name,
            request_id,
            connection_id,
            operation_id,
            service_id,
            database_name,
            server_connection_id,
        )
        self._micros = _micros(duration)
        self._body = {} if _is_secret(command_name, reply) else reply

    @property
    def duration_micros(self) -> int:
        """The duration in microseconds."""
        return self._micros

    @property
    def reply(self) -> Mapping[str, Any]:
        """The whole reply; `{"ok": 1}` for a command without a reply, empty if it holds credentials.

        It is a RawBSONDocument if the operation returns those. For a cursor of raw batches, the batch is a list of one
        bytes object.
        """
        body = self._body = shown(self._body, self._facts[9])
        return body

    def __repr__(self) -> str:
        return self._described(f"duration_micros: {self._micros}, ")


class CommandFailedEvent(_CommandEvent):
    """The server refused a command, or its connection failed.

    Args:
        duration: from the start of sending to the failure.
        failure: the server's reply, or `errmsg` and `errtype` of an exception.
        command_name, request_id, connection_id, operation_id, service_id, database_name, server_connection_id: as
            for CommandStartedEvent.
    """

    __slots__ = ("_micros",)

    def __init__(
        self,
        duration: timedelta,
        failure: Mapping[str, Any],
        command_name: str,
        request_id: int,
        connection_id: _Address,
        operation_id: int | None,
        service_id: ObjectId | None = None,
        database_name: str = "",
        server_connection_id: int | None = None,
    ) -> None:
        super().__init__(
            command_name,
            request_id,
            connection_id,
            operation_id,
            service_id,
            database_name,
            server_connection_id,
        )
        self._micros = _micros(duration)
        self._body = failure

    @property
    def duration_micros(self) -> int:
        """The duration in microseconds."""
        return self._micros

    @property
    def failure(self) -> Mapping[str, Any]:
        """The server's reply; for a sensitive command only its codes and labels. Without a reply: the exception."""
        body = self._body = shown(self._body, RAW if self._facts[9] == RAW else DOCUMENT)
        return body

    def __repr__(self) -> str:
        return self._described(f"duration_micros: {self._micros}, failure: {self.failure!r}, ")


def _micros(duration: timedelta) -> int:
    if not hasattr(duration, "total_seconds"):
        raise TypeError(f'expected a timedelta for "duration", got {type(duration).__name__}')
    return int(duration.total_seconds() * 1e6)


def started(facts: Facts, command: bytes) -> CommandStartedEvent:
    """Return the event for a command that the core is about to send."""
    event = CommandStartedEvent.__new__(CommandStartedEvent)
    event._facts = facts
    event._body = command
    return event


def succeeded(facts: Facts, micros: int, reply: bytes) -> CommandSucceededEvent:
    """Return the event for a command that the server has answered."""
    event = CommandSucceededEvent.__new__(CommandSucceededEvent)
    event._facts = facts
    event._micros = micros
    event._body = reply
    return event


def failed(facts: Facts, micros: int, failure: bytes | tuple[str, str]) -> CommandFailedEvent:
    """Return the event for a failed command, from its reply or from an exception's class and message."""
    event = CommandFailedEvent.__new__(CommandFailedEvent)
    event._facts = facts
    event._micros = micros
    event._body = failure if isinstance(failure, bytes) else {"errmsg": failure[1], "errtype": failure[0]}
    return event
