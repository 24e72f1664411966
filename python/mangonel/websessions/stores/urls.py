"""From a URL to a store: which file, which class, which options. Imports an engine's client only when one is made.

Standard parsing: percent-encoding, IPv6 in brackets, defaults. An unknown option is an error.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from mangonel._arguments import expect
from mangonel.websessions.errors import UsageError

__all__ = ["SCHEMES", "StoreURL", "open_blocking", "open_store", "register_store"]

# Entry points of other packages: name the scheme, value the module.
GROUP = "mangonel.websessions.stores"

# Scheme: the module in this package. Each has `from_url(StoreURL)` and `blocking_from_url(StoreURL)`.
SCHEMES = {
    "memory": "memory",
    "mongodb": "mongodb",
    "mongodb+srv": "mongodb",
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
    "valkey": "redis",
    "valkeys": "redis",
    "redis+sentinel": "redis",
    "rediss+sentinel": "redis",
    "redis+cluster": "redis_cluster",
    "rediss+cluster": "redis_cluster",
    "memcached": "memcached",
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "sqlite": "sqlite",
    "files": "directory",
    "dir": "directory",
    "file": "single_file",
    "cookie": "cookie",
}

EXTRAS = {
    "redis": "redis",
    "redis_cluster": "redis",
    "memcached": "memcached",
    "mysql": "mysql",
    "postgresql": "postgresql",
    "sqlite": "sqlite",
}


# The schemes of other packages, with the dotted names of their modules.
_REGISTERED: dict[str, str] = {}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)


class StoreURL:
    """A URL taken apart.

    Attributes:
        text: as given.
        scheme, user, password, host, port, path: its parts, percent-decoded; None where absent.
        options: the query, whose names are taken out by `take`.
    """

    def __init__(self, text: str) -> None:
        self.text = expect("text", text, str, "a URL")
        reason = ""
        try:
            parts: SplitResult = urlsplit(text)
            # With several hosts there is no one port; those engines read `netloc`.
            self.port = parts.port if "," not in parts.netloc else None
        except ValueError as error:
            reason = str(error)
        if reason:
            shown = hide_password(text)
            if shown == text and "@" in text:
                # A "/", "?" or "#" in the password ended the host, so the reason quotes the password's start as a port.
                shown = f"{text.partition(':')[0]}://…@{text.rpartition('@')[2]}"
                reason = "percent-encode the user and the password"
            raise UsageError(f"expected the URL of a store, got {shown!r}: {reason}")
        self.scheme = parts.scheme
        self.netloc = parts.netloc
        self.user = unquote(parts.username) if parts.username else None
        self.password = unquote(parts.password) if parts.password else None
        self.host = parts.hostname
        self.path = unquote(parts.path)
        self.parts = parts
        self.options = dict(parse_qsl(parts.query, keep_blank_values=True))

    def take(self, name: str, default: Any = None, convert: Callable[[str], Any] = str) -> Any:
        """Take one option out of the query and return it, converted.

        Args:
            name: the option's.
            default: returned if the URL does not have it.
            convert: from its text to its value, as `int`; raises ValueError for any other text.

        Raises:
            UsageError: the option's text cannot be converted.

        Example:
            >>> url = StoreURL("scratch://host/app?size=10")
            >>> url.take("size", 100, int), url.take("size", 100, int)
            (10, 100)
        """
        if name not in self.options:
            return default
        value = self.options.pop(name)
        try:
            return convert(value)
        except (ValueError, TypeError):
            raise UsageError(
                f"expected {name} as {convert.__name__} in the store's URL, got {value!r}"
            ) from None

    def finish(self) -> None:
        """Refuse the options that were not taken."""
        if self.options:
            raise UsageError(
                f"the {self.scheme} store knows no option {', '.join(sorted(self.options))}; "
                "docs/websessions/stores.md lists them"
            )

    def without_query(self) -> str:
        """Return the URL without its query."""
        return urlunsplit(self.parts._replace(query="", fragment=""))


def flag(value: str) -> bool:
    """Return the value of a boolean option."""
    if value.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError(value)
    return value.lower() in ("1", "true", "yes", "on")


def hide_password(text: str) -> str:
    """Return a URL that may be printed."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return text.split(":", 1)[0] + ":…"
    if "@" not in parts.netloc:
        return text
    return urlunsplit(parts._replace(netloc="…@" + parts.netloc.rpartition("@")[2]))


def register_store(scheme: str, module: str) -> None:
    """Open the URLs of a scheme with your own store.

    A package can do the same with an entry point in the group `mangonel.websessions.stores`: its name is the scheme,
    its value the module.

    Args:
        scheme: the part of the URL before the colon, as "etcd".
        module: the dotted name of a module, imported at first use. Its `from_url(url)` returns a store for event loops,
            its `blocking_from_url(url)` one for threads; both get a `StoreURL` and connect to nothing yet.

    Raises:
        UsageError: the scheme is not valid in a URL, or belongs to another store.

    Example:
        >>> register_store("etcd", "my_application.etcd_store")
    """
    if not _SCHEME.fullmatch(expect("scheme", scheme, str, "text")):
        raise UsageError(f"expected scheme as letters, digits, +, - and . in lower case, got {scheme!r}")
    owner = SCHEMES.get(scheme) or _REGISTERED.get(scheme, module)
    if owner != module:
        raise UsageError(
            f"expected a scheme that no store has, got {scheme!r}, which {owner} has; choose another"
        )
    _REGISTERED[scheme] = module


def open_store(url: str) -> Any:
    """Return an asynchronous store for a URL. Connects to nothing yet."""
    return _opened(url, "from_url")


def open_blocking(url: str) -> Any:
    """Return a blocking store for a URL. Connects to nothing yet."""
    return _opened(url, "blocking_from_url")


def check_url(url: str) -> StoreURL:
    """Return the parts of a store's URL; loads no client.

    Args:
        url: as for `WebSessions`.

    Raises:
        UsageError: it is no URL, or no store has its scheme.
    """
    parsed = StoreURL(url)
    if parsed.scheme not in SCHEMES and _registered(parsed.scheme) is None:
        raise UsageError(
            f"expected a store's URL with one of the schemes {', '.join((*SCHEMES, *_REGISTERED))}, "
            f"got {hide_password(url)!r}; register_store() adds one"
        )
    return parsed


def _registered(scheme: str) -> str | None:
    """Return the module that was registered for a scheme, by a call or by an entry point."""
    if scheme not in _REGISTERED and scheme:
        from importlib.metadata import entry_points

        for found in entry_points(group=GROUP, name=scheme):
            register_store(scheme, found.value)
    return _REGISTERED.get(scheme)


def _opened(url: str, function: str) -> Any:
    parsed = check_url(url)
    name = SCHEMES.get(parsed.scheme)
    try:
        module = importlib.import_module(
            f"mangonel.websessions.stores.{name}" if name is not None else _REGISTERED[parsed.scheme]
        )
    except ImportError as error:
        extra = EXTRAS.get(name or "")
        if extra is None:
            raise
        raise UsageError(f'{error}; the {name} store comes with: pip install "mangonel[{extra}]"') from error
    opener: Any = getattr(module, function, None)
    if opener is None:
        side = "event loops" if function == "from_url" else "threads, as Flask's and WSGI's"
        raise UsageError(f"expected {function}() in {module.__name__}, got none: it has no store for {side}")
    return opener(parsed)
