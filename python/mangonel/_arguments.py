"""The checks of arguments, and the names of methods in errors. Must not know: anything else of the package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    C = TypeVar("C", bound=type[Any])


def expect(name: str, value: Any, kinds: type | tuple[type, ...], expected: str) -> Any:
    """Return the value if it is of one of these kinds; raise TypeError, which names the argument, otherwise.

    Args:
        name: of the argument.
        value: the argument itself.
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


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the entries whose value is not None."""
    return {name: value for name, value in values.items() if value is not None}


def told_by_public_name(cls: C) -> C:
    """Let errors of wrong keywords name the methods of a class by its public name; return the class.

    Python tells such an error by the name that the function has: `Collection.insert_one()`, and not that of the mixin
    which defines it. What several classes share has its own name alone.

    Args:
        cls: a class that a program sees under the same name without a leading underscore.

    Example:
        >>> _Collection = told_by_public_name(_Collection)
    """
    owner = cls.__name__.lstrip("_")
    done = {base for known in cls.__mro__ if known in _told for base in known.__mro__}
    _told.add(cls)
    for base in cls.__mro__:
        if base in done or not base.__module__.startswith("mangonel."):
            continue
        start = f"{base.__name__}."
        methods: dict[str, Any] = vars(base)  # type: ignore[assignment]  # a view of it
        for name, method in methods.items():
            if type(method) is not _Function or method.__name__ != name or (name[0] == "_" != name[-1]):
                continue
            # Another name was given before: by the module, or since the method serves another class as well.
            is_own = method.__qualname__ == start + name
            if is_own or "." in method.__qualname__:
                method.__qualname__ = f"{owner}.{name}" if is_own else name
    return cls


_Function: Any = type(told_by_public_name)
_told: set[type] = set()
