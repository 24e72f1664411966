"""One value as the text of a form's input, and back, by the described type of its field. Knows no HTML.

A value without a text of its own is written as extended JSON.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangonel.bson import Binary, Decimal128, Int64, ObjectId
from mangonel.bson.json_util import RELAXED_JSON_OPTIONS, dumps, loads
from mangonel.odm import Ref, Secret
from mangonel.odm._registry import is_instance
from mangonel.odm.expressions.geo import Geometry
from mangonel.odm.model.convert import from_dict, plain
from mangonel.odm.store.files import File

Spec = dict[str, Any]
"""The description of a type by `odm.model.describe.spec_of`."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """How values of one type are written and read.

    Attributes:
        write: returns the text of a value.
        read: returns the value of a text.

            Raises ValueError: the text is not of this type.
        input: how it is edited: the `type` of an input, or "select", "json", "secret" or "file".
        options: the texts of a select, each with its label.
    """

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    input: str = "text"
    options: tuple[tuple[str, str], ...] = ()


def leaf_of(spec: Spec) -> Leaf | None:
    """Return how values of a described type become texts; None for types that have parts."""
    op, argument = spec["op"], spec["argument"]
    if op in _PARTED:
        return None
    if op in _LEAVES:
        return _LEAVES[op]
    if op == "datetime":
        return _AWARE if argument else _NAIVE
    if op in ("literal", "enum"):
        return _choice(argument if op == "literal" else tuple(argument[0]))
    if op == "ref":
        inner = leaf_of(argument[2]) or _JSON
        return Leaf(lambda value: inner.write(value.id if isinstance(value, Ref) else value), inner.read)
    if op == "instance":
        return _INSTANCES.get(argument, _JSON)
    if op == "geo":
        return Leaf(
            lambda value: _dumped(value.to_geojson()), lambda text: _geometry(argument[0], text), "json"
        )
    if op == "custom":
        return _custom(*argument)
    if op == "union":
        return Leaf(
            lambda value: _dumped(plain(value, by_key=True)), lambda text: _of_union(spec, text), "json"
        )
    return _JSON


# Types whose form consists of the forms of their parts.
_PARTED = frozenset({"list", "set", "frozenset", "tuple_of", "tuple", "dict", "refs", "embedded"})


def is_carried(text: str) -> bool:
    """Return whether a form sends a text back unchanged: HTML holds neither NUL nor lone surrogates."""
    return "\0" not in text and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def index_of(text: str) -> int | None:
    """Return the number that decimal digits stand for; None for another text, and for more digits than int() takes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


# More than any count or length has.
DIGITS = 18


