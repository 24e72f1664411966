"""A request and a response as the pages see them. Knows no framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from mangonel.admin._markup import Markup

if TYPE_CHECKING:
    from mangonel.admin._body import FormReader

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
        name: the file's name as sent.
        kind: its content type as sent.
        file: its bytes, as a binary file object at its beginning.
    """

    name: str
    kind: str
    file: IO[bytes]


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
        listed: the answer of `allowed` for "list" and the model of the page: True, or a filter; see `_allowed.py`.
    """

    method: str
    base: str
    path: str
    query: dict[str, str]
    session: Any
    header: Callable[[str], str | None]
    form: dict[str, str] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)
    listed: Any = True

    @property
    def user(self) -> str | None:
        """The logged-in user."""
        return self.session.user

    def take(self, reader: FormReader) -> None:
        """Take over a form that was fed to the end.

        Raises:
            Refused: it is incomplete.
        """
        reader.finish()
        self.form.update(reader.texts)
        self.files.update(reader.files)

    def link(self, *steps: str, **query: Any) -> str:
        """Return the address of another page of the admin, in ASCII; values that are None are left out."""
        asked = urlencode({key: value for key, value in query.items() if value is not None})
        return f"{quote(self.base)}/{quote('/'.join(steps))}{'?' if asked else ''}{asked}"


@dataclass(frozen=True, slots=True)
class Response:
    """A response of the admin.

    Attributes:
        body: its bytes.
        status: the HTTP status.
        headers: headers in addition to the security headers.
        stream: in place of a body: a `Live` or a `Download`, which makes its parts.
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
        """Return a redirect to another page, for a GET."""
        return cls(b"", 303, (("Location", address), ("Cache-Control", "no-store")))

    def all_headers(self) -> list[tuple[str, str]]:
        """Return the headers to send; the length is among them unless it is unknown."""
        is_told = self.stream is not None or "Content-Length" in dict(self.headers)
        length = [] if is_told else [("Content-Length", str(len(self.body)))]
        return [*HEADERS.items(), *self.headers, *length]


def query_of(text: str) -> dict[str, str]:
    """Return the values of a query string; the last one of each name."""
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
