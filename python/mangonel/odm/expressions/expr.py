"""Conditions as values: the result of `User.age > 3`, combinations of conditions, and the query made from them.

Knows models only through paths; sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mangonel.odm.errors import UnsupportedOption


class Operand:
    """A boolean field used as a condition without a comparison."""

    __slots__ = ()

    def _condition(self) -> dict[str, Any]:
        raise NotImplementedError


class Expr:
    """A condition. Combine conditions with `&`, `|` and `~`; `and`, `or` and `not` raise TypeError.

    `query` is the condition as a query document.
    """

    __slots__ = ("query",)

    def __init__(self, query: Mapping[str, Any]) -> None:
        try:
            self.query = dict(query)
        except (TypeError, ValueError):
            raise TypeError(f'expected a query document for "query", got {query!r}') from None

    def __and__(self, other: Where) -> Expr:
        return and_(self, other)

    def __rand__(self, other: Where) -> Expr:
        return and_(other, self)

    def __or__(self, other: Where) -> Expr:
        return or_(self, other)

    def __ror__(self, other: Where) -> Expr:
        return or_(other, self)

    def __invert__(self) -> Expr:
        return not_(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"the condition {self.query} has no truth value; did you write `and`, `or`, `not` or a chained "
            "comparison? use &, | and not_()"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.query == other.query

    def __hash__(self) -> int:
        return hash(repr(self.query))

    def __repr__(self) -> str:
        return f"Expr({self.query!r})"


class JoinedExpr(Expr):
    """A condition on documents that references lead to. Only a query, which joins them, can honour it.

    Args:
        query: the condition on documents with the other documents joined to them.
        through: the paths that it compares.
    """

    __slots__ = ("joined", "through")

    def __init__(self, query: Mapping[str, Any], through: tuple[Any, ...]) -> None:
        self.joined = dict(query)
        self.through = through

    @property
    def query(self) -> dict[str, Any]:  # type: ignore[override]  # a slot of the base
        """Refused: without the query's joins the condition means nothing.

        Raises:
            UnsupportedOption: always.
        """
        raise UnsupportedOption(
            f"a condition on {self.through[0]!r} leads through a reference: only find() of a query can honour it"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinedExpr) and self.joined == other.joined

    def __hash__(self) -> int:
        return hash(repr(self.joined))

    def __repr__(self) -> str:
        return f"JoinedExpr({self.joined!r})"


def _combined(combine: Callable[[tuple[Any, ...]], dict[str, Any]], where: tuple[Any, ...]) -> Expr:
    """Return one condition made of several, with the joins of all of them."""
    through = tuple(path for part in where if type(part) is JoinedExpr for path in part.through)
    if not through:
        return Expr(combine(where))
    plain = tuple(Expr(part.joined) if type(part) is JoinedExpr else part for part in where)
    return JoinedExpr(combine(plain), through)


PLAIN = (Expr, dict)
"""Classes of conditions that need no inspection to get their query document."""

Where: TypeAlias = Expr | bool | Mapping[str, Any]
"""The arguments of `find`: a condition (a bool, to type checkers) or a raw query document."""


def query_of(*where: Where) -> dict[str, Any]:
    """Return one query document for conditions that must all be true.

    Raises:
        TypeError: an argument is a plain bool, from a comparison without a class attribute.
    """
    if len(where) == 1:
        return part_of(where[0])
    parts = [part for part in map(part_of, where) if part]
    if not parts:
        return {}
    if len(parts) == 1:
        return parts[0]
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key not in merged:
                merged[key] = value
            elif _may_merge(merged[key], value):
                merged[key] = {**merged[key], **value}
            else:
                return {"$and": parts}
    return merged


def _may_merge(one: Any, other: Any) -> bool:
    """Whether two conditions on one key are different operators that can share a document."""
    if not isinstance(one, dict) or not isinstance(other, dict) or not one or not other:
        return False
    names = [*one, *other]
    return all(name[:1] == "$" and name not in ("$regex", "$options") for name in names) and len(
        set(names)
    ) == len(names)


def part_of(condition: Any) -> dict[str, Any]:
    """Return the query document of one condition.

    Raises:
        TypeError: not a condition.
    """
    if isinstance(condition, Expr):
        return condition.query
    # Checked by type first: an isinstance check with an abstract class costs more than the copy.
    if type(condition) is dict or isinstance(condition, Mapping):
        return dict(condition)
    if isinstance(condition, Operand):
        return condition._condition()
    if isinstance(condition, bool):
        raise TypeError(
            f"expected a condition, got {condition}; did you write `is`, `and` or `not`, or compare something "
            "that is no class attribute?"
        )
    raise TypeError(f"expected a condition or a query document, got {type(condition).__name__}")


# Conditions as functions, generic in the field's type.


def and_(*where: Where) -> Expr:
    """Match documents that meet all of these conditions.

    Args:
        where: conditions, or query documents.

    Example:
        >>> and_(User.age > 30, User.name == "Ada").query
        {'age': {'$gt': 30}, 'name': 'Ada'}
    """
    return _combined(lambda parts: query_of(*parts), where)


def or_(*where: Where) -> Expr:
    """Match documents that meet at least one of these conditions.

    Args:
        where: conditions, or query documents.

    Example:
        >>> or_(User.age > 30, User.name == "Ada").query
        {'$or': [{'age': {'$gt': 30}}, {'name': 'Ada'}]}
    """
    return _combined(lambda parts: {"$or": [*map(part_of, parts)]}, where)


def nor(*where: Where) -> Expr:
    """Match documents that meet none of these conditions.

    Args:
        where: conditions, or query documents.

    Example:
        >>> nor(User.age > 30, User.name == "Eve").query
        {'$nor': [{'age': {'$gt': 30}}, {'name': 'Eve'}]}
    """
    return _combined(lambda parts: {"$nor": [*map(part_of, parts)]}, where)


def not_(where: Where) -> Expr:
    """Match documents that do not meet this condition.

    Args:
        where: a condition.

    Example:
        >>> not_(User.age > 30).query
        {'$nor': [{'age': {'$gt': 30}}]}
    """
    return _combined(lambda parts: {"$nor": [*map(part_of, parts)]}, (where,))
