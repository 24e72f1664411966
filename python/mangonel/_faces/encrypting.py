"""The port of a client with encryption: it wraps the face's own port, encrypts operations and decrypts replies.

A client without encryption has no such port and pays nothing. Must not know: libmongocrypt.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mangonel.errors import InvalidOperation

if TYPE_CHECKING:
    from mangonel import _core
    from mangonel._faces.port import Port

# The largest command for MongoDB's query analysis: larger writes are split into several commands.
_LARGEST_BATCH = 2_097_152

# It fetches more results of an encrypted command and has nothing to encrypt itself.
_PLAIN_COMMAND = "getMore"

# Their replies hold no documents, except in errors, which may quote some.
_BLIND = ("insert", "update", "delete")


class Cipher(Protocol):
    """Encrypts commands and decrypts replies."""

    encrypts: bool

    async def encrypt_flow(self, database: str, command: bytes) -> bytes | None:
        """Return the command with its fields encrypted, or None if it does not change."""

    async def decrypt_flow(self, reply: bytes) -> bytes | None:
        """Return the reply with its fields decrypted, or None if it does not change."""

    def close(self) -> None:
        """Release its resources other than keys."""


class EncryptingPort:
    """Runs operations on another port and shares its connections."""

    is_encrypting = True
    limit = None

    def __init__(self, core: _core.Core, plain: Port, cipher: Cipher) -> None:
        self.is_async = plain.is_async
        self.timeout = plain.timeout
        if cipher.encrypts:
            self.largest_batch = _LARGEST_BATCH
        self._core = core
        self._plain = plain
        self._cipher = cipher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def run(self, operation: _core.Operation) -> Any:
        return self._plain.flow(self.arun(operation))

    def _check_open(self) -> None:
        if self._core.is_closed:
            # PyMongo's wording, which programs search for.
            client = "AsyncMongoClient" if self.is_async else "MongoClient"
            raise InvalidOperation(f"Cannot use {client} after close; make a new one")

    async def arun(self, operation: _core.Operation) -> Any:
        self._check_open()
        if self._cipher.encrypts:
            await self._encrypt_flow(operation)
        reading = operation.hold()
        return await self._answer_flow(await self._plain.arun(operation), reading)

    async def _encrypt_flow(self, operation: _core.Operation) -> None:
        command = operation.document()
        if command is not None:
            encrypted = await self._cipher.encrypt_flow(operation.database, command)
            if encrypted is not None and encrypted != command:
                operation.rewrite(encrypted)

    async def _answer_flow(self, exchange: _core.Exchange, reading: int) -> Any:
        """Return the result of an exchange that holds its reply back."""
        try:
            reply = exchange.held_reply
            if reply is not None:
                reply = await self._cipher.decrypt_flow(reply)
        except BaseException:
            # Its connection is checked in; its result is not needed.
            with suppress(Exception):
                exchange.release(reading)
            raise
        else:
            return exchange.release(reading, reply)
        finally:
            exchange.close()

    # Operations whose results are awaited later.

    def start(self, operation: _core.Operation, connects: bool = False) -> Any:
        if self.is_async:
            from mangonel._faces.aio import running_loop

            return running_loop().create_task(self.arun(operation))
        if self._cipher.encrypts and operation.name != _PLAIN_COMMAND:
            # Encrypting may wait, so `finish` does it, or `outlast`, which stores here what it sent.
            return [None, operation]
        reading = operation.hold()
        return self._plain.start(operation, connects), reading

    async def finish(self, started: Any) -> Any:
        return await self._end_flow(started, self._plain.finish)

    async def outlast(self, started: Any) -> Any:
        if not self.is_async and started[0] is None:
            operation = started[1]
            self._check_open()
            await self._encrypt_flow(operation)
            reading = operation.hold()
            started[:] = self._plain.start(operation, True), reading
        return await self._end_flow(started, self._plain.outlast)

    async def _end_flow(self, started: Any, wait: Any) -> Any:
        if self.is_async:
            return await wait(started)
        exchange, rest = started
        if exchange is None:
            return await self.arun(rest)
        return await self._answer_flow(await wait(exchange), rest)

    def may_wait(self, started: Any) -> bool:
        if self.is_async:
            return self._plain.may_wait(started)
        exchange, _ = started
        return exchange is None or self._plain.may_wait(exchange)

    def give_up(self, started: Any) -> None:
        if self.is_async:
            self._plain.give_up(started)
        elif started[0] is not None:
            self._plain.give_up(started[0])

    def close(self) -> None:
        self._plain.close()
        # A forked child also closes its port, and continues to use it.
        if self._core.is_closed:
            self._cipher.close()


class FieldPort(EncryptingPort):
    """A port for some collections of a client, on top of the client's own, with the client's sessions.

    Attributes:
        fields: the cipher, for the code that made the port.
    """

    def __init__(self, core: _core.Core, plain: Port, cipher: Cipher) -> None:
        super().__init__(core, plain, cipher)
        self.home = plain
        self.fields: Any = cipher
        # If true, the other port decrypts replies, so they are not held back twice.
        self._is_on_another = plain.is_encrypting

    async def arun(self, operation: _core.Operation) -> Any:
        if not self._is_on_another and operation.name not in _BLIND:
            return await super().arun(operation)
        await self._encrypt_flow(operation)
        return await self._plain.arun(operation)

    def start(self, operation: _core.Operation, connects: bool = False) -> Any:
        if self._is_on_another and not self.is_async and operation.name == _PLAIN_COMMAND:
            return self._plain.start(operation, connects)
        return super().start(operation, connects)

    async def finish(self, started: Any) -> Any:
        if self._is_on_another and not self.is_async and started[0] is not None:
            return await self._plain.finish(started)
        return await super().finish(started)

    def may_wait(self, started: Any) -> bool:
        if self._is_on_another and not self.is_async and started[0] is not None:
            return bool(self._plain.may_wait(started))
        return super().may_wait(started)

    def give_up(self, started: Any) -> None:
        if self._is_on_another and not self.is_async and started[0] is not None:
            self._plain.give_up(started)
        else:
            super().give_up(started)
