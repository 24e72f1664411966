"""What must happen to clients when the process forks, and when it ends. Holds clients weakly."""

from __future__ import annotations

import os
from _weakrefset import WeakSet

from mangonel import _core
from mangonel._faces.watch import forget_all, wait_for_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    _clients: WeakSet[Any]

_clients = WeakSet()
_is_registered = False


def remember(client: Any) -> None:
    """Have `client` start over in every child that is forked from now on."""
    global _is_registered
    if not _is_registered:
        import atexit

        atexit.register(_end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_start_over)
        _is_registered = True
    _clients.add(client)


def _end() -> None:
    for client in list(_clients):
        client._core.dismiss_watchers()
    wait_for_all()


def _start_over() -> None:
    forget_all()
    _core.reseed_object_ids()
    for client in list(_clients):
        client._after_fork()
