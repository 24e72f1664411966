"""The settings in groups, with durations and assurance levels, checked once when the application starts.

Knows no store and no flow. Spec: NIST SP 800-63B-4 section 2 (limits of the levels), OWASP ASVS 5.0 V7.3.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, NamedTuple

from mangonel.websessions.errors import UsageError

__all__ = [
    "Content",
    "Cookie",
    "Keys",
    "Lifetime",
    "Limits",
    "Outages",
    "Protection",
    "Users",
    "checked_text",
    "grouped",
    "keys_of",
    "limits",
    "longest",
    "one_of",
    "seconds",
]

# The longest user name and label that the columns of all engines hold.
MOST_TEXT = 255

Duration = float | str | timedelta
Key = bytes | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifetime:
    """The lifetimes of a websession and its ids. Durations are seconds, timedelta or text such as "30m".

    Attributes:
        idle: a websession ends this long after its last use. None: 30 minutes.
        absolute: it ends this long after it began or its user logged in. None: 12 hours.
        renew: how often its id changes. None: never.
        grace: how long the old id is accepted after a renewal, in case the response was lost.
        touch_after: store a use when it moves the idle limit by this much. None: a tenth of `idle`.
        remember: the longest duration of `login(remember=…)`. None: 30 days, or the level's absolute limit.
        aal: an assurance level of NIST SP 800-63B, 1 to 3; its limits become the defaults.
    """

    idle: Duration | None = None
    absolute: Duration | None = None
    renew: Duration | None = "15m"
    grace: Duration = "30s"
    touch_after: Duration | None = None
    remember: Duration | None = None
    aal: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cookie:
    """The cookie and the headers that accompany it.

    Attributes:
        name: name of the cookie. None: `__Host-sid`, `__Secure-sid` with a domain or path, `sid` without Secure.
        path, domain, samesite, partitioned: its attributes.
        secure: False for development over plain http only.
        persistent: let the cookie outlive the browser.
        cache_control: Cache-Control of a response that sets the cookie: "no-store" or "private".
        clear_site_data: value of the Clear-Site-Data header of a logout, such as '"cache", "storage"'; "" for none.
    """

    name: str | None = None
    path: str = "/"
    domain: str | None = None
    secure: bool = True
    samesite: str = "Lax"
    partitioned: bool = False
    persistent: bool = False
    cache_control: str = "no-store"
    clear_site_data: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """The content of a websession.

    Attributes:
        codec: "msgpack", "json" or "bson".
        max_bytes: limit of the encoded size.
        merge: by key, a function of (base, mine, theirs) for parallel changes of one key.
    """

    codec: str = "msgpack"
    max_bytes: int = 65_536
    merge: Mapping[str, Callable[[Any, Any, Any], Any]] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """A secret that is rotated from time to time.

    To rotate it, give all workers the new one among `previous`; then make it `current` and the old one `previous`; drop
    the old one once the absolute limit has passed. In this order every worker can read every cookie.

    Attributes:
        current: the secret that signs, seals and binds.
        previous: secrets that are still accepted, in any order.
    """

    current: Key
    previous: Sequence[Key] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Protection:
    """Keys, and the protection against attackers.

    Attributes:
        seal: an AES key of 16 to 32 bytes, or `Keys`: encrypts the data at rest, and authenticates the whole record.
        sign: a secret, or `Keys`: cookies carry an HMAC, so that invalid ones never reach the store.
        bind: signals to compare with those at login, from "user_agent" and "network".
        bind_secret: secret for the signals' digests, shared by all workers, or `Keys`. None: use `seal` or `sign`.
        on_reuse: an old id that returns after the new one was presented is a copy: "destroy" ends the websession for
            everyone, "log" only refuses the copy.
        on_mismatch: "log", "challenge" or "destroy", or a mapping by signal. "network" is only logged unless it is
            named.
        trusted_origins: other origins whose pages may send requests that change something.
        guess_limit, guess_window: this many unknown ids from one network in this many seconds cause a `guessing` event.
    """

    seal: Key | Keys | None = None
    sign: Key | Keys | None = None
    bind: Iterable[str] = ()
    bind_secret: Key | Keys | None = None
    on_reuse: str = "destroy"
    on_mismatch: str | Mapping[str, str] = "log"
    trusted_origins: Iterable[str] = ()
    guess_limit: int = 20
    guess_window: Duration = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Users:
    """Settings for all websessions of one user.

    Attributes:
        max_per_user: the most websessions, or a function from the user's name to that number. None: any number.
        over_limit: "evict-oldest" or "refuse".
        devices: keep a list of each user's devices, see `WebSessions.devices`. A login is then remembered by a token
            that is used once. Needs the package ua-parser.
        place: a function that returns a place for an address, for that list, as from your database; it must not wait.
        on_new_device: called with the `Device` after a login on a device that the user has not used before; on an event
            loop it may be a coroutine function.
        on_theft: called in the same way with the `Device` whose remembered login was copied: its token came twice.
        epochs: a durable store, or its URL, for users' epochs, if the store cannot list a user's websessions; it is
            read whenever a user's websession is loaded.
    """

    max_per_user: int | Callable[[str], int | None] | None = None
    over_limit: str = "evict-oldest"
    epochs: Any = None
    devices: bool = False
    place: Callable[[str], str | None] | None = None
    on_new_device: Callable[[Any], Any] | None = None
    on_theft: Callable[[Any], Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outages:
    """The behaviour when something fails.

    Attributes:
        timeout: how long a request may wait for the store at its start, and again at its end; on an event loop only,
            since in threads the clients' own limits apply.
        on_store_error: "raise", answered with 503, or "anonymous": an empty websession that is not saved.
        save_on_error: store changes even if the response is a 5xx.
    """

    timeout: Duration = "5s"
    on_store_error: str = "raise"
    save_on_error: bool = False


GROUPS: tuple[type[Any], ...] = (Lifetime, Cookie, Content, Protection, Users, Outages)
# The group of each setting; a setting may also be given by its own name, except the cookie's name.
PLACES = {field.name: group for group in GROUPS for field in fields(group) if field.name != "name"}


def grouped(given: Sequence[Any], single: Mapping[str, Any]) -> list[Any]:
    """Return the groups in the order of GROUPS, with single settings put into theirs.

    Args:
        given: a group or None for each of GROUPS.
        single: settings by name.

    Raises:
        UsageError: the setting does not exist, or its group was given too.
    """
    values: dict[type, dict[str, Any]] = {group: {} for group in GROUPS}
    for name, value in single.items():
        place = PLACES.get(name)
        if place is None:
            groups = ", ".join(f"{each.__name__.lower()}={each.__name__}(…)" for each in GROUPS)
            raise UsageError(f"WebSessions has no setting {name!r}; the groups are {groups}")
        values[place][name] = value
    found = []
    for group, each in zip(GROUPS, given, strict=True):
        keyword = group.__name__.lower()
        if each is not None and not isinstance(each, group):
            raise UsageError(f"expected {keyword}={group.__name__}(…), got {type(each).__name__}")
        if each is not None and values[group]:
            raise UsageError(f"give {', '.join(values[group])} inside {keyword}={group.__name__}(…)")
        found.append(each if each is not None else group(**values[group]))
    return found


def keys_of(given: Any, name: str) -> list[Key]:
    """Return the keys of a setting, the current one first; empty for None.

    Raises:
        UsageError: an empty key, or a collection of keys without a current one.
    """
    if given is None:
        return []
    keys = given if isinstance(given, Keys) else Keys(current=given)
    if isinstance(keys.previous, bytes | str):
        raise UsageError(
            f"expected {name}=Keys(current=…, previous=[…]) with a list of previous keys, got one key"
        )
    found: list[Key] = []
    for key in (keys.current, *keys.previous):
        if not isinstance(key, bytes | str):
            raise UsageError(
                f"expected {name} as a key or Keys(current=…, previous=[…]), got {type(key).__name__}"
            )
        if not key:
            raise UsageError(
                f"expected {name} with keys that are not empty; mangonel.websessions.new_key() makes one"
            )
        found.append(key)
    return found


def checked_text(value: Any, what: str) -> str:
    """Return a text that every engine can store, for a user's name or a label.

    Raises:
        UsageError: it is something else, possibly from an attacker.
    """
    if not isinstance(value, str) or not value:
        raise UsageError(f"expected {what} as a non-empty str, got {type(value).__name__}")
    if len(value) > MOST_TEXT:
        raise UsageError(f"expected {what} of at most {MOST_TEXT} characters, got {len(value)}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise UsageError(f"expected {what} without NUL and lone surrogates, got {value[:40]!r}")
    return value


def one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """Return a setting that must be one of a few words.

    Raises:
        UsageError: another value.
    """
    if value not in allowed:
        raise UsageError(f"expected {name} to be one of {', '.join(allowed)}, got {value!r}")
    return value


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, None: 1}

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0

# Idle and absolute limits of the assurance levels; level 1 has no idle limit besides the absolute one.
LEVELS = {1: (30 * DAY, 30 * DAY), 2: (HOUR, 24 * HOUR), 3: (15 * MINUTE, 12 * HOUR)}


class Limits(NamedTuple):
    """The limits of a `Lifetime` in seconds; `renew` is infinity for an id that never changes."""

    idle: float
    absolute: float
    renew: float
    grace: float
    touch_after: float


def seconds(value: Any, name: str) -> float:
    """Return a duration given as seconds, timedelta or text such as "30m".

    Raises:
        UsageError: it is none of these, or not positive.
    """
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, bool):
        number = 0.0
    elif isinstance(value, int | float):
        number = float(value)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        number = float(match[1]) * _UNITS[match[2]]
    else:
        number = 0.0
    if not number > 0:
        raise UsageError(
            f'expected {name} as seconds, timedelta or text like "30m", above zero, got {value!r}'
        )
    return number


def longest(remember: Any, absolute: float, aal: int | None) -> float:
    """Return how many seconds a remembered login may last.

    Raises:
        UsageError: the duration makes no sense.
    """
    most = LEVELS[aal][1] if aal is not None else 30 * DAY
    if remember is None:
        return max(most, absolute)
    found = seconds(remember, "remember")
    if aal is not None and found > most:
        warnings.warn(f"assurance level {aal} allows {most:g} s in all, remember= {found:g}", stacklevel=4)
    return max(found, absolute)


def limits(given: Lifetime) -> Limits:
    """Return the limits in seconds; the defaults, idle 30 minutes and absolute 12 hours, suit level 2.

    Raises:
        UsageError: a limit makes no sense. Exceeding those of an assurance level warns.
    """
    aal = given.aal
    if aal is not None and aal not in LEVELS:
        raise UsageError(f"expected aal to be 1, 2 or 3, got {aal!r}")
    most_idle, most_absolute = LEVELS[aal] if aal is not None else (30 * MINUTE, 12 * HOUR)
    absolute_s = most_absolute if given.absolute is None else seconds(given.absolute, "absolute")
    idle_s = min(most_idle, absolute_s) if given.idle is None else seconds(given.idle, "idle")
    if idle_s > absolute_s:
        raise UsageError(f"expected idle ({idle_s:g} s) within absolute ({absolute_s:g} s)")
    if aal is not None and (idle_s > most_idle or absolute_s > most_absolute):
        warnings.warn(
            f"assurance level {aal} allows {most_idle:g} s idle and {most_absolute:g} s in all, "
            f"these settings {idle_s:g} and {absolute_s:g}",
            stacklevel=3,
        )
    throttle = idle_s / 10 if given.touch_after is None else seconds(given.touch_after, "touch_after")
    if throttle >= idle_s:
        raise UsageError(f"expected touch_after ({throttle:g} s) below idle ({idle_s:g} s)")
    return Limits(
        idle_s,
        absolute_s,
        float("inf") if given.renew is None else seconds(given.renew, "renew"),
        seconds(given.grace, "grace"),
        throttle,
    )
