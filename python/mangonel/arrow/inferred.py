"""The schema of a collection as its documents have it: types with counts at each path, and how it drifts.

`collection.infer_schema()` makes it from the core's counts. Knows no server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangonel.arrow.errors import SchemaError
from mangonel.arrow.schema import Schema

__all__ = ["InferredField", "InferredSchema"]

_FORMAT = 1
_NULLS = ("null", "undefined")
# Numeric types that fit in one column; the difference between them matters little.
_NUMBERS = frozenset({"int", "long", "double"})


@dataclass
class InferredField:
    """The values at one path of the documents.

    Types have the names that the operator `$type` uses, and "uuid" for binary values of subtype 4.
    """

    path: str
    """The path: keys with dots between them, and `[]` for the values of an array."""
    parents: int
    """How many documents could have the field: those around it. For the values of arrays, the number of values."""
    types: dict[str, int] = field(default_factory=dict)
    """How many values have each type."""
    fields: dict[str, InferredField] = field(default_factory=dict)
    """The fields of the documents here, by key."""
    items: InferredField | None = None
    """The values of the arrays here."""

    @property
    def count(self) -> int:
        """How many values there are, nulls included."""
        return sum(self.types.values())

    @property
    def missing(self) -> int:
        """How many of the documents around it lack the field."""
        return self.parents - self.count

    @property
    def nulls(self) -> int:
        """How many values are null."""
        return sum(self.types.get(name, 0) for name in _NULLS)

    @property
    def kinds(self) -> set[str]:
        """The types of the values that are not null."""
        return set(self.types).difference(_NULLS)

    @property
    def is_mixed(self) -> bool:
        """Whether the values have several types that no one column holds. Integers and doubles do not count as such."""
        return len(self.kinds) > 1 and not self.kinds <= _NUMBERS

    def share(self, name: str) -> float:
        """Return the share of a type in the values, from 0 to 1.

        Args:
            name: the type, as `$type` names it.

        Example:
            >>> client.shop.orders.infer_schema().fields["total"].share("double")
            1.0
        """
        return self.types.get(name, 0) / self.count if self.count else 0.0

    def __iter__(self) -> Iterator[InferredField]:
        """Yield this field and all fields inside it, the outer ones first."""
        yield self
        for inner in self.fields.values():
            yield from inner
        if self.items is not None:
            yield from self.items


@dataclass
class InferredSchema:
    """The schema of a collection as its documents have it.

    `print()` shows it as a table. `schema` and `model()` propose columns and a model of the mapper.

    Example:
        >>> found = client.shop.orders.infer_schema()
        >>> found.documents, list(found.fields)
        (2, ['_id', 'total', 'customer'])
    """

    documents: int
    """How many documents were looked at."""
    is_sample: bool
    """Whether these were a sample. Then rare fields and types may be missing here."""
    fields: dict[str, InferredField] = field(default_factory=dict)
    """The fields of the documents, by key."""
    left_out: int = 0
    """How many values were not counted, because there were more than 10 000 paths. Keys that are data make so many."""

    def __iter__(self) -> Iterator[InferredField]:
        """Yield every field, nested fields and the values of arrays included."""
        for inner in self.fields.values():
            yield from inner

    @property
    def mixed(self) -> list[str]:
        """The paths whose values have several types that no one column holds."""
        return [inner.path for inner in self if inner.is_mixed]

    @property
    def schema(self) -> Schema:
        """Columns that hold all of these values: an argument of `to_arrow` and of the other methods for tables.

        Several types at one path become text. Read such columns with `on_invalid="string"`, which writes values of
        other types as extended JSON.
        """
        from mangonel.arrow.proposals import columns_of

        return Schema(columns_of(self.fields))

    def model(self, name: str = "Model", collection: str | None = None) -> str:
        """Return the source text of a model of the mapper that loads these documents.

        Args:
            name: the name of the class.
            collection: the collection's name. None: derived from the name of the class.

        Raises:
            ValueError: `name` is no name of a class.

        Example:
            >>> print(client.shop.orders.infer_schema().model("Order", "orders"))
            from mangonel.odm import Document
            <BLANKLINE>
            <BLANKLINE>
            class Order(Document):
                __collection__ = "orders"
            <BLANKLINE>
                id: int
                total: float
                customer: str
        """
        from mangonel.arrow.proposals import model_text

        return model_text(self.fields, name, collection)

    def drift(self, saved: InferredSchema) -> list[str]:
        """Return how this schema differs from one that was saved earlier: one sentence for each difference.

        A difference is a new field, a new type of a field, or a field that is now missing in some documents. Counts do
        not matter. Fields and types that are gone do not matter either, since a sample may lack them.

        Args:
            saved: the schema that was found earlier.

        Example:
            >>> found = client.shop.orders.infer_schema()
            >>> found.drift(found)
            []
        """
        return list(_drift(self.fields, saved.fields, self.documents))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as a dict for JSON, which `from_dict` reads.

        Example:
            >>> client.shop.orders.infer_schema().to_dict()["documents"]
            2
        """
        return {
            "format": _FORMAT,
            "documents": self.documents,
            "is_sample": self.is_sample,
            "left_out": self.left_out,
            "fields": {key: _told(inner) for key, inner in self.fields.items()},
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> InferredSchema:
        """Return the schema that `to_dict` described.

        Args:
            saved: the dict that `to_dict` returned.

        Raises:
            SchemaError: `saved` is something else.

        Example:
            >>> found = client.shop.orders.infer_schema()
            >>> InferredSchema.from_dict(found.to_dict()) == found
            True
        """
        if not isinstance(saved, Mapping) or "format" not in saved:
            what = "a mapping without it" if isinstance(saved, Mapping) else type(saved).__name__
            raise SchemaError(f'expected the schema of a collection, a mapping with "format", got {what}')
        if saved["format"] != _FORMAT:
            raise SchemaError(
                f"expected a schema of format {_FORMAT}, got {saved['format']!r}; save the schema again"
            )
        documents = _entry(saved, "documents", int)
        fields = {
            key: _read(inner, key, documents, f"fields.{key}")
            for key, inner in _entry(saved, "fields", Mapping).items()
        }
        return cls(documents, _entry(saved, "is_sample", bool), fields, _entry(saved, "left_out", int))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a file of JSON, which `load` and `mangonel schema --check` read.

        Args:
            path: the file, which is replaced.

        Raises:
            OSError: the file cannot be written.

        Example:
            >>> client.shop.orders.infer_schema().save("orders.schema.json")
        """
        Path(path).write_text(
            json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> InferredSchema:
        """Return the schema that `save` wrote.

        Args:
            path: the file.

        Raises:
            SchemaError: the file holds something else.
            OSError: the file cannot be read.

        Example:
            >>> client.shop.orders.infer_schema().save("orders.schema.json")
            >>> InferredSchema.load("orders.schema.json").documents
            2
        """
        try:
            saved = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise SchemaError(
                f"expected the schema of a collection in {path}, got no JSON: {error}"
            ) from error
        try:
            return cls.from_dict(saved)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from error

    def __str__(self) -> str:
        head = "a sample of " if self.is_sample else ""
        lines = [f"{head}{self.documents} documents"]
        rows = [(inner.path, _types_text(inner), _absence(inner)) for inner in self]
        widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
        for row in rows:
            line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            lines.append(f"  {line}".rstrip())
        if self.left_out:
            lines.append(
                f"{self.left_out} values were not counted: there are too many paths; some keys are data"
            )
        return "\n".join(lines)


def inferred(is_sample: bool, counted: Any, left_out: int) -> InferredSchema:
    """Return the schema from the counts of `_core.TypeCounter`.

    Args:
        is_sample: whether the documents are a sample.
    """
    types, fields, _ = counted
    count = types.get("object", 0)
    return InferredSchema(
        count, is_sample, {key: _place(place, key, count) for key, place in fields}, left_out
    )


def _place(place: Any, path: str, parents: int) -> InferredField:
    types, fields, items = place
    found = InferredField(path, parents, dict(types))
    inside = types.get("object", 0)
    found.fields = {key: _place(inner, f"{path}.{key}", inside) for key, inner in fields}
    if items is not None:
        found.items = _place(items, f"{path}[]", sum(items[0].values()))
    return found


def _told(inner: InferredField) -> dict[str, Any]:
    told: dict[str, Any] = {"types": inner.types}
    if inner.fields:
        told["fields"] = {key: _told(below) for key, below in inner.fields.items()}
    if inner.items is not None:
        told["items"] = _told(inner.items)
    return told


def _read(saved: Any, path: str, parents: int, where: str) -> InferredField:
    """Return a saved field; `where` is its place in the saved schema."""
    if not isinstance(saved, Mapping):
        raise SchemaError(f"expected a mapping, got {type(saved).__name__} at $.{where}")
    saved_types = _entry(saved, "types", Mapping, where)
    types = {name: _entry(saved_types, name, int, f"{where}.types") for name in saved_types}
    found = InferredField(path, parents, types)
    inside = types.get("object", 0)
    found.fields = {
        key: _read(inner, f"{path}.{key}", inside, f"{where}.fields.{key}")
        for key, inner in _entry(saved, "fields", Mapping, where, {}).items()
    }
    if (items := saved.get("items")) is not None:
        found.items = _read(items, f"{path}[]", 0, f"{where}.items")
        found.items.parents = found.items.count
    return found


_WORDS = {int: "an int", bool: "a bool", Mapping: "a mapping"}


def _entry(saved: Mapping[str, Any], name: str, kind: Any, where: str = "", usual: Any = None) -> Any:
    """Return a value of the saved schema; `where` is the place of the mapping that contains it."""
    found = saved.get(name, usual)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        got = "nothing" if name not in saved else type(found).__name__
        place = ".".join(filter(None, ("$", where, name)))
        raise SchemaError(f"expected {_WORDS[kind]}, got {got} at {place}; save the schema again")
    return found


def _drift(found: dict[str, InferredField], saved: dict[str, InferredField], inside: int) -> Iterator[str]:
    """Yield the differences between the fields of documents; `inside` is the current number of documents."""
    for key, inner in found.items():
        known = saved.get(key)
        if known is None:
            yield f"{inner.path}: a new field, {_types_text(inner)}"
            continue
        yield from _field_drift(inner, known)
        if inner.missing and not known.missing:
            yield f"{inner.path}: missing in {inner.missing} documents of {inner.parents}, and was in all"
    if inside:
        for key, known in saved.items():
            if key not in found and not known.missing:
                yield f"{known.path}: missing in all documents, and was in all"


def _field_drift(found: InferredField, saved: InferredField) -> Iterator[str]:
    for name in found.types:
        if name not in saved.types:
            earlier = ", ".join(saved.types) or "nothing"
            yield f"{found.path}: a new type, {name} ({found.types[name]} of {found.count}); was {earlier}"
    yield from _drift(found.fields, saved.fields, found.types.get("object", 0))
    if found.items is not None and saved.items is not None:
        yield from _field_drift(found.items, saved.items)
    elif found.items is not None:
        yield f"{found.items.path}: values in arrays that were empty, {_types_text(found.items)}"


def _types_text(inner: InferredField) -> str:
    if len(inner.types) == 1:
        return next(iter(inner.types))
    counts = sorted(inner.types.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {_percent(count, inner.count)}" for name, count in counts)


def _absence(inner: InferredField) -> str:
    return f"missing {_percent(inner.missing, inner.parents)}" if inner.missing else ""


def _percent(count: int, whole: int) -> str:
    share = 100 * count / whole
    return f"{share:.1f} %" if 0.1 <= share <= 99.9 or share in (0, 100) else f"{count} of {whole}"
