"""Durations, assurance levels and the other settings, checked once when the application starts.

Knows no store and no flow. Spec: NIST SP 800-63B-4 section 2 (limits of the levels), OWASP ASVS 5.0 V7.3.
"""

from __future__ import annotations

import re
import warnings
from datetime import timedelta
from typing import Any, NamedTuple

from mangonel.websessions.errors import UsageError

__all__ = ["Limits", "limits", "seconds"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, None: 1}

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0

# Idle and absolute limits of the assurance levels; at level 1 there is no idle limit but the absolute one.
LEVELS = {1: (30 * DAY, 30 * DAY), 2: (HOUR, 24 * HOUR), 3: (15 * MINUTE, 12 * HOUR)}


class Limits(NamedTuple):
    """All in seconds.

    Attributes:
        idle: a websession ends so long after its last use.
        absolute: and so long after login, whatever happens.
        renew: it gets a new id so often; infinity: never.
        grace: the old id is served so long after a renewal whose answer may have been lost.
        touch_after: uses are noted when they move the idle limit by this much.
    """

    idle: float
    absolute: float
    renew: float
    grace: float
    touch_after: float


def seconds(value: Any, name: str) -> float:
    """Return a duration given as seconds, timedelta or text as "30m".

    Raises:
        UsageError: it is none of these, or not above zero.
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


def limits(
    idle: Any = None,
    absolute: Any = None,
    renew: Any = "15m",
    grace: Any = "30s",
    touch_after: Any = None,
    aal: int | None = None,
) -> Limits:
    """Return the limits in seconds; the defaults are idle 30 minutes, absolute 12 hours, which suit level 2.

    Args:
        renew: None: the id stays for as long as the websession.
        aal: an assurance level, 1 to 3: its limits become the defaults, and going above them warns.

    Raises:
        UsageError: a limit that cannot be meant.
    """
    if aal is not None and aal not in LEVELS:
        raise UsageError(f"expected aal to be 1, 2 or 3, got {aal!r}")
    most_idle, most_absolute = LEVELS[aal] if aal is not None else (30 * MINUTE, 12 * HOUR)
    absolute_s = most_absolute if absolute is None else seconds(absolute, "absolute")
    idle_s = min(most_idle, absolute_s) if idle is None else seconds(idle, "idle")
    if idle_s > absolute_s:
        raise UsageError(f"expected idle ({idle_s:g} s) within absolute ({absolute_s:g} s)")
    if aal is not None and (idle_s > most_idle or absolute_s > most_absolute):
        warnings.warn(
            f"assurance level {aal} allows {most_idle:g} s idle and {most_absolute:g} s in all, "
            f"these settings {idle_s:g} and {absolute_s:g}",
            stacklevel=3,
        )
    throttle = idle_s / 10 if touch_after is None else seconds(touch_after, "touch_after")
    if throttle >= idle_s:
        raise UsageError(f"expected touch_after ({throttle:g} s) below idle ({idle_s:g} s)")
    return Limits(
        idle_s,
        absolute_s,
        float("inf") if renew is None else seconds(renew, "renew"),
        seconds(grace, "grace"),
        throttle,
    )
