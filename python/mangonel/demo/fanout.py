"""Sends frames to all browsers that keep up: makes each frame once and writes the same bytes to all.

A browser is in step if it has all events up to one number, the same for all, and is ready for a frame. Any other
browser (one that starts, catches up or is not ready) is served by `reader.py` until it is in step. A frame is written
to a few browsers in each turn of the event loop, so that other requests never wait for all of them.

It knows WebSockets only by their frame format, and does not know MongoDB. Spec: RFC 6455, section 5.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mangonel.demo.feed import Feed
from mangonel.demo.ring import Position

# At most one frame in 33 ms, and at most this many frames a second for all browsers together.
FRAME_S = 0.033
FRAMES_PER_SECOND = 3000
EVENTS_PER_FRAME = 1000
# How many browsers are written to in one turn of the loop: about 150 µs.
SLICE = 8


class Follower(Protocol):
    """A browser that can be in step."""

    def take(self, frame: bytes) -> bool:
        """Write a finished frame; return False, having written nothing, if the browser is not ready for one."""


class Fanout:
    """Sends each event to all browsers that are in step.

    Args:
        feed: the feed of this process.

    Attributes:
        number: browsers in step have every event before this one.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        # The value is a future that completes when the browser falls out of step.
        self._followers: dict[Follower, asyncio.Future[int]] = {}
        self._moved: asyncio.Future[None] | None = None
        self.number = feed.ring.next

    async def walk(self, follower: Follower) -> int:
        """Keep a browser in step that has every event before `number`; return the first event that it did not get."""
        left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._followers[follower] = left
        try:
            return await left
        finally:
            self._followers.pop(follower, None)

    async def reached(self, number: int) -> None:
        """Wait until browsers in step have reached this number."""
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
        """Send all new events in one frame."""
        first, ring = self.number, self._feed.ring
        if first < ring.first or not self._followers:
            # The ring no longer has our position, or the feed restarted: each browser must catch up by itself.
            self._move(ring.next)
            for follower in list(self._followers):
                self._leave(follower, first)
            return
        events, position = ring.events(first, EVENTS_PER_FRAME)
        frame = events_frame(events, position)
        # Browsers that join from here on have this frame's events already.
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
    """Return the frame with these events and their last position."""
    return text_frame(
        b'{"type":"events","position":"%s","events":[%s]}' % (str(position).encode(), b",".join(events))
    )


def text_frame(payload: bytes) -> bytes:
    """Return a complete WebSocket text frame as a server sends it: unmasked, uncompressed."""
    length = len(payload)
    if length < 126:
        head = bytes((0x81, length))
    elif length <= 0xFFFF:
        head = b"\x81\x7e" + length.to_bytes(2, "big")
    else:
        head = b"\x81\x7f" + length.to_bytes(8, "big")
    return head + payload
