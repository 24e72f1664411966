"""Infers models from a collection's documents: the output of `mangonel odm pull`. Reads the driver's dicts."""

from __future__ import annotations

import datetime as dt
import keyword
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from mangonel._shared.collection.encrypted import TAGS
from mangonel.bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from mangonel.bson.datetime_ms import DatetimeMS

# From this many keys on, most of them rare, it is a map rather than a document.
MANY_KEYS = 40
GEO = ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon")
_PLAIN: dict[type, str] = {
    str: "str",
    bool: "bool",
    int: "int",
    Int64: "int",
    float: "float",
    bytes: "bytes",
    dt.datetime: "dt.datetime",
    DatetimeMS: "dt.datetime",
    ObjectId: "ObjectId",
    Decimal128: "decimal.Decimal",
    uuid.UUID: "uuid.UUID",
    Binary: "Binary",
    Regex: "Regex[str]",
    Timestamp: "Timestamp",
    MinKey: "MinKey",
    MaxKey: "MaxKey",
    Code: "Code",
    DBRef: "DBRef",
}
_IMPORTS = {"dt": "import datetime as dt", "decimal": "import decimal", "uuid": "import uuid"}
_OF_BSON = ("Binary", "Code", "DBRef", "MaxKey", "MinKey", "ObjectId", "Regex", "Timestamp")


class Seen:
    """Statistics of one path in the documents."""

    def __init__(self) -> None:
        self.count = 0
        self.types: set[str] = set()
        self.is_null = False
        self.keys: dict[str, Seen] = {}
        self.documents = 0
        self.elements: Seen | None = None

    def add(self, value: Any) -> None:
        """Record a value."""
        self.count += 1
        if value is None:
            self.is_null = True
        elif isinstance(value, dict):
            kind = value.get("type")
            if kind in GEO and set(value) == {"type", "coordinates"}:
                self.types.add(str(kind))
                return
            self.documents += 1
            for key, item in value.items():
                self.keys.setdefault(key, Seen()).add(item)
        elif isinstance(value, list):
            self.elements = self.elements or Seen()
            for item in value:
                self.elements.add(item)
        else:
            self.types.add(_PLAIN.get(type(value), "Any"))

    def is_map(self) -> bool:
        """Whether the keys are data, not names."""
        if not self.keys:
            return self.documents > 0
        odd = any(
            (not key.isidentifier() and not re.fullmatch(r"[\w-]+", key)) or key == "" for key in self.keys
        )
        rare = sum(seen.count * 2 < self.documents for seen in self.keys.values())
        many = len(self.keys) > MANY_KEYS and rare * 2 > len(self.keys)
        return odd or many or all(key.isdigit() or ObjectId.is_valid(key) for key in self.keys)


