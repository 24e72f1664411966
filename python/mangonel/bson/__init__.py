"""BSON: the types that MongoDB stores, and their encoding, under the names of the `bson` package.

The codec itself is native; this package exports it. Classes load at first use, since most programs need few of them.
Spec: bson.
"""

from __future__ import annotations

from mangonel import _light
from mangonel._core import decode, decode_all, encode
from mangonel.bson.errors import InvalidBSON, InvalidDocument, InvalidStringData
from mangonel.bson.objectid import ObjectId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mangonel.bson._enumerations import DatetimeConversion
    from mangonel.bson._streams import BSON, decode_file_iter, decode_iter, is_valid
    from mangonel.bson.binary import (
        ALL_UUID_SUBTYPES,
        CSHARP_LEGACY,
        JAVA_LEGACY,
        OLD_UUID_SUBTYPE,
        STANDARD,
        UUID_SUBTYPE,
        Binary,
        UuidRepresentation,
    )
    from mangonel.bson.code import Code
    from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
    from mangonel.bson.datetime_ms import EPOCH_AWARE, EPOCH_NAIVE, DatetimeMS
    from mangonel.bson.dbref import DBRef
    from mangonel.bson.decimal128 import Decimal128
    from mangonel.bson.int64 import Int64
    from mangonel.bson.max_key import MaxKey
    from mangonel.bson.min_key import MinKey
    from mangonel.bson.regex import RE_TYPE, Regex
    from mangonel.bson.son import SON
    from mangonel.bson.timestamp import Timestamp
    from mangonel.bson.typings import _ReadableBuffer
    from mangonel.bson.tz_util import utc

__all__ = [
    "ALL_UUID_SUBTYPES",
    "BSON",
    "BSONARR",
    "BSONBIN",
    "BSONBOO",
    "BSONCOD",
    "BSONCWS",
    "BSONDAT",
    "BSONDEC",
    "BSONINT",
    "BSONLON",
    "BSONMAX",
    "BSONMIN",
    "BSONNUL",
    "BSONNUM",
    "BSONOBJ",
    "BSONOID",
    "BSONREF",
    "BSONRGX",
    "BSONSTR",
    "BSONSYM",
    "BSONTIM",
    "BSONUND",
    "CSHARP_LEGACY",
    "DEFAULT_CODEC_OPTIONS",
    "EPOCH_AWARE",
    "EPOCH_NAIVE",
    "JAVA_LEGACY",
    "OLD_UUID_SUBTYPE",
    "RE_TYPE",
    "SON",
    "STANDARD",
    "UUID_SUBTYPE",
    "Binary",
    "Code",
    "CodecOptions",
    "DBRef",
    "DatetimeConversion",
    "DatetimeMS",
    "Decimal128",
    "Int64",
    "InvalidBSON",
    "InvalidDocument",
    "InvalidStringData",
    "MaxKey",
    "MinKey",
    "ObjectId",
    "Regex",
    "Timestamp",
    "UuidRepresentation",
    "decode",
    "decode_all",
    "decode_file_iter",
    "decode_iter",
    "encode",
    "gen_list_name",
    "get_data_and_view",
    "has_c",
    "is_valid",
    "utc",
]

# Module -> the names that it defines.
_MODULES = {
    "_streams": "BSON decode_file_iter decode_iter is_valid",
    "binary": (
        "ALL_UUID_SUBTYPES CSHARP_LEGACY JAVA_LEGACY OLD_UUID_SUBTYPE STANDARD UUID_SUBTYPE Binary "
        "UuidRepresentation"
    ),
    "code": "Code",
    "codec_options": "DEFAULT_CODEC_OPTIONS CodecOptions DatetimeConversion",
    "datetime_ms": "EPOCH_AWARE EPOCH_NAIVE DatetimeMS",
    "dbref": "DBRef",
    "decimal128": "Decimal128",
    "int64": "Int64",
    "max_key": "MaxKey",
    "min_key": "MinKey",
    "regex": "Regex RE_TYPE",
    "son": "SON",
    "timestamp": "Timestamp",
    "tz_util": "utc",
}
_HOMES = {name: f"mangonel.bson.{module}" for module, names in _MODULES.items() for name in names.split()}

# Submodules too, so that `bson.codec_options.CodecOptions` works after `import bson`.
__getattr__ = _light.late_names(__name__, _HOMES, tuple(_MODULES))


def schema_of(kind: type[Any], *_: Any) -> Any:
    """Return pydantic's schema of a BSON type, for its hook."""
    from mangonel.bson import _pydantic

    return _pydantic.schema_of(kind)


# ObjectId is native, so it gets here the hook of pydantic and FastAPI that the other classes define.
ObjectId.__get_pydantic_core_schema__ = classmethod(schema_of)  # type: ignore[method-assign,assignment]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES})


# The type byte of each element.
BSONNUM = b"\x01"
BSONSTR = b"\x02"
BSONOBJ = b"\x03"
BSONARR = b"\x04"
BSONBIN = b"\x05"
BSONUND = b"\x06"
BSONOID = b"\x07"
BSONBOO = b"\x08"
BSONDAT = b"\x09"
BSONNUL = b"\x0a"
BSONRGX = b"\x0b"
BSONREF = b"\x0c"
BSONCOD = b"\x0d"
BSONSYM = b"\x0e"
BSONCWS = b"\x0f"
BSONINT = b"\x10"
BSONTIM = b"\x11"
BSONLON = b"\x12"
BSONDEC = b"\x13"
BSONMIN = b"\xff"
BSONMAX = b"\x7f"


def has_c() -> bool:
    """Return True: the codec is always native."""
    return True


def gen_list_name() -> Iterator[bytes]:
    """Yield the keys of an array: "0", "1", "2" and so on, each with the terminating zero byte of BSON."""
    number = 0
    while True:
        yield b"%d\0" % number
        number += 1


def get_data_and_view(data: _ReadableBuffer) -> tuple[bytes | bytearray, memoryview]:
    """Return the bytes of a buffer, copied only if they are not bytes already, and a view of them.

    Args:
        data: any object with the buffer protocol.

    Raises:
        TypeError: `data` has no buffer.

    Example:
        >>> bson.get_data_and_view(bytearray(b"ab"))[0]
        bytearray(b'ab')
    """
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f'expected a bytes-like object for "data", got {type(data).__name__}') from None
    if isinstance(data, bytes | bytearray):
        return data, view
    return view.tobytes(), view
