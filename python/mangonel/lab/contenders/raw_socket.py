"""The blocking floor: a socket that sends a command's bytes and receives its reply, nothing decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mangonel.lab import contender
from mangonel.lab.contender import Batching, Contender, Document, Target
from mangonel.lab.contenders import _wire


class RawSocket(_wire.Checked):
    """The verbs as bare commands. A reply whose length was not checked before counts as refused."""

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
        """Encode the message of the next insert_many, untimed: the floor sends and receives only."""
        self._bulk = self._commands.insert_many(documents)

    def insert_many(self, documents: list[Document]) -> int:
        return self._checked(f"insert_many {len(documents)}", self._receive(self._bulk))

    def find_one(self, key: int) -> int:
        return self._checked("find_one", self._receive(self._commands.find_one_key(key)))

    def find_list(self, limit: int) -> int:
        return self._checked("find_list", self._receive(self._commands.find_list(limit)))

    def iterate(self, batching: Batching) -> int:
        """Drain the collection and compare the bytes with those of the checked reading."""
        return self._drained(batching, sum(map(len, self._replies(batching))))

    def drain(self, options: dict[str, Any]) -> int:
        """Return how many bytes the replies to another find have."""
        return sum(map(len, self._replies(Batching(), self._commands.find(options))))

    def documents(self, batching: Batching) -> Iterator[Mapping[str, Any]]:
        """Yield the documents, decoded, and note how many bytes they came in."""
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
                # The buffer may grow while it is filled, so the view is taken afterwards.
                size = self._drain_exactly() if batching.exhaust else self._drain()
                reply = self._view[:size]
                (flags,) = _wire.INT32.unpack_from(reply, _wire.HEADER.size)
                cursor = _wire.cursor_id(reply, _wire.NEXT_ARRAY)
                yield reply

    def _receive(self, message: bytearray) -> int:
        self._socket.sendall(message)
        return self._drain()

    def _drain(self) -> int:
        """Receive the one reply that is owed; nothing can follow it."""
        filled = self._socket.recv_into(self._buffer)
        (length,) = _wire.INT32.unpack_from(self._buffer)
        return filled if filled == length else self._rest(filled, length)

    def _drain_exactly(self) -> int:
        """Receive one reply of a stream without touching the next one."""
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


CONTENDERS = (
    Contender(
        "raw-socket",
        "floor: raw socket",
        frozenset(
            {contender.BLOCKING, contender.BATCH_SIZE, contender.EXHAUST, contender.GRIDFS_READS, "floor"}
        ),
        packages=("pymongo",),
        blocking=RawSocket,
        unsuited=_wire.unsuited,
    ),
)
