"""One browser's way through the feed: where it is, what it is sent next, and how much it may be sent.

A reader holds no queue. It is a number in the feed's ring, so a slow one costs nothing but its place; when the ring has
passed it by, it gets the state anew, which stands for everything it missed. A browser says how many frames it is ready
to take, and is sent no more: what its tab cannot follow never leaves this process. One that keeps up walks in step
with all others, and `fanout.py` sends it what it sends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from mangonel.demo.fanout import EVENTS_PER_FRAME, Fanout, events_frame, text_frame
from mangonel.demo.feed import Feed, HistoryLost
from mangonel.demo.ring import Position

__all__ = ["Reader"]

# Frames that a browser may have before it has said that it took any.
CREDIT = 16
MAX_CREDIT = 64


class Reader:
    """Sends one browser what it has not seen.

    Args:
        feed: of this process.
        fanout: of the feed.
        write: writes a whole WebSocket frame, or drops it when the browser is gone; it does not wait.
    """

    def __init__(self, feed: Feed, fanout: Fanout, write: Callable[[bytes], None]) -> None:
        self._feed = feed
        self._fanout = fanout
        self._write = write
        self._credit = CREDIT
        self._granted = asyncio.Event()
        self.skipped = 0

    def grant(self, frames: int) -> None:
        """The browser is ready for so many frames more."""
        self._credit = min(self._credit + max(frames, 0), MAX_CREDIT)
        self._granted.set()

    def take(self, frame: bytes) -> bool:
        """Write a frame, if the browser is ready for one."""
        if self._credit <= 0:
            return False
        self._credit -= 1
        self._write(frame)
        return True

    async def run(self, position: Position | None) -> None:
        """Send until cancelled.

        Args:
            position: of the last event that the browser has; None: it has nothing.
        """
        feed, fanout = self._feed, self._fanout
        feed.readers += 1
        try:
            number = await self._begin(position)
            while True:
                await self._ready()
                if number == fanout.number:
                    number = await fanout.walk(self)
                elif number > fanout.number:
                    # A state may be newer than what was sent last.
                    await fanout.reached(number)
                else:
                    number = self._frame(number)
                    # Many may be catching up; the others are not to wait for all of them.
                    await asyncio.sleep(0)
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
        await self._ready()
        return self._state()

    async def _catch_up(self, position: Position) -> Position:
        """Send the events between a position and the ring's start, from a stream of the browser's own."""
        target = self._feed.ring.start
        events: list[bytes] = []
        async with aclosing(self._feed.changes(position, target)) as changes:
            async for reached, event in changes:
                position = reached
                events.append(event.json())
                if len(events) == EVENTS_PER_FRAME:
                    await self._ready()
                    self.take(events_frame(events, position))
                    events.clear()
        if events:
            await self._ready()
            self.take(events_frame(events, position))
        return max(position, target)

    def _frame(self, number: int) -> int:
        """Send a frame of those events that are behind what others have had, or the state."""
        ring = self._feed.ring
        if number < ring.first:
            self.skipped += ring.first - number
            return self._state()
        events, position = ring.events(number, min(self._fanout.number - number, EVENTS_PER_FRAME))
        self.take(events_frame(events, position))
        return number + len(events)

    def _state(self) -> int:
        number = self._feed.ring.next
        self.take(text_frame(self._feed.state()))
        return number

    async def _ready(self) -> None:
        while self._credit <= 0:
            self._granted.clear()
            await self._granted.wait()
