"""Write concern: how many members must have a write before the server confirms it. Sends nothing itself.

Spec: read-write-concern.
"""

from __future__ import annotations

from mangonel.common import validate_boolean
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DEFAULT_WRITE_CONCERN", "WriteConcern"]


class WriteConcern:
    """How many members must confirm a write, and how durably. Immutable.

    Args:
        w: number of members that must have the write, or `"majority"`, or the name of a custom tag set. 0: the server
            confirms nothing, so there is neither error nor result.
        wtimeout: milliseconds to wait for the confirmation. Deprecated: use `timeout`.
        j: True: the write must be in the journal on disk.
        fsync: True: like `j`, or a flush of all files if the server has no journal. Not together with `j`.

    Raises:
        ConfigurationError: the arguments contradict each other.
        TypeError, ValueError: an argument has the wrong type, or is negative.
    """

    __slots__ = ("_acknowledged", "_document")

    def __init__(
        self,
        w: int | str | None = None,
        wtimeout: int | None = None,
        j: bool | None = None,
        fsync: bool | None = None,
    ) -> None:
        document: dict[str, Any] = {}
        if wtimeout is not None:
            if not isinstance(wtimeout, int):
                raise TypeError(f"wtimeout must be an integer of milliseconds, not {type(wtimeout)}")
            if wtimeout < 0:
                raise ValueError(f"wtimeout cannot be less than 0, got {wtimeout}")
            document["wtimeout"] = wtimeout
        if j is not None:
            document["j"] = validate_boolean("j", j)
        if fsync is not None:
            document["fsync"] = validate_boolean("fsync", fsync)
            if fsync and j:
                raise ConfigurationError("cannot set both j and fsync; j alone is enough")
        if w == 0 and j:
            raise ConfigurationError("Cannot set w to 0 and j to True: nothing is confirmed with w=0")
        if w is not None:
            if not isinstance(w, (int, str)):
                raise TypeError(f"w must be an integer or string, not {type(w)}")
            if isinstance(w, int) and w < 0:
                raise ValueError(f"w cannot be less than 0, got {w}")
            document["w"] = w
        self._document = document
        # 0 == False, but the name "0" is a tag set.
        self._acknowledged = w is None or isinstance(w, str) or w > 0

    @property
    def is_server_default(self) -> bool:
        """Whether no option is set, so that the server's own default applies."""
        return not self._document

    @property
    def document(self) -> dict[str, Any]:
        """This write concern as a new dict, in the form of commands."""
        return self._document.copy()

    @property
    def acknowledged(self) -> bool:
        """Whether the server confirms writes with this concern."""
        return self._acknowledged

    def __repr__(self) -> str:
        return f"WriteConcern({', '.join(f'{name}={value!r}' for name, value in self._document.items())})"

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if isinstance(other, WriteConcern) else NotImplemented

    # Equal concerns may differ in type (0 and False), and PyMongo's are not hashable either.
    __hash__ = None  # type: ignore[assignment]


DEFAULT_WRITE_CONCERN = WriteConcern()
