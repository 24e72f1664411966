"""The lower bounds: sockets that send a command's bytes and receive its reply undecoded, blocking and on event loops.

The asyncio one is the fastest that was found in plain Python: nonblocking sockets with add_reader; the reader's
callback sends the next waiting request before the waiting task runs, and twenty connections serve a hundred tasks.
Equal or slower: a connection per task, a queue passed on by the tasks, a transport with BufferedProtocol, callbacks
without tasks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from mangonel.lab.contender import Batching, Document, Target
from mangonel.lab.contenders import _wire
from mangonel.lab.contenders._wire import Commands
from mangonel.lab.contenders.drivers import TABLE, driver


class RawSocket(_wire.Checked):
    """The methods as bare commands. A reply whose length was not checked before counts as refused."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._socket = _wire.connect(target.uri)
        self._buffer = bytearray(65536)
        self._view = memoryview(self._buffer)
        size = self._receive(_wire.hello())
        self._commands = _wire.Commands(target, _wire.cluster_time(self._view[:size]))
        self._bulk = bytearray()

    def insert_one(self, document: Document) -> int:
        return self._checked("insert_one", self._receive(self._commands.insert_next()))

    def arrange_many(self, documents: list[Document]) -> None:
        """Encode the message of the next insert_many, untimed: the lower bound only sends and receives."""
        self._bulk = self._commands.insert_many(documents)

    def insert_many(self, documents: list[Document]) -> int:
        return self._checked(f"insert_many {len(documents)}", self._receive(self._bulk))

    def find_one(self, key: int) -> int:
        return self._checked("find_one", self._receive(self._commands.find_one_key(key)))

    def find_list(self, limit: int) -> int:
        return self._checked("find_list", self._receive(self._commands.find_list(limit)))

    def iterate(self, batching: Batching) -> int:
        """Discard the collection and compare the byte count with that of the checked read."""
        return self._drained(batching, sum(map(len, self._replies(batching))))

    def drain(self, options: dict[str, Any]) -> int:
        """Return the byte count of the replies to another find."""
        return sum(map(len, self._replies(Batching(), self._commands.find(options))))

    def documents(self, batching: Batching) -> Iterator[Mapping[str, Any]]:
        """Yield the decoded documents, and record the byte count."""
        count = size = 0
        for reply in self._replies(batching):
            found = self._commands.documents(reply)
            count += len(found)
            size += len(reply)
            yield from found
        self._expected[batching] = (count, size)

    def decoded(self, result: Any) -> Any:
        return self._commands.documents(self._view[:result])

    def close(self) -> None:
        self._socket.close()

    def _replies(self, batching: Batching, opening: bytearray | None = None) -> Iterator[memoryview]:
        size = self._receive(opening or self._commands.find_all(batching))
        reply = self._view[:size]
        cursor = _wire.cursor_id(reply, _wire.FIRST_ARRAY)
        yield reply
        while cursor:
            self._socket.sendall(self._commands.get_more((cursor, batching)))
            flags = _wire.MORE_TO_COME
            while flags & _wire.MORE_TO_COME:
                # The buffer may grow while it fills, so the view is taken afterwards.
                size = self._drain_exactly() if batching.exhaust else self._drain()
                reply = self._view[:size]
                (flags,) = _wire.INT32.unpack_from(reply, _wire.HEADER.size)
                cursor = _wire.cursor_id(reply, _wire.NEXT_ARRAY)
                yield reply

    def _receive(self, message: bytearray) -> int:
        self._socket.sendall(message)
        return self._drain()

    def _drain(self) -> int:
        """Receive the one outstanding reply; nothing can follow it."""
        filled = self._socket.recv_into(self._buffer)
        (length,) = _wire.INT32.unpack_from(self._buffer)
        return filled if filled == length else self._rest(filled, length)

    def _drain_exactly(self) -> int:
        """Receive one reply of a stream without reading into the next one."""
        filled = 0
        while filled < _wire.HEADER.size:
            filled += self._some(filled, _wire.HEADER.size)
        (length,) = _wire.INT32.unpack_from(self._buffer)
        return self._rest(filled, length)

    def _rest(self, filled: int, length: int) -> int:
        if length > len(self._buffer):
            self._buffer, self._view = _wire.larger(self._view, filled, length)
        while filled < length:
            filled += self._some(filled, length)
        return length

    def _some(self, filled: int, length: int) -> int:
        count = self._socket.recv_into(self._view[filled:length])
        if count == 0:
            raise ConnectionResetError("the server closed the connection")
        return count


Make: TypeAlias = Callable[[Commands, Any], bytearray]
CONNECTIONS = 20


