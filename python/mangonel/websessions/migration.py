"""Converts the settings of the Tornado fork with sessions to arguments of `WebSessions`.

An application written for it starts unchanged; docs/websessions/migration.md describes the current meaning of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mangonel._arguments import expect
from mangonel.websessions.errors import UsageError
from mangonel.websessions.settings import HOUR, Keys, seconds

__all__ = ["arguments_of"]

DEFAULT_AGE = 900
DEFAULT_INTERVAL = 240
NEVER = timedelta(days=30)

# Planned by the fork in `session_security_model`, and never implemented.
SIGNALS = {"ip": "network", "ip_address": "network", "user_agent": "user_agent", "user-agent": "user_agent"}


def arguments_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `WebSessions` for a fork's settings.

    Raises:
        UsageError: a setting makes no sense, or `session_storage` is missing.
    """
    storage = expect("settings", settings, Mapping, "a mapping").get("session_storage")
    if not storage:
        raise UsageError('expected the setting session_storage, as "mongodb://localhost/app"')
    idle = _duration(settings.get("session_age", DEFAULT_AGE), "session_age")
    renew = _duration(
        settings.get("session_regeneration_interval", DEFAULT_INTERVAL), "session_regeneration_interval"
    )
    idle_s = seconds(NEVER if idle is None else idle, "session_age")
    arguments: dict[str, Any] = {
        "store": storage_url(storage),
        "idle": idle_s,
        # The fork had no absolute limit; here there always is one.
        "absolute": max(idle_s, 12 * HOUR),
        "renew": renew,
        "cookie": settings.get("session_cookie_name", "session_id"),
        "path": settings.get("session_cookie_path", "/"),
        "domain": settings.get("session_cookie_domain"),
        "secure": settings.get("session_cookie_secure", True),
        "bind": tuple(dict.fromkeys(_signal(name) for name in settings.get("session_security_model") or ())),
    }
    secret = settings.get("cookie_secret")
    if secret:
        # Tornado allows a dict of versions; the newest signs.
        secrets = (
            [secret[version] for version in sorted(secret, reverse=True)]
            if isinstance(secret, dict)
            else secret
        )
        arguments["sign"] = (
            Keys(current=secrets[0], previous=secrets[1:]) if isinstance(secret, dict) else secret
        )
    return arguments


def storage_url(storage: str) -> str:
    """Return the current form of a fork's URL, in which passwords and empty parts had other places."""
    parts = urlsplit(storage)
    netloc = parts.netloc
    path = parts.path
    if parts.scheme == "redis":
        user, at, host = netloc.rpartition("@")
        if at and ":" not in user:
            user = f":{user}"  # the fork's redis://password@host
        netloc = f"{user}{at}{host or 'localhost'}"
    elif parts.scheme in ("mongodb", "memcached", "mysql"):
        user, at, host = netloc.rpartition("@")
        netloc = f"{user}{at}{host or 'localhost'}"
    elif parts.scheme == "dir" and not path:
        raise UsageError(
            'expected a folder, as "dir:///var/lib/app/sessions"; the fork made a temporary one silently'
        )
    # Not urlunsplit: it drops the slashes of an empty host for unknown schemes.
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{netloc}{path}{query}" if "://" in storage else urlunsplit(parts)


def _duration(value: Any, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return seconds(value, name)


def _signal(name: str) -> str:
    try:
        return SIGNALS[name.lower()]
    except KeyError:
        raise UsageError(
            f"expected session_security_model of {', '.join(sorted(set(SIGNALS)))}, got {name!r}"
        ) from None
