"""Stand-ins for what classes and aliases take from `typing` at run time; type checkers see the real ones.

Importing `typing` takes longer than everything else in this package together, and `import mangonel` has a
budget. Must not know: anything else of the package.
"""

from __future__ import annotations

from types import GenericAlias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Generic as Generic
    from typing import Protocol as Protocol
    from typing import overload as overload

    from typing_extensions import TypeVar as TypeVar
else:
    # Only aliases and bases are evaluated, and nobody asks them what they hold.
    Any = object

    class Generic:
        """Base of a class that may be subscripted, as in `Regex[str]`."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    class Protocol:
        """Base of a class that only describes others."""

    def overload(function: object) -> object:
        """Return the function: the definition after the overloads replaces it."""
        return function

    def TypeVar(name: str, *_constraints: object, **_options: object) -> str:  # noqa: N802
        """Return a placeholder: nothing here looks at type parameters at run time."""
        return name
