"""The lock of a websession, for `lock.py`. Flows, for every face.

The lock is a separate record under the websession's name, written with the compare-and-set that every store has. It
expires by itself, so a dead process does not block others for long. Knows no engine.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mangonel.websessions.follow import replace
from mangonel.websessions.record import Record
from mangonel.websessions.writes import changed, next_writes, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.stores.protocol import Store

__all__ = ["release_flow", "take_flow"]


async def take_flow(sessions: CheckedSettings[Any], store: Store, sid: bytes, hold: float) -> Record | None:
    """Take the lock of a websession; return None if another request has it."""
    now = sessions.now()
    key = sha256(b"mangonel websession lock\0" + sid).digest()
    mine = Record(key, b"", 1, now, now + hold, now + hold, issued=now, sid=sid, writes=next_writes(b""))
    was_put, found = await put_flow(store, mine, 0)
    if was_put:
        return mine
    if found is not None and now < found.expires:
        return None
    version, writes = (found.version, found.writes) if found is not None else (0, b"")
    mine = replace(mine, version=version + 1, writes=next_writes(writes))
    was_put, _ = await put_flow(store, mine, version)
    return mine if was_put else None


async def release_flow(sessions: CheckedSettings[Any], store: Store, mine: Record) -> bool:
    """Release a lock; return False if it had expired."""
    # Not a delete, which could remove the next holder's lock.
    now = sessions.now()
    is_mine = now < mine.expires
    was_put, _ = await put_flow(store, changed(mine, expires=now, deadline=now), mine.version)
    return was_put and is_mine
