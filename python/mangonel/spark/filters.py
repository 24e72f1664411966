"""Translates Spark's filters to queries that match at least every row that Spark keeps.

Spark applies its filters again, so a query may keep more. A filter on a column that may hold several types is left out.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

from pyspark.sql import datasource

from mangonel.bson import ObjectId
from mangonel.bson.errors import InvalidId

__all__ = ["query_of"]

_COMPARISONS: dict[Any, str] = {
    datasource.EqualTo: "$eq",
    datasource.GreaterThan: "$gt",
    datasource.GreaterThanOrEqual: "$gte",
    datasource.LessThan: "$lt",
    datasource.LessThanOrEqual: "$lte",
}
# Dates of BSON have milliseconds, Spark's have microseconds: the truncated one may be equal where Spark's is not.
_INCLUSIVE = {"$gt": "$gte", "$lt": "$lte"}
_NUMBERS = ("int32", "int64", "double")


def query_of(filter: Any, fields: list[tuple[str, Any]], mixed: frozenset[str]) -> dict[str, Any] | None:
    """Return a query for a filter, or None if there is none.

    Args:
        filter: one of Spark's.
        fields: the columns.
        mixed: paths that hold several types.
    """
    path = getattr(filter, "attribute", None)
    if path is None:
        return None
    name = ".".join(path)
    kind = _kind_at(path, fields)
    if kind is None or name in mixed:
        return None
    if isinstance(filter, datasource.IsNotNull):
        return {name: {"$ne": None}}
    if isinstance(filter, datasource.In):
        values = [_value_of(value, kind) for value in filter.value]
        return None if None in values else {name: {"$in": values}}
    operator = _COMPARISONS.get(type(filter))
    value = _value_of(getattr(filter, "value", None), kind)
    if operator is None or value is None:
        return None
    if kind in ("object_id", "uuid"):
        # Only equality is the same for text and id.
        return {name: value} if operator == "$eq" else None
    if kind == "date":
        return {name: {_INCLUSIVE.get(operator, operator): value}}
    if kind == "double" and operator in ("$gt", "$gte"):
        # To Spark, NaN is greater than every number.
        return {"$or": [{name: {operator: value}}, {name: math.nan}]}
    return {name: {operator: value}}


def _kind_at(path: tuple[str, ...], fields: list[tuple[str, Any]]) -> Any:
    """Return the kind of the column at a path, if it has no columns inside."""
    kind: Any = ("struct", fields)
    for key in path:
        if not isinstance(kind, tuple) or kind[0] != "struct" or not key or "." in key or key[0] == "$":
            return None
        kind = dict(kind[1]).get(key)
    return kind if isinstance(kind, str) else None


def _value_of(value: Any, kind: str) -> Any:
    """Return a value as the documents hold it, or None if they hold none of its type."""
    if kind in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool):
        return None if isinstance(value, float) and math.isnan(value) else value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "date" and isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value
    if kind == "object_id" and isinstance(value, str):
        try:
            return ObjectId(value) if value == value.lower() else None
        except InvalidId:
            return None
    return None
