"""Keys in the database for paths, dotted attribute names and sort orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mangonel.odm.expressions.orders import Order
from mangonel.odm.expressions.paths import Path
from mangonel.odm.expressions.values import field_named


def key_of(field: Any, model: Any = None) -> str:
    """Return a field's path in the database, from a class attribute or a dotted attribute name."""
    if isinstance(field, Path):
        return field._key
    if isinstance(field, str):
        return key_of_name(field, model)
    raise TypeError(f"expected a field or its name, got {field!r}")


def key_of_name(name: str, model: Any) -> str:
    """Translate a dotted path of attributes or keys into one of keys.

    Raises:
        AttributeError: the model has no such field, and accepts no others.
    """
    keys: list[str] = []
    current = model
    for part in name.split("."):
        if current is None or _is_position(part):
            keys.append(part)
            continue
        field = field_named(part, current)
        if field is None:
            if current.__dynamic__ or part == current.__tag__:
                keys.append(part)
                current = None
                continue
            known = ", ".join(current.__plan__.fields)
            raise AttributeError(f"{current.__name__} has no field {part!r}; it has {known or 'none'}")
        keys.append(field.key)
        current = field.model
    return ".".join(keys)


def _is_position(part: str) -> bool:
    return part.isdigit() or part.startswith("$")


def order_of(orders: Iterable[Any], model: Any) -> dict[str, Any]:
    """Return the sort document for orders: fields, `asc()`, `desc()`, names, names with `-`."""
    sort: dict[str, Any] = {}
    for order in orders:
        direction: Any = 1
        if isinstance(order, Order):
            order, direction = order.field, order.direction
        if isinstance(order, Mapping):
            sort.update(order)
            continue
        if isinstance(order, tuple):
            order, direction = order
        if isinstance(order, str) and order[:1] in ("-", "+"):
            direction = -1 if order[0] == "-" else 1
            order = order[1:]
        if isinstance(order, Order):
            order, direction = order.field, order.direction
        sort[key_of(order, model)] = direction
    return sort
