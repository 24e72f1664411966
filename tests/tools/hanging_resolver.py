"""A resolver that does not reply for one name until the test asks for it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

NAME = "late.example"
# Seconds after which it replies by itself, so that a failing test ends too.
_LONGEST = 30.0


class HangingResolver:
    """The questions so far, and whether one is still waiting.

    Args:
        answers: how many questions for the name are answered at once.
    """

    def __init__(self, answers: float = 0) -> None:
        self.asked = 0
        self._answers = answers
        self._is_released = threading.Event()
        self._look_up = socket.getaddrinfo

    @property
    def is_hanging(self) -> bool:
        """Whether a question waits for its answer."""
        return self.asked > self._answers and not self._is_released.is_set()

    def hang(self) -> None:
        """Answer no query from now on."""
        self._answers = self.asked

    def release(self) -> None:
        """Answer the waiting look-ups and all later ones."""
        self._is_released.set()

    def getaddrinfo(self, host: Any, *rest: Any, **options: Any) -> Any:
        """Do what `socket.getaddrinfo` does; the name is this machine's."""
        if host in (NAME, NAME.encode()):
            self.asked += 1
            if self.asked > self._answers:
                self._is_released.wait(_LONGEST)
                self.release()
            host = "127.0.0.1"
        return self._look_up(host, *rest, **options)


@contextlib.contextmanager
def hanging_resolver(monkeypatch: Any, answers: float = 0) -> Iterator[HangingResolver]:
    """Put such a resolver in the system's place."""
    made = HangingResolver(answers)
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    try:
        yield made
    finally:
        made.release()
