"""Reads Polars' expressions as nodes of predicates, from their JSON.

Polars may change the form of that JSON. An unexpected part becomes None: it is not sent, and Polars filters the rows
that arrive.
"""

from __future__ import annotations

import io
import json
from typing import Any

from mangonel.arrow._lazy.predicates import (
    TURNED,
    And,
    Compare,
    Contains,
    In,
    IsNan,
    IsNull,
    Moment,
    Node,
    Not,
    Or,
    Path,
    Truth,
    UnknownPartError,
)

_OPERATORS = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtEq": "lte", "Gt": "gt", "GtEq": "gte"}
_UNITS = {"Milliseconds": 1_000, "Microseconds": 1_000_000, "Nanoseconds": 1_000_000_000}
_NUMBERS = frozenset(
    ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64"]
)
_BOUNDS = {"Both": ("gte", "lte"), "Left": ("gte", "lt"), "Right": ("gt", "lte"), "None": ("gt", "lt")}


def node_of(expression: Any) -> Node | None:
    """Return the node for a `polars.Expr`; None if no node can express it."""
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception:
        # Polars cannot serialize some expressions, such as one with a Python function.
        return None
    return _part(tree)


def _part(tree: Any) -> Node | None:
    try:
        return _read(tree)
    except (UnknownPartError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def _read(tree: Any) -> Node:
    ((name, inner),) = tree.items()
    if name == "Column":
        return Truth((inner,))
    if name == "BinaryExpr":
        return _binary(inner)
    if name != "Function":
        raise UnknownPartError(name)
    function, inputs = inner["function"], inner["input"]
    ((family, what),) = function.items()
    if family == "StructExpr":
        return Truth(_path(tree)[0])
    if family == "StringExpr":
        return _text(what, inputs)
    if family != "Boolean":
        raise UnknownPartError(family)
    if isinstance(what, str):
        return _boolean(what, inputs)
    ((called, options),) = what.items()
    if called == "IsBetween":
        low, high = _BOUNDS[options["closed"]]
        path, _ = _path(inputs[0])
        # If one bound is a double, Polars compares both as doubles, and its JSON has no cast.
        return And(
            (
                Compare(low, path, _value(inputs[1]), as_double=True),
                Compare(high, path, _value(inputs[2]), as_double=True),
            )
        )
    if called == "IsIn" and options == {"nulls_equal": False}:
        return _is_in(inputs)
    raise UnknownPartError(called)


def _binary(inner: Any) -> Node:
    operator = inner["op"]
    if operator in ("And", "LogicalAnd"):
        return And((_part(inner["left"]), _part(inner["right"])))
    if operator in ("Or", "LogicalOr"):
        return Or((_part(inner["left"]), _part(inner["right"])))
    name = _OPERATORS[operator]
    if "Literal" in inner["left"]:
        return _compare(TURNED[name], inner["right"], inner["left"])
    return _compare(name, inner["left"], inner["right"])


def _boolean(what: str, inputs: Any) -> Node:
    if what == "Not":
        return Not(_part(inputs[0]))
    path, is_cast = _path(inputs[0])
    if is_cast:
        raise UnknownPartError(what)
    made: dict[str, Node] = {
        "IsNull": IsNull(path),
        "IsNotNull": Not(IsNull(path)),
        "IsNan": IsNan(path),
        "IsNotNan": Not(IsNan(path)),
    }
    return made[what]


def _text(what: Any, inputs: Any) -> Node:
    path, is_cast = _path(inputs[0])
    text = _value(inputs[1])
    if is_cast or not isinstance(text, str):
        raise UnknownPartError(what)
    if what == "StartsWith":
        return Contains(path, text, is_prefix=True)
    if what["Contains"]["literal"] is True:
        return Contains(path, text, is_prefix=False)
    raise UnknownPartError(what)


def _is_in(inputs: Any) -> Node:
    import polars

    path, is_cast = _path(inputs[0])
    if is_cast:
        raise UnknownPartError("Cast")
    items = polars.read_ipc_stream(io.BytesIO(bytes(inputs[1]["Literal"]["Scalar"]["List"]))).to_series()
    if items.dtype == polars.List or items.dtype == polars.Array:
        items = items.explode()
    if isinstance(items.dtype, polars.Datetime):
        unit = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[items.dtype.time_unit]
        return In(path, tuple(None if each is None else Moment(each, unit) for each in items.to_physical()))
    return In(path, tuple(items))


def _compare(operator: str, column: Any, literal: Any) -> Node:
    path, is_cast = _path(column)
    return Compare(operator, path, _value(literal), as_double=is_cast)


def _path(tree: Any) -> tuple[Path, bool]:
    """Return the names of a column and of fields in it, and whether it is compared as doubles."""
    ((name, inner),) = tree.items()
    if name == "Column":
        return (inner,), False
    if name == "Cast" and inner["dtype"] == {"Literal": "Float64"}:
        return _path(inner["expr"])[0], True
    if name == "Function":
        outer, is_cast = _path(inner["input"][0])
        if not is_cast and len(inner["input"]) == 1:
            return (*outer, inner["function"]["StructExpr"]["FieldByName"]), False
    raise UnknownPartError(name)


def _value(tree: Any) -> Any:
    ((form, literal),) = tree["Literal"].items()
    ((kind, value),) = literal.items()
    if form == "Dyn" and kind in ("Int", "Float"):
        # A number whose type is not decided yet.
        kind = f"{kind}64"
    elif form != "Scalar":
        raise UnknownPartError(form)
    if kind == "Datetime":
        return Moment(value[0], _UNITS[value[1]])
    if kind == "Binary":
        return bytes(value)
    # NaN and the infinities are written as null.
    if value is None or kind not in _NUMBERS | {"String", "Boolean"}:
        raise UnknownPartError(kind)
    return value
