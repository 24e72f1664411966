"""Conditions by name, in MongoEngine's style: `by_name(User, age__gt=30, address__city="Oslo")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mangonel.odm.expressions.expr import Expr, query_of
from mangonel.odm.expressions.paths import Path, condition_of

# By operator name: the method of a path, and its further keywords.
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "in": ("in_", {}),
    "nin": ("not_in", {}),
    "exists": ("exists", {}),
    "size": ("size", {}),
    "all": ("all", {}),
    "iexact": ("iexact", {}),
    "contains": ("contains", {}),
    "icontains": ("contains", {"ignore_case": True}),
    "startswith": ("startswith", {}),
    "istartswith": ("startswith", {"ignore_case": True}),
    "endswith": ("endswith", {}),
    "iendswith": ("endswith", {"ignore_case": True}),
    "wholeword": ("wholeword", {}),
    "iwholeword": ("wholeword", {"ignore_case": True}),
    "regex": ("matches", {}),
    "iregex": ("matches", {"options": "i"}),
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "exact": Path.__eq__,
    "ne": Path.__ne__,
    "gt": Path.__gt__,
    "gte": Path.__ge__,
    "lt": Path.__lt__,
    "lte": Path.__le__,
}


def by_name(model: Any, **conditions: Any) -> Expr:
    """Return one condition that requires all of these: field names, with `__` for nested ones, then an operator.

    Type checkers cannot check such names; use class attributes, as in `User.age > 30`, for that.

    Args:
        model: a document class.
        conditions: by name: `age=3`, `age__gt=3`, `address__city__startswith="O"`, `tags__0="new"`. Operators: exact,
            ne, gt, gte, lt, lte, in, nin, exists, size, all, mod, iexact, contains, startswith, endswith, wholeword,
            regex; with an `i` in front, text operators ignore case.

    Raises:
        AttributeError: the field or operator does not exist.

    Example:
        >>> by_name(User, age__gt=30, name__startswith="A").query
        {'age': {'$gt': 30}, 'name': {'$regex': '^A'}}
    """
    return Expr(query_of(*(_condition(model, name, value) for name, value in conditions.items())))


def _condition(model: Any, name: str, value: Any) -> Expr:
    first, *parts = name.split("__")
    if first == "pk":
        first = next(iter(model.__expressions__))
    path = model.__expressions__.get(first)
    if path is None:
        known = ", ".join(model.__expressions__)
        raise AttributeError(f"{model.__name__} has no field {first!r}; it has {known or 'none'}")
    for index, part in enumerate(parts):
        if part.isdigit():
            path = path[int(part)]
        elif path._field().model is not None and part in path._field().model.__plan__.fields:
            path = path._inner(part)
        elif index == len(parts) - 1:
            return _operator(path, part, value, name)
        else:
            # Lists the available fields.
            path = path._inner(part)
    return condition_of(path, "__eq__", value)


def _operator(path: Path[Any], operator: str, value: Any, name: str) -> Expr:
    compare = _COMPARISONS.get(operator)
    if compare is not None:
        return compare(path, value)
    if operator == "mod":
        return condition_of(path, "mod", *value)
    if operator not in _METHODS:
        raise AttributeError(
            f"expected a field or an operator at the end of {name!r}, got {operator!r}; operators are "
            + ", ".join(sorted({*_COMPARISONS, *_METHODS, "mod"}))
        )
    method, options = _METHODS[operator]
    return condition_of(path, method, value, **options)
