"""Combines concurrent calls into one command; each request receives only the result of its own call.

Calls that arrive while commands are in flight wait for the next one.

A single call is sent alone and at once. Knows no driver and no command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, ParamSpec, TypeVar

# The most commands in flight: while the server works on one, the next is being built.
UNDER_WAY = 2
# Calls in one command; the server works in batches of this size anyway.
MOST = 64

Arguments = ParamSpec("Arguments")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Shared(Generic[Arguments, Asked, Answer]):
    """Calls of one kind on one event loop.

    Args:
        alone: makes one call.
        together: makes several calls in one command; returns the results in order, an exception for each that failed.
        prepare: makes an argument of `together` from a call's arguments. If it raises, only this call fails.
    """

    def __init__(
        self,
        alone: Callable[Arguments, Awaitable[Answer]],
        together: Callable[[list[Asked]], Awaitable[Sequence[Answer | BaseException]]],
        prepare: Callable[Arguments, Asked],
    ) -> None:
        self._alone = alone
        self._together = together
        self._prepare = prepare
        self._waiting: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._busy = 0
        self._senders: set[asyncio.Task[None]] = set()

    async def call(self, *arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        """Make a call, alone or together with others."""
        if self._busy >= UNDER_WAY:
            asked = self._prepare(*arguments, **options)
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._waiting.append((asked, future))
            return await future
        self._busy += 1
        try:
            return await self._alone(*arguments, **options)
        finally:
            self._busy -= 1
            if self._waiting:
                self._start()

    def _start(self) -> None:
        self._busy += 1
        sender = asyncio.get_running_loop().create_task(self._send())
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    async def _send(self) -> None:
        """Send the waiting calls until there are none."""
        batch: list[tuple[Asked, asyncio.Future[Answer]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                # Skips callers that gave up: they do not learn the outcome, so it is better to send nothing.
                batch = [(asked, future) for asked, future in batch if not future.done()]
                if not batch:
                    continue
                try:
                    answers = await self._together([asked for asked, _ in batch])
                except Exception as error:
                    _fail(batch, error)
                    continue
                for (_, future), answer in zip(batch, answers, strict=True):
                    if future.done():
                        continue
                    if isinstance(answer, BaseException):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._busy -= 1
            # The loop is ending; after a normal end no calls are left.
            for _, future in (*batch, *self._waiting):
                if not future.done():
                    future.cancel()


def _fail(batch: list[tuple[Asked, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
