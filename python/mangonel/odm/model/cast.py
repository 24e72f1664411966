"""Lax casting, for models with `__cast__ = True`: text to numbers, dates and ids, as in older mappers.

Knows no documents: one value in, one value out; ValueError or TypeError if it cannot be cast.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from typing import Any

from mangonel.bson import ObjectId

_TRUE = {"1", "true", "t", "yes", "on"}
_FALSE = {"0", "false", "f", "no", "off", ""}


def caster(plain: Any, op: str, argument: Any) -> Callable[[Any], Any] | None:
    """Return the function that casts similar values to this type, or None."""
    if op == "datetime" and argument:
        return _aware
    if op in _CASTS:
        return _CASTS[op]
    if op == "instance" and plain is uuid.UUID:
        return uuid.UUID
    if op == "enum":
        return lambda value: argument[0](value)
    if op == "embedded":
        return lambda value: argument.from_dict(value)
    if op == "literal":
        return lambda value: _literal(argument, value)
    return None


def _literal(values: tuple[Any, ...], given: Any) -> Any:
    for value in values:
        if str(value) == str(given):
            return value
    raise ValueError(given)


def _int(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _str(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (int, float, ObjectId, decimal.Decimal, uuid.UUID)):
        return str(value)
    raise TypeError(value)


def _bool(value: Any) -> bool:
    text = str(value).lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(value)


def _datetime(value: Any) -> dt.datetime:
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, (int, float)):
        return dt.datetime.fromtimestamp(value, dt.UTC).replace(tzinfo=None)
    return dt.datetime.fromisoformat(value)


def _aware(value: Any) -> dt.datetime:
    """Return an aware date; one without a zone is in UTC."""
    made = value if isinstance(value, dt.datetime) else _datetime(value)
    return made if made.tzinfo is not None else made.replace(tzinfo=dt.UTC)


def _date(value: Any) -> dt.date:
    return value.date() if isinstance(value, dt.datetime) else dt.date.fromisoformat(value)


def _list(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, dict)):
        raise TypeError(value)
    return list(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "str": _str,
    "int": _int,
    "float": float,
    "bool": _bool,
    "bytes": lambda value: value.encode() if isinstance(value, str) else bytes(value),
    "datetime": _datetime,
    "date": _date,
    "object_id": ObjectId,
    "decimal": lambda value: decimal.Decimal(str(value)),
    "list": _list,
    "set": lambda value: set(_list(value)),
    "frozenset": lambda value: frozenset(_list(value)),
    "tuple": lambda value: tuple(_list(value)),
    "tuple_of": lambda value: tuple(_list(value)),
    "dict": dict,
}
