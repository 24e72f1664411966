"""Calls a WSGI or ASGI application in this process, without a server around it."""

from __future__ import annotations

import asyncio
import io
from typing import Any, NamedTuple

HOST = "shop.example"
_BROWSER = "192.0.2.7"

_ENVIRON = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "REMOTE_ADDR": _BROWSER,
    "SERVER_NAME": HOST,
    "SERVER_PORT": "443",
    "HTTP_HOST": HOST,
    "wsgi.url_scheme": "https",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
}
_SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "GET",
    "scheme": "https",
    "root_path": "",
    "client": (_BROWSER, 1),
    "server": (HOST, 443),
}


class Answer(NamedTuple):
    """An application's answer: the status, the values of all `Set-Cookie` headers, and the body."""

    status: int
    cookies: list[str]
    body: bytes


def call_wsgi(app: Any, target: str, cookie: str | None) -> Answer:
    """Call a WSGI application, in the calling thread.

    Args:
        app: the application.
        target: path and query.
        cookie: the Cookie header, if there is one.
    """
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {**_ENVIRON, "PATH_INFO": path, "QUERY_STRING": query}
    environ |= {"wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO()}
    if cookie:
        environ["HTTP_COOKIE"] = cookie
    started: list[Any] = []
    body = app(environ, lambda status, headers, exc_info=None: started.append((status, headers)))
    try:
        content = b"".join(body)
    finally:
        if hasattr(body, "close"):
            body.close()
    status, headers = started[-1]
    return Answer(
        int(status[:3]), [value for name, value in headers if name.lower() == "set-cookie"], content
    )


async def call_asgi(app: Any, target: str, cookie: str | None) -> Answer:
    """Call an ASGI application; the arguments are those of `call_wsgi`."""
    path, _, query = target.partition("?")
    headers = [(b"host", HOST.encode())] + ([(b"cookie", cookie.encode())] if cookie else [])
    asked = [{"type": "http.request", "body": b"", "more_body": False}]
    status, given, body, is_over = 500, [], b"", asyncio.Event()

    async def receive() -> Any:
        if asked:
            return asked.pop()
        await is_over.wait()
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:
        nonlocal status, given, body
        if message["type"] == "http.response.start":
            status, given = message["status"], message["headers"]
        else:
            body += message.get("body", b"")

    scope = {**_SCOPE, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    await app({**scope, "headers": headers, "state": {}}, receive, take)
    is_over.set()
    return Answer(
        status, [value.decode("latin-1") for name, value in given if name.lower() == b"set-cookie"], body
    )
