"""Columns of a file: their kinds as JSON, as pyarrow's types, and as types that a format can hold."""

from __future__ import annotations

from typing import Any

__all__ = ["OBJECT_ID", "arrow_field", "flattened", "from_json"]

OBJECT_ID = {"ARROW:extension:name": "pymongoarrow.objectid", "ARROW:extension:metadata": ""}


def flattened(fields: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the columns with text in place of documents and arrays."""
    return [(name, "string" if _is_nested(kind) or kind == "null" else kind) for name, kind in fields]


def _is_nested(kind: Any) -> bool:
    return not isinstance(kind, str) and kind[0] in ("list", "struct")


def from_json(fields: Any) -> list[tuple[str, Any]]:
    """Return columns read from JSON, in which tuples have become lists."""
    return [(name, _kind(kind)) for name, kind in fields]


def _kind(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    if kind[0] == "struct":
        return ("struct", from_json(kind[1]))
    if kind[0] == "list":
        return ("list", _kind(kind[1]))
    return tuple(kind)


def arrow_field(name: str, kind: Any) -> Any:
    """Return the pyarrow field of a flat column."""
    import pyarrow

    if not isinstance(kind, str):
        return pyarrow.field(
            name, pyarrow.decimal128(*kind[1:]) if kind[0] == "decimal" else pyarrow.string()
        )
    made: dict[str, Any] = {
        "bool": pyarrow.bool_(),
        "int32": pyarrow.int32(),
        "int64": pyarrow.int64(),
        "double": pyarrow.float64(),
        "date": pyarrow.timestamp("ms", "UTC"),
        "naive_date": pyarrow.timestamp("ms"),
        "null": pyarrow.null(),
    }
    return pyarrow.field(name, made.get(kind, pyarrow.string()))
