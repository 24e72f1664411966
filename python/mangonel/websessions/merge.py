"""The three-way merge of parallel changes to one websession. Knows no store.

It merges keys, not invariants across keys: two requests that each add a different key lose nothing; two that change
the same key need a function that combines both changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["RESERVED", "adding", "merged", "messages"]

# The package's own values are under one key, which is encoded only if there are any.
RESERVED = "_websession"

_ABSENT: Any = object()

Chooser = Callable[[Any, Any, Any], Any]


def merged(
    base: Mapping[str, Any],
    mine: Mapping[str, Any],
    theirs: Mapping[str, Any],
    differs: Callable[[Any, Any], bool],
    choosers: Mapping[str, Chooser],
) -> dict[str, Any]:
    """Return the merged values: theirs, with my changes.

    Args:
        base: the values that both started from.
        differs: whether two values are stored differently.
        choosers: by key, a function of (base, mine, theirs) for keys that both changed; None means a missing value.
    """
    result = dict(theirs)
    for key in [*mine, *(key for key in base if key not in mine)]:
        before, now = base.get(key, _ABSENT), mine.get(key, _ABSENT)
        if not _differ(before, now, differs):
            continue
        other = theirs.get(key, _ABSENT)
        if key == RESERVED:
            now = _merged_extra(_extra(before), _extra(now), _extra(other), differs)
        elif key in choosers and _differ(before, other, differs):
            now = choosers[key](*(None if value is _ABSENT else value for value in (before, now, other)))
        if now is _ABSENT:
            result.pop(key, None)
        else:
            result[key] = now
    return result


def adding(base: Any, mine: Any, theirs: Any) -> Any:
    """Return a number with the additions of both sides; for `Content(merge={"visits": adding})`."""
    return (theirs or 0) + (mine or 0) - (base or 0)


def messages(base: Any, mine: Any, theirs: Any) -> list[Any]:
    """Return the messages of both sides, for a list that each side extends, or reads as a whole and so removes."""
    before = base or []
    added: list[Any] = []
    kept = before
    for side in (theirs or [], mine or []):
        if side[: len(before)] == before:
            added += side[len(before) :]
        else:
            added += side
            kept = []
    return [*kept, *added]


def _extra(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _differ(one: Any, other: Any, differs: Callable[[Any, Any], bool]) -> bool:
    if one is _ABSENT or other is _ABSENT:
        return one is not other
    return differs(one, other)


def _merged_extra(
    base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any], differs: Callable[[Any, Any], bool]
) -> Any:
    extra = merged(
        base, mine, theirs, differs, {"flash": _flashes, "csrf": lambda base, mine, theirs: theirs or mine}
    )
    return extra or _ABSENT


def _flashes(base: Any, mine: Any, theirs: Any) -> Any:
    # A message that either side has read is removed; messages that either side added stay. Each has a unique
    # number, which distinguishes equal messages.
    before, now, other = base or [], mine or [], theirs or []
    read = [message for message in before if message not in now]
    return [message for message in other if message not in read] + [m for m in now if m not in before]
