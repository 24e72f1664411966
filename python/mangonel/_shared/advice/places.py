"""Finds the line of the program that a command comes from, and warns there. Knows no command."""

from __future__ import annotations

import os
import sys
import warnings

from mangonel.errors import AdviceWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The driver's own folder: its frames are not lines of the program.
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LOOPS = tuple(f"{os.sep}{name}{os.sep}" for name in ("asyncio", "uvloop", "concurrent"))
# Methods that return all documents of a cursor.
_LOADING = frozenset(("to_list", "_to_list_flow", "all", "_all_flow", "_dicts_flow"))


class Place:
    """A line of the program.

    Attributes:
        file: name of the source file.
        line: number of the line.
        loads_all: whether the line requested a list of all documents.
    """

    __slots__ = ("_globals", "file", "line", "loads_all")

    def __init__(self, file: str, line: int, loads_all: bool, globals: dict[str, Any]) -> None:
        self.file = file
        self.line = line
        self.loads_all = loads_all
        self._globals = globals

    @property
    def key(self) -> tuple[str, int]:
        """File and number, which identify the line."""
        return (self.file, self.line)

    def warn(self, text: str) -> None:
        """Emit a warning that points to this line."""
        registry = self._globals.setdefault("__warningregistry__", {})
        name = self._globals.get("__name__") or "<unknown>"
        warnings.warn_explicit(text, AdviceWarning, self.file, self.line, name, registry)


def place_of_program() -> Place | None:
    """Return the innermost line outside of the driver, or None if an event loop called it."""
    frame: Any = sys._getframe(1)
    loads_all = False
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            if any(part in code.co_filename for part in _LOOPS):
                return None
            return Place(code.co_filename, frame.f_lineno, loads_all, frame.f_globals)
        loads_all = loads_all or code.co_name in _LOADING
        frame = frame.f_back
    return None
