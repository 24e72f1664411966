"""Conditions on fields beyond comparisons: `in_`, `elem`, `regex`, `text` and others.

Knows models only through paths; sends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from mangonel._arguments import expect
from mangonel.odm.expressions.expr import Expr, Where, query_of
from mangonel.odm.expressions.paths import Path, condition_of, path_of

T = TypeVar("T")


def in_(field: T, values: Iterable[T]) -> Expr:
    """Match documents whose field has one of these values: `in_(User.age, [3, 4])`.

    Args:
        field: an attribute of the model, such as `User.name`.
        values: any iterable of values.

    Example:
        >>> in_(User.age, [3, 4]).query
        {'age': {'$in': [3, 4]}}
    """
    return condition_of(field, "in_", values)


def not_in(field: T, values: Iterable[T]) -> Expr:
    """Match documents whose field has none of these values.

    Args:
        field: an attribute of the model, such as `User.name`.
        values: any iterable of values.

    Example:
        >>> not_in(User.age, [3, 4]).query
        {'age': {'$nin': [3, 4]}}
    """
    return condition_of(field, "not_in", values)


def between(field: T, low: T, high: T) -> Expr:
    """Match documents whose field is between `low` and `high`, inclusive.

    Args:
        field: an attribute of the model, such as `User.name`.
        low: the smallest matching value.
        high: the largest matching value.

    Example:
        >>> between(User.age, 18, 30).query
        {'age': {'$gte': 18, '$lte': 30}}
    """
    return condition_of(field, "between", low, high)


def exists(field: object, exists: bool = True) -> Expr:
    """Match documents that have the key, or that lack it.

    Args:
        field: an attribute of the model, such as `User.name`.
        exists: False: the key does not exist.

    Example:
        >>> exists(User.email).query
        {'email': {'$exists': True}}
    """
    return condition_of(field, "exists", exists)


def has_type(field: object, *types: str | int) -> Expr:
    """Match documents whose value has one of these BSON types.

    Args:
        field: an attribute of the model, such as `User.name`.
        types: names or numbers of BSON types.

    Example:
        >>> has_type(User.age, "int", "long").query
        {'age': {'$type': ['int', 'long']}}
    """
    return condition_of(field, "has_type", *types)


def size(field: object, size: int) -> Expr:
    """Match documents whose list has this length.

    Args:
        field: an attribute of the model, such as `User.name`.
        size: the number of elements.

    Example:
        >>> size(User.tags, 2).query
        {'tags': {'$size': 2}}
    """
    return condition_of(field, "size", size)


def all_(field: Iterable[T] | None, values: Iterable[T]) -> Expr:
    """Match documents whose list has all of these elements.

    Args:
        field: an attribute of the model, such as `User.name`.
        values: any iterable of elements.

    Example:
        >>> all_(User.tags, ["admin", "owner"]).query
        {'tags': {'$all': ['admin', 'owner']}}
    """
    return condition_of(field, "all", values)


def each(field: Iterable[T] | None) -> T:
    """Compare the elements of a list: `each(Post.tags) == "python"` matches when at least one is equal.

    Args:
        field: a list field of the model.

    Example:
        >>> (each(User.tags) == "admin").query
        {'tags': 'admin'}
    """
    path = path_of(field)
    made = path._within(path._owner, path._name, path._keys or (path._key,))
    made._resolved = path._field()
    made._is_element = True
    return made  # type: ignore[return-value]  # to type checkers an element


def some(field: T | None) -> T:
    """An `X | None` field as an `X` for type checkers: `some(User.age) > 3`, `some(User.address).city == "Oslo"`.

    Args:
        field: an attribute of the model that may be None.

    Example:
        >>> (some(User.age) > 3).query
        {'age': {'$gt': 3}}
    """
    return field  # type: ignore[return-value]  # at run time it is a path


def elem(field: Iterable[T] | None, condition: Callable[[T], Where]) -> Expr:
    """Match documents with one list element that meets a condition: `elem(Post.comments, lambda c: c.likes > 3)`.

    Args:
        field: an attribute of the model, such as `User.name`.
        condition: a function from an element to a condition.

    Example:
        >>> elem(Post.comments, lambda comment: (comment.likes > 3) & (comment.text != "")).query
        {'comments': {'$elemMatch': {'likes': {'$gt': 3}, 'text': {'$ne': ''}}}}
    """
    path = path_of(field)
    inner = path._field()
    probe: Any
    if inner.model is not None:
        probe = _Probe(inner.model)
        return Expr({path._key: {"$elemMatch": query_of(condition(probe))}})
    probe = _Element(path)
    conditions: dict[str, Any] = {}
    for value in query_of(condition(probe)).values():
        conditions.update(value if isinstance(value, dict) else {"$eq": value})
    return Expr({path._key: {"$elemMatch": conditions}})


class _Probe:
    """An element of a list of embedded documents, for `elem`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _Element(Path[Any]):
    """An element of a list of plain values, for `elem`."""

    __slots__ = ()

    def __init__(self, path: Path[Any]) -> None:
        super().__init__(path._model, path._name)
        self._owner = path._owner
        self._keys = ("",)
        self._is_element = True


