"""The changes of an update, and the update document made from them. Knows no model and sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar


class Fitting:
    """To type checkers: the value of a change has the field's type."""


class Misfitting:
    """To type checkers: it has another type."""


if TYPE_CHECKING:
    Fit = TypeVar("Fit", default=Fitting)
else:
    Fit = TypeVar("Fit")


class Update(Generic[Fit]):
    """One change of an update."""

    __slots__ = ("key", "operator", "value")

    def __init__(self, operator: str, key: str, value: Any) -> None:
        self.operator = operator
        self.key = key
        self.value = value

    def __repr__(self) -> str:
        return f"Update({self.operator!r}, {self.key!r}, {self.value!r})"


class ValueOfAnotherType(Update[Misfitting]):
    """To type checkers the result of `set_(User.age, "x")`, which `update()` does not take. None is ever made.

    A class attribute is a plain int to them, and two arguments of one type variable are joined: `int | str` fits both.
    So overloads that come first name the pairs which cannot fit. The last one returns an `Update[Any]`: pyright keeps
    the wider type where an argument is Any and both overloads match, and this one is accepted.
    """

    __slots__ = ()


class Computing(Update):
    """A change whose value the server computes: only a pipeline can express it."""

    __slots__ = ()


Change: TypeAlias = Update | Mapping[str, Any]


def update_of(changes: Iterable[Change]) -> dict[str, Any]:
    """Return one update document for all changes.

    Raises:
        TypeError: an argument is not a change.
        ValueError: two changes of one key by the same operator.
    """
    update: dict[str, Any] = {}
    for change in changes:
        if isinstance(change, Update):
            group = update.setdefault(change.operator, {})
            if change.key in group:
                raise ValueError(f"expected one {change.operator} of {change.key!r}, got two")
            group[change.key] = change.value
        elif isinstance(change, Mapping):
            for operator, group in change.items():
                if operator[:1] != "$":
                    raise ValueError(f"expected update operators, got the key {operator!r}; use set_()")
                update.setdefault(operator, {}).update(group)
        else:
            raise TypeError(f"expected a change such as set_(User.age, 3), got {change!r}")
    if not update:
        raise TypeError("expected at least one change, got none")
    return update