def same_lines(text: str) -> str:
    """Return a text with the line breaks that forms keep."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def shown_json(value: Any) -> str:
    """Return any value of a document as extended JSON, for reading."""
    try:
        return _dumped(plain(value, by_key=True))
    except Exception:
        # A type of the program without extended JSON.
        return str(value)


def _dumped(value: Any) -> str:
    return dumps(value, json_options=RELAXED_JSON_OPTIONS, ensure_ascii=False)


def _loaded(text: str) -> Any:
    try:
        return loads(text)
    except Exception as error:
        raise ValueError(f"expected extended JSON: {error}") from error


def _geometry(kind: type[Geometry], text: str) -> Geometry:
    value = _loaded(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected GeoJSON of a {kind.geo_type}, got {type(value).__name__}")
    return kind.from_geojson(value)


def _of_union(spec: Spec, text: str) -> Any:
    """Return the value of a union: from the first alternative that accepts it."""
    value = _loaded(text)
    _, rows, others = spec["argument"]
    for model in dict.fromkeys(model for _, model in rows):
        if isinstance(value, dict):
            try:
                return from_dict(model, value)
            except (TypeError, ValueError):
                continue
    for other in others:
        found = _of_plain(other, value)
        if found is not None:
            return found
    return value


def _of_plain(spec: Spec, value: Any) -> Any:
    """Return a value read from JSON as one of a described type; None if it is of another."""
    op = spec["op"]
    leaf = leaf_of(spec)
    if leaf is None:
        if op == "embedded" and isinstance(value, dict):
            return from_dict(spec["argument"], value)
        return None
    try:
        if op in ("literal", "enum"):
            options = spec["argument"] if op == "literal" else tuple(spec["argument"][0])
            return next(each for each in options if plain(each) == value and type(plain(each)) is type(value))
        if op == "decimal" and isinstance(value, Decimal128):
            return value.to_decimal()
        if op in ("datetime", "date") and isinstance(value, dt.datetime):
            return value.date() if op == "date" else value if spec["argument"] else value.replace(tzinfo=None)
        if op in ("geo", "custom"):
            return leaf.read(_dumped(value))
    except (StopIteration, ValueError, TypeError):
        return None
    kinds: Any = _PLAIN.get(op, spec["argument"] if op == "instance" else ())
    return value if type(value) is kinds else None


_PLAIN: dict[str, type[Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "bytes": bytes,
    "object_id": ObjectId,
}


def _choice(options: tuple[Any, ...]) -> Leaf:
    """Return the leaf for a value that must be one of these; its text is its index among them."""
    labels = tuple((str(place), str(plain(option))) for place, option in enumerate(options))

    def write(value: Any) -> str:
        for place, option in enumerate(options):
            if option == value and type(option) is type(value):
                return str(place)
        raise ValueError(f"expected one of {', '.join(map(repr, options))}, got {value!r}")

    def read(text: str) -> Any:
        place = index_of(text)
        if place is not None and place < len(options):
            return options[place]
        raise ValueError("expected one of the options")

    return Leaf(write, read, "select", labels)


def _custom(load: Any, dump: Any, kind: Any) -> Leaf:
    if kind is Secret:
        return Leaf(lambda value: "", Secret, "secret")
    if kind is File:
        return Leaf(lambda value: _dumped(value.id), lambda text: File(_loaded(text)), "file")
    if getattr(kind, "__module__", "") == "ipaddress":
        return Leaf(str, load)
    return Leaf(lambda value: _dumped(dump(value)), lambda text: load(_loaded(text)), "json")


def _int(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"expected a whole number of at most 64 bits, got {text!r}")
    return number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"expected a decimal number, got {text!r}") from None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"expected bytes in base64: {error}") from None


def _object_id(text: str) -> ObjectId:
    if not ObjectId.is_valid(text):
        raise ValueError(f"expected 24 hexadecimal digits, got {text!r}")
    return ObjectId(text)


def _moment(text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected a moment such as 2030-01-31T12:00, got {text!r}") from None
    return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo is not None else moment


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected a date such as 2030-01-31, got {text!r}") from None


def _written_moment(value: dt.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return value.isoformat(timespec="milliseconds")


def _binary(text: str) -> Binary:
    value = _loaded(text)
    # JSON has no bytes without a subtype.
    return Binary(value) if type(value) is bytes else value


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise ValueError(f"expected a UUID, got {text!r}") from None


def _json_of(value: Any) -> str:
    return _dumped(plain(value, by_key=True) if is_instance(value) else value)


_NAIVE = Leaf(_written_moment, _moment, "datetime-local")
_AWARE = Leaf(_written_moment, lambda text: _moment(text).replace(tzinfo=dt.UTC), "datetime-local")
_JSON = Leaf(_json_of, _loaded, "json")
_BOOL = Leaf(
    lambda value: "1" if value else "0",
    lambda text: _choice((False, True)).read(text),
    "select",
    (("1", "yes"), ("0", "no")),
)
_LEAVES: dict[str, Leaf] = {
    "str": Leaf(lambda value: value, lambda text: text),
    "int": Leaf(str, _int, "number"),
    "float": Leaf(repr, _float, "decimal"),
    "decimal": Leaf(str, _decimal, "decimal"),
    "bool": _BOOL,
    "bytes": Leaf(lambda value: base64.b64encode(value).decode(), _bytes),
    "date": Leaf(dt.date.isoformat, _date, "date"),
    "object_id": Leaf(str, _object_id),
    "none": Leaf(lambda value: "", lambda text: None),
}
_INSTANCES: dict[Any, Leaf] = {
    uuid.UUID: Leaf(str, _uuid),
    Int64: Leaf(str, lambda text: Int64(_int(text)), "number"),
    Binary: Leaf(_dumped, _binary, "json"),
    Decimal128: Leaf(str, lambda text: Decimal128(_decimal(text)), "decimal"),
}
