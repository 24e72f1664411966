"""The cookie: its name, its attributes, its valid contents. Knows no session and no store.

Spec: RFC 6265bis (prefixes, attributes), OWASP Session Management Cheat Sheet.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import Any

from mangonel.websessions.errors import UsageError
from mangonel.websessions.settings import Cookie

__all__ = ["TOKEN_BYTES", "CookiePolicy", "key_of", "new_token"]

TOKEN_BYTES = 32
SIGNATURE_BYTES = 16

# Browsers keep a cookie for 400 days at most.
DEVICE_SECONDS = 400 * 86_400

# More cookies with our name are an attack; each costs a read.
CANDIDATES = 3
HEADER_LIMIT = 65_536

# No other character may be stripped around a name: a browser sees no `__Host-` after other Unicode white space, so it
# lets any subdomain set such a cookie.
BLANKS = " \t"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_SIGNED = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{22})", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_DEVICE = re.compile(r"([A-Za-z0-9_-]{43})(?:\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43}))?", re.ASCII)
_PAYLOAD = re.compile(r"[A-Za-z0-9_-]{40,4096}", re.ASCII)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
# The characters of a field's value by RFC 9110, so that no value can start another header.
_FIELD = re.compile(r"[\x20-\x7e]*", re.ASCII)
_ATTRIBUTE = re.compile(r"[\x20-\x3a\x3c-\x7e]*", re.ASCII)
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
SAME_SITE = ("Lax", "Strict", "None")


def new_token() -> str:
    """Return 256 random bits in 43 characters that need no quoting in a cookie."""
    return b2a_base64(token_bytes(TOKEN_BYTES), newline=False)[:43].translate(_URL_SAFE).decode()


def key_of(token: str) -> bytes:
    """Return the key of a record without a cookie."""
    return sha256(token.encode()).digest()


class CookiePolicy:
    """The name and the attributes of the cookie, checked when the application starts.

    Args:
        cookie: the settings.
        sign: keys, newest first; tokens carry an HMAC, so that invalid ones are refused without a store call.
        is_payload: the cookie holds the websession itself.
        older: names of predecessors' cookies.
        has_devices: browsers have a cookie for their device, too.
    """

    def __init__(
        self,
        cookie: Cookie,
        *,
        sign: Sequence[bytes] = (),
        is_payload: bool = False,
        older: Sequence[str] = (),
        has_devices: bool = False,
    ) -> None:
        name, path, domain, secure = cookie.name, cookie.path, cookie.domain, cookie.secure
        if name is None:
            prefix = "" if not secure else "__Host-" if domain is None and path == "/" else "__Secure-"
            name = f"{prefix}sid"
        _check(name, path, domain, secure, cookie.samesite, cookie.partitioned)
        for field in ("cache_control", "clear_site_data"):
            _check_field(field, getattr(cookie, field))
        self.name = name
        self.secure = secure
        self.persistent = cookie.persistent
        # Keys for this name only: two applications, or two kinds of sessions, may share a secret and a store.
        self._purpose = b"mangonel websession " + name.encode() + b"\0"
        self._sign = [sha256(self._purpose + key).digest() for key in sign]
        self.cache_control = cookie.cache_control
        self._start = f"{name}="
        self._values = re.compile(rf"(?:^|;)[ \t]*{re.escape(name)}[ \t]*=([^;]*)").findall
        self._older = tuple(f"{each}=" for each in older)
        # The CSRF secret of visitors without a websession.
        self._csrf_start = f"{name}-csrf="
        # The browser's device, and a login that it remembers.
        self._device_start = f"{name}-device="
        self._has_devices = has_devices
        self._is_signed = bool(self._sign) and not is_payload
        self._form = _PAYLOAD if is_payload else _SIGNED if self._is_signed else _TOKEN
        attributes = ["HttpOnly", f"Path={path}", f"SameSite={cookie.samesite}"]
        if domain:
            attributes.append(f"Domain={domain}")
        if secure:
            attributes.append("Secure")
        if cookie.partitioned:
            attributes.append("Partitioned")
        self._attributes = "; " + "; ".join(attributes)

    def is_in(self, header: str | None) -> bool:
        """Return whether a Cookie header may contain our cookie, or a predecessor's; cheap for most visitors."""
        if header is None:
            return False
        if self._start in header or (self._has_devices and self._device_start in header):
            return True
        return bool(self._older) and any(each in header for each in self._older)

    def candidates(self, header: str | None) -> list[tuple[str, str | None, bytes | None]] | None:
        """Return our cookies in the order sent, at most three; None if `is_in` is false.

        Returns:
            Of each, the value, the token and the store's key for the token; None for both if the cookie is invalid.
        """
        if header is None or (self._start not in header and not self.is_in(header)):
            return None
        if len(header) > HEADER_LIMIT:
            return [("", None, None)]
        found: list[tuple[str, str | None, bytes | None]] = []
        for value in self._values(header)[:CANDIDATES]:
            value = value.strip(BLANKS).strip('"')
            match = self._form.fullmatch(value)
            token = match and (self._verified(match) if self._is_signed else value)
            found.append((value, token, sha256(self._purpose + token.encode()).digest() if token else None))
        return found

    def _verified(self, match: re.Match[str]) -> str | None:
        """Return the token in a signed value; None if none of our keys made the signature."""
        token, signature = match.groups()
        for key in self._sign:
            if hmac.compare_digest(_signature(key, token), signature):
                return token
        return None

    def give(self, token: str, seconds: float, extra: Mapping[str, Any] | None = None) -> str:
        """Return the Set-Cookie header that gives the token to the browser.

        Args:
            seconds: lifetime of the cookie, if it outlives the browser: with `persistent`, or for a remembered login.
            extra: the package's own values of the websession.
        """
        value = f"{token}.{_signature(self._sign[0], token)}" if self._sign else token
        if self.persistent or (extra is not None and extra.get("remember")):
            return f"{self._start}{value}{self._attributes}; Max-Age={max(int(seconds), 1)}"
        return f"{self._start}{value}{self._attributes}"

    def key_of(self, token: str) -> bytes:
        """Return the store's key for a token of this cookie. The token itself never reaches a store."""
        return sha256(self._purpose + token.encode()).digest()

    def csrf_secret(self, header: str | None) -> str | None:
        """Return the CSRF secret in a Cookie header, or None."""
        match = self._companion(header, self._csrf_start, _SECRET)
        return match[0] if match is not None else None

    def give_csrf(self, secret: str) -> str:
        """Return the Set-Cookie header that gives the CSRF secret to the browser, until it is closed."""
        return f"{self._csrf_start}{secret}{self._attributes}"

    def take_back_csrf(self) -> str:
        """Return the Set-Cookie header that removes the CSRF secret."""
        return f"{self._csrf_start}{self._attributes}; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"

    def device_in(self, header: str | None) -> tuple[str | None, str | None, str | None]:
        """Return the secret in a device's cookie and, for a remembered login, its locator and token."""
        match = self._companion(header, self._device_start, _DEVICE)
        return (match[1], match[2], match[3]) if match is not None else (None, None, None)

    def give_device(self, secret: str, locator: str | None = None, token: str | None = None) -> str:
        """Return the Set-Cookie header for the cookie of a device.

        Args:
            secret: identifies the device.
            locator, token: the place of the remembered login, and the token for the next one.
        """
        value = secret if locator is None else f"{secret}.{locator}.{token}"
        return f"{self._device_start}{value}{self._attributes}; Max-Age={DEVICE_SECONDS}"

    def _companion(self, header: str | None, start: str, form: re.Pattern[str]) -> re.Match[str] | None:
        """Return the value of a companion cookie, if it is well-formed."""
        if header is None or start not in header or len(header) > HEADER_LIMIT:
            return None
        for part in header.split(";"):
            name, _, value = part.strip(BLANKS).partition("=")
            if f"{name}=" == start and (match := form.fullmatch(value)):
                return match
        return None

    @property
    def purpose(self) -> bytes:
        """The purpose to which a sealed websession cookie is bound."""
        return self._purpose

    def take_back(self) -> str:
        """Return the Set-Cookie header that removes the cookie, with the attributes that it was set with."""
        return f"{self._start}{self._attributes}; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"


