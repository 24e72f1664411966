"""The live page and its WebSocket: events to the browser, and credit for frames back from it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketHandler

from mangonel.demo.base import Base
from mangonel.demo.reader import Reader
from mangonel.demo.ring import Position

UNAUTHENTICATED = 4401
MISUSE = 4400


class LivePage(Base):
    """Customers and orders, as they are written."""

    async def get(self) -> None:
        """Show the page; its WebSocket supplies the content."""
        demo = self.demo
        rate = None if demo.shop is None else round(demo.shop.rate)
        self.page("live.html", "Live", rate=rate, has_own=demo.deployment is not None)


class SessionSocket(Base, WebSocketHandler):
    """Closes with 4401 when the page's websession has ended; sends nothing else."""

    is_public = True  # `open` turns away
    check_csrf = False  # a WebSocket has no token; `check_origin` keeps other sites out
    session_revalidate = "5s"
    _task: asyncio.Task[None] | None = None  # sends the events, in subclasses

    async def open(self, *args: str, **kwargs: str) -> None:
        """Close without a login; with a close code, since a script cannot see the status of a handshake."""
        if self.session.user is None:
            self.close(UNAUTHENTICATED, "log in first")

    def on_message(self, message: str | bytes) -> None:
        """Ignore the message: pages send their position on every socket, and here it has no meaning."""

    def on_close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()


class LiveSocket(SessionSocket):
    """Sends the feed to a browser.

    The browser first sends `{"after": POSITION or null}`, then `{"credit": FRAMES}` as it processes frames. It gets a
    state, unless it continues from a position, and then events. Each frame contains the position to resume from.
    """

    _reader: Reader | None = None

    def on_message(self, message: str | bytes) -> None:
        """Start, or add credit."""
        if self.session.user is None:
            return
        try:
            told: dict[str, Any] = json.loads(message)
            if self._reader is not None:
                self._reader.grant(int(told["credit"]))
                return
            after = told["after"]
            position = None if after is None else Position.parse(str(after))
        except (KeyError, TypeError, ValueError):
            self.close(MISUSE, "expected after or credit")
            return
        self._reader = Reader(self.demo.feed, self.demo.fanout, self._write)
        self._task = asyncio.create_task(self._reader.run(position))

    def _write(self, frame: bytes) -> None:
        """Write a finished frame without `write_message`, which would encode it again and start a task per browser.

        Written bytes stay in memory until the socket accepts them; the browser's credit bounds their number.
        Compression was not negotiated, since `get_compression_options` is not overridden.
        """
        connection: Any = self.ws_connection
        if connection is not None and not connection.is_closing():
            with contextlib.suppress(StreamClosedError):
                connection.stream.write(frame)
