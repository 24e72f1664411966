"""Reads Spark's filters as nodes of predicates, which the lazy sources translate to queries.

Spark applies its filters again, so a query may keep more rows than a filter.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

from pyspark.sql import datasource

from mangonel.arrow._lazy.predicates import Compare, In, IsNull, Moment, Node, Not, UnknownPartError, kind_at
from mangonel.bson import ObjectId
from mangonel.bson.errors import InvalidId

__all__ = ["node_of"]

_OPERATORS: dict[Any, str] = {
    datasource.EqualTo: "eq",
    datasource.GreaterThan: "gt",
    datasource.GreaterThanOrEqual: "gte",
    datasource.LessThan: "lt",
    datasource.LessThanOrEqual: "lte",
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def node_of(filter: Any, fields: list[tuple[str, Any]]) -> Node | None:
    """Return the node for a filter, or None if no node can express it.

    Args:
        filter: one of Spark's.
        fields: the columns.
    """
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    kind = kind_at(path, fields)
    # Without an attribute, the kind is the document's.
    if not isinstance(kind, str):
        return None
    if isinstance(filter, datasource.IsNotNull):
        return Not(IsNull(path))
    try:
        if isinstance(filter, datasource.In):
            return In(path, tuple(_value_of(value, kind) for value in filter.value))
        operator = _OPERATORS.get(type(filter))
        # Of all comparisons, only equality gives the same for an id and its text.
        if operator is None or (kind == "object_id" and operator != "eq"):
            return None
        return Compare(operator, path, _value_of(filter.value, kind))
    except UnknownPartError:
        return None


def _value_of(value: Any, kind: str) -> Any:
    """Return a value of Spark in the form that nodes use.

    Raises:
        UnknownPartError: no node can hold it.
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None and kind == "date":
            return Moment((value - _EPOCH) // _MICROSECOND, 1_000_000)
    elif kind == "object_id":
        try:
            if isinstance(value, str) and value == value.lower():
                return ObjectId(value).binary
        except InvalidId:
            pass
    elif isinstance(value, (bool, int, float, str)) and not (isinstance(value, float) and math.isnan(value)):
        return value
    raise UnknownPartError(value)
