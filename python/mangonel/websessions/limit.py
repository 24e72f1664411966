"""The most websessions of a user: checked before a login, and again after it. Flows, for every face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.websessions.errors import TooManySessions, UsageError
from mangonel.websessions.follow import end_flow, live_flow
from mangonel.websessions.record import Record

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.stores.protocol import Store

__all__ = ["check_limit", "evict_flow", "limit_flow", "limit_of"]

# The smallest step of time that every store keeps.
TICK = 0.001


def limit_of(sessions: CheckedSettings[Any], user: str) -> int | None:
    """Return the most websessions of a user; None: any number.

    Raises:
        UsageError: the application's function returned something else.
    """
    most = sessions.max_per_user
    if not callable(most):
        return most
    found = most(user)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 1):
        raise UsageError(
            f"expected the function max_per_user to return a number above zero or None, got {found!r}"
        )
    return found


async def limit_flow(
    sessions: CheckedSettings[Any], store: Store, user: str, most: int, old: Record | None
) -> float:
    """Return a login time later than those of the user's websessions, even if this server's clock is behind.

    Args:
        most: the limit.
        old: the record that this login replaces.

    Raises:
        TooManySessions: the user has as many as allowed, not counting the one that this login replaces.
    """
    others = await live_flow(sessions, store, user)
    if sessions.over_limit == "refuse":
        own = old.sid if old is not None else None
        check_limit(most, len({other.sid for other in others} - {own}) + 1)
    return max((other.created for other in others), default=0.0) + TICK


async def evict_flow(
    sessions: CheckedSettings[Any], store: Store, record: Record, most: int, now: float
) -> int:
    """Count again after the insert, so that two concurrent logins see each other; end the oldest.

    All requests use the same order, so that after concurrent logins exactly the limit remains. This login may be among
    the ended ones.

    Returns:
        How many websessions the user had, if this login was ended; otherwise 0.
    """
    assert record.user is not None
    found = await live_flow(sessions, store, record.user)
    # By `sid`: a renewal keeps the time of the login, and for a moment there are two records.
    began = {other.sid: (other.created, other.sid) for other in found} | {
        record.sid: (record.created, record.sid)
    }
    surplus = len(began) - most
    doomed = sorted(began, key=began.__getitem__)[: max(surplus, 0)]
    if surplus > 0 and (sessions.over_limit == "refuse" or record.sid in doomed):
        await end_flow(sessions, store, record, now)
        return len(began)
    for sid in doomed:
        for other in found:
            if other.sid == sid:
                await end_flow(sessions, store, other, now)
        sessions.emit("evicted", sid.hex(), user=record.user)
    return 0


def check_limit(most: int, count: int) -> None:
    """Refuse a login beyond the limit.

    Raises:
        TooManySessions: there are more.
    """
    if count > most:
        raise TooManySessions(f"the user has {most} websessions already")
