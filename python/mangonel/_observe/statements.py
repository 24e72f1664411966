"""A command as text without its values, for agents that show statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangonel import _core, bson

if TYPE_CHECKING:
    from mangonel.monitoring import CommandStartedEvent

# Fields of every command that no statement shows.
_NOT_SHOWN = ("lsid", "$db", "$clusterTime", "$readPreference", "txnNumber", "apiVersion")
_LONGEST = 10_000


def statement_of(event: CommandStartedEvent) -> str:
    """Return a command as JSON: its fields' names, `?` in place of values, and only the first item of each array."""
    body = event._body
    command = body if isinstance(body, bytes) else bson.encode(event.command)
    return _core.shown_json(command, _LONGEST, _NOT_SHOWN, False)
