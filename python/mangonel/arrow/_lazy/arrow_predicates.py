"""Reads pyarrow's expressions as nodes of predicates, from their pickled form.

An expression gives no access to its parts. Its pickle is a record batch: literals are columns, and the schema's
metadata lists the calls in order. Keys repeat in that metadata, and pyarrow's own `metadata` is a dict, which cannot
repeat keys; so it is read through Arrow's C interface. Arrow may change this form: an unexpected part becomes None and
is not sent, and the engine filters the rows that arrive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
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

_OPERATORS = {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "lte",
    "greater": "gt",
    "greater_equal": "gte",
}
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class _Call:
    """A call with its arguments, in the order of the pickle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments: list[Any] = []
        self.options: dict[str, Any] = {}


class _Literal:
    def __init__(self, scalar: Any) -> None:
        self.scalar = scalar


def node_of(expression: Any) -> Node | None:
    """Return the node for a `pyarrow.compute.Expression`; None if no node can express it."""
    import pyarrow

    try:
        batch = _unpickled(expression)
        tree = _tree(iter(_metadata(batch.schema)), batch)
    except (UnknownPartError, pyarrow.ArrowException, *_SURPRISES):
        return None
    return _part(tree)


def columns_of(expression: Any) -> set[str] | None:
    """Return the columns that an expression refers to; None if they are unknown."""
    import pyarrow

    names: set[str] = set()
    try:
        pairs = iter(_metadata(_unpickled(expression).schema))
        for key, value in pairs:
            if key == "nested_field_ref":
                inner = [next(pairs)[1] for _ in range(int(value))]
                names.add(inner[0])
            elif key == "field_ref":
                names.add(value)
    except (pyarrow.ArrowException, *_SURPRISES):
        return None
    return names


def _unpickled(expression: Any) -> Any:
    import pyarrow

    _, (buffer,) = expression.__reduce__()
    return pyarrow.ipc.open_file(buffer).get_batch(0)


_SURPRISES = (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError)


def _metadata(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a schema's metadata; keys may repeat."""
    capsule = schema.__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # The third field of ArrowSchema, after format and name; the capsule keeps the memory alive.
    place = (ctypes.c_void_p * 3).from_address(pointer_of(capsule, b"arrow_schema") or 0)[2]
    if not place:
        return
    count, place = ctypes.c_int32.from_address(place).value, place + 4
    for _ in range(count):
        texts = []
        for _ in range(2):
            size, place = ctypes.c_int32.from_address(place).value, place + 4
            texts.append(ctypes.string_at(place, size).decode())
            place += size
        yield texts[0], texts[1]


def _tree(pairs: Iterator[tuple[str, str]], batch: Any, pair: tuple[str, str] | None = None) -> Any:
    """Return a call, a literal, or the path of a field."""
    key, value = next(pairs) if pair is None else pair
    if key == "literal":
        return _Literal(batch.column(int(value))[0])
    if key == "field_ref":
        return (value,)
    if key == "nested_field_ref":
        return tuple(name for _, name in (next(pairs) for _ in range(int(value))))
    if key != "call":
        raise UnknownPartError(key)
    call = _Call(value)
    while True:
        pair = next(pairs)
        if pair[0] == "end":
            return call
        if pair[0] == "options":
            options = batch.column(int(pair[1]))[0]
            call.options = {name: options[name] for name in options}
        else:
            call.arguments.append(_tree(pairs, batch, pair))


def _part(tree: Any) -> Node | None:
    try:
        return _read(tree)
    except (UnknownPartError, *_SURPRISES):
        return None


def _read(tree: Any) -> Node:
    if isinstance(tree, tuple):
        return Truth(tree)
    if not isinstance(tree, _Call):
        raise UnknownPartError(tree)
    name, arguments = tree.name, tree.arguments
    if name in ("and_kleene", "and"):
        return And(tuple(_part(each) for each in arguments))
    if name in ("or_kleene", "or"):
        return Or(tuple(_part(each) for each in arguments))
    if name == "invert":
        return Not(_part(arguments[0]))
    if name == "if_else":
        return _guarded(*arguments)
    if name in _OPERATORS:
        return _compare(_OPERATORS[name], *arguments)
    path = _path(arguments[0])
    if name == "is_null":
        found = IsNull(path)
        return Or((found, IsNan(path))) if tree.options["nan_is_null"].as_py() else found
    if name == "is_valid":
        return Not(IsNull(path))
    if name == "is_nan":
        return IsNan(path)
    if name == "is_in":
        return In(path, tuple(_value(each) for each in tree.options["value_set"].values))
    if name in ("starts_with", "match_substring") and not tree.options["ignore_case"].as_py():
        text = tree.options["pattern"].as_py()
        return Contains(path, text, is_prefix=name == "starts_with")
    raise UnknownPartError(name)


def _guarded(condition: Any, then: Any, otherwise: Any) -> Node:
    """Read `if_else(is_valid(x), predicate on x, null)`: the predicate, whose own null is null."""
    is_null = isinstance(otherwise, _Literal) and not otherwise.scalar.is_valid
    if isinstance(condition, _Call) and condition.name == "is_valid" and is_null:
        return _read(then)
    raise UnknownPartError("if_else")


def _compare(operator: str, left: Any, right: Any) -> Node:
    if isinstance(left, _Literal):
        return _compare(TURNED[operator], right, left)
    if not isinstance(right, _Literal):
        raise UnknownPartError(right)
    as_double = False
    if isinstance(left, _Call) and left.name == "cast" and str(left.options["to_type"].type) == "double":
        left, as_double = left.arguments[0], True
    return Compare(operator, _path(left), _value(right.scalar), as_double)


def _path(tree: Any) -> Path:
    if not isinstance(tree, tuple):
        raise UnknownPartError(tree)
    return tree


def _value(scalar: Any) -> Any:
    import pyarrow

    if not scalar.is_valid:
        raise UnknownPartError(None)
    if pyarrow.types.is_timestamp(scalar.type):
        return Moment(scalar.value, _UNITS[scalar.type.unit])
    return scalar.as_py()
