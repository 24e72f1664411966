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

        timeout.begin(task)
        try:
            await something
        except asyncio.CancelledError:
            timeout.judge(task)        # TimeoutError, if it was us
            raise
        finally:
            timeout.end(task)

    Args:
        loop: the loop of the tasks.
        seconds: the longest wait between `begin` and `end`. A task waits for one thing at a time.
    """

    __slots__ = ("_late", "_loop", "_seconds", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[asyncio.Task[Any], float] = {}
        # How often others had cancelled these tasks before we did.
        self._late: dict[asyncio.Task[Any], int] = {}

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Start a task's time."""
        # Moved to the end of the queue; a dict does that only for a new key.
        when = self._waiting[task] = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(when, self._expire)

    def end(self, task: asyncio.Task[Any]) -> None:
        """Stop a task's time."""
        self._waiting.pop(task, None)
        if self._late:
            others = self._late.pop(task, None)
            if others is not None:
                task.uncancel()

    def judge(self, task: asyncio.Task[Any]) -> None:
        """Find out why a task was cancelled.

        Raises:
            TimeoutError: only this timeout cancelled it.
        """
        others = self._late.pop(task, None)
        if others is not None and task.uncancel() <= others:
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
