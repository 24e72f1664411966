"""For tests of programs: counts the commands that a block sends, so that a query in a loop is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mangonel.errors import TooManyCommands

if TYPE_CHECKING:
    from mangonel.api import AsyncMongoClient, MongoClient
    from mangonel.monitoring import CommandStartedEvent

__all__ = ["Commands", "TooManyCommands", "count_commands"]

# Commands that no program sends by itself.
_NOT_COUNTED = frozenset({"hello", "ping", "endSessions", "killCursors", "explain"})
# How many characters of a command a message shows.
_LONGEST = 300


class Commands:
    """The commands that were sent, in order. A command listener; `len()` returns the number of commands.

    Attributes:
        sent: the name of each command with its collection.
        commands: the commands as documents.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.commands: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self.sent)

    def repeated(self, times: int = 2) -> dict[tuple[str, str], int]:
        """Return the commands that were sent at least this often, each with its count.

        Args:
            times: the smallest count to include.

        Example:
            >>> with mangonel.testing.count_commands() as commands:
            ...     order = client.shop.orders.find_one({"_id": 1})
            >>> commands.repeated()
            {}
        """
        return {key: count for key, count in Counter(self.sent).items() if count >= times}

    def __repr__(self) -> str:
        parts = (
            f"{count} times {name} {collection}" for (name, collection), count in self.repeated(1).items()
        )
        return ", ".join(parts) or "none"

    def clear(self) -> None:
        """Forget all commands."""
        self.sent.clear()
        self.commands.clear()

    def listing(self) -> str:
        """Return one line of JSON for each command.

        Example:
            >>> Commands().listing()
            ''
        """
        from mangonel.bson import json_util

        lines = []
        for command in self.commands:
            shown = {name: value for name, value in command.items() if name not in ("lsid", "$clusterTime")}
            text = json_util.dumps(shown)
            lines.append(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
        return "\n".join(lines)

    def check(self, at_most: int | None, remedy: str = "") -> None:
        """Refuse more commands than are allowed.

        Args:
            at_most: the allowed number. None: any number.
            remedy: the end of the message if commands were repeated.

        Raises:
            TooManyCommands: there were more; the message lists them.
            TypeError: `at_most` is not an int.

        Example:
            >>> Commands().check(0)
        """
        check_at_most(at_most)
        if at_most is not None and len(self) > at_most:
            often = remedy if self.repeated(3) else ""
            raise TooManyCommands(
                f"expected at most {at_most} commands, got {len(self)}: {self!r}{often}\n{self.listing()}"
            )

    # The methods of a command listener.

    def started(self, event: CommandStartedEvent) -> None:
        """Record a command; clients call this for each event.

        Example:
            >>> client = MongoClient(event_listeners=[Commands()])
        """
        name = event.command_name
        if name in _NOT_COUNTED:
            return
        command = dict(event.command)
        target = command.get("collection" if name == "getMore" else name)
        self.sent.append((name, target if isinstance(target, str) else ""))
        self.commands.append(command)

    def succeeded(self, event: object) -> None:
        """Do nothing: replies are not counted.

        Example:
            >>> client = MongoClient(event_listeners=[Commands()])
        """

    def failed(self, event: object) -> None:
        """Do nothing: errors are not counted.

        Example:
            >>> client = MongoClient(event_listeners=[Commands()])
        """


def check_at_most(at_most: Any) -> None:
    """Raise unless `at_most` is a number of commands or None.

    Raises:
        TypeError: `at_most` is neither an int nor None.
    """
    if at_most is not None and (not isinstance(at_most, int) or isinstance(at_most, bool)):
        raise TypeError(f'expected an int for "at_most", got {type(at_most).__name__}')


@contextmanager
def count_commands(
    *clients: MongoClient[Any] | AsyncMongoClient[Any], at_most: int | None = None
) -> Iterator[Commands]:
    """Count the commands that clients send inside a block, in all threads and tasks.

    Args:
        clients: clients of either face. Without any: all clients of the process, also those made inside the block.
        at_most: the allowed number. None: any number.

    Raises:
        TooManyCommands: there were more; the message lists them. It is an AssertionError too.
        TypeError: one of `clients` is not a client, or `at_most` is not an int.

    Example:
        >>> with mangonel.testing.count_commands(at_most=1) as commands:
        ...     order = client.shop.orders.find_one({"_id": 1})
    """
    from mangonel import monitoring
    from mangonel._observe.instruments import core_of
    from mangonel._shared.client.fork_and_exit import living

    for client in clients:
        core_of(client, "clients")
    check_at_most(at_most)
    commands = Commands()
    # Keyed by identity: clients of one deployment are equal.
    heard: dict[int, Any] = {id(client): client for client in clients or living()}
    for client in heard.values():
        client._listeners.add(commands)
    if not clients:
        monitoring.register(commands)
    try:
        yield commands
    finally:
        if not clients:
            monitoring._registered.remove(commands)
            heard |= {id(client): client for client in living()}
        for client in heard.values():
            client._listeners.remove(commands)
    commands.check(at_most)
