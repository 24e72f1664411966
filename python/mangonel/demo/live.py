"""The live page, and its WebSocket: from the feed to a browser, and the browser's word on what it is ready for."""

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

__all__ = ["LivePage", "LiveSocket", "SessionSocket"]

UNAUTHENTICATED = 4401
MISUSE = 4400


class LivePage(Base):
    """Customers and orders, as they are written."""

    async def get(self) -> None:
        """Show the page; what it shows comes over its WebSocket."""
        demo = self.demo
        rate = None if demo.shop is None else round(demo.shop.rate)
        self.page("live.html", "Live", rate=rate, has_own=demo.deployment is not None)


class SessionSocket(Base, WebSocketHandler):
    """Tells a page that its websession has ended, by closing with 4401; it has nothing else to say."""

    is_public = True  # `open` turns away
    check_csrf = False  # a WebSocket has no token; `check_origin` keeps other sites out
    session_revalidate = "5s"

    async def open(self, *args: str, **kwargs: str) -> None:
        """Turn away who is not logged in; with a code, since a script cannot see the status of a handshake."""
        if self.session.user is None:
            self.close(UNAUTHENTICATED, "log in first")

    def on_message(self, message: str | bytes) -> None:
        """Take no notice: a page says where it is, as on every socket, and is nowhere."""


class LiveSocket(SessionSocket):
    """Streams the feed.

    The browser sends `{"after": POSITION or null}` first, then `{"credit": FRAMES}` as it takes frames in. It gets a
    state, unless it goes on behind a position, and then events; each frame names the position to come back with.
    """

    _reader: Reader | None = None
    _task: asyncio.Task[None] | None = None

    def on_message(self, message: str | bytes) -> None:
        """Begin, or take note of credit."""
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

    def on_close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()

    def _write(self, frame: bytes) -> None:
        """Write a whole frame, past `write_message`: that would pack it again, and start a task, for each browser.

        What is written waits in memory until the socket takes it; the browser's credit bounds how much that is. No
        compression was agreed on, since `get_compression_options` is not overridden.
        """
        connection: Any = self.ws_connection
        if connection is not None and not connection.is_closing():
            with contextlib.suppress(StreamClosedError):
                connection.stream.write(frame)
