"""Types of Spark and kinds of columns, and tables in the form that Spark expects.

Spark has no ids and UUIDs: both become hexadecimal text, and bytes again if a column's metadata records their kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types

from mangonel._parts_of_tables import with_schema
from mangonel.arrow._texts import WIDTHS, bytes_of
from mangonel.arrow.errors import ColumnError

__all__ = ["fields_of", "fitted", "noted", "noted_fields", "noted_kinds", "stored", "struct_of"]

_TYPES: dict[str, Any] = {
    "bool": types.BooleanType(),
    "int32": types.IntegerType(),
    "int64": types.LongType(),
    "double": types.DoubleType(),
    "date": types.TimestampType(),
    "naive_date": types.TimestampNTZType(),
    "binary": types.BinaryType(),
}
_KINDS: dict[Any, str] = {
    types.BooleanType: "bool",
    types.ByteType: "int32",
    types.ShortType: "int32",
    types.IntegerType: "int32",
    types.LongType: "int64",
    types.FloatType: "double",
    types.DoubleType: "double",
    types.TimestampType: "date",
    types.TimestampNTZType: "naive_date",
    types.BinaryType: "binary",
    types.StringType: "string",
}
# The key of a column's metadata with its kind, so that documents are read for it only once.
_NOTE = "mangonel"
# Kinds of columns whose values Spark may hold as text.
_HEXADECIMAL = ("object_id", "uuid")


def struct_of(fields: list[tuple[str, Any]]) -> Any:
    """Return Spark's schema for columns."""
    return types.StructType([types.StructField(name, _type_of(kind)) for name, kind in fields])


def noted(fields: list[tuple[str, Any]]) -> Any:
    """Return Spark's schema for columns; its metadata records each column's kind."""
    made = struct_of(fields)
    for field, (_, kind) in zip(made.fields, fields, strict=True):
        field.metadata = {_NOTE: json.dumps(kind)}
    return made


def noted_kinds(schema: Any) -> dict[str, Any]:
    """Return the kinds that a schema records, by column."""
    kinds: dict[str, Any] = {}
    for field in schema.fields:
        note = (field.metadata or {}).get(_NOTE)
        kind = None if note is None else _kind_from_json(json.loads(note))
        # Otherwise the user has copied the metadata to a column of another type.
        if kind is not None and _type_of(kind) == field.dataType:
            kinds[field.name] = kind
    return kinds


def noted_fields(schema: Any) -> list[tuple[str, Any]] | None:
    """Return the columns recorded in a schema; None if the user wrote it."""
    kinds = noted_kinds(schema)
    return list(kinds.items()) if len(kinds) == len(schema.fields) else None


def _kind_from_json(kind: Any) -> Any:
    """Return a kind with tuples in place of the lists of JSON."""
    if isinstance(kind, str):
        return kind
    name, *rest = kind
    if name == "struct":
        return ("struct", [(key, _kind_from_json(inner)) for key, inner in rest[0]])
    return ("list", _kind_from_json(rest[0])) if name == "list" else (name, *rest)


def _type_of(kind: Any) -> Any:
    if isinstance(kind, str):
        return _TYPES.get(kind, types.StringType())
    if kind[0] == "list":
        return types.ArrayType(_type_of(kind[1]))
    if kind[0] == "struct":
        return struct_of(kind[1])
    return types.DecimalType(*kind[1:])