def regex(field: str | None, pattern: str | re.Pattern[str], options: str = "") -> Expr:
    """Match documents whose text matches a regular expression.

    Args:
        field: an attribute of the model, such as `User.name`.
        pattern: text or a compiled expression.
        options: the server's option letters: i, m, s, x.

    Example:
        >>> regex(User.name, "^A").query
        {'name': {'$regex': '^A'}}
    """
    return condition_of(field, "matches", pattern, options)


def contains(field: str | None, text: str, *, ignore_case: bool = False) -> Expr:
    """Match documents whose text contains `text`.

    Args:
        field: an attribute of the model, such as `User.name`.
        text: literal text.
        ignore_case: True: ignore case, which uses no index.

    Example:
        >>> contains(User.name, "d").query
        {'name': {'$regex': 'd'}}
    """
    return condition_of(field, "contains", text, ignore_case=ignore_case)


def startswith(field: str | None, text: str, *, ignore_case: bool = False) -> Expr:
    """Match documents whose text starts with `text`.

    Args:
        field: an attribute of the model, such as `User.name`.
        text: literal text.
        ignore_case: True: ignore case, which uses no index.

    Example:
        >>> startswith(User.name, "A").query
        {'name': {'$regex': '^A'}}
    """
    return condition_of(field, "startswith", text, ignore_case=ignore_case)


def endswith(field: str | None, text: str, *, ignore_case: bool = False) -> Expr:
    r"""Match documents whose text ends with `text`.

    Args:
        field: an attribute of the model, such as `User.name`.
        text: literal text.
        ignore_case: True: ignore case, which uses no index.

    Example:
        >>> endswith(User.email, ".org").query
        {'email': {'$regex': '\\.org$'}}
    """
    return condition_of(field, "endswith", text, ignore_case=ignore_case)


def iexact(field: str | None, text: str) -> Expr:
    """Match documents whose text equals `text`, ignoring case.

    Args:
        field: an attribute of the model, such as `User.name`.
        text: literal text.

    Example:
        >>> User.find(iexact(User.name, "ADA")).count()
        1
    """
    return condition_of(field, "iexact", text)


def text(
    search: str,
    *,
    language: str | None = None,
    case_sensitive: bool = False,
    diacritic_sensitive: bool = False,
) -> Expr:
    """Match documents in which the text index finds these words.

    Args:
        search: words; a phrase in double quotes; a minus before a word excludes it.
        language: language whose word rules apply. None: the index's own.
        case_sensitive, diacritic_sensitive: True: case, or accents, must match.

    Example:
        >>> text("bread -wine", language="en").query
        {'$text': {'$search': 'bread -wine', '$language': 'en'}}
    """
    query: dict[str, Any] = {"$search": search}
    if language is not None:
        query["$language"] = language
    if case_sensitive:
        query["$caseSensitive"] = True
    if diacritic_sensitive:
        query["$diacriticSensitive"] = True
    return Expr({"$text": query})


def expr(expression: Any) -> Expr:
    """Match documents for which an aggregation expression is true: `expr({"$gt": ["$spent", "$budget"]})`.

    Args:
        expression: an expression of the aggregation language.

    Example:
        >>> expr({"$gt": ["$likes", {"$size": "$tags"}]}).query
        {'$expr': {'$gt': ['$likes', {'$size': '$tags'}]}}
    """
    return Expr({"$expr": expression})


def where_js(code: str) -> Expr:
    """Match documents for which a JavaScript expression is true. The slowest kind of condition.

    Args:
        code: JavaScript that runs on the server; never use untrusted text.

    Example:
        >>> [user.name for user in User.find(where_js("this.age > 30"))]
        ['Ada']
    """
    return Expr({"$where": code})


def json_schema(schema: Mapping[str, Any]) -> Expr:
    """Match documents that are valid by a JSON schema.

    Args:
        schema: in the server's form, with `bsonType`.

    Example:
        >>> User.find(json_schema({"required": ["name"]})).count()
        2
    """
    return Expr({"$jsonSchema": dict(expect("schema", schema, Mapping, "a document"))})
