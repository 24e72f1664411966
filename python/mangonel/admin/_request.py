"""A request and a response as the pages see them, and how forms are read. Knows no framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl, urlencode

from mangonel.admin._markup import Markup

__all__ = [
    "HEADERS",
    "MAX_BODY",
    "Refused",
    "Request",
    "Response",
    "Upload",
    "checked_length",
    "form_of",
    "query_of",
]

MAX_BODY = 64 << 20
"""Bytes of the largest form, uploaded files included."""
MAX_FIELDS = 100_000

# Scripts, styles and connections of this origin only; nothing inline, no HTML from strings, no framing.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""The security headers of every response."""


class Refused(Exception):
    """A request is answered with this status and one sentence.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form.

    Attributes:
        name: its name at the sender.
        kind: its content type, as the sender says.
        data: its bytes.
    """

    name: str
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the admin.

    Attributes:
        method: "GET" or "POST".
        base: path under which the admin is mounted, without a slash at its end.
        path: the rest of the path, from the slash on.
        query: the values of the query string.
        session: the websession.
        header: returns a header by its name, or None.
        form: the texts of the form.
        files: its files, by field.
    """

    method: str
    base: str
    path: str
    query: dict[str, str]
    session: Any
    header: Callable[[str], str | None]
    form: dict[str, str] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)

    @property
    def user(self) -> str | None:
        """The logged-in user."""
        user: str | None = self.session.user
        return user

    def link(self, *steps: str, **query: Any) -> str:
        """Return the address of another page of the admin; values that are None are left out."""
        asked = urlencode({key: value for key, value in query.items() if value is not None})
        return f"{self.base}/{'/'.join(steps)}{'?' if asked else ''}{asked}"


@dataclass(frozen=True, slots=True)
class Response:
    """A response of the admin.

    Attributes:
        body: its bytes.
        status: the HTTP status.
        headers: headers beside the security headers.
        stream: in place of a body: what makes the parts of an event stream; see `_live.py`.
    """

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    stream: Any = None

    @classmethod
    def page(cls, content: Markup, status: int = 200) -> Response:
        """Return a page."""
        headers = (("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"))
        return cls(f"<!doctype html>{content}".encode("utf-8", "replace"), status, headers)

    @classmethod
    def to(cls, address: str) -> Response:
        """Return the order to continue at another page, by GET."""
        return cls(b"", 303, (("Location", address), ("Cache-Control", "no-store")))

    def all_headers(self) -> list[tuple[str, str]]:
        """Return the headers to send; the length is among them unless it is a stream."""
        length = [] if self.stream is not None else [("Content-Length", str(len(self.body)))]
        return [*HEADERS.items(), *self.headers, *length]


def query_of(text: str) -> dict[str, str]:
    """Return the values of a query string; the last one of each name."""
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))


def checked_length(text: str | None) -> int:
    """Return the length of a body.

    Raises:
        Refused: it is missing, or larger than a form may be.
    """
    if not (text and text.isascii() and text.isdigit()):
        raise Refused(411, "expected a form with its length")
    if int(text) > MAX_BODY:
        raise Refused(413, f"expected a form of at most {MAX_BODY} bytes")
    return int(text)


def form_of(content_type: str, body: bytes) -> tuple[dict[str, str], dict[str, Upload]]:
    """Return the texts and the files of a form.

    Args:
        content_type: the request's header.
        body: the whole body.

    Raises:
        Refused: it is no form.
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "application/x-www-form-urlencoded":
            return query_of(body.decode("utf-8")), {}
        if kind == "multipart/form-data":
            return _parts_of(content_type, body)
    except ValueError as error:
        raise Refused(400, f"expected a form: {error}") from error
    raise Refused(415, f"expected a form, got {kind or 'no content type'}")


def _parts_of(content_type: str, body: bytes) -> tuple[dict[str, str], dict[str, Upload]]:
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        raise ValueError("multipart without a boundary")
    texts: dict[str, str] = {}
    files: dict[str, Upload] = {}
    mark = b"\r\n--" + boundary.encode("latin-1")
    for part in (b"\r\n" + body).split(mark)[1:]:
        if part.startswith(b"--"):
            break
        head, found, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not found:
            raise ValueError("a part without headers")
        headers = _headers_of(head)
        name = headers.get_param("name", header="content-disposition")
        file = headers.get_param("filename", header="content-disposition")
        if not isinstance(name, str):
            raise ValueError("a part without a name")
        if len(texts) + len(files) >= MAX_FIELDS:
            raise ValueError(f"more than {MAX_FIELDS} fields")
        if file is None:
            texts[_unquoted(name)] = data.decode("utf-8")
        elif file or data:
            files[_unquoted(name)] = Upload(_unquoted(str(file)), headers.get_content_type(), data)
    return texts, files


def _headers_of(head: bytes) -> Message:
    message = Message()
    for line in head.decode("utf-8").split("\r\n"):
        name, _, value = line.partition(":")
        message[name.strip()] = value.strip()
    return message


def _unquoted(text: str) -> str:
    # Browsers escape what would end the quoted name.
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
