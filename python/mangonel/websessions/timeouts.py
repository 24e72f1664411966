"""A time limit for the waits of many tasks, with one timer for all of them.

`asyncio.timeout` does the same with a timer for each wait, which costs a request about 6 µs; this costs about one. All
waits of one `SharedTimeout` have the same length, so they end in the order in which they began.

Knows no store and no websession.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["SharedTimeout"]


class SharedTimeout:
    """Cancels tasks of one loop that have waited too long, and distinguishes that from other cancellations.

        with timeout:
            await something    # TimeoutError after this many seconds

    Args:
        loop: the loop of the tasks.
        seconds: the longest wait in the block. A task waits for one thing at a time.
    """

    __slots__ = ("_late", "_loop", "_seconds", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[asyncio.Task[Any], float] = {}
        # How many times others had cancelled these tasks before we did.
        self._late: dict[asyncio.Task[Any], int] = {}

    def __enter__(self) -> None:
        task = _current_task()
        # Goes to the end of the queue: `__exit__` removes the key, and a dict appends only new keys.
        when = self._waiting[task] = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(when, self._expire)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        task = _current_task()
        self._waiting.pop(task, None)
        if self._late and (others := self._late.pop(task, None)) is not None:
            remaining = task.uncancel()
            if kind is asyncio.CancelledError and remaining <= others:
                raise TimeoutError(f"no answer within {self._seconds:g} s")

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for task, when in list(self._waiting.items()):
            if when > now:
                self._timer = self._loop.call_at(when, self._expire)
                return
            del self._waiting[task]
            self._late[task] = task.cancelling()
            task.cancel()


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
