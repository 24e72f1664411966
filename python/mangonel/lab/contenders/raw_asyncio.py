"""The asyncio floor: nonblocking sockets with add_reader, sending at once, nothing decoded."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mangonel.lab.contender import (
    ASYNCIO,
    BATCH_SIZE,
    Batching,
    Contender,
    Document,
    Target,
)
from mangonel.lab.contenders import _wire


class Line:
    """One connection with its own session: a reply is received by the loop's reader callback."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_loop",
        "_recv_into",
        "_socket",
        "_view",
        "_waiter",
        "commands",
        "view",
    )

    def __init__(self, target: Target, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = socket.create_connection(_wire.address(target.uri))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._recv_into = self._socket.recv_into
        self._loop = loop
        self._buffer = bytearray(65536)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._waiter: asyncio.Future[int] | None = None
        self.commands: Any = None
        loop.add_reader(self._socket.fileno(), self._readable)

    async def open(self, target: Target) -> None:
        """Say hello, and encode the commands with the cluster time that comes back."""
        size = await self.exchange(_wire.hello())
        self.commands = _wire.Commands(target, _wire.cluster_time(self._view[:size]))

    def exchange(self, message: bytearray) -> asyncio.Future[int]:
        """Send a small message and return the future of its reply's length."""
        self._waiter = waiter = self._loop.create_future()
        self._socket.send(message)
        return waiter

    async def exchange_large(self, message: bytearray) -> int:
        """Send a message that may not fit into the socket's buffer, and return its reply's length."""
        waiter: asyncio.Future[int] = self._loop.create_future()
        self._waiter = waiter
        await self._loop.sock_sendall(self._socket, message)
        return await waiter

    def reply(self, size: int) -> memoryview:
        """Return the last reply."""
        return self._view[:size]

    def close(self) -> None:
        """Take the socket out of the loop and close it."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _readable(self) -> None:
        filled = self._filled
        count = self._recv_into(self._view[filled:] if filled else self._buffer)
        if count == 0:
            raise ConnectionResetError("the server closed the connection")
        filled += count
        (length,) = _wire.INT32.unpack_from(self._buffer)
        if filled == length:
            self._filled = 0
            if self._waiter is not None:
                self._waiter.set_result(length)
            return
        if length > len(self._buffer):
            larger = bytearray(max(length, 2 * len(self._buffer)))
            larger[:filled] = self._view[:filled]
            self._buffer, self._view = larger, memoryview(larger)
        self._filled = filled


class RawAsyncio:
    """The verbs as bare commands over a pool of lines, last used first."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._idle: deque[Line] = deque()
        self._lines: list[Line] = []
        self._sizes: dict[str, int] = {}
        self._drained: dict[Batching, tuple[int, int]] = {}
        self._lists: dict[int, bytearray] = {}
        self._bulk = bytearray()

    async def open(self) -> None:
        """Open as many lines as there will be operations in flight."""
        loop = asyncio.get_running_loop()
        for _ in range(self._target.connections):
            line = Line(self._target, loop)
            await line.open(self._target)
            self._lines.append(line)
            self._idle.append(line)

    async def insert_one(self, document: Document) -> int:
        """Send the insert of a document of this shape, with a new `_id` and transaction number."""
        line = self._idle.pop()
        size = await line.exchange(line.commands.insert_next())
        self._idle.append(line)
        return self._checked("insert_one", size)

    async def find_one(self, key: int) -> int:
        """Ask for the document with this `_id`."""
        line = self._idle.pop()
        size = await line.exchange(line.commands.find_one_key(key))
        self._idle.append(line)
        return self._checked("find_one", size)

    async def find_list(self, limit: int) -> int:
        """Ask for the first documents."""
        if limit not in self._lists:
            self._lists[limit] = self._lines[0].commands.find_list(limit)
        line = self._idle.pop()
        size = await line.exchange(self._lists[limit])
        self._idle.append(line)
        return self._checked(f"find {limit}", size)

    def arrange_many(self, documents: list[Document]) -> None:
        """Encode the message of the next insert_many, untimed: the floor sends and receives only."""
        self._bulk = self._lines[0].commands.insert_many(documents)

    async def insert_many(self, documents: list[Document]) -> int:
        """Send the message that was arranged."""
        return self._checked(f"insert_many {len(documents)}", await self._lines[0].exchange_large(self._bulk))

    async def iterate(self, batching: Batching) -> int:
        """Drain the collection and compare the bytes with those of the checked reading."""
        count, size = self._drained[batching]
        drained = 0
        async for reply in self._replies(batching):
            drained += len(reply)
        if drained != size:
            raise _wire.Refused(f"expected {size} bytes of replies, got {drained}")
        return count

    async def documents(self, batching: Batching) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the documents, decoded, and note how many bytes they came in."""
        count = size = 0
        async for reply in self._replies(batching):
            found = self._lines[0].commands.documents(reply)
            count += len(found)
            size += len(reply)
            for document in found:
                yield document
        self._drained[batching] = (count, size)

    async def to_list(self) -> list[Any]:
        """Refuse: a floor that decodes nothing has no list to give."""
        raise NotImplementedError("the raw socket decodes nothing")

    def decoded(self, result: Any) -> Any:
        """Return the documents of the last reply of the line used last."""
        line = self._idle[-1]
        found: list[dict[str, Any]] = line.commands.documents(line.reply(result))
        return found

    async def close(self) -> None:
        """Close all lines."""
        for line in self._lines:
            line.close()

    async def _replies(self, batching: Batching) -> AsyncIterator[memoryview]:
        line = self._lines[0]
        message, array_at = line.commands.find_all(batching), _wire.FIRST_ARRAY
        while True:
            reply = line.reply(await line.exchange(message))
            yield reply
            cursor = _wire.cursor_id(reply, array_at)
            if not cursor:
                return
            message, array_at = line.commands.get_more(cursor, batching), _wire.NEXT_ARRAY

    def _checked(self, what: str, size: int) -> int:
        if size != self._sizes.setdefault(what, size):
            raise _wire.Refused(f"expected a reply of {self._sizes[what]} bytes to {what}, got {size}")
        return size


CONTENDERS = (
    Contender(
        "raw-asyncio",
        "floor: raw asyncio",
        frozenset({ASYNCIO, BATCH_SIZE, "floor"}),
        packages=("pymongo",),
        loop="asyncio",
        asynchronous=RawAsyncio,
    ),
    Contender(
        "raw-uvloop",
        "floor: raw uvloop",
        frozenset({ASYNCIO, BATCH_SIZE, "floor"}),
        packages=("pymongo", "uvloop"),
        loop="uvloop",
        asynchronous=RawAsyncio,
    ),
)
