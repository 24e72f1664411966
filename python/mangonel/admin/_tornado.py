"""The admin as a handler of Tornado, on the mixin of web sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler, stream_request_body

from mangonel.admin._body import FormReader, reader_of
from mangonel.admin._port import LOOP
from mangonel.admin._request import Refused, Request, Response, query_of
from mangonel.admin._routes import answer_flow, refusal, static
from mangonel.websessions.frameworks.tornado import SessionMixin

if TYPE_CHECKING:
    from mangonel.admin._files import Download
    from mangonel.admin._live import Live
    from mangonel.admin._site import Admin


@stream_request_body
class AdminHandler(SessionMixin, RequestHandler):
    """Answers every address of the admin."""

    session_revalidate = 10

    def initialize(self, admin: Admin, base: str) -> None:
        """Take over the arguments of the rule."""
        self._admin = admin
        self._base = base
        self._reader: FormReader | None = None
        self._fault: Refused | None = None

    @property
    def sessions(self) -> Any:
        """The admin's websessions."""
        return self._admin.sessions

    def check_xsrf_cookie(self) -> None:
        """Leave the check to the token of web sessions, which every form has."""

    async def prepare(self) -> None:
        """Load the websession, and prepare to read the form."""
        await (super().prepare() or _nothing())
        if self.request.method != "POST":
            return
        # Tornado refuses a larger body before reading it.
        connection: Any = self.request.connection
        connection.set_max_body_size(self._admin.max_body)
        try:
            kind = self.request.headers.get("Content-Type", "")
            self._reader = reader_of(kind, self.session.user, self._admin.max_body)
        except Refused as error:
            self._fault = error

    def data_received(self, chunk: bytes) -> None:
        """Take the next piece of the form; pieces after a fault are ignored."""
        if self._reader is not None and self._fault is None:
            try:
                self._reader.feed(chunk)
            except Refused as error:
                self._fault = error

    def on_finish(self) -> None:
        """Remove the temporary files."""
        super().on_finish()
        self._close()

    def on_connection_close(self) -> None:
        """Remove the temporary files of an interrupted form."""
        super().on_connection_close()
        self._close()

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    async def get(self, path: str | None) -> None:
        """Answer one request."""
        file = static(path or "/")
        if file is not None:
            self._send(file)
            return
        request = Request(
            self.request.method or "GET",
            self._base,
            path or "/",
            query_of(self.request.query),
            self.session,
            self.request.headers.get,
        )
        try:
            if self._fault is not None:
                raise self._fault
            if self._reader is not None:
                request.take(self._reader)
            response = await answer_flow(self._admin, LOOP, request)
        except Refused as error:
            response = refusal(self._admin, request, error)
        self._send(response)
        if response.stream is not None:
            await self._stream(response.stream)

    head = post = get

    def _send(self, response: Response) -> None:
        self.clear()
        self.clear_header("Server")
        self.set_status(response.status)
        for name, value in response.all_headers():
            self.set_header(name, value)
        self.write(response.body)

    async def _stream(self, stream: Live | Download) -> None:
        """Send the parts of a stream until it ends, the browser leaves or its websession ends."""
        try:
            while not self._finished and (part := await stream.part_flow(LOOP)) is not None:
                self.write(part)
                await self.flush()
        except StreamClosedError:
            pass
        finally:
            await stream.close_flow(LOOP)


async def _nothing() -> None:
    """Return at once."""
