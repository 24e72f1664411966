"""Listeners of the commands of every client of the process."""

from __future__ import annotations

from typing import Any

from mangonel import monitoring


def hear_every_client(listener: Any) -> None:
    """Add a listener of commands to the clients that exist and to those made later.

    Args:
        listener: the listener.
    """
    from mangonel._shared.client.fork_and_exit import living

    monitoring.register(listener)
    for client in living():
        client._listeners.add(listener)
