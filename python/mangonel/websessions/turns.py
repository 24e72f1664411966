"""Whose turn it is: the lock of a websession, for `lock.py`. Flows, for every face.

The lock is a record of its own under the websession's name, written by the compare-and-set that every store has. It
ends by itself, so a process that died holds nobody up for long. Knows no engine.
"""

from __future__ import annotations

from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from mangonel.websessions.follow import replace
from mangonel.websessions.record import Record

if TYPE_CHECKING:
    from mangonel.websessions.settled import Settled
    from mangonel.websessions.stores.protocol import Store

__all__ = ["release_flow", "take_flow"]


async def take_flow(sessions: Settled[Any], store: Store, sid: bytes, hold: float) -> Record | None:
    """Take the lock of a websession; None: somebody else has it."""
    now = sessions.now()
    key = sha256(b"mangonel websession lock\0" + sid).digest()
    mine = Record(key, token_bytes(8), 1, now, now + hold, now + hold, issued=now, sid=sid)
    if await store.put(mine, 0):
        return mine
    found = await store.get(key)
    if found is not None and now < found.expires:
        return None
    version = found.version if found is not None else 0
    mine = replace(mine, version=version + 1)
    return mine if await store.put(mine, version) else None


async def release_flow(sessions: Settled[Any], store: Store, mine: Record) -> bool:
    """Let go of a lock; False: it had ended by itself."""
    # Not a delete, which could remove the lock of who came next.
    now = sessions.now()
    is_mine = now < mine.expires
    gone = replace(mine, version=mine.version + 1, expires=now, deadline=now)
    return await store.put(gone, mine.version) and is_mine
