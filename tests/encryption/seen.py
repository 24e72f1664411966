"""A client's commands as a listener sees them, and an error as a tool shows it."""

from __future__ import annotations

import traceback
from typing import Any

from mangonel.monitoring import CommandListener
from tools.frames import TESTS, frames_outside


class Seen(CommandListener):
    """`names` has each started command, and each failed one a second time; `replies` has those that succeeded."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.replies: list[Any] = []

    def started(self, event: Any) -> None:
        """Record a sent command."""
        self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None:
        """Record its reply."""
        self.replies.append(event.reply)

    def failed(self, event: Any) -> None:
        """Record its refusal."""
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
