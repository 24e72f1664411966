"""Builds operations: gives names to the core's positional arguments.

`find_one` and `insert_one` call the core directly, to save microseconds; all other code builds operations here. Knows
no command.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import READ_DOCUMENT, REPLIES_ONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal, TypeAlias

    from mangonel.read_preferences import _ServerMode

    # A user's session, a cursor's, False for no session, or None for an implicit one.
    SessionHandle: TypeAlias = _core.Session | _core.ImplicitSession | Literal[False] | None

PRIMARY_MODE = 0  # the mode of a read preference


def command_document(command: str | Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return a command as a new document, from a name and `value`, or from a document.

    Raises:
        ValueError: `command` is empty, so it has no name.
    """
    try:
        document = {command: value} if isinstance(command, str) else dict(command)
    except (TypeError, ValueError):
        raise TypeError(f'expected a name or a document for "command", got {command!r}') from None
    if not document:
        raise ValueError("expected a command, whose first key is its name, got an empty document")
    return document


def build_operation(
    command: Mapping[str, Any],
    *,
    database: str,
    codec: _core.Codec,
    kind: int,
    reading: int = READ_DOCUMENT,
    replies: int = REPLIES_ONE,
    read_preference: _ServerMode | None = None,
    session: SessionHandle = None,
    pinned: int | None = None,
    is_under_way: bool = False,
    answer: Callable[..., Any] | None = None,
    server: str | None = None,
) -> _core.Operation:
    """Encode a command together with how to send it and read its reply. Sends nothing.

    Args:
        command: its first key is the command's name.
        database: the command's database.
        codec: encodes the command and decodes the reply.
        kind: KIND_...: read or write, and whether it may be retried.
        reading: READ_...: which part of the reply to return.
        replies: REPLIES_...: how many replies are expected.
        read_preference: the read preference. None: the primary.
        session: a session, False for none, None for an implicit one.
        pinned: the connection that the cursor is pinned to.
        is_under_way: the server sends the reply without a new request.
        answer: called with the reply; its return value is the result.
        server: the address of the only server that may receive it.

    Raises:
        InvalidDocument, OverflowError: the command cannot be encoded.
    """
    return _core.Operation(
        database,
        command,
        codec,
        kind,
        reading,
        replies,
        # The primary needs no read preference.
        None
        if read_preference is None or read_preference._MODE == PRIMARY_MODE
        else read_preference.document,
        session,
        pinned,
        is_under_way,
        answer,
        server,
    )
