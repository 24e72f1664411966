"""Makes objects that hold connections refuse pickling and deep copies, and name what to pass instead."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class OfThisProcess:
    """A client, or an object that sends with one. A subclass with `__getstate__` or `__reduce__` can be pickled."""

    __slots__ = ()

    # What to pass to another process, or to use in place of a deep copy.
    _instead = ""

    def __getstate__(self) -> Any:
        raise TypeError(
            f"cannot pickle or deep-copy {type(self).__name__}, which uses connections of this process; {self._instead}"
        )