class Writer:
    """Writes a module with the models of several collections."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._classes: list[str] = []
        self._names: set[str] = {*taken}
        self._used: set[str] = set()

    def collection(self, name: str, documents: Iterable[Mapping[str, Any]]) -> str:
        """Add the model of a collection; return its name."""
        root = Seen()
        for document in documents:
            root.add({key: value for key, value in document.items() if key != TAGS})
        return self._class(_camel(name), root, name)

    def module(self) -> str:
        """Return the module's source."""
        text = "\n\n\n".join(self._classes)
        imports = [line for name, line in _IMPORTS.items() if re.search(rf"\b{name}\.", text)]
        of_bson = [name for name in _OF_BSON if re.search(rf"\b{name}\b", text)]
        of_odm = [
            name for name in ("Document", "Embedded", *GEO, "field") if re.search(rf"\b{name}\b(?!:)", text)
        ]
        lines = ["from __future__ import annotations", ""]
        lines += [*sorted(imports)]
        if re.search(r"\bAny\b", text):
            lines.append("from typing import Any")
        lines += [""] * (len(lines) > 2)
        if of_bson:
            lines.append(f"from mangonel.bson import {', '.join(of_bson)}")
        lines.append(f"from mangonel.odm import {', '.join(sorted(of_odm))}")
        return "\n".join(lines) + "\n\n\n" + text + "\n"

    def _class(self, wanted: str, seen: Seen, collection: str | None) -> str:
        name, number = wanted, 2
        while name in self._names:
            name, number = f"{wanted}{number}", number + 1
        self._names.add(name)
        rows: list[tuple[bool, str]] = []
        attributes = {"id"} if collection is not None else set()
        for key, inner in seen.keys.items():
            if collection is not None and key == "_id":
                rows.append((False, self._id(name, inner)))
                continue
            attribute = _attribute(key, attributes)
            attributes.add(attribute)
            # A key in every sampled document may be missing in others, so unless the sample is complete, only the id is
            # required.
            optional = inner.count < seen.documents or inner.is_null
            rows.append((optional, self._field(name, attribute, key, inner, optional)))
        head = "Document" if collection is not None else "Embedded"
        body = [row for _, row in rows if row]
        if collection is not None:
            body.insert(0, f'    __collection__ = "{collection}"')
        self._classes.append(f"class {name}({head}):\n" + ("\n".join(body) or "    pass"))
        return name

    def _id(self, owner: str, seen: Seen) -> str:
        kind = self._type(owner, "id", seen)
        if kind == "ObjectId":
            return ""
        return f'    id: {kind} = field(key="_id")  # type: ignore[assignment]  # in place of an ObjectId'

    def _field(self, owner: str, attribute: str, key: str, seen: Seen, optional: bool) -> str:
        kind = self._type(owner, attribute, seen)
        if kind == "Any":
            optional = True
        elif optional:
            kind += " | None"
        options = [f"default={None}"] if optional else []
        if key != attribute:
            options.append(f'key="{key}"')
        if options == ["default=None"]:
            return f"    {attribute}: {kind} = None"
        return f"    {attribute}: {kind}" + (f" = field({', '.join(options)})" if options else "")

    def _type(self, owner: str, attribute: str, seen: Seen) -> str:
        kinds = set(seen.types)
        if {"int", "float"} <= kinds:
            kinds.discard("int")
        if seen.elements is not None:
            inner = self._type(owner, attribute, seen.elements) if seen.elements.count else "Any"
            if seen.elements.is_null and inner != "Any":
                inner += " | None"
            kinds.add(f"list[{inner}]")
        if seen.documents:
            kinds.add(self._document(owner, attribute, seen))
        if "Any" in kinds or not kinds:
            return "Any"
        # Alternatives are distinguished by their BSON types.
        objects = [
            kind
            for kind in kinds
            if kind in GEO or (kind not in _PLAIN.values() and not kind.startswith("list"))
        ]
        if len(kinds) > 1 and (len(objects) > 1 or any(kind.startswith("dict") for kind in objects)):
            return "Any"
        binary = kinds & {"bytes", "uuid.UUID", "Binary"}
        return "Any" if len(binary) > 1 else " | ".join(sorted(kinds))

    def _document(self, owner: str, attribute: str, seen: Seen) -> str:
        if not seen.is_map():
            return self._class(owner + _camel(attribute), seen, None)
        values = Seen()
        for inner in seen.keys.values():
            _merge(values, inner)
        kind = self._type(owner, attribute, values) if values.count else "Any"
        return f"dict[str, {kind + ' | None' if values.is_null and kind != 'Any' else kind}]"


def _merge(into: Seen, other: Seen) -> None:
    into.count += other.count
    into.types |= other.types
    into.is_null = into.is_null or other.is_null
    into.documents += other.documents
    for key, inner in other.keys.items():
        _merge(into.keys.setdefault(key, Seen()), inner)
    if other.elements is not None:
        into.elements = into.elements or Seen()
        _merge(into.elements, other.elements)


def _camel(name: str) -> str:
    parts = re.findall(r"[A-Za-z0-9]+", name)
    made = "".join(part[:1].upper() + part[1:] for part in parts)
    return made if made and not made[0].isdigit() else f"Model{made}"


def _attribute(key: str, taken: set[str]) -> str:
    """Return an attribute name for a key whose name Python or the mapper reserves."""
    from mangonel.odm import Document

    name = re.sub(r"\W", "_", key).lstrip("_") or "field"
    if name[0].isdigit():
        name = f"n{name}"
    while (
        keyword.iskeyword(name)
        or name in taken
        or hasattr(Document, name)
        or name in ("dt", "decimal", "uuid")
    ):
        name += "_"
    return name
