"""Converts JSON objects with a `$` key to BSON values. Spec: extended-json, both formats, and the older legacy one.

The first key that names a type decides. From then on, an object that is not of that type is an error.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mangonel._core import ObjectId
from mangonel.bson.binary import ALL_UUID_SUBTYPES, UUID_SUBTYPE, Binary, UuidRepresentation
from mangonel.bson.code import Code
from mangonel.bson.codec_options import DatetimeConversion
from mangonel.bson.datetime_ms import DatetimeMS, _millis_to_datetime
from mangonel.bson.dbref import DBRef
from mangonel.bson.decimal128 import Decimal128
from mangonel.bson.int64 import Int64
from mangonel.bson.max_key import MaxKey
from mangonel.bson.min_key import MinKey
from mangonel.bson.regex import Regex
from mangonel.bson.timestamp import Timestamp
from mangonel.bson.tz_util import utc

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from mangonel.bson.json_util import JSONOptions

_ISO8601 = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)T(\d\d?):(\d\d?):(\d\d?)(?:\.(\d+))?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?", re.ASCII
)
_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The value of JSONMode.CANONICAL, which is defined on a higher floor.
_CANONICAL_MODE = 2
# Other drivers once wrote subtypes as negative 32-bit numbers.
_NEGATIVE_SUBTYPES = 0xFFFF_FF80


def read(document: Mapping[str, Any], options: JSONOptions) -> Any:
    """Return the BSON value that `document` represents, or `document` itself if it represents none.

    Raises:
        TypeError: a value has the wrong type or is missing, or there is a surplus key.
        ValueError: a value does not have the format of its type.
    """
    for key in document:
        if key in _READERS:
            return _READERS[key](document, options)
    return document


def _only(document: Mapping[str, Any], key: str) -> Any:
    """Return the value of `key`; raise if there are other keys."""
    if len(document) != 1:
        extra = ", ".join(repr(other) for other in document if other != key)
        raise TypeError(f"expected {key} alone, got {extra} beside it: {document!r}")
    return document[key]


def _only_str(document: Mapping[str, Any], key: str) -> str:
    value = _only(document, key)
    if not isinstance(value, str):
        raise TypeError(f"expected str for {key}, got {type(value).__name__}: {document!r}")
    return value


def _is_bare(value: Any, options: JSONOptions) -> bool:
    """Return whether `value` is a plain number as in old exports; canonical JSON has none here."""
    return options.json_mode == _CANONICAL_MODE and not isinstance(value, str | Int64)


def _read_oid(document: Mapping[str, Any], _options: JSONOptions) -> ObjectId:
    return ObjectId(_only_str(document, "$oid"))


def _read_dbref(document: Mapping[str, Any], _options: JSONOptions) -> Any:
    # Queries use $ref and $id too, so an object that cannot be a DBRef stays unchanged.
    collection, database = document["$ref"], document.get("$db")
    if not isinstance(collection, str) or "$id" not in document:
        return document
    if database is not None and not isinstance(database, str):
        return document
    extra = {key: value for key, value in document.items() if key not in ("$ref", "$id", "$db")}
    return DBRef(collection, document["$id"], database, extra)


def _read_dbpointer(document: Mapping[str, Any], _options: JSONOptions) -> DBRef:
    value = _only(document, "$dbPointer")
    if not isinstance(value, DBRef):
        raise TypeError(f"expected $ref and $id for $dbPointer, got {value!r}")
    if set(value.as_doc()) != {"$ref", "$id"}:
        raise TypeError(f"expected $ref and $id alone for $dbPointer, got {value!r}")
    if not isinstance(value.id, ObjectId):
        raise TypeError(f"expected ObjectId for $id of $dbPointer, got {type(value.id).__name__}")
    return value


def _read_regex(document: Mapping[str, Any], _options: JSONOptions) -> Any:
    # This is also a query operator: its pattern may be a Regex already, and other keys are allowed.
    pattern = document["$regex"]
    if not isinstance(pattern, str | bytes):
        return document
    flags = document.get("$options", "")
    if not isinstance(flags, str):
        raise TypeError(f"expected str for $options, got {type(flags).__name__}: {document!r}")
    return Regex(pattern, flags)


def _read_regular_expression(document: Mapping[str, Any], _options: JSONOptions) -> Regex[str]:
    value = _components(document, "$regularExpression", "pattern", "options")
    flags = value["options"]
    if not isinstance(flags, str):
        raise TypeError(
            f'expected str for "options" of $regularExpression, got {type(flags).__name__}: {document!r}'
        )
    if "\0" in flags:
        raise ValueError(f'expected no zero byte in "options" of $regularExpression, got {flags!r}')
    return Regex(value["pattern"], flags)


def _components(document: Mapping[str, Any], key: str, *names: str) -> Any:
    value = _only(document, key)
    if not hasattr(value, "keys") or set(value) != set(names):
        expected = " and ".join(f'"{name}"' for name in names)
        raise TypeError(f"expected a document of {expected} for {key}, got {value!r}")
    return value


def _read_date(document: Mapping[str, Any], options: JSONOptions) -> datetime.datetime | DatetimeMS:
    value = _only(document, "$date")
    if isinstance(value, str):
        return _read_iso8601(value, options)
    if not isinstance(value, int | float) or _is_bare(value, options):
        raise TypeError(f"expected str or $numberLong for $date, got {type(value).__name__}: {document!r}")
    return _millis_to_datetime(int(value), options)


def _read_iso8601(text: str, options: JSONOptions) -> datetime.datetime | DatetimeMS:
    match = _ISO8601.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} does not match ISO-8601 such as 2020-01-02T03:04:05.678Z, which $date takes"
        )
    fraction, sign, hours, minutes = match.group(7, 8, 9, 10)
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    micros = int((fraction or "").ljust(6, "0")[:6])
    moment = datetime.datetime(year, month, day, hour, minute, second, micros, utc)
    if sign:
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
        moment = moment - offset if sign == "+" else moment + offset
    if options.datetime_conversion == DatetimeConversion.DATETIME_MS:
        return DatetimeMS(moment)
    if not options.tz_aware:
        return moment.replace(tzinfo=None)
    return moment.astimezone(options.tzinfo) if options.tzinfo else moment


def _binary_or_uuid(data: bytes, subtype: int, options: JSONOptions) -> bytes | Binary | UUID:
    if subtype == 0:
        return data
    binary = Binary(data, subtype)
    representation = options.uuid_representation
    if subtype not in ALL_UUID_SUBTYPES or representation == UuidRepresentation.UNSPECIFIED:
        return binary
    # The subtype overrides the option: 4 is always standard, and 3 never is.
    if subtype == UUID_SUBTYPE:
        representation = UuidRepresentation.STANDARD
    elif representation == UuidRepresentation.STANDARD:
        representation = UuidRepresentation.PYTHON_LEGACY
    return binary.as_uuid(representation)


def _read_binary(document: Mapping[str, Any], options: JSONOptions) -> Any:
    value, subtype = document["$binary"], document.get("$type")
    if "$type" in document:
        number = subtype if isinstance(subtype, int) else _subtype(subtype, 8)
        # The last two digits are the subtype.
        return _binary_or_uuid(
            _base64(value), number & 0xFF if number >= _NEGATIVE_SUBTYPES else number, options
        )
    if not hasattr(value, "keys") or set(value) != {"base64", "subType"}:
        raise TypeError(f'expected a document of "base64" and "subType" for $binary, got {value!r}')
    return _binary_or_uuid(_base64(value["base64"]), _subtype(value["subType"], 2), options)


def _subtype(text: Any, longest: int) -> int:
    if not isinstance(text, str) or len(text) > longest:
        raise TypeError(f"expected at most {longest} hex digits for the subtype of $binary, got {text!r}")
    return int(text, 16)


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"expected base64 text for $binary, got {type(text).__name__}")
    return base64.b64decode(text.encode())


def _read_uuid(document: Mapping[str, Any], options: JSONOptions) -> Binary | UUID:
    from uuid import UUID

    text = _only_str(document, "$uuid")
    # The UUID class itself accepts hyphens anywhere, braces and more.
    if _UUID.fullmatch(text) is None:
        raise ValueError(f"expected 32 hex digits, or 8-4-4-4-12 of them, for $uuid, got {text!r}")
    value = UUID(text)
    if options.uuid_representation == UuidRepresentation.UNSPECIFIED:
        return Binary.from_uuid(value)
    return value


def _read_code(document: Mapping[str, Any], _options: JSONOptions) -> Code:
    if not document.keys() <= {"$code", "$scope"}:
        raise TypeError(f"expected $code and $scope alone, got {document!r}")
    return Code(document["$code"], document.get("$scope"))


def _read_number_long(document: Mapping[str, Any], options: JSONOptions) -> Int64:
    value = _only(document, "$numberLong")
    if not isinstance(value, str | int | float) or _is_bare(value, options):
        raise TypeError(f"expected str for $numberLong, got {type(value).__name__}: {document!r}")
    return Int64(value)


def _read_timestamp(document: Mapping[str, Any], _options: JSONOptions) -> Timestamp:
    if len(document) != 1:
        extra = sorted(name for name in document if name != "$timestamp")
        raise TypeError(f"Bad $timestamp, extra field(s): {', '.join(extra)} in {document!r}")
    value = document["$timestamp"]
    if not hasattr(value, "keys"):
        raise TypeError(f"$timestamp value must be a document, not {value!r}")
    if set(value) != {"t", "i"}:
        raise TypeError(f'$timestamp must include exactly "t" and "i" components, not {value!r}')
    return Timestamp(value["t"], value["i"])


def _read_min_key(document: Mapping[str, Any], _options: JSONOptions) -> MinKey:
    _check_one(document, "$minKey")
    return MinKey()


def _read_max_key(document: Mapping[str, Any], _options: JSONOptions) -> MaxKey:
    _check_one(document, "$maxKey")
    return MaxKey()


def _check_one(document: Mapping[str, Any], key: str) -> None:
    value = _only(document, key)
    # In canonical text the int may already be an Int64; a bool is an error.
    if isinstance(value, bool) or not isinstance(value, int) or value != 1:
        raise TypeError(f"expected 1 for {key}, got {value!r}")


_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "$oid": _read_oid,
    "$ref": _read_dbref,
    "$date": _read_date,
    "$regex": _read_regex,
    "$minKey": _read_min_key,
    "$maxKey": _read_max_key,
    "$binary": _read_binary,
    "$code": _read_code,
    "$uuid": _read_uuid,
    "$undefined": lambda document, options: None,
    "$numberLong": _read_number_long,
    "$timestamp": _read_timestamp,
    "$numberDecimal": lambda document, options: Decimal128(_only_str(document, "$numberDecimal")),
    "$dbPointer": _read_dbpointer,
    "$regularExpression": _read_regular_expression,
    "$symbol": lambda document, options: str(_only(document, "$symbol")),
    "$numberInt": lambda document, options: int(_only_str(document, "$numberInt")),
    "$numberDouble": lambda document, options: float(_only_str(document, "$numberDouble")),
}
