"""Serves one browser from the feed: its position, the next frame, and how much it may be sent.

A reader has no queue. It is a number in the feed's ring, so a slow one costs only its number; if the ring has dropped
that number, the reader sends the state again, which includes everything that was missed. A browser grants credit for
frames and is sent no more than that, so frames that a tab cannot process never leave this process. A browser that keeps
up is in step with all others, and `fanout.py` serves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from mangonel.demo.fanout import EVENTS_PER_FRAME, Fanout, events_frame, text_frame
from mangonel.demo.feed import Feed, HistoryLost
from mangonel.demo.ring import Position

# Frames that a browser may receive before its first credit.
CREDIT = 16
MAX_CREDIT = 64


class Reader:
    """Sends one browser the events that it has not seen.

    Args:
        feed: the feed of this process.
        fanout: the fanout of that feed.
        write: writes a complete WebSocket frame without waiting, or drops it if the browser is gone.
    """

    def __init__(self, feed: Feed, fanout: Fanout, write: Callable[[bytes], None]) -> None:
        self._feed = feed
        self._fanout = fanout
        self._write = write
        self._credit = CREDIT
        self._granted = asyncio.Event()
        self.skipped = 0

    def grant(self, frames: int) -> None:
        """Add credit for this many frames."""
        self._credit = min(self._credit + max(frames, 0), MAX_CREDIT)
        self._granted.set()

    def take(self, frame: bytes) -> bool:
        """Write a frame if the browser is ready for one."""
        if self._credit <= 0:
            return False
        self._credit -= 1
        self._write(frame)
        return True

    async def run(self, position: Position | None) -> None:
        """Send until cancelled.

        Args:
            position: position of the browser's last event. None: it has none.
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
                    # The state may be newer than the last frame.
                    await fanout.reached(number)
                else:
                    number = self._frame(number)
                    # Many browsers may be catching up; the others must not wait for all of them.
                    await asyncio.sleep(0)
        finally:
            feed.readers -= 1

    async def _begin(self, position: Position | None) -> int:
        """Bring the browser to a position in the ring, and return the number to continue with."""
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
        """Send the events between a position and the ring's start, from a separate change stream."""
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
        """Send a frame with the events from `number` on, or with the state."""
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
