"""Values that the server computes from fields: `F(Order.net) + F(Order.tax)`, and the pipeline of an update with them.

Knows no path and no model: fields are passed as `Computed` values. Sends nothing.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, TypeVar

from mangonel.bson import CodecOptions, Decimal128, UuidRepresentation, encode
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.expressions.changes import Change, Computing, Update
from mangonel.odm.expressions.expr import Expr

T = TypeVar("T")

_UUIDS: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
# The server's operator for each conversion, by the resulting type.
_CONVERSIONS = {float: "$toDouble", decimal.Decimal: "$toDecimal"}
_NUMBERS = (int, float, decimal.Decimal)
_NAMES = {"$add": "+", "$subtract": "-", "$multiply": "*", "$divide": "/", "$mod": "%"}


class Arithmetic(Generic[T]):
    """The operators of fields and of values that are computed from fields."""

    __slots__ = ()

    def _computed(self) -> Computed[T]:
        raise NotImplementedError

    def __add__(self, other: Any) -> Computed[T]:
        return _combined("$add", self, other)

    def __radd__(self, other: Any) -> Computed[T]:
        return _combined("$add", other, self)

    def __sub__(self, other: Any) -> Computed[T]:
        return _combined("$subtract", self, other)

    def __rsub__(self, other: Any) -> Computed[T]:
        return _combined("$subtract", other, self)

    def __mul__(self, other: Any) -> Computed[T]:
        return _combined("$multiply", self, other)

    def __rmul__(self, other: Any) -> Computed[T]:
        return _combined("$multiply", other, self)

    def __truediv__(self, other: Any) -> Computed[Any]:
        return _combined("$divide", self, other)

    def __rtruediv__(self, other: Any) -> Computed[Any]:
        return _combined("$divide", other, self)

    def __mod__(self, other: Any) -> Computed[T]:
        return _combined("$mod", self, other)


class Computed(Arithmetic[T]):
    """A value that the server computes from fields of the same document.

    Arithmetic with fields makes it: `F(Order.net) + F(Order.tax)`. It is a value for `set_`, a condition when compared,
    and an expression in a `Pipeline`.

    Attributes:
        expression: the server's aggregation expression.
        type: the Python type of the result. None: unknown.
        is_nullable: whether the result may be None.

    Example:
        >>> (F(User.age) + 1).expression
        {'$add': [{'$ifNull': ['$age', 0]}, 1]}
    """

    __slots__ = ("expression", "is_nullable", "type")

    def __init__(self, expression: Any, type: Any = None, is_nullable: bool = False) -> None:
        self.expression = expression
        self.type = type
        self.is_nullable = is_nullable

    def _computed(self) -> Self:
        return self

    def or_else(self, value: T) -> Computed[T]:
        """Return this value with a substitute for None.

        Args:
            value: used if a field of the expression is None or missing.

        Example:
            >>> (F(User.age) + 1).or_else(0).expression
            {'$ifNull': [{'$add': [{'$ifNull': ['$age', 0]}, 1]}, 0]}
        """
        other = operand(value)
        kind = self.type if other.type in (None, self.type) else _common(self, other, "or_else()")
        return Computed({"$ifNull": [self.expression, other.expression]}, kind, other.is_nullable)

    def _compared(self, operator: str, other: Any) -> Expr:
        return Expr({"$expr": {operator: [self.expression, operand(other).expression]}})

    def __eq__(self, other: object) -> Any:
        return self._compared("$eq", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("$ne", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("$lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("$lte", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("$gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("$gte", other)

    def __hash__(self) -> int:
        return hash(repr(self.expression))

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no truth value: the server computes it; compare it with something")

    def __repr__(self) -> str:
        return f"Computed({self.expression!r})"


def operand(value: Any) -> Computed[Any]:
    """Return a value, a field or a computed value as a computed one.

    Args:
        value: any of them.

    Example:
        >>> operand(3)
        Computed(3)
    """
    if isinstance(value, Arithmetic):
        return value._computed()
    kind = type(value)
    if kind is decimal.Decimal:
        return Computed(Decimal128(value), kind)
    if kind is dt.timedelta:
        # The server adds milliseconds to a date.
        return Computed(value // dt.timedelta(milliseconds=1), kind)
    return Computed({"$literal": value} if kind in (str, dict, list) else value, kind, value is None)


def _combined(operator: str, left: Any, right: Any) -> Computed[Any]:
    one, other = operand(left), operand(right)
    is_nullable = one.is_nullable or other.is_nullable
    parts = [one.expression, other.expression]
    kinds = (one.type, other.type)
    if operator == "$add" and kinds == (str, str):
        return Computed({"$concat": parts}, str, is_nullable)
    if operator == "$add" and set(kinds) == {dt.datetime, dt.timedelta}:
        return Computed({operator: parts}, dt.datetime, is_nullable)
    if operator == "$subtract" and kinds == (dt.datetime, dt.timedelta):
        return Computed({operator: parts}, dt.datetime, is_nullable)
    kind = _common(one, other, _NAMES[operator])
    if operator == "$divide" and kind is int:
        kind = float
    return Computed({operator: parts}, kind, is_nullable)


def _common(one: Computed[Any], other: Computed[Any], what: str) -> Any:
    """Return the type of the result of arithmetic.

    Raises:
        TypeError: the server cannot compute with these types as Python does.
    """
    kinds = [one.type, other.type]
    if None in kinds:
        return None
    if all(kind in _NUMBERS for kind in kinds):
        if decimal.Decimal in kinds and float in kinds:
            raise TypeError(
                f"expected numbers of one kind for {what}, got Decimal and float: {one!r}, {other!r}"
            )
        return max(kinds, key=_NUMBERS.index)
    names = " and ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise TypeError(
        f"cannot compute {what} of {names}: expected numbers, two texts to add, or a date and a timedelta; use "
        "computed(expression) for others"
    )


def computed(expression: Any, type: Any = None) -> Computed[Any]:
    """Return an aggregation expression as a value for `set_`.

    Args:
        expression: an expression of the server, which may contain fields of the model.
        type: the Python type of the result, for its check. None: it is not checked.

    Example:
        >>> computed({"$max": [User.age, 18]}).expression
        {'$max': [{'$ifNull': ['$age', 0]}, 18]}
    """
    return Computed(written(expression), type)


def written(value: Any) -> Any:
    """Return an expression with its fields and computed values written out.

    Args:
        value: an expression of the server.

    Example:
        >>> written({"$size": ["$tags"]})
        {'$size': ['$tags']}
    """
    if isinstance(value, Arithmetic):
        return value._computed().expression
    if isinstance(value, Mapping):
        return {key: written(inner) for key, inner in value.items()}
    return [written(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def fitted(value: Computed[Any], kind: Any, is_nullable: bool, key: str) -> Any:
    """Return the expression of a value that an update stores in a field.

    Args:
        value: the computed value.
        kind: the field's type.
        is_nullable: whether the field may be None.
        key: the field's path in the database.

    Raises:
        ValidationError: documents would not load with such a value.
    """
    if value.is_nullable and not is_nullable:
        raise ValidationError(
            f"expected a value that is never None at $.{key}: a field of the expression may be None; use or_else()"
        )
    if value.type in (None, kind) or kind in (Any, object):
        return value.expression
    if value.type is int and kind in _CONVERSIONS:
        return {_CONVERSIONS[kind]: value.expression}
    raise ValidationError(f"expected {getattr(kind, '__name__', kind)}, got {value.type.__name__} at $.{key}")


# The pipeline of an update.


def is_computing(changes: Iterable[Any]) -> bool:
    """Whether the server computes the value of one of an update's changes."""
    return any(type(change) is Computing for change in changes)