class Connection:
    """One connection with its own session: the loop's reader callback receives, then sends the next waiting request."""

    def __init__(self, target: Target, pool: RawAsyncio) -> None:
        self._socket = _wire.connect(target.uri)
        self._buffer = bytearray(65536)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._waiter: asyncio.Future[Any] | None = None
        self._pool = pool
        self._socket.sendall(_wire.hello())
        size = self._socket.recv_into(self._buffer)
        self.commands = Commands(target, _wire.cluster_time(self._view[:size]))
        self._socket.setblocking(False)
        self._recv_into = self._socket.recv_into
        self.send = self._socket.send
        pool.loop.add_reader(self._socket.fileno(), self._readable)

    def exchange(self, waiter: asyncio.Future[Any], make: Make, argument: Any) -> None:
        """Send a small message; the waiter's result is the reply's length."""
        self._waiter = waiter
        self.send(make(self.commands, argument))

    async def exchange_large(self, message: bytearray) -> int:
        """Send a message that may exceed the socket's buffer, and return the reply's length."""
        waiter: asyncio.Future[Any] = self._pool.loop.create_future()
        self._waiter = waiter
        await self._pool.loop.sock_sendall(self._socket, message)
        return int(await waiter)

    def reply(self, size: int) -> memoryview:
        return self._view[:size]

    def close(self) -> None:
        self._pool.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _readable(self) -> None:
        filled = self._filled
        count = self._recv_into(self._view[filled:] if filled else self._buffer)
        waiter = self._waiter
        if count == 0 or waiter is None:
            self._fail(ConnectionResetError("the server closed the connection"))
            return
        filled += count
        (length,) = _wire.INT32.unpack_from(self._buffer)
        if filled == length:
            self._filled = 0
            waiter.set_result(bytes(self._view[:length]) if self._pool.keeps else length)
            waiting = self._pool.waiting
            if waiting:
                self.exchange(*waiting.popleft())
            else:
                self._waiter = None
                self._pool.idle.append(self)
            return
        if length > len(self._buffer):
            self._buffer, self._view = _wire.larger(self._view, filled, length)
        self._filled = filled

    def _fail(self, error: Exception) -> None:
        self._pool.loop.remove_reader(self._socket.fileno())
        if self._waiter is not None:
            self._waiter.set_exception(error)


class RawAsyncio(_wire.Checked):
    """The methods as bare commands over a pool of connections; the last used comes first."""

    loop: asyncio.AbstractEventLoop
    most = CONNECTIONS
    # Whether waiters get replies instead of lengths.
    keeps = False

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self.idle: deque[Connection] = deque()
        self.waiting: deque[tuple[asyncio.Future[Any], Make, Any]] = deque()
        self._connections: list[Connection] = []
        self._bulk = bytearray()

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._connections = [
            Connection(self._target, self) for _ in range(min(self.most, self._target.connections))
        ]
        self.idle.extend(self._connections)

    async def insert_one(self, document: Document) -> int:
        return self._checked("insert_one", await self.ask(Commands.insert_next, None))

    async def find_one(self, key: int) -> int:
        return self._checked("find_one", await self.ask(Commands.find_one_key, key))

    async def find_list(self, limit: int) -> int:
        return self._checked("find_list", await self.ask(Commands.find_list, limit))

    def arrange_many(self, documents: list[Document]) -> None:
        """Encode the message of the next insert_many, untimed: the lower bound only sends and receives."""
        self._bulk = self._connections[0].commands.insert_many(documents)

    async def insert_many(self, documents: list[Document]) -> int:
        size = await self.idle.pop().exchange_large(self._bulk)
        return self._checked(f"insert_many {len(documents)}", size)

    async def iterate(self, batching: Batching) -> int:
        """Discard the collection and compare the byte count with that of the checked read."""
        drained = 0
        async for reply in self._replies(batching):
            drained += len(reply)
        return self._drained(batching, drained)

    async def documents(self, batching: Batching) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the decoded documents, and record the byte count."""
        count = size = 0
        async for reply in self._replies(batching):
            found = self._connections[0].commands.documents(reply)
            count += len(found)
            size += len(reply)
            for document in found:
                yield document
        self._expected[batching] = (count, size)

    def decoded(self, result: Any) -> Any:
        """Return the documents of the last reply; only while no other request is in flight."""
        last = self.idle[-1]
        return last.commands.documents(last.reply(result))

    async def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def ask(self, make: Make, argument: Any) -> asyncio.Future[Any]:
        """Send the message that `make` returns for a connection and an argument, now or when a connection is free."""
        waiter: asyncio.Future[Any] = self.loop.create_future()
        if self.idle:
            self.idle.pop().exchange(waiter, make, argument)
        else:
            self.waiting.append((waiter, make, argument))
        return waiter

    async def _replies(self, batching: Batching) -> AsyncIterator[memoryview]:
        size = await self.ask(Commands.find_all, batching)
        array_at = _wire.FIRST_ARRAY
        while True:
            reply = self.idle[-1].reply(size)
            yield reply
            cursor = _wire.cursor_id(reply, array_at)
            if not cursor:
                return
            size = await self.ask(Commands.get_more, (cursor, batching))
            array_at = _wire.NEXT_ARRAY


CONTENDERS = tuple(map(driver, TABLE["floor"]))
