"""Exports or erases everything that the store keeps about one user. Flows, for every face.

Spec: GDPR, articles 15 and 17.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.book import book_key
from mangonel.websessions.devices import devices_flow
from mangonel.websessions.errors import Unsupported, UsageError
from mangonel.websessions.follow import live_flow
from mangonel.websessions.merge import RESERVED
from mangonel.websessions.settings import checked_text
from mangonel.websessions.users import of_flow, revoke_user_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.stores.protocol import Store

__all__ = ["erase_flow", "export_flow"]


async def export_flow(sessions: CheckedSettings[Any], store: Store, user: str) -> dict[str, Any]:
    """Return the stored data of a user, as values that JSON has."""
    checked_text(user, "the user")
    _check_finds(store)
    contents: dict[str, Any] = {}
    for record in await live_flow(sessions, store, user):
        try:
            values = sessions.codec.decode(sessions.unsealed(record))
        except ValueError as error:
            raise UsageError(
                f"cannot read a websession of the user: {error}; the keys of seal= that it was stored with are needed"
            ) from None
        values.pop(RESERVED, None)
        contents[record.sid.hex()] = msgspec.to_builtins(values, str_keys=True)
    handles = await of_flow(sessions, store, user, None)
    found = {
        "user": user,
        "websessions": [
            {
                **{name: getattr(each, name) for name in ("id", "label", "device")},
                **{name: _when(getattr(each, name)) for name in ("created", "last_seen", "expires")},
                "values": contents.get(each.id, {}),
            }
            for each in handles
        ],
    }
    if sessions.has_devices:
        found["devices"] = [
            {
                **{
                    name: getattr(each, name)
                    for name in ("id", "browser", "system", "place", "is_remembered")
                },
                **{name: _when(getattr(each, name)) for name in ("first_seen", "last_seen")},
            }
            for each in await devices_flow(sessions, store, user, None)
        ]
    return found


async def erase_flow(sessions: CheckedSettings[Any], store: Store, user: str) -> int:
    """End a user's websessions and remove the user's stored data; return how many websessions ended.

    Only the number of the user's revocations remains, under a hash of the name, until every websession that it ends
    would have reached its limit.
    """
    checked_text(user, "the user")
    _check_finds(store)
    ended = await revoke_user_flow(sessions, store, user, None)
    # Includes expired and ended records, and those sealed with a lost key.
    keys = [record.key for record in await store.find(user) if record.user == user]  # type: ignore[attr-defined]
    await store.delete(*keys, book_key(user))
    return ended


def _check_finds(store: Store) -> None:
    if not hasattr(store, "find"):
        raise Unsupported(f"{type(store).__name__} cannot list a user's websessions; use an engine that can")


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
