"""One browser's way through the feed: where it is, what it is sent next, and how much it may be sent.

A reader holds no queue. It is a number in the feed's ring, so a slow one costs nothing but its place; when the ring has
passed it by, it gets the state anew, which stands for everything it missed. A browser says how many frames it is ready
to take, and is sent no more: what its tab cannot follow never leaves this process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from mangonel.demo.feed import Feed, HistoryLost
from mangonel.demo.ring import Position

__all__ = ["Reader"]

# A frame for one reader every 33 ms at most, and no more frames than this in a second for all of them together.
FRAME_S = 0.033
FRAMES_PER_SECOND = 4000
EVENTS_PER_FRAME = 1000
CREDIT = 8
MAX_CREDIT = 64


class Reader:
    """Sends one browser what it has not seen.

    Args:
        feed: of this process.
        send: sends a text frame, and returns once the socket has taken it.
    """

    def __init__(self, feed: Feed, send: Callable[[str], Awaitable[None]]) -> None:
        self._feed = feed
        self._send = send
        self._credit = CREDIT
        self._granted = asyncio.Event()
        self.skipped = 0

    def grant(self, frames: int) -> None:
        """The browser is ready for so many frames more."""
        self._credit = min(self._credit + max(frames, 0), MAX_CREDIT)
        self._granted.set()

    async def run(self, position: Position | None) -> None:
        """Send until cancelled.

        Args:
            position: of the last event that the browser has; None: it has nothing.
        """
        feed = self._feed
        feed.readers += 1
        try:
            number = await self._begin(position)
            while True:
                await feed.news(number)
                number = await self._frame(number)
                # A share of chance, or readers that woke together would all be served in one long turn of the loop.
                pause = max(FRAME_S, feed.readers / FRAMES_PER_SECOND)
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))
        finally:
            feed.readers -= 1

    async def _begin(self, position: Position | None) -> int:
        """Bring the browser to where the ring takes over, and return the number it goes on with."""
        while position is not None:
            number = self._feed.ring.number_behind(position)
            if number is not None:
                return number
            try:
                position = await self._catch_up(position)
            except HistoryLost:
                break
        return await self._state()

    async def _catch_up(self, position: Position) -> Position:
        """Send the events between a position and the ring's start, from a stream of the browser's own."""
        target = self._feed.ring.start
        events: list[str] = []
        async with aclosing(self._feed.changes(position, target)) as changes:
            async for reached, _, row in changes:
                position = reached
                events.append(row)
                if len(events) == EVENTS_PER_FRAME:
                    await self._events(events, position)
                    events.clear()
        if events:
            await self._events(events, position)
        return max(position, target)

    async def _frame(self, number: int) -> int:
        await self._ready()
        ring = self._feed.ring
        if number < ring.first:
            self.skipped += ring.first - number
            return await self._state()
        events, position = ring.events(number, EVENTS_PER_FRAME)
        await self._events(events, position, is_ready=True)
        return number + len(events)

    async def _state(self) -> int:
        await self._ready()
        # No await between the two: the state is that of this number.
        number, state = self._feed.ring.next, self._feed.state()
        await self._send(state)
        return number

    async def _events(self, events: list[str], position: Position, *, is_ready: bool = False) -> None:
        if not is_ready:
            await self._ready()
        await self._send(f'{{"type":"events","position":"{position}","events":[{",".join(events)}]}}')

    async def _ready(self) -> None:
        while self._credit <= 0:
            self._granted.clear()
            await self._granted.wait()
        self._credit -= 1
