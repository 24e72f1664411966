"""Handles forks and the end of the process for all clients. Holds clients weakly."""

from __future__ import annotations

import os
from _weakref import ref

from mangonel import _core
from mangonel._faces.monitors import forget_all, wait_for_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    _clients: dict[int, ref[Any]]

# Keyed by identity: clients of the same deployment are equal, and a set would keep only the first.
_clients = {}
_is_registered = False


def prepare() -> None:
    """Register for forks and the exit, before other code that depends on clients does."""
    global _is_registered
    if not _is_registered:
        import atexit

        atexit.register(_end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_start_over)
        _is_registered = True


def remember(client: Any) -> None:
    """Make `client` start over in every child that is forked from now on."""
    number = id(client)

    def forget(dropped: ref[Any], clients: dict[int, ref[Any]] = _clients) -> None:
        # The number may belong to a newer client by now.
        if clients.get(number) is dropped:
            del clients[number]

    _clients[number] = ref(client, forget)


def _end() -> None:
    for client in living():
        client._core.dismiss_watchers()
    wait_for_all()


def _start_over() -> None:
    forget_all()
    _core.reseed_object_ids()
    for client in living():
        client._after_fork()


def living() -> list[Any]:
    """Return the clients of this process that still exist."""
    return [client for known in list(_clients.values()) if (client := known()) is not None]