def fields_of(schema: Any, found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the columns for a schema of Spark.

    Args:
        schema: Spark's schema, which may be the user's.
        found: columns of the documents, which distinguish ids and UUIDs from text.

    Raises:
        TypeError: a type has no column.
    """
    known = dict(found)
    return [
        (field.name, _kind_of(field.dataType, known.get(field.name), field.name)) for field in schema.fields
    ]


def _kind_of(kind: Any, found: Any, path: str) -> Any:
    if isinstance(kind, types.StructType):
        inner = found[1] if isinstance(found, tuple) and found[0] == "struct" else []
        return ("struct", fields_of(kind, inner))
    if isinstance(kind, types.ArrayType):
        inner = found[1] if isinstance(found, tuple) and found[0] == "list" else None
        return ("list", _kind_of(kind.elementType, inner, f"{path}[]"))
    if isinstance(kind, types.DecimalType):
        return ("decimal", kind.precision, kind.scale)
    if isinstance(kind, types.StringType) and found in _HEXADECIMAL:
        return found
    name = _KINDS.get(type(kind))
    if name is None:
        raise TypeError(f"expected a type that has columns for {path}, got {kind.simpleString()}")
    return name


def fitted(table: Any, schema: Any) -> Any:
    """Return a table with exactly this pyarrow schema; ids and UUIDs become text."""
    return with_schema(table, schema, _fitted)


def _fitted(array: Any, kind: Any) -> Any:
    import pyarrow

    array = getattr(array, "storage", array)
    if pyarrow.types.is_struct(kind):
        children = [_fitted(array.field(place), kind.field(place).type) for place in range(kind.num_fields)]
        inner = [kind.field(place) for place in range(kind.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pyarrow.StructArray.from_arrays(children, fields=inner, mask=mask)
    if pyarrow.types.is_list(kind):
        return _list_like(array, _fitted(array.flatten(), kind.value_type), kind)
    if pyarrow.types.is_fixed_size_binary(array.type) and pyarrow.types.is_string(kind):
        return _hexadecimal(array, array.type.byte_width)
    return array.cast(kind)


def _list_like(array: Any, values: Any, kind: Any) -> Any:
    """Return lists of the same lengths with other values, from the first value of the array on."""
    import pyarrow

    lengths = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(array), 0)
    ends = pyarrow.compute.cumulative_sum(lengths.cast(pyarrow.int32()))
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int32()), ends])
    mask = array.is_null() if array.null_count else None
    return pyarrow.ListArray.from_arrays(offsets, values, type=kind, mask=mask)


def _hexadecimal(array: Any, width: int) -> Any:
    """Return ids as text, and values of 16 bytes with the hyphens of a UUID."""
    import numpy
    import pyarrow

    count = len(array)
    data = numpy.frombuffer(array.buffers()[1] or b"", numpy.uint8)
    data = data[array.offset * width : (array.offset + count) * width].reshape(count, width)
    digits = numpy.frombuffer(b"0123456789abcdef", numpy.uint8)
    text = numpy.empty((count, width * 2), numpy.uint8)
    text[:, 0::2], text[:, 1::2] = digits[data >> 4], digits[data & 15]
    if width == 16:
        text = numpy.insert(text, [8, 12, 16, 20], ord("-"), axis=1)
    ends = numpy.arange(count + 1, dtype=numpy.int32) * text.shape[1]
    plain = pyarrow.StringArray.from_buffers(
        count, pyarrow.py_buffer(ends), pyarrow.py_buffer(numpy.ascontiguousarray(text))
    )
    return pyarrow.compute.if_else(array.is_valid(), plain, None) if array.null_count else plain


def stored(batch: Any, kinds: Mapping[str, Any]) -> Any:
    """Return a table from a record batch, with the text of ids and UUIDs converted to bytes.

    Args:
        batch: as Spark gives it.
        kinds: kinds of columns, by name; others stay as they are.

    Raises:
        ColumnError: a text is no id, or no UUID.
    """
    import pyarrow

    columns = [
        _stored(column, kinds.get(field.name), field.name)
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(columns, names=batch.schema.names)


def _stored(array: Any, kind: Any, path: str) -> Any:
    import pyarrow

    if kind in _HEXADECIMAL:
        try:
            values = [None if text is None else bytes_of(text, kind) for text in array.to_pylist()]
        except ValueError as error:
            raise ColumnError(
                f"{error} in the column {path}; name the columns of ids in the option 'ids', or none: ids=''"
            ) from error
        return pyarrow.array(values, pyarrow.binary(WIDTHS[kind]))
    if isinstance(kind, tuple) and kind[0] == "struct" and pyarrow.types.is_struct(array.type):
        inner, names = dict(kind[1]), [field.name for field in array.type]
        # `flatten` makes the fields of a null document null.
        children = [
            _stored(child, inner.get(name), f"{path}.{name}")
            for child, name in zip(array.flatten(), names, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pyarrow.StructArray.from_arrays(children, names=names, mask=mask)
    if isinstance(kind, tuple) and kind[0] == "list" and pyarrow.types.is_list(array.type):
        values = _stored(array.flatten(), kind[1], f"{path}[]")
        return _list_like(array, values, pyarrow.list_(values.type))
    return array
