"""Reads server replies: a missing field raises ProtocolError, since it is the server's fault."""

from __future__ import annotations

from mangonel.errors import ProtocolError, PyMongoError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel import _core

# The exceptions raised by reading a reply in which a field is missing or has another type.
REPLY_ERRORS = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


def malformed(command: str, error: Exception) -> ProtocolError:
    """Return the exception for a reply to `command` that could not be read because of `error`."""
    found = str(error) if type(error) is not KeyError else f"no field {error}"
    return ProtocolError(f"expected a reply to {command} with the fields that it must have: {found}")


class ReplyTo:
    """A block that reads the reply to a command. A malformed reply raises ProtocolError."""

    __slots__ = ("_command",)

    def __init__(self, command: str) -> None:
        self._command = command

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, REPLY_ERRORS) and not isinstance(error, PyMongoError):
            raise malformed(self._command, error) from error


def cursor_of(batch: _core.Batch | None) -> _core.Batch:
    """Return the cursor of a reply that must have one.

    Raises:
        ProtocolError: the reply has no cursor.
    """
    if batch is None:
        raise ProtocolError("expected a cursor in the reply, got none")
    return batch
