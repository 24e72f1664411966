"""BSON values to objects that `json.dumps` accepts. Spec: extended-json.

Recognises types by class, then by `_type_marker`, so that it can write values of another `bson` package too.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mangonel._core import ObjectId
from mangonel.bson.binary import Binary
from mangonel.bson.code import Code
from mangonel.bson.datetime_ms import _MAX_UTC_MS, EPOCH_AWARE, DatetimeMS, _datetime_to_millis
from mangonel.bson.dbref import DBRef
from mangonel.bson.decimal128 import Decimal128
from mangonel.bson.int64 import Int64
from mangonel.bson.max_key import MaxKey
from mangonel.bson.min_key import MinKey
from mangonel.bson.regex import Regex
from mangonel.bson.timestamp import Timestamp
from mangonel.bson.tz_util import utc

if TYPE_CHECKING:
    from mangonel.bson.json_util import JSONOptions

# The values of JSONMode and DatetimeRepresentation, which are defined on a higher floor.
_LEGACY_MODE, _RELAXED_MODE, _CANONICAL_MODE = 0, 1, 2
_LEGACY_DATE, _ISO8601_DATE = 0, 2

_RE_FLAGS = (
    ("i", re.IGNORECASE),
    ("l", re.LOCALE),
    ("m", re.MULTILINE),
    ("s", re.DOTALL),
    ("u", re.UNICODE),
    ("x", re.VERBOSE),
)


def convert(obj: Any, options: JSONOptions) -> Any:
    """Return `obj` with every BSON value in it replaced by its JSON form; unknown values do not change."""
    if type(obj) not in _WRITERS:
        # A DBRef answers every attribute with its own keys, so this checks its class.
        if hasattr(type(obj), "items"):
            return {key: convert(value, options) for key, value in obj.items()}
        if hasattr(type(obj), "__iter__") and not isinstance(obj, str | bytes):
            return [convert(value, options) for value in obj]
    try:
        return write(obj, options)
    except TypeError:
        return obj


def write(obj: Any, options: JSONOptions) -> Any:
    """Return the JSON form of one BSON value.

    Raises:
        TypeError: `obj` is not a BSON value.
    """
    writer = _WRITERS.get(type(obj))
    if writer is None:
        writer = _MARKED.get(getattr(type(obj), "_type_marker", None))
    if writer is None:
        for known, candidate in _WRITERS.items():
            if isinstance(obj, known):
                writer = candidate
                break
        else:
            raise TypeError(
                f"expected a BSON value, got {type(obj).__name__}: {obj!r} is not JSON serializable"
            )
    return writer(obj, options)


def _write_plain(obj: Any, _options: JSONOptions) -> Any:
    return obj


def _write_int(obj: int, options: JSONOptions) -> Any:
    if options.json_mode == _CANONICAL_MODE:
        kind = "$numberInt" if -(2**31) <= obj < 2**31 else "$numberLong"
        return {kind: str(int(obj))}
    return obj


def _write_int64(obj: Any, options: JSONOptions) -> Any:
    return {"$numberLong": str(int(obj))} if options.strict_number_long else int(obj)


def _write_float(obj: float, options: JSONOptions) -> Any:
    if options.json_mode != _LEGACY_MODE:
        if math.isnan(obj):
            return {"$numberDouble": "NaN"}
        if math.isinf(obj):
            return {"$numberDouble": "Infinity" if obj > 0 else "-Infinity"}
        if options.json_mode == _CANONICAL_MODE:
            return {"$numberDouble": float.__repr__(obj)}
    return obj


def _write_millis(millis: int, options: JSONOptions) -> Any:
    if options.datetime_representation == _LEGACY_DATE:
        return {"$date": millis}
    return {"$date": {"$numberLong": str(millis)}}


def _write_datetime(obj: datetime.datetime, options: JSONOptions) -> Any:
    if options.datetime_representation == _ISO8601_DATE:
        moment = obj.replace(tzinfo=utc) if obj.tzinfo is None else obj
        if moment >= EPOCH_AWARE:
            # BSON keeps milliseconds only; the fraction is left out if it is zero.
            millis = moment.microsecond // 1000
            fraction = f".{millis:03}" if millis else ""
            zone = moment.strftime("%z") if moment.utcoffset() else "Z"
            return {"$date": f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}{fraction}{zone}"}
    return _write_millis(_datetime_to_millis(obj), options)


def _write_datetime_ms(obj: Any, options: JSONOptions) -> Any:
    millis = int(obj)
    if options.datetime_representation == _ISO8601_DATE and 0 <= millis <= _MAX_UTC_MS:
        return _write_datetime(DatetimeMS(millis).as_datetime(), options)
    return _write_millis(millis, options)


def _write_binary(data: bytes, subtype: int, options: JSONOptions) -> Any:
    text = base64.b64encode(data).decode("ascii")
    if options.json_mode == _LEGACY_MODE:
        return {"$binary": text, "$type": f"{subtype:02x}"}
    return {"$binary": {"base64": text, "subType": f"{subtype:02x}"}}


def _write_uuid(obj: uuid.UUID, options: JSONOptions) -> Any:
    if options.strict_uuid:
        binary = Binary.from_uuid(obj, options.uuid_representation)
        return _write_binary(binary, binary.subtype, options)
    return {"$uuid": obj.hex}


def _write_regex(obj: Any, options: JSONOptions) -> Any:
    flags = "".join(letter for letter, flag in _RE_FLAGS if obj.flags & flag)
    pattern = obj.pattern if isinstance(obj.pattern, str) else obj.pattern.decode("utf-8")
    if options.json_mode == _LEGACY_MODE:
        return {"$regex": pattern, "$options": flags}
    return {"$regularExpression": {"pattern": pattern, "options": flags}}


def _write_code(obj: Any, options: JSONOptions) -> Any:
    if obj.scope is None:
        return {"$code": str(obj)}
    return {"$code": str(obj), "$scope": convert(obj.scope, options)}


_Writer = Callable[[Any, Any], Any]

_WRITERS: dict[type, _Writer] = {
    bool: _write_plain,
    bytes: lambda obj, options: _write_binary(obj, 0, options),
    datetime.datetime: _write_datetime,
    DatetimeMS: _write_datetime_ms,
    float: _write_float,
    int: _write_int,
    str: _write_plain,
    type(None): _write_plain,
    uuid.UUID: _write_uuid,
    Binary: lambda obj, options: _write_binary(obj, obj.subtype, options),
    Code: _write_code,
    DBRef: lambda obj, options: convert(obj.as_doc(), options),
    Decimal128: lambda obj, options: {"$numberDecimal": str(obj)},
    Int64: _write_int64,
    MaxKey: lambda obj, options: {"$maxKey": 1},
    MinKey: lambda obj, options: {"$minKey": 1},
    ObjectId: lambda obj, options: {"$oid": str(obj)},
    re.Pattern: _write_regex,
    Regex: _write_regex,
    Timestamp: lambda obj, options: {"$timestamp": {"t": obj.time, "i": obj.inc}},
}

_MARKED: dict[int | None, _Writer] = {
    known._type_marker: writer for known, writer in _WRITERS.items() if hasattr(known, "_type_marker")
}

# The characters of a type's JSON that do not depend on the value.
_CONSTANT_SIZES: dict[type, int] = {
    ObjectId: 28,
    int: 11,
    Int64: 11,
    Decimal128: 11,
    Timestamp: 14,
    MinKey: 8,
    MaxKey: 8,
}
_SIZES: dict[type, Callable[[Any], int]] = {
    str: len,
    bytes: len,
    datetime.datetime: lambda obj: 5 + len(str(obj.time())),
    Regex: lambda obj: 18 + len(obj.pattern),
    DBRef: lambda obj: 34 + len(obj.collection),
}


def measure(obj: Any, max_size: int, current_size: int) -> int:
    """Return `current_size` plus roughly the length of `obj` as JSON; stop counting at `max_size`."""
    if current_size >= max_size:
        return current_size
    kind = type(obj)
    if kind in _CONSTANT_SIZES:
        return current_size + _CONSTANT_SIZES[kind]
    if kind in _SIZES:
        return current_size + _SIZES[kind](obj)
    if kind is Code:
        values = (obj.scope or {}).values()
        return measure(list(values), max_size, current_size + 5 + len(obj))
    if isinstance(obj, Mapping):
        for key, value in obj.items():
            current_size = measure(value, max_size, measure(key, max_size, current_size))
            if current_size >= max_size:
                break
    elif hasattr(kind, "__iter__"):
        for value in obj:
            current_size = measure(value, max_size, current_size)
            if current_size >= max_size:
                break
    return current_size
