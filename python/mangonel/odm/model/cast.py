"""Lax casting, for models with `__cast__`: text to numbers, dates and ids, as in older mappers.

Knows no documents: one value in, one value out; ValueError or TypeError if it cannot be cast.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from mangonel.bson import Decimal128, ObjectId
from mangonel.bson.errors import BSONError
from mangonel.odm.model.convert import part_of

# The casts that `__cast__` may name; True is "values".
RULES = ("values", "decimal", "null", "single")

_TRUE = {"1", "true", "t", "yes", "on"}
_FALSE = {"0", "false", "f", "no", "off", ""}


def rules_of(model: Any, name: str | None) -> frozenset[str]:
    """Return the casts that a model enables for one of its fields.

    Args:
        model: the model.
        name: the attribute; None: a part of a field's value.
    """
    asked: Any = model.__cast__
    if isinstance(asked, Mapping):
        asked = asked.get(name, ()) if name is not None else ()
    return _as_rules(asked)


def _as_rules(asked: Any) -> frozenset[str]:
    if asked is True:
        return frozenset(("values",))
    return frozenset((asked,) if isinstance(asked, str) else asked or ())


def check_cast(model: Any) -> None:
    """Refuse casts that do not exist, when the model is defined.

    Raises:
        TypeError: `__cast__` has an unknown word, or names no field.
    """
    asked: Any = model.__cast__
    for name, rules in asked.items() if isinstance(asked, Mapping) else [(None, asked)]:
        unknown = _as_rules(rules) - set(RULES)
        if unknown or (name is not None and name not in model.__fields__):
            what = f"the casts {', '.join(sorted(unknown))}" if unknown else f"the field {name!r}"
            raise TypeError(
                f"expected True, some of {', '.join(map(repr, RULES))}, or these by field in "
                f"{model.__name__}.__cast__, got {what}"
            )


def combined(
    plain: Any, op: str, argument: Any, rules: frozenset[str], default: Callable[[], Any] | None
) -> Callable[[Any], Any] | None:
    """Return the function that casts values as the rules say, or None.

    Args:
        plain: the type.
        op: how the core treats it.
        argument: the operation's argument.
        rules: some of `RULES`.
        default: makes the field's default; None if it has none.
    """
    similar = caster(plain, op, argument) if "values" in rules else None
    similar = similar and _refusing(similar)
    takes_null = "null" in rules and default is not None
    is_many = "single" in rules and op in _MANY
    if not (takes_null or is_many or ("decimal" in rules and op in ("int", "float"))):
        return similar

    def cast(value: Any) -> Any:
        if value is None:
            if takes_null and default is not None:
                return default()
            raise TypeError(value)
        if isinstance(value, (Decimal128, decimal.Decimal)) and "decimal" in rules:
            number = value.to_decimal() if isinstance(value, Decimal128) else value
            if op == "int":
                return _refusing(_int)(number)
            if op == "float":
                return float(number)
        if is_many and not isinstance(value, (list, tuple, set, frozenset)):
            return _MANY[op]([value])
        if similar is None:
            raise TypeError(value)
        return similar(value)

    return cast


# Other errors than ValueError and TypeError that conversions raise for values they cannot convert.
_REFUSALS = (ArithmeticError, AttributeError, LookupError, OSError, BSONError)


def _refusing(cast: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a cast that raises ValueError for values that it cannot convert."""

    def refuse(value: Any) -> Any:
        try:
            return cast(value)
        except _REFUSALS as error:
            raise ValueError(str(error)) from error

    return refuse


_MANY: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "tuple_of": tuple,
}


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
    if op == "union" and argument[1]:
        models = list(dict.fromkeys(model for _, model in argument[1]))
        return lambda value: part_of(models, value)
    if op == "literal":
        return lambda value: _literal(argument, value)
    return None


def _literal(values: tuple[Any, ...], given: Any) -> Any:
    for value in values:
        if str(value) == str(given):
            return value
    raise ValueError(given)


def _int(value: Any) -> int:
    if isinstance(value, (float, decimal.Decimal)) and value != value // 1:
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


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        # So many zeros, to Python.
        raise TypeError(value)
    return bytes(value)


def _list(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, dict)):
        raise TypeError(value)
    return list(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "str": _str,
    "int": _int,
    "float": float,
    "bool": _bool,
    "bytes": _bytes,
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
