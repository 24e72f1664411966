"""A listener that remembers the commands of a client and their replies."""

from __future__ import annotations

from typing import Any

from mangonel.monitoring import CommandListener


class Seen(CommandListener):
    """`names` has each command that was started, and again those that failed; `replies` those that succeeded."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.replies: list[Any] = []

    def started(self, event: Any) -> None:
        """A command is sent."""
        self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None:
        """It was answered."""
        self.replies.append(event.reply)

    def failed(self, event: Any) -> None:
        """It was refused."""
        self.names.append(f"{event.command_name} failed")
