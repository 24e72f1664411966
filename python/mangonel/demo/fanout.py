"""What all browsers that keep up are sent: each frame made once, and the same bytes written to every one of them.

Who is here is in step: has all events up to one number, the same for all, and is ready for a frame. Everybody else (who
begins, catches up, or takes nothing in just now) goes a way of his own in `reader.py`, and comes back. A frame is
written to a few browsers in each turn of the event loop, so that other requests never wait for all of them.

Knows neither WebSockets, but for the shape of their frames, nor MongoDB. Spec: RFC 6455, section 5.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mangonel.demo.feed import Feed
from mangonel.demo.ring import Position

__all__ = ["EVENTS_PER_FRAME", "Fanout", "Follower", "events_frame", "text_frame"]

# A frame every 33 ms at most, and no more frames than this in a second for all browsers together.
FRAME_S = 0.033
FRAMES_PER_SECOND = 3000
EVENTS_PER_FRAME = 1000
# Browsers that are written to in one turn of the loop: some 150 µs.
SLICE = 8


class Follower(Protocol):
    """Somebody who can be in step."""

    def take(self, frame: bytes) -> bool:
        """Write a frame, ready as it is; False: nothing was written, since the browser is not ready for one."""


class Fanout:
    """Sends what happens to everybody who is in step.

    Args:
        feed: of this process.

    Attributes:
        number: those in step have every event before this one.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        # Each with the future that is done when it falls out of step.
        self._followers: dict[Follower, asyncio.Future[int]] = {}
        self._moved: asyncio.Future[None] | None = None
        self.number = feed.ring.next

    async def walk(self, follower: Follower) -> int:
        """Keep somebody in step who has every event before `number`; return the first event that it could not take."""
        left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._followers[follower] = left
        try:
            return await left
        finally:
            self._followers.pop(follower, None)

    async def reached(self, number: int) -> None:
        """Wait until those in step are at this number, or have passed it."""
        while self.number < number:
            if self._moved is None:
                self._moved = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._moved)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._feed.news(self.number)
            await self._step()
            await asyncio.sleep(max(FRAME_S, self._feed.readers / FRAMES_PER_SECOND))

    async def _step(self) -> None:
        """Send what there is, in one frame."""
        first, ring = self.number, self._feed.ring
        if first < ring.first or not self._followers:
            # The ring has passed us by, or the feed began again: each has to see for himself what he lacks.
            self._move(ring.next)
            for follower in list(self._followers):
                self._leave(follower, first)
            return
        events, position = ring.events(first, EVENTS_PER_FRAME)
        frame = events_frame(events, position)
        # Those who come from here on have what this frame brings.
        followers = list(self._followers)
        self._move(first + len(events))
        for turn, follower in enumerate(followers):
            if turn % SLICE == 0 and turn:
                await asyncio.sleep(0)
            if follower in self._followers and not follower.take(frame):
                self._leave(follower, first)

    def _leave(self, follower: Follower, number: int) -> None:
        left = self._followers.pop(follower)
        if not left.done():
            left.set_result(number)

    def _move(self, number: int) -> None:
        self.number = number
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set_result(None)


def events_frame(events: Sequence[bytes], position: Position) -> bytes:
    """Return the frame of events up to a position."""
    return text_frame(
        b'{"type":"events","position":"%s","events":[%s]}' % (str(position).encode(), b",".join(events))
    )


def text_frame(payload: bytes) -> bytes:
    """Return a whole WebSocket frame of a text, as a server sends it: without a mask, not compressed."""
    length = len(payload)
    if length < 126:
        head = bytes((0x81, length))
    elif length <= 0xFFFF:
        head = b"\x81\x7e" + length.to_bytes(2, "big")
    else:
        head = b"\x81\x7f" + length.to_bytes(8, "big")
    return head + payload
