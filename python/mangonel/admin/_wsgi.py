"""The admin as a WSGI application, for Flask and every WSGI server: the flows run in the calling thread."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from mangonel._core import run_now
from mangonel.admin._body import PIECE, FormReader, checked_length
from mangonel.admin._port import BLOCKING
from mangonel.admin._request import Refused, Request, Response, query_of
from mangonel.admin._routes import answer_flow, static
from mangonel.websessions.frameworks.wsgi import KEY, WSGISessions

if TYPE_CHECKING:
    from mangonel.admin._files import Download
    from mangonel.admin._live import Live
    from mangonel.admin._site import Admin

# Seconds that an event stream keeps its thread. Then the browser reconnects, and its websession is checked again.
STREAM_S = 30.0


class WsgiAdmin:
    """The WSGI application of an admin."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._alone = WSGISessions(self._answer, admin.sessions)

    def __call__(self, environ: dict[str, Any], start_response: Any, *more: Any) -> Iterable[bytes]:
        """Answer one request."""
        if more:
            raise TypeError("expected a WSGI server, got an ASGI one; mount admin.asgi()")
        file = static(_text(environ, "PATH_INFO"))
        if file is not None:
            return _started(start_response, file)
        if KEY in environ:
            return self._answer(environ, start_response)
        return self._alone(environ, start_response)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(
            environ["REQUEST_METHOD"],
            _text(environ, "SCRIPT_NAME").rstrip("/"),
            _text(environ, "PATH_INFO"),
            query_of(environ.get("QUERY_STRING", "")),
            environ[KEY],
            lambda name: _header(environ, name),
        )
        kind, read_flow = environ.get("CONTENT_TYPE", ""), partial(_read_flow, environ)
        response = run_now(answer_flow(self._admin, BLOCKING, request, kind, read_flow))
        if response.stream is None:
            return _started(start_response, response, with_body=request.method != "HEAD")
        start_response("200 OK", response.all_headers())
        return _parts(response.stream)


async def _read_flow(environ: dict[str, Any], reader: FormReader) -> None:
    left = checked_length(environ.get("CONTENT_LENGTH"))
    while left > 0:
        piece = environ["wsgi.input"].read(min(left, PIECE))
        if not piece:
            raise Refused(400, "the form did not arrive as a whole")
        left -= len(piece)
        reader.feed(piece)


def _started(start_response: Any, response: Response, *, with_body: bool = True) -> list[bytes]:
    start_response(f"{response.status} {HTTPStatus(response.status).phrase}", response.all_headers())
    return [response.body] if with_body else []


def _parts(stream: Live | Download) -> Iterator[bytes]:
    """Yield the parts of a stream; an endless one is cut after `STREAM_S`."""
    end = time.monotonic() + STREAM_S
    try:
        while not stream.is_endless or time.monotonic() < end:
            part: bytes | None = run_now(stream.part_flow(BLOCKING))
            if part is None:
                return
            yield part
    finally:
        run_now(stream.close_flow(BLOCKING))


def _text(environ: dict[str, Any], name: str) -> str:
    # PEP 3333: bytes of UTF-8, each as one character.
    return str(environ.get(name, "")).encode("latin-1").decode("utf-8", "replace")


def _header(environ: dict[str, Any], name: str) -> str | None:
    value = environ.get(f"HTTP_{name.upper().replace('-', '_')}")
    return None if value is None else str(value)
