"""Proposes columns and a model of the mapper for the documents of a collection."""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

from mangonel._shared.upper_modules import upper_module
from mangonel.arrow.inferred import InferredField

__all__ = ["columns_of", "model_text"]

_COLUMNS = {
    "double": "double",
    "string": "string",
    "binData": "binary",
    "uuid": "uuid",
    "objectId": "objectid",
    "bool": "bool",
    "date": "date",
    "int": "int64",
    "long": "int64",
}
_TEXT = "string"

# Type -> its annotation and the module that defines it.
_ANNOTATIONS = {
    "double": "float",
    "string": "str",
    "binData": "bytes",
    "uuid": "uuid.UUID",
    "objectId": "ObjectId",
    "bool": "bool",
    "date": "dt.datetime",
    "int": "int",
    "long": "int",
    "decimal": "Decimal128",
}
_INTEGERS = {"int", "long"}
_ANY = "Any"
_INDENT = "    "


def columns_of(fields: dict[str, InferredField], *, nested: bool = True) -> dict[str, Any]:
    """Return names and types of columns that hold the values, as `mangonel.arrow.Schema` takes them.

    Args:
        nested: False: documents and arrays become text as well, for formats without nesting.
    """
    return {key: _column(inner, nested) for key, inner in fields.items()}


def _column(inner: InferredField, nested: bool) -> Any:
    kinds = inner.kinds
    if not kinds:
        return "null" if nested else _TEXT
    if kinds <= _INTEGERS:
        return "int64"
    if kinds <= _INTEGERS | {"double"}:
        return "double"
    if len(kinds) > 1:
        return _TEXT
    (kind,) = kinds
    if kind == "object":
        # Some formats refuse a struct without fields.
        return columns_of(inner.fields) if nested and inner.fields else _TEXT
    if kind == "array":
        if not nested:
            return _TEXT
        return [_column(inner.items, nested)] if inner.items is not None else ["null"]
    return _COLUMNS.get(kind, _TEXT)


def model_text(fields: dict[str, InferredField], name: str, collection: str | None) -> str:
    """Return the source of a model that loads documents with these fields.

    Raises:
        ValueError: `name` is no name of a class.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"expected the name of a class, got {name!r}")
    classes = _Classes()
    body = classes.body_of(fields, name, is_document=True)
    head = f"class {name}(Document):"
    if collection is not None:
        body = [f"__collection__ = {_quoted(collection)}", "", *body]
    written = [*classes.written, _class(head, body)]
    text = "\n\n\n".join([classes.imports("\n".join(written)), *written])
    return f"{text}\n"


class _Classes:
    """The classes of embedded documents, in the order in which Python needs them."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self._names: set[str] = {"Document", "Embedded"}

    def imports(self, text: str) -> str:
        """Return the import statements that a text needs."""
        plain = []
        if "dt." in text:
            plain.append("import datetime as dt")
        if "uuid." in text:
            plain.append("import uuid")
        if re.search(r"\bAny\b", text):
            plain.append("from typing import Any")
        bson = [each for each in ("Decimal128", "ObjectId") if re.search(rf"\b{each}\b", text)]
        ours = [f"from mangonel.bson import {', '.join(bson)}"] if bson else []
        names = ["Document"]
        if "(Embedded)" in text:
            names.append("Embedded")
        if "= field(" in text:
            names.append("field")
        ours.append(f"from mangonel.odm import {', '.join(names)}")
        return "\n".join([*plain, "", *ours] if plain else ours)

    def body_of(self, fields: dict[str, InferredField], owner: str, *, is_document: bool) -> list[str]:
        """Return the lines of a class's fields; optional fields come last."""
        self._names.add(owner)
        needed: list[str] = []
        optional: list[str] = []
        # A model refuses a field with the name of one of its methods.
        methods = set(dir(upper_module("mangonel.odm.store.document").Document))
        taken: set[str] = set()
        for key, inner in fields.items():
            is_id = is_document and key == "_id"
            if is_id and inner.kinds == {"objectId"} and not inner.nulls:
                # Every document has the field, so it is required.
                continue
            name = "id" if is_id else _free(_attribute(key, methods), taken)
            taken.add(name)
            annotation = self.annotation(inner, f"{owner}{_camel(key)}")
            is_optional = bool(inner.missing or inner.nulls)
            if is_optional and annotation != _ANY:
                annotation += " | None"
            default = "None" if is_optional else ""
            if not is_id and name != key:
                default = f"field({'default=None, ' if is_optional else ''}key={_quoted(key)})"
            line = f"{name}: {annotation}" + (f" = {default}" if default else "")
            (optional if is_optional else needed).append(line)
        return [*needed, *optional]

    def annotation(self, inner: InferredField, name: str) -> str:
        """Return the annotation of the values at a place, without their nulls."""
        kinds = inner.kinds
        if not kinds:
            return _ANY
        if kinds <= _INTEGERS:
            return "int"
        if len(kinds) > 1:
            return _ANY
        (kind,) = kinds
        if kind == "object":
            return self.embedded(inner, name) if inner.fields else "dict[str, Any]"
        if kind == "array":
            if inner.items is None:
                return "list[Any]"
            item = self.annotation(inner.items, f"{name}Item")
            if inner.items.nulls and item != _ANY:
                item += " | None"
            return f"list[{item}]"
        return _ANNOTATIONS.get(kind, _ANY)

    def embedded(self, inner: InferredField, name: str) -> str:
        """Write the class of the documents at a place; return its name."""
        name = _free(name, self._names)
        self._names.add(name)
        body = self.body_of(inner.fields, name, is_document=False)
        self.written.append(_class(f"class {name}(Embedded):", body))
        return name


def _class(head: str, body: list[str]) -> str:
    while body and not body[-1]:
        body.pop()
    return "\n".join([head, *(f"{_INDENT}{line}" if line else "" for line in body or ["pass"])])


def _quoted(text: str) -> str:
    # A JSON string is a valid Python literal.
    return json.dumps(text, ensure_ascii=False)


def _attribute(key: str, methods: set[str]) -> str:
    """Return an attribute's name for a key."""
    # A name that starts with an underscore is no field, and `id` is taken by the document's `_id`.
    name = re.sub(r"\W", "_", key).lstrip("_") or "field_"
    if name[0].isdigit():
        name = f"field_{name}"
    return f"{name}_" if keyword.iskeyword(name) or name == "id" or name in methods else name


def _camel(key: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", key))


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}{number}", number + 1
    return found
