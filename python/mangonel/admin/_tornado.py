"""The admin as a handler of Tornado, on the mixin of web sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from mangonel.admin._port import LOOP
from mangonel.admin._request import Refused, Request, Response, form_of, query_of
from mangonel.admin._routes import answer_flow, refusal, static
from mangonel.websessions.frameworks.tornado import SessionMixin

if TYPE_CHECKING:
    from mangonel.admin._live import Live
    from mangonel.admin._site import Admin

__all__ = ["AdminHandler"]


class AdminHandler(SessionMixin, RequestHandler):
    """Answers every address of the admin."""

    session_revalidate = 10

    def initialize(self, admin: Admin, base: str) -> None:
        """Take over the arguments of the rule."""
        self._admin = admin
        self._base = base

    @property
    def sessions(self) -> Any:
        """The admin's websessions."""
        return self._admin.sessions

    def check_xsrf_cookie(self) -> None:
        """Leave the check to the token of web sessions, which every form has."""

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
            if request.method == "POST":
                texts, files = form_of(self.request.headers.get("Content-Type", ""), self.request.body)
                request.form.update(texts)
                request.files.update(files)
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

    async def _stream(self, live: Live) -> None:
        """Send the parts of an event stream until the browser leaves, or its websession ends."""
        try:
            while not self._finished:
                self.write(await live.part_flow(LOOP))
                await self.flush()
        except StreamClosedError:
            pass
        finally:
            await live.close_flow(LOOP)
