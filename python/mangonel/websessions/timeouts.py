"""A time limit for what many tasks wait for, with one timer for all of them.

`asyncio.timeout` does the same with a timer for each wait, which costs a request some 6 µs; this costs about one. All
waits of one `SharedTimeout` are equally long, so the order in which they began is the order in which they end.

Knows no store and no websession.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["SharedTimeout"]


class SharedTimeout:
    """Cancels tasks of one loop that have waited too long, and tells that from being cancelled by others.

        timeout.begin(task)
        try:
            await something
        except asyncio.CancelledError:
            timeout.judge(task)        # TimeoutError, if it was us
            raise
        finally:
            timeout.end(task)

    Args:
        loop: of the tasks.
        seconds: each may wait, between `begin` and `end`. A task waits for one thing at a time.
    """

    __slots__ = ("_late", "_loop", "_seconds", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[asyncio.Task[Any], float] = {}
        # How often others had asked these tasks to end before we did.
        self._late: dict[asyncio.Task[Any], int] = {}

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Start a task's time."""
        # Again at the end of the queue, which a dict gives only to what was not in it.
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
        """Tell why a task was cancelled.

        Raises:
            TimeoutError: by us alone.
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
