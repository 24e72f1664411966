"""The blocking face of a store: the flows of its definition, run in the calling thread. Knows no engine.

A definition is one class of flows over a client. With a client that waits in the thread its coroutines never suspend,
so the core's `run_now` runs them to their end. `BlockingFace` awaits the same flows itself, without these methods.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from mangonel._core import run_now
from mangonel.websessions.record import Record
from mangonel.websessions.stores.protocol import BlockingStore, Finds, Manages, Purges, Stats, Store


class NeverSuspends:
    """Flows whose client waits in the calling thread."""


class PerThread(NeverSuspends):
    """The same, with one connection for each thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._local = threading.local()

    def _connection(self) -> Any:
        connection = getattr(self._local, "connection", None)
        if connection is None or getattr(connection, "closed", False):
            connection = self._local.connection = self._connect()
        return connection

    def _connect(self) -> Any:
        """Open a connection."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            connection.close()


class _Flows(Store, Finds, Purges, Stats, Manages, Protocol):
    pass


class OnThreads:
    """A store for threads, made of its flows."""

    def __init__(self, flows: Any) -> None:
        self.flows: _Flows = flows

    def get(self, key: bytes) -> Record | None:
        """As `Store.get`."""
        return run_now(self.flows.get(key))

    def put(self, record: Record, expected: int) -> bool:
        """As `Store.put`."""
        return run_now(self.flows.put(record, expected))

    def touch(self, key: bytes, expires: float) -> bool:
        """As `Store.touch`."""
        return run_now(self.flows.touch(key, expires))

    def delete(self, *keys: bytes) -> int:
        """As `Store.delete`."""
        return run_now(self.flows.delete(*keys))

    def close(self) -> None:
        """As `Manages.aclose`; if each thread has its own connection, close this thread's."""
        run_now(self.flows.aclose())


class FindsOnThreads(OnThreads):
    """The same for an engine that can find a user's records."""

    def find(self, user: str) -> list[Record]:
        """As `Finds.find`."""
        return run_now(self.flows.find(user))

    def setup(self) -> None:
        """As `Manages.setup`."""
        run_now(self.flows.setup())


class PurgesOnThreads(FindsOnThreads):
    """The same for an engine without native expiry, or with a purge on request."""

    def purge(self, now: float, limit: int = 1000) -> int:
        """As `Purges.purge`."""
        return run_now(self.flows.purge(now, limit))

    def stats(self, now: float) -> dict[str, int]:
        """As `Stats.stats`."""
        return run_now(self.flows.stats(now))


class FlowsOfMethods(NeverSuspends):
    """Flows of a blocking store that was written by hand; each of its methods is awaited."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        getattr(self.store, name)  # raises for a capability that the store lacks

        async def awaited(*arguments: Any, **options: Any) -> Any:
            return getattr(self.store, name)(*arguments, **options)

        setattr(self, name, awaited)
        return awaited


METHODS = ("get", "put", "touch", "delete", "find", "setup", "purge", "stats")


def flows_of(store: BlockingStore) -> Any:
    """Return flows that never suspend: a store's own, or flows of its methods."""
    kind = type(store)
    if isinstance(store, OnThreads) and all(
        getattr(kind, name, None) in (None, getattr(PurgesOnThreads, name)) for name in METHODS
    ):
        return store.flows
    # A subclass that overrides methods is called through them.
    return FlowsOfMethods(store)
