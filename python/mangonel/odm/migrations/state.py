"""The state of migrations in the database: applied ones, the progress of the current one, and the lock.

The collection `migrations` has one document for each migration, and one for the lock.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import platform
import time
import uuid
from collections.abc import Callable
from typing import Any

from mangonel.errors import DuplicateKeyError

LOCK = "lock"
LEASE_S = 30


class Busy(Exception):
    """Another process is migrating."""


class State:
    """The collection `migrations` of a database, and this process's lock."""

    def __init__(self, database: Any, name: str = "migrations") -> None:
        self._collection = database[name]
        self._me = {"host": platform.node(), "pid": os.getpid(), "token": uuid.uuid4().hex}
        self._renewed = -math.inf

    def applied(self) -> list[str]:
        """Return the names of the applied migrations."""
        found = self._collection.find({"direction": "forward", "stage": "done"}).sort("_id")
        return [row["_id"] for row in found]

    def unfinished(self) -> dict[str, Any] | None:
        """Return the migration that was started and not finished, or None."""
        return self._collection.find_one({"stage": {"$in": ["running", "cleaning"]}})

    def begin(self, name: str, direction: str, count: Callable[[], int]) -> dict[str, Any]:
        """Return the state of a migration, stored or new; `count` returns the number of documents to change."""
        kept = self._collection.find_one({"_id": name, "direction": direction, "stage": {"$ne": "done"}})
        if kept is not None:
            return dict(kept)
        fresh = {"direction": direction, "stage": "running", "position": None, "changed": 0, "total": count()}
        self._collection.replace_one({"_id": name}, fresh, upsert=True)
        return {"_id": name, **fresh}

    def save(self, name: str, **values: Any) -> None:
        """Store the progress of a migration."""
        self._collection.update_one({"_id": name}, {"$set": values})

    def lock(self, wait: Callable[[float], None] = time.sleep, wait_s: float = LEASE_S + 5) -> None:
        """Become the only migrating process. A dead process on this machine loses its lock at once; a
        process elsewhere loses it when its lease ends.

        Raises:
            Busy: another process is active.
        """
        end = time.monotonic() + wait_s
        while not self._take():
            if time.monotonic() > end:
                held = self._collection.find_one({"_id": LOCK}) or {}
                who = "process {pid} on {host}".format_map(
                    {"pid": "?", "host": "?", **(held.get("owner") or {})}
                )
                raise Busy(f"another process migrates this database, {who}; wait for it, or end it")
            wait(0.5)

    def _take(self) -> bool:
        free: list[dict[str, Any]] = [{"$expr": {"$lt": ["$until", "$$NOW"]}}]
        held = self._collection.find_one({"_id": LOCK})
        if held is not None and _is_gone(held.get("owner") or {}):
            free.append({"owner": held["owner"]})
        if held is None:
            with contextlib.suppress(DuplicateKeyError):
                self._collection.insert_one({"_id": LOCK, "owner": None, "until": dt.datetime(1970, 1, 1)})
        self._renewed = time.monotonic()
        return bool(self._collection.update_one({"_id": LOCK, "$or": free}, self._lease()).matched_count)

    def renew(self) -> None:
        """Extend the lease.

        Raises:
            Busy: it took so long that another process took over.
        """
        self._renewed = time.monotonic()
        if not self._collection.update_one({"_id": LOCK, "owner": self._me}, self._lease()).matched_count:
            raise Busy("this process took too long, and another one migrates in its place")

    def keep(self) -> None:
        """Extend the lease if a third of it has passed; raises as `renew`."""
        if time.monotonic() > self._renewed + LEASE_S / 3:
            self.renew()

    def release(self) -> None:
        """Release the lock."""
        self._collection.delete_one({"_id": LOCK, "owner": self._me})

    def _lease(self) -> list[dict[str, Any]]:
        until = {"$add": ["$$NOW", LEASE_S * 1000]}
        return [{"$set": {"owner": {"$literal": self._me}, "until": until}}]


def _is_gone(owner: dict[str, Any]) -> bool:
    """Whether the owner of a lock was a process on this machine that no longer runs."""
    if owner.get("host") != platform.node():
        return False
    try:
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, KeyError, ValueError):
        return False
    return False
