"""The lower bound of many at once: sockets that send a find of 100 and receive its reply, without decoding it."""

from __future__ import annotations

from collections.abc import Callable

from blocking import in_threads
from bson import json_util

from mangonel.lab.contender import Target
from mangonel.lab.contenders.raw import RawSocket

THREADS = 32


class Work:
    """A socket for each thread, and the verbs of `crowd`; a reply of another length than the first is an error."""

    def __init__(self, name: str, row: str) -> None:
        self._sockets: list[RawSocket] = []

    def open(self, uri: str, database: str, collection: str, scratch: str) -> None:
        self._sockets = [RawSocket(Target(uri, database, collection)) for _ in range(THREADS)]

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def ready(self, verb: str) -> Callable[[int], None]:
        """Return the method of a verb."""
        call: Callable[[int], None] = getattr(self, verb)
        return call

    def answer(self, verb: str) -> str:
        """Return the documents of `find_100` as extended JSON, for the comparison between all programs."""
        socket = self._sockets[0]
        found = socket.decoded(socket.find_list(100))
        return json_util.dumps(found, json_options=json_util.CANONICAL_JSON_OPTIONS)

    def find_100(self, count: int) -> None:
        socket = self._sockets.pop()
        try:
            for _ in range(count):
                socket.find_list(100)
        finally:
            self._sockets.append(socket)

    def find_100_threads_32(self, count: int) -> None:
        in_threads(self.find_100, count, THREADS)
