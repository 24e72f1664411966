"""Read concern: how durable data must be before a read may return it. Sends nothing itself.

Spec: read-write-concern.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DEFAULT_READ_CONCERN", "ReadConcern"]


class ReadConcern:
    """The consistency and isolation that a read requires of its data. Immutable.

    Args:
        level: `"local"`, `"available"`, `"majority"`, `"linearizable"`, `"snapshot"` or another level that the server
            knows. None: the server's default.

    Raises:
        TypeError: `level` is neither a string nor None.
    """

    __slots__ = ("_level",)

    def __init__(self, level: str | None = None) -> None:
        if level is not None and not isinstance(level, str):
            raise TypeError(f"level must be a string or None, not {type(level)}")
        self._level = level

    @property
    def level(self) -> str | None:
        """The level, as passed in."""
        return self._level

    @property
    def ok_for_legacy(self) -> bool:
        """Whether servers without read concerns behave this way anyway."""
        return self._level is None or self._level == "local"

    @property
    def document(self) -> dict[str, Any]:
        """This read concern as a new dict, in the form of commands; empty for the server's default."""
        return {"level": self._level} if self._level else {}

    def __eq__(self, other: object) -> bool:
        return self.document == other.document if isinstance(other, ReadConcern) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ReadConcern({self._level})" if self._level else "ReadConcern()"


DEFAULT_READ_CONCERN = ReadConcern()
