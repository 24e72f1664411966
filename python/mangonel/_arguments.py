"""The checks of an argument's type. Must not know: anything else of the package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def expect(name: str, value: Any, kinds: type | tuple[type, ...], expected: str) -> Any:
    """Return the value if it is of one of these kinds; raise TypeError, which names the argument, otherwise.

    Args:
        name: of the argument.
        value: what the caller passed.
        kinds: classes, as for `isinstance`.
        expected: the kinds in words.

    Example:
        >>> expect("size", 5, int, "an int")
        5
    """
    if not isinstance(value, kinds):
        raise TypeError(f'expected {expected} for "{name}", got {type(value).__name__}')
    return value


def expect_instance(name: str, value: Any, kind: type) -> Any:
    """Return the value if it is of this class; raise TypeError in PyMongo's words otherwise."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be an instance of {kind.__name__}, not {type(value)}")
    return value
