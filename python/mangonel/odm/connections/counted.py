"""Counts the commands that a block of a program sends, for tests: many of one kind suggest a query in a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mangonel.odm.errors import TooManyCommands

if TYPE_CHECKING:
    from mangonel.odm.connections.connection import Connection

# Commands that no program sends by itself.
_NOT_COUNTED = frozenset({"hello", "ping", "endSessions", "killCursors"})


class Commands:
    """The commands that a block sent: `(name, collection)` pairs in order. `len()` returns their number."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return len(self.sent)

    def repeated(self, times: int = 2) -> dict[tuple[str, str], int]:
        """Return the commands that were sent at least this often, each with its count.

        Args:
            times: the smallest count to include.

        Example:
            >>> with count_commands(db) as commands:
            ...     _ = [post.author.get() for post in Post.find()]
            >>> commands.repeated()
            {}
        """
        return {key: count for key, count in Counter(self.sent).items() if count >= times}

    def __repr__(self) -> str:
        parts = (
            f"{count} times {name} {collection}" for (name, collection), count in self.repeated(1).items()
        )
        return ", ".join(parts) or "none"


def _listener(commands: Commands) -> Any:
    # Programs that do not count do not load the driver's events.
    from mangonel.monitoring import CommandListener

    class Listener(CommandListener):
        def started(self, event: Any) -> None:
            if event.command_name not in _NOT_COUNTED:
                target = event.command.get(event.command_name)
                if event.command_name == "getMore":
                    target = event.command.get("collection")
                commands.sent.append((event.command_name, target if isinstance(target, str) else ""))

        def succeeded(self, event: Any) -> None:
            return

        def failed(self, event: Any) -> None:
            return

    return Listener()


@contextmanager
def count_commands(connection: Connection, at_most: int | None = None) -> Iterator[Commands]:
    """Count the commands that the clients of a connection send in the block, on both faces and in all threads.

    Args:
        connection: the result of `connect()`.
        at_most: the allowed number. None: any number.

    Raises:
        TooManyCommands: there were more; the message lists them, and the repeated ones.

    Example:
        >>> with count_commands(db, at_most=2) as commands:
        ...     posts = Post.find().include(Post.author).all()
        >>> len(commands) <= 2
        True
    """
    commands = Commands()
    listener = _listener(commands)
    connection.clients.listen(listener)
    try:
        yield commands
    finally:
        connection.clients.unlisten(listener)
    if at_most is not None and len(commands) > at_most:
        often = commands.repeated(3)
        hint = "; an include() or a get_many() may ask once for all" if often else ""
        raise TooManyCommands(f"expected at most {at_most} commands, got {len(commands)}: {commands}{hint}")
