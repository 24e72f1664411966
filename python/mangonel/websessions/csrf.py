"""Protection against forged requests: masked tokens, and the browser's headers about origin. Knows no framework.

A visitor without a login has the secret in a separate cookie, so that a form costs no record; a logged-in user has it
in the websession. A check has two halves, and both must pass: the origin, which a browser sends and a page cannot
forge, and the token, which only our own pages can have read.

Spec: OWASP Cross-Site Request Forgery Prevention Cheat Sheet; Fetch Metadata; ASVS 5.0 V3.5.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from secrets import token_bytes
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from mangonel.websessions.errors import CSRFError, UsageError

if TYPE_CHECKING:
    from mangonel.websessions.session import WebSession

__all__ = [
    "FIELD",
    "FORM_BYTES",
    "HEADER",
    "SAFE",
    "check_origin",
    "check_request",
    "check_token",
    "masked",
    "new_secret",
    "origins_of",
    "token_in_form",
]

SECRET_BYTES = 16
FIELD, HEADER = "_csrf", "X-CSRF-Token"

# Methods that change nothing.
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

# How many bytes of a form are searched for the token; the body is held back meanwhile.
FORM_BYTES = 65_536

PORTS = {"http": 80, "https": 443}

_ORIGIN = re.compile(r"[a-z]+://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]*)?/?", re.ASCII | re.IGNORECASE)

Header = Callable[[str], str | None]


def new_secret() -> str:
    """Return a new secret for tokens."""
    return urlsafe_b64encode(token_bytes(SECRET_BYTES)).decode().rstrip("=")


def masked(secret: str) -> str:
    """Return a token for a secret, different each time, so that compressed page lengths reveal nothing."""
    mask = token_bytes(SECRET_BYTES)
    return urlsafe_b64encode(mask + _xor(mask, _decoded(secret))).decode().rstrip("=")


def check_token(token: str | None, secret: str | None) -> None:
    """Check that a token belongs to a secret.

    Raises:
        CSRFError: it belongs to another secret, or is missing.
    """
    if not token or not isinstance(secret, str):
        raise CSRFError("expected a CSRF token of this websession, got none")
    try:
        raw, plain = _decoded(token), _decoded(secret)
    except ValueError:
        raw, plain = b"", b""
    if len(raw) != 2 * SECRET_BYTES or len(plain) != SECRET_BYTES:
        raise CSRFError("the CSRF token is malformed")
    if not hmac.compare_digest(_xor(raw[:SECRET_BYTES], raw[SECRET_BYTES:]), plain):
        raise CSRFError("the CSRF token belongs to another websession, or to before the login")


def check_origin(header: Header, *, is_secure: bool, trusted: frozenset[str], host: str | None) -> None:
    """Refuse requests that the browser marks as coming from elsewhere. Other programs send no mark, but need a token.

    Args:
        header: returns a header of the request by name.
        is_secure: whether the request came over TLS.
        trusted: origins, such as "https://admin.example", in addition to our own.
        host: our host, as the browser knows it; a chain of proxies may have put several there.

    Raises:
        CSRFError: the request comes from another origin, including other hosts of the same site.
    """
    origin, site = header("Origin"), header("Sec-Fetch-Site")
    if origin is not None and _normal(origin) in trusted:
        return
    if site in ("same-origin", "none"):
        return
    if site is not None:
        raise CSRFError(f"the request comes from another origin: {site}")
    if origin is None:
        referer = header("Referer")
        if not referer:
            return
        origin = referer
    found = _normal(origin)
    schemes = ("https",) if is_secure else ("https", "http")
    hosts = [each.strip() for each in (host or "").split(",")]
    if found in trusted or (
        found and found in (_normal(f"{one}://{each}") for one in schemes for each in hosts)
    ):
        return
    raise CSRFError(f"the request comes from another origin: {found or 'null'}")


def check_request(
    session: WebSession[Any], token: str | None, header: Header, *, has_token: bool = True
) -> None:
    """Check the origin of a request and its token.

    Args:
        session: the request's websession.
        token: the token. None: the header's.
        header: returns a header of the request by name.
        has_token: False for a handshake, which cannot carry one.

    Raises:
        CSRFError: answer 403.
    """
    state = session.state
    host = header("X-Forwarded-Host") if state.sessions.trust_forwarded else None
    check_origin(
        header,
        is_secure=state.request_view.is_secure,
        trusted=state.sessions.trusted_origins,
        host=host or header("Host"),
    )
    if has_token:
        session.check_csrf(token or header(HEADER))


def origins_of(given: Iterable[str]) -> frozenset[str]:
    """Return the origins of a setting.

    Raises:
        UsageError: one of them is not an origin.
    """
    if isinstance(given, str):
        raise UsageError(f"expected trusted_origins as a list of origins, as [{given!r}], got a str")
    found = set()
    for each in given:
        normal = _normal(each) if isinstance(each, str) else ""
        # Browsers send a host's name in ASCII, and nothing behind the port.
        if not normal or not _ORIGIN.fullmatch(each.strip()):
            raise UsageError(
                f'expected trusted_origins as "https://admin.example", as browsers send it, got {each!r}'
            )
        found.add(normal)
    return frozenset(found)


def token_in_form(content_type: str, body: bytes) -> str | None:
    """Return the token from the beginning of a form, or None.

    Args:
        content_type: the request's header.
        body: the part of the form received so far; an incomplete field is ignored.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        try:
            return dict(parse_qsl(body.decode("latin-1"))).get(FIELD)
        except ValueError:
            return None
    if kind != "multipart/form-data":
        return None
    from email.message import Message

    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        return None
    for part in body.split(b"--" + boundary.encode("latin-1", "replace"))[:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        if f'name="{FIELD}"'.encode() in head:
            return value.removesuffix(b"\r\n").decode("latin-1")
    return None


def _normal(url: str) -> str:
    """Return a URL's origin, with its port only if it is unusual; "" without an origin."""
    try:
        parts = urlsplit(url.strip().lower())
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in PORTS or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if port in (None, PORTS[parts.scheme]) else f":{port}")


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
