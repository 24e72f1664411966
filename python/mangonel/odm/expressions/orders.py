"""Sort orders as values: `asc(User.age)`, `desc(User.age)`. Knows no models."""

from __future__ import annotations

from typing import Any


class Order:
    """One key of a sort order."""

    __slots__ = ("direction", "field")

    def __init__(self, field: Any, direction: Any) -> None:
        self.field = field
        self.direction = direction

    def __repr__(self) -> str:
        return f"{'desc' if self.direction == -1 else 'asc'}({self.field!r})"


def asc(field: object) -> Order:
    """Sort by a field, smallest first.

    Args:
        field: an attribute of the model.

    Example:
        >>> [user.name for user in User.find().sort(asc(User.age))]
        ['Eve', 'Ada']
    """
    return field if isinstance(field, Order) else Order(field, 1)


def desc(field: object) -> Order:
    """Sort by a field, largest first.

    Args:
        field: an attribute of the model.

    Example:
        >>> [user.name for user in User.find().sort(desc(User.age))]
        ['Ada', 'Eve']
    """
    return Order(field, -1)