def pipeline_of(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Return the pipeline for changes, some of them computed. All of them see the values before the update.

    Raises:
        UnsupportedOption: a pipeline cannot express one of the others.
        ValueError: two changes of one key.
    """
    stage: dict[str, Any] = {}
    for operator, key, value in _flat(changes):
        _check_key(operator, key)
        make = _EXPRESSIONS.get(operator)
        if make is None:
            raise _unsupported(operator, key, "")
        if key in stage:
            raise ValueError(f"expected one change of {key!r} beside a computed value, got two")
        stage[key] = make(key, value)
    return [{"$set": stage}]


def _flat(changes: Iterable[Change]) -> Iterable[tuple[str, str, Any]]:
    for change in changes:
        if isinstance(change, Computing):
            yield "computed", change.key, change.value
        elif isinstance(change, Update):
            yield change.operator, change.key, change.value
        elif isinstance(change, Mapping):
            for operator, group in change.items():
                if operator[:1] != "$":
                    raise ValueError(f"expected update operators, got the key {operator!r}; use set_()")
                yield from ((operator, key, value) for key, value in group.items())
        else:
            raise TypeError(f"expected a change such as set_(User.age, 3), got {change!r}")


def _check_key(operator: str, key: str) -> None:
    if any(part.isdigit() or part[:1] == "$" for part in key.split(".")):
        raise _unsupported(operator, key, ", which names an element by its position")


def _unsupported(operator: str, key: str, why: str) -> UnsupportedOption:
    return UnsupportedOption(
        f"cannot apply {operator} to {key!r}{why} beside a computed value, which makes the update a pipeline; use two "
        "updates"
    )


def _literal(value: Any) -> Any:
    return {"$literal": value}


def _sum(operator: str) -> Callable[[str, Any], Any]:
    return lambda key, value: {operator: [{"$ifNull": [f"${key}", 0]}, _literal(value)]}


def _bound(operator: str) -> Callable[[str, Any], Any]:
    def make(key: str, value: Any) -> Any:
        is_new = {
            "$or": [
                {"$eq": [{"$type": f"${key}"}, "missing"]},
                {operator: [_literal(value), f"${key}"]},
            ]
        }
        return {"$cond": [is_new, _literal(value), f"${key}"]}

    return make


def _current_list(key: str) -> Any:
    return {"$ifNull": [f"${key}", []]}


def _items(operator: str, key: str, value: Any) -> list[Any]:
    if isinstance(value, Mapping) and "$each" in value:
        if len(value) > 1:
            others = ", ".join(name for name in value if name != "$each")
            raise _unsupported(operator, key, f" with {others}")
        return list(value["$each"])
    return [value]


def _push(key: str, value: Any) -> Any:
    return {"$concatArrays": [_current_list(key), _literal(_items("$push", key, value))]}


def _add_to_set(key: str, value: Any) -> Any:
    # Equal values are added once.
    items = {encode({"": item}, codec_options=_UUIDS): item for item in _items("$addToSet", key, value)}
    known = _current_list(key)
    fresh = {
        "$filter": {
            "input": _literal(list(items.values())),
            "as": "item",
            "cond": {"$not": [{"$in": ["$$item", known]}]},
        }
    }
    return {"$concatArrays": [known, fresh]}


def _pull_all(key: str, value: Any) -> Any:
    kept = {
        "$filter": {
            "input": f"${key}",
            "as": "item",
            "cond": {"$not": [{"$in": ["$$item", _literal(list(value))]}]},
        }
    }
    return {"$cond": [{"$isArray": [f"${key}"]}, kept, f"${key}"]}


def _current_date(key: str, value: Any) -> Any:
    if value is True or value == {"$type": "date"}:
        return "$$NOW"
    raise _unsupported("$currentDate", key, " as a timestamp")


_EXPRESSIONS: dict[str, Callable[[str, Any], Any]] = {
    "computed": lambda key, value: value,
    "$set": lambda key, value: _literal(value),
    "$unset": lambda key, value: "$$REMOVE",
    "$inc": _sum("$add"),
    "$mul": _sum("$multiply"),
    "$min": _bound("$lt"),
    "$max": _bound("$gt"),
    "$push": _push,
    "$addToSet": _add_to_set,
    "$pullAll": _pull_all,
    "$currentDate": _current_date,
}
