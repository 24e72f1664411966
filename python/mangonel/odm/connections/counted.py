"""Counts the commands that a block of a program sends, for tests: many of one kind suggest a query in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mangonel import errors
from mangonel.odm.errors import TooManyCommands
from mangonel.testing import Commands

if TYPE_CHECKING:
    from mangonel.odm.connections.connection import Connection


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
    connection.clients.listen(commands)
    try:
        yield commands
    finally:
        connection.clients.unlisten(commands)
    try:
        commands.check(at_most, "; an include() or a get_many() may ask once for all")
    except errors.TooManyCommands as error:
        raise TooManyCommands(str(error)) from None
