"""The columns of a model's documents, as kinds of `mangonel.arrow.schema`."""

from __future__ import annotations

from typing import Any

from mangonel.bson import Int64
from mangonel.odm.model.specs import spec_of

__all__ = ["column_fields"]

_KINDS = {
    "str": "string",
    "int": "int64",
    "float": "double",
    "bool": "bool",
    "bytes": "binary",
    "datetime": "date",
    "date": "date",
    "object_id": "object_id",
    "decimal": "string",
    "none": "null",
}
_INSTANCES = {"UUID": "uuid", "Binary": "binary", "Decimal128": "string", "Code": "string", "Int64": "int64"}
_BY_TYPE: tuple[tuple[type[Any], str], ...] = (
    (bool, "bool"),
    (Int64, "int64"),
    (int, "int64"),
    (float, "double"),
    (str, "string"),
)


def column_fields(model: Any) -> list[tuple[str, Any]]:
    """Return (key, kind) pairs for the fields of a model.

    Raises:
        ValueError: a field has values of several types, or arbitrary keys.
    """
    return [
        (
            field.key,
            _kind(spec_of(field.type, field.metadata, field.nullable, model, field.info), model, field.name),
        )
        for field in model.__plan__.fields.values()
    ]


def _kind(spec: dict[str, Any], model: Any, name: str) -> Any:
    op, argument = spec["op"], spec["argument"]
    kind: Any = _KINDS.get(op)
    if op in ("list", "set", "frozenset", "tuple_of"):
        kind = ("list", _kind(argument, model, name))
    elif op == "embedded":
        kind = ("struct", column_fields(argument))
    elif op == "instance":
        kind = _INSTANCES.get(argument.__name__)
    elif op == "enum":
        kind = _kind_of_values(argument[1])
    elif op == "literal":
        kind = _kind_of_values(argument)
    elif op == "ref":
        kind = _kind(argument[2], model, name)
    elif op == "refs":
        kind = ("list", _kind(argument[2], model, name))
    if kind is None:
        raise ValueError(
            f"expected a type that has columns for {model.__name__}.{name}, got {spec['label']}; "
            "give a mapping of names and types as the schema"
        )
    return kind


def _kind_of_values(values: Any) -> str | None:
    for known, kind in _BY_TYPE:
        if all(isinstance(value, known) for value in values):
            return kind
    return None
