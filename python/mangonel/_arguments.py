"""The checks of arguments, and the names of methods in errors. Must not know: anything else of the package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    C = TypeVar("C", bound=type[Any])


def expect(name: str, value: Any, kinds: type | tuple[type, ...], expected: str) -> Any:
    """Return the value if it is of one of these kinds; otherwise raise TypeError, which names the argument.

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
    """Return the value if it is of this class; otherwise raise TypeError with PyMongo's message."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be an instance of {kind.__name__}, not {type(value)}")
    return value


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the entries whose value is not None."""
    return {name: value for name, value in values.items() if value is not None}


def told_by_public_name(cls: C) -> C:
    """Make errors about wrong keywords show the public class before a method's name; return the class.

    Python's message shows the function's qualified name: with this, `Collection.insert_one()` and not the mixin that
    defines it. A method that several classes share is shown without a class.

    Args:
        cls: a class that programs know by the same name without the leading underscore.

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
            # Otherwise it was renamed before: by its module, or because another class has the method too.
            is_own = method.__qualname__ == start + name
            if is_own or "." in method.__qualname__:
                method.__qualname__ = f"{owner}.{name}" if is_own else name
    return cls


_Function: Any = type(told_by_public_name)
_told: set[type] = set()