def _signature(key: bytes, token: str) -> str:
    digest = hmac.digest(key, token.encode(), "sha256")
    return urlsafe_b64encode(digest[:SIGNATURE_BYTES])[:22].decode()


def _check_field(name: str, value: str) -> None:
    # Browsers ignore values of Clear-Site-Data without quotes.
    is_bare = name == "clear_site_data" and value != "" and '"' not in str(value)
    if not isinstance(value, str) or not _FIELD.fullmatch(value) or is_bare:
        example = '\'"cache", "storage"\'' if name == "clear_site_data" else '"no-store" or "private"'
        raise UsageError(f"expected {name} as one line of printable ASCII, as {example}, got {value!r}")


def _check(name: str, path: str, domain: str | None, secure: bool, samesite: str, partitioned: bool) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"expected cookie to be a token of RFC 6265, got {name!r}")
    for what, value in (("path", path), ("domain", domain or "")):
        if not _ATTRIBUTE.fullmatch(value):
            raise UsageError(f"expected {what} to be printable and without semicolons, got {value!r}")
    if not path.startswith("/"):
        raise UsageError(f'expected path to start with "/", got {path!r}')
    if samesite not in SAME_SITE:
        raise UsageError(f"expected samesite to be one of {', '.join(SAME_SITE)}, got {samesite!r}")
    if name.startswith("__Host-") and (domain is not None or path != "/"):
        raise UsageError(
            f"a cookie named {name} has neither domain nor path; name it __Secure-sid, or drop them"
        )
    if name.startswith(("__Host-", "__Secure-")) and not secure:
        raise UsageError(f"a cookie named {name} needs secure=True; for development over http, name it sid")
    if samesite == "None" and not secure:
        raise UsageError("browsers refuse SameSite=None without Secure; use secure=True")
    if partitioned and not secure:
        raise UsageError("browsers refuse Partitioned without Secure; use secure=True")
