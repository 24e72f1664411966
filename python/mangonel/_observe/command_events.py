"""The events of commands, as listeners are given them. Knows no client; `monitoring` is where users find these.

An event that the driver makes holds BSON and decodes it when a listener asks, with the options below whatever those of
the collection: a listener sees what is on the wire. Spec: command-logging-and-monitoring.
"""

from __future__ import annotations

from mangonel import _core
from mangonel.bson.codec_options import CodecOptions, DatetimeConversion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.typings import _Address

# Whatever is on the wire can be shown: dates out of range as DatetimeMS, broken text with replacement characters.
SHOWN_AS: CodecOptions[Any] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO
)

# How a reply is shown: as a document, a raw document, or a document whose batch is one `bytes` object.
DOCUMENT, RAW, RAW_BATCH = 0, 1, 2

# Name, database, request, operation, address, server's connection id, service id, connection, whether it is secret, and
# how the reply is shown.
Facts = tuple[str, str, int, "int | None", "_Address", "int | None", "ObjectId | None", int, bool, int]


def _is_secret(name: str, document: Mapping[str, Any]) -> bool:
    name = name.lower()
    return name in _core.SECRET_COMMANDS or (
        name in ("hello", "ismaster") and "speculativeAuthenticate" in document
    )


def shown(document: bytes | Mapping[str, Any], shape: int = DOCUMENT) -> Mapping[str, Any]:
    """Return a document as a mapping, whether or not it is one already.

    Args:
        document: its bytes, or a mapping.
        shape: DOCUMENT, RAW or RAW_BATCH.
    """
    if not isinstance(document, bytes):
        return document
    if shape == DOCUMENT:
        return _core.decode(document, SHOWN_AS)
    # Imported when it is needed: few programs ask for raw documents.
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
    """What the events of a command have in common."""

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
        """The request id of the message it was sent in."""
        return self._facts[2]

    @property
    def connection_id(self) -> _Address:
        """Host and port of the server it was sent to."""
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
        """The database that it runs on."""
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
        command: the whole command; it is not kept when it holds credentials.
        database_name: the database that it runs on.
        request_id: the request id of its message.
        connection_id: host and port of the server.
        operation_id: what ties the commands of one operation together, or None.
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
        name = next(iter(command))
        super().__init__(
            name, request_id, connection_id, operation_id, service_id, database_name, server_connection_id
        )
        self._body = {} if _is_secret(name, command) else command

    @property
    def command(self) -> Mapping[str, Any]:
        """The command with all its documents, as it is sent; empty when it holds credentials."""
        body = self._body = shown(self._body)
        return body

    def __repr__(self) -> str:
        return self._described("")


class CommandSucceededEvent(_CommandEvent):
    """A command was answered with `ok: 1`, or is not to be answered.

    Args:
        duration: from the start of sending to the end of receiving.
        reply: the whole reply; it is not kept when it holds credentials.
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
        self._micros = int(duration.total_seconds() * 1e6)
        self._body = {} if _is_secret(command_name, reply) else reply

    @property
    def duration_micros(self) -> int:
        """How long it took, in microseconds."""
        return self._micros

    @property
    def reply(self) -> Mapping[str, Any]:
        """The whole reply; `{"ok": 1}` for a command without one, empty when it holds credentials.

        It is a RawBSONDocument when the operation was asked for these. Of a cursor of raw batches, the batch is a list
        of one bytes object.
        """
        body = self._body = shown(self._body, self._facts[9])
        return body

    def __repr__(self) -> str:
        return self._described(f"duration_micros: {self._micros}, ")


class CommandFailedEvent(_CommandEvent):
    """A command was refused, or will not be answered.

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
        self._micros = int(duration.total_seconds() * 1e6)
        self._body = failure

    @property
    def duration_micros(self) -> int:
        """How long it took, in microseconds."""
        return self._micros

    @property
    def failure(self) -> Mapping[str, Any]:
        """The server's reply; of a sensitive command only its codes and labels. Without a reply: why there is none."""
        body = self._body = shown(self._body, RAW if self._facts[9] == RAW else DOCUMENT)
        return body

    def __repr__(self) -> str:
        return self._described(f"duration_micros: {self._micros}, failure: {self.failure!r}, ")


def started(facts: Facts, command: bytes) -> CommandStartedEvent:
    """Return the event of a command that the core is about to send."""
    event = CommandStartedEvent.__new__(CommandStartedEvent)
    event._facts = facts
    event._body = command
    return event


def succeeded(facts: Facts, micros: int, reply: bytes) -> CommandSucceededEvent:
    """Return the event of a command that the core has an answer to."""
    event = CommandSucceededEvent.__new__(CommandSucceededEvent)
    event._facts = facts
    event._micros = micros
    event._body = reply
    return event


def failed(facts: Facts, micros: int, failure: bytes | tuple[str, str]) -> CommandFailedEvent:
    """Return the event of a command that failed: by its reply, or by the class and message of an exception."""
    event = CommandFailedEvent.__new__(CommandFailedEvent)
    event._facts = facts
    event._micros = micros
    event._body = failure if isinstance(failure, bytes) else {"errmsg": failure[1], "errtype": failure[0]}
    return event
