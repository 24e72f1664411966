"""Converts column names and types, in every accepted notation, to the input of `_core.ColumnBuilder`."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

from mangonel._shared.upper_modules import upper_module
from mangonel.bson import Decimal128, Int64, ObjectId

__all__ = ["Schema", "fields_of", "projection_of"]

# A kind is a name, or a tuple of a name and its parameters.
_Kind = str | tuple[Any, ...]

_BY_CLASS: dict[Any, _Kind] = {
    bool: "bool",
    int: "int64",
    Int64: "int64",
    float: "double",
    str: "string",
    bytes: "binary",
    datetime.datetime: "date",
    ObjectId: "object_id",
    uuid.UUID: "uuid",
    Decimal128: "string",
    type(None): "null",
}
_BY_NAME: dict[str, _Kind] = {
    "null": "null",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "double": "double",
    "float": "double",
    "float64": "double",
    "date": "date",
    "datetime": "date",
    "timestamp[ms, tz=UTC]": "date",
    "timestamp[ms]": "naive_date",
    "objectid": "object_id",
    "ObjectId": "object_id",
    "uuid": "uuid",
    "string": "string",
    "str": "string",
    "large_string": "string",
    "category": "category",
    "binary": "binary",
    "large_binary": "binary",
    "fixed_size_binary[12]": "object_id",
    "fixed_size_binary[16]": "uuid",
}


class Schema:
    """Names and types of columns, in PyMongoArrow's notation.

    Types are Python's (`int`, `float`, `str`, `bool`, `bytes`, `datetime`, `ObjectId`, `Decimal128`, `uuid.UUID`), a
    list of one type, a mapping of names and types for documents, names such as "int32" or "category" (strings that
    repeat), or pyarrow's data types.

    Args:
        schema: a mapping of names and types.

    Raises:
        ValueError: a type cannot be a column.
        TypeError: `schema` is not a mapping.

    Example:
        >>> Schema({"_id": int, "tags": [str]})
        Schema({'_id': 'int64', 'tags': ('list', 'string')})
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._fields = fields_of(schema)

    @classmethod
    def of_kinds(cls, fields: Sequence[tuple[str, _Kind]]) -> Schema:
        """Return a schema with the columns of another one, given by its `fields`.

        Args:
            fields: pairs of a name and a kind.

        Example:
            >>> Schema.of_kinds(Schema({"tags": [str]}).fields)
            Schema({'tags': ('list', 'string')})
        """
        made = cls({})
        made._fields = list(fields)
        return made

    @property
    def fields(self) -> list[tuple[str, _Kind]]:
        """Names and kinds of the columns."""
        return list(self._fields)

    def __iter__(self) -> Any:
        return iter(name for name, _ in self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Schema({dict(self._fields)!r})"


def fields_of(schema: Any) -> list[tuple[str, _Kind]]:
    """Return (name, kind) pairs for a schema.

    Raises:
        ValueError: a type cannot be a column.
        TypeError: not a schema.
    """
    if isinstance(schema, Schema):
        return schema.fields
    if isinstance(schema, type) and hasattr(schema, "__plan__"):
        # A model of the mapper: a higher floor, so reached through `upper_module`.
        return upper_module("mangonel.odm.model.arrow_fields").column_fields(schema)
    if isinstance(schema, Mapping):
        pairs = list(schema.items())
    elif hasattr(schema, "names") and hasattr(schema, "types"):
        # A pyarrow schema.
        pairs = list(zip(schema.names, schema.types, strict=True))
    else:
        has_schema = isinstance(getattr(schema, "schema", None), Schema)
        raise TypeError(
            f"expected a mapping, a Schema, a pyarrow.Schema or a model, got {type(schema).__name__}"
            f"{'; take its schema' if has_schema else ''}"
        )
    for name, _ in pairs:
        if not isinstance(name, str):
            raise TypeError(f"expected str for the name of a column, got {type(name).__name__}")
    return [(name, _kind_of(given, name)) for name, given in pairs]


def _kind_of(given: Any, name: str) -> _Kind:
    try:
        known = _BY_CLASS.get(given)
    except TypeError:
        known = None
    if known is not None:
        return known
    if isinstance(given, Mapping):
        return ("struct", fields_of(given))
    if get_origin(given) is list and get_args(given):
        return ("list", _kind_of(get_args(given)[0], name))
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 1:
        return ("list", _kind_of(given[0], name))
    made = _arrow_kind(given, name) if hasattr(given, "id") and hasattr(given, "num_fields") else None
    made = made or _BY_NAME.get(str(given))
    if made is None:
        raise ValueError(f"expected a type that has columns for {name!r}, got {given!r}; {_remedy(given)}")
    return made


def _remedy(given: Any) -> str:
    if str(given).lower().startswith(("timestamp", "date")):
        return 'dates of BSON are datetime, "timestamp[ms, tz=UTC]", or "timestamp[ms]" without a time zone'
    return "types are those that mangonel.arrow.Schema takes: int, float, str, bool, datetime, ObjectId and others"


def _arrow_kind(given: Any, name: str) -> _Kind | None:
    """Return the kind of a pyarrow data type with parameters."""
    if hasattr(given, "storage_type"):
        return _kind_of(given.storage_type, name)
    text = str(given)
    if text.startswith("struct<"):
        fields = [given.field(index) for index in range(given.num_fields)]
        return ("struct", [(field.name, _kind_of(field.type, f"{name}.{field.name}")) for field in fields])
    if text.startswith(("list<", "large_list<")):
        return ("list", _kind_of(given.value_type, name))
    if text.startswith("dictionary<") and str(given.value_type) in ("string", "large_string"):
        return "category"
    if text.startswith("decimal128("):
        return ("decimal", given.precision, given.scale)
    return None


def projection_of(fields: Sequence[tuple[str, _Kind]], *, is_deep: bool = True) -> dict[str, int] | None:
    """Return the projection that fetches these columns. None: everything, since a name could be read as a path.

    It includes `_id`, so that errors can name it. Deep: of a nested document, it fetches only the fields that have
    columns; a null in place of that document is then not fetched at all.
    """
    found: dict[str, int] = {}
    paths: list[tuple[str, str, _Kind]] = [(name, name, kind) for name, kind in fields]
    while paths:
        path, name, kind = paths.pop(0)
        if not name or "." in name or "$" in name or "\0" in name:
            return None
        if is_deep and isinstance(kind, tuple) and kind[0] == "struct" and kind[1]:
            paths.extend((f"{path}.{inner}", inner, of) for inner, of in kind[1])
        else:
            found[path] = 1
    return found or {"_id": 1}
