"""Translates predicates of engines to MongoDB's filters. Knows no engine: each has a reader that makes these nodes.

A filter returns at least the rows of its predicate, and the engine filters them again. So a filter may be wider than
its predicate, and never narrower. A part of a predicate that no filter can express is left out.

Meanings differ in these places. MongoDB compares values of one type, and a column also holds converted values,
such as decimals as text. NaN is less than all numbers in MongoDB, greater than all in Polars and DuckDB, and neither in
Arrow. Comparisons match items of arrays. Null and missing are the same in a column. Doubles above 2**53 are rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mangonel.bson import Int64, ObjectId
from mangonel.bson.datetime_ms import DatetimeMS

Path: TypeAlias = tuple[str, ...]
Filter: TypeAlias = dict[str, Any]

TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}
"""The operator of the same comparison with its sides exchanged."""


class UnknownPartError(Exception):
    """Raised by a reader for a part of an expression that no node can express."""


@dataclass(frozen=True)
class Moment:
    """A date as a number of units since 1970."""

    value: int
    per_second: int


@dataclass(frozen=True)
class Compare:
    """A column compared with a value: eq, ne, lt, lte, gt or gte."""

    operator: str
    path: Path
    value: Any
    # The engine compares the column as doubles.
    as_double: bool = False


@dataclass(frozen=True)
class In:
    """Whether a column is one of these values."""

    path: Path
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Contains:
    """Whether a text contains another, or begins with it."""

    path: Path
    text: str
    is_prefix: bool


@dataclass(frozen=True)
class IsNull:
    """Whether a column is null."""

    path: Path


@dataclass(frozen=True)
class IsNan:
    """Whether a column is NaN."""

    path: Path


@dataclass(frozen=True)
class Truth:
    """A column of bools as a predicate."""

    path: Path


@dataclass(frozen=True)
class And:
    """All of these; None stands for one that no node can express."""

    parts: tuple[Node | None, ...]


@dataclass(frozen=True)
class Or:
    """At least one of these; None stands for one that no node can express."""

    parts: tuple[Node | None, ...]


@dataclass(frozen=True)
class Not:
    """The negation of a predicate; the negation of null is null."""

    part: Node | None


Node: TypeAlias = Compare | In | Contains | IsNull | IsNan | Truth | And | Or | Not

_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt"}
_INTEGERS, _TEXTS, _DATES = ("int32", "int64"), ("string", "category"), ("date", "naive_date")
# Types that a column of text holds beside strings; see `push_as_text` in `crates/columns`.
_AS_TEXT = [
    "decimal",
    "symbol",
    "javascript",
    "javascriptWithScope",
    "regex",
    "timestamp",
    "dbPointer",
    "minKey",
    "maxKey",
]
# With on_invalid="string", a column of text holds every other value too.
_AS_ANY_TEXT = [*_AS_TEXT, "double", "object", "array", "binData", "objectId", "bool", "date", "int", "long"]
_EXACT = 2**53
_LARGEST = 2**63


def kind_at(path: Path, fields: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> Any:
    """Return the kind of a column, or of a field of a struct; None if it does not exist, or no path can name it."""
    kind: Any = ("struct", fields)
    for name in path:
        if not name or "." in name or "$" in name or "\0" in name:
            return None
        if not (isinstance(kind, tuple) and kind[0] == "struct"):
            return None
        kind = dict(kind[1]).get(name)
    return kind


def translate(
    node: Node | None, fields: Sequence[tuple[str, Any]], *, on_invalid: str, has_collation: bool
) -> Filter | None:
    """Return a filter that matches every document whose row a predicate keeps. None: only the empty filter does.

    Args:
        node: the predicate.
        fields: names and kinds of the columns.
        on_invalid: "null" if values that do not fit become null, so a null may stand for any value; "string" if a
            column of text holds them as text.
        has_collation: the collection has a default collation.
    """
    return _Translator(dict(fields), on_invalid, has_collation).of(node, is_negated=False)


class _Translator:
    def __init__(self, fields: Mapping[str, Any], on_invalid: str, has_collation: bool) -> None:
        self._fields, self._on_invalid, self._has_collation = fields, on_invalid, has_collation
        self._as_text = _AS_ANY_TEXT if on_invalid == "string" else _AS_TEXT

    def of(self, node: Node | None, *, is_negated: bool) -> Filter | None:
        match node:
            case None:
                return None
            case Not(part):
                return self.of(part, is_negated=not is_negated)
            case And(parts) | Or(parts):
                found = [self.of(part, is_negated=is_negated) for part in parts]
                if isinstance(node, And) is not is_negated:
                    return _all_of([each for each in found if each is not None])
                return None if None in found else _any_of([each for each in found if each is not None])
        kind = kind_at(node.path, self._fields)
        if kind is None:
            return None
        path = ".".join(node.path)
        match node:
            case Compare(operator, _, value, as_double):
                operator = _OPPOSITE[operator] if is_negated else operator
                return self._compare(path, kind, operator, value, as_double)
            case In(_, values):
                return self._is_in(path, kind, values, is_negated)
            case Contains(_, text, is_prefix):
                if is_negated or kind not in _TEXTS or "\0" in text:
                    return None
                pattern = ("^" if is_prefix else "") + re.escape(text)
                return _any_of([{path: {"$regex": pattern}}, {path: {"$type": self._as_text}}])
            case IsNull():
                return self._is_null(path, kind, is_negated)
            case IsNan():
                if kind != "double":
                    return None
                return {path: {"$ne": math.nan}} if is_negated else {path: math.nan}
            case Truth():
                return {path: not is_negated} if kind == "bool" else None
        return None

    def _compare(self, path: str, kind: Any, operator: str, value: Any, as_double: bool) -> Filter | None:
        if isinstance(value, Moment):
            return _compare_date(path, operator, value) if kind in _DATES else None
        if not _is_comparable(kind, value, as_double):
            return None
        if kind in _TEXTS:
            if self._has_collation and operator != "eq":
                # With a collation, strings sort differently, and different strings may compare equal.
                return None
            return _any_of([{path: {f"${operator}": value}}, {path: {"$type": self._as_text}}])
        if kind == "bool" and operator not in ("eq", "ne"):
            return None
        found = {path: {f"${operator}": _stored(kind, value)}}
        if kind == "double" and operator != "eq":
            return _any_of([found, {path: math.nan}])
        return found

    def _is_in(self, path: str, kind: Any, values: tuple[Any, ...], is_negated: bool) -> Filter | None:
        stored = []
        as_double = any(isinstance(value, float) for value in values)
        for value in values:
            if isinstance(value, Moment):
                if kind not in _DATES:
                    return None
                whole, rest = divmod(value.value * 1000, value.per_second)
                # No column holds a date between two milliseconds.
                if not rest:
                    stored.append(DatetimeMS(whole))
            elif _is_comparable(kind, value, as_double):
                stored.append(_stored(kind, value))
            else:
                return None
        if is_negated:
            # In some engines null is in no list, so the negation is true for null, and thus for values that do not fit.
            is_ruled = kind in _TEXTS and self._has_collation
            # For Arrow, -0.0 is not in a list with 0.0.
            is_zero = kind == "double" and 0 in values
            return None if is_ruled or is_zero or self._on_invalid != "raise" else {path: {"$nin": stored}}
        found = {path: {"$in": stored}}
        return _any_of([found, {path: {"$type": self._as_text}}]) if kind in _TEXTS else found

    def _is_null(self, path: str, kind: Any, is_negated: bool) -> Filter | None:
        if is_negated:
            # This filter would leave out arrays that contain a null.
            if isinstance(kind, tuple) and kind[0] == "list":
                return None
            is_array_text = kind in _TEXTS and self._on_invalid == "string"
            found: Filter = {path: {"$ne": None}}
            return _any_of([found, {path: {"$type": "array"}}]) if is_array_text else found
        if self._on_invalid != "raise":
            return None
        # Since 8.0, null does not match the old type undefined, which a column takes as null.
        return _any_of([{path: None}, {path: {"$type": "undefined"}}])


def _is_comparable(kind: Any, value: Any, as_double: bool) -> bool:
    """Return whether MongoDB finds every value of a column for which this comparison is true."""
    if isinstance(value, bool):
        return bool(kind == "bool")
    if isinstance(value, (int, float)):
        if kind != "double" and kind not in _INTEGERS:
            return False
        if isinstance(value, float) or as_double or kind == "double":
            # From this size on, the engine rounds the column's value or this value. NaN fails the test too.
            return abs(value) < _EXACT
        return -_LARGEST <= value < _LARGEST
    if isinstance(value, str):
        return kind in _TEXTS
    if isinstance(value, bytes):
        return bool(kind == "object_id") and len(value) == 12
    return False


def _stored(kind: Any, value: Any) -> Any:
    if kind == "object_id":
        return ObjectId(value)
    return Int64(value) if type(value) is int else value


def _compare_date(path: str, operator: str, value: Moment) -> Filter | None:
    """Compare a column of milliseconds; a date between two of them is rounded to the wider side."""
    whole, rest = divmod(value.value * 1000, value.per_second)
    if operator in ("eq", "ne"):
        return None if rest else {path: {f"${operator}": DatetimeMS(whole)}}
    if rest:
        operator = "lte" if operator.startswith("lt") else "gt"
    return {path: {f"${operator}": DatetimeMS(whole)}}


def _all_of(filters: list[Filter]) -> Filter | None:
    if len(filters) < 2:
        return filters[0] if filters else None
    return {"$and": filters}


def _any_of(filters: list[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else {"$or": filters}
