"""The one builder of operations: what the core takes by place is said by name here.

`find_one` and `insert_one` call the core themselves, since they are measured in microseconds; everything else builds
its operation with these names. Knows no command.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import READ_DOCUMENT, REPLIES_ONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal, TypeAlias

    from mangonel.read_preferences import _ServerMode

    # That of the user, that of a cursor, False for none at all, None for an implicit one.
    SessionHandle: TypeAlias = _core.Session | _core.ImplicitSession | Literal[False] | None

PRIMARY_MODE = 0  # of a read preference


def command_document(command: str | Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return a command that a user named, with `value`, or wrote down: a document of its own.

    Raises:
        ValueError: it is empty, and so has no name.
    """
    document = {command: value} if isinstance(command, str) else dict(command)
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
    """Encode a command and say how it is sent and how its reply is read. Nothing is sent.

    Args:
        command: its first key is the command's name.
        database: where it runs.
        codec: how the command is encoded and the reply decoded.
        kind: KIND_...: read or write, and whether it may be sent twice.
        reading: READ_...: what of the reply is handed out.
        replies: REPLIES_...: how many are awaited.
        read_preference: which servers it may go to. None: the primary.
        session: False for none at all, None for an implicit one.
        pinned: the connection that the cursor is kept on.
        is_under_way: the server sends the reply by itself.
        answer: called with the reply; what it returns is the result.
        server: the address of the only server that it may go to.

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
        # The primary needs no word.
        None
        if read_preference is None or read_preference._MODE == PRIMARY_MODE
        else read_preference.document,
        session,
        pinned,
        is_under_way,
        answer,
        server,
    )
