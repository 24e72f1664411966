"""What a listener sees of a client's commands, and a tool of its errors."""

from __future__ import annotations

import traceback
from typing import Any

from mangonel.monitoring import CommandListener
from tools.frames import TESTS, frames_outside


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


def shown(error: BaseException) -> str:
    """Return the driver's local variables in a traceback, as tools show them."""
    found = [repr(error)]
    seen: set[int] = set()
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        for frame in frames_outside(TESTS, link):
            found += [repr(value) for value in frame.f_locals.values()]
        links += (link.__cause__, link.__context__)
    return "".join(found) + "".join(traceback.format_exception(error))
