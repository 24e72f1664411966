"""BSON: the types MongoDB stores, and the way to bytes and back, under the names of the `bson` package.

The codec itself is native; what is here names it, and reads streams of documents. Spec: bson.
"""

from __future__ import annotations

import datetime
import re

from mangonel._core import decode, decode_all, encode
from mangonel._light import overload
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
from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, DatetimeConversion
from mangonel.bson.datetime_ms import EPOCH_AWARE, EPOCH_NAIVE, DatetimeMS
from mangonel.bson.dbref import DBRef
from mangonel.bson.decimal128 import Decimal128
from mangonel.bson.errors import InvalidBSON, InvalidDocument, InvalidStringData
from mangonel.bson.int64 import Int64
from mangonel.bson.max_key import MaxKey
from mangonel.bson.min_key import MinKey
from mangonel.bson.objectid import ObjectId
from mangonel.bson.regex import Regex
from mangonel.bson.son import SON
from mangonel.bson.timestamp import Timestamp
from mangonel.bson.tz_util import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO, Any, BinaryIO

    from mangonel.bson.typings import _DocumentType, _ReadableBuffer

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

# The byte in front of each element, by type.
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

RE_TYPE = re.Pattern

# Shortest document: its length and the final zero byte.
_SHORTEST = 5
# How much of a document is asked of a file at once, so that a wrong length cannot ask for gigabytes.
_READ_AT_ONCE = 1 << 20


@overload
def decode_iter(data: bytes, codec_options: None = None) -> Iterator[dict[str, Any]]: ...
@overload
def decode_iter(data: bytes, codec_options: CodecOptions[_DocumentType]) -> Iterator[_DocumentType]: ...
def decode_iter(data: bytes, codec_options: CodecOptions[Any] | None = None) -> Iterator[Any]:
    """Yield the documents that stand one after another in `data`, each decoded when it is asked for.

    Args:
        data: the documents.
        codec_options: how to decode them. None: DEFAULT_CODEC_OPTIONS.

    Raises:
        InvalidBSON: a document is cut off or not valid; those before it were yielded.
        TypeError: `codec_options` is no CodecOptions.

    Example:
        >>> list(decode_iter(encode({"a": 1}) + encode({"b": 2})))
        [{'a': 1}, {'b': 2}]
    """
    _check_codec_options(codec_options)
    return _decode_iter(data, codec_options)


def _decode_iter(data: bytes, codec_options: CodecOptions[Any] | None) -> Iterator[Any]:
    position, end = 0, len(data)
    while position < end:
        size = _size(data[position : position + 4], f"at byte {position}")
        if size > end - position:
            raise InvalidBSON(
                f"expected a document of {size} bytes at byte {position}, got {end - position} bytes"
            )
        yield decode(data[position : position + size], codec_options)
        position += size


@overload
def decode_file_iter(
    file_obj: BinaryIO | IO[bytes], codec_options: None = None
) -> Iterator[dict[str, Any]]: ...
@overload
def decode_file_iter(
    file_obj: BinaryIO | IO[bytes], codec_options: CodecOptions[_DocumentType]
) -> Iterator[_DocumentType]: ...
def decode_file_iter(
    file_obj: BinaryIO | IO[bytes], codec_options: CodecOptions[Any] | None = None
) -> Iterator[Any]:
    """Yield the documents that stand one after another in a file, holding one at a time in memory.

    Args:
        file_obj: a file opened for reading bytes, for example a `mongodump` archive member.
        codec_options: how to decode them. None: DEFAULT_CODEC_OPTIONS.

    Raises:
        InvalidBSON: a document is cut off or not valid; those before it were yielded.
        TypeError: `codec_options` is no CodecOptions.

    Example:
        >>> import io
        >>> file = io.BytesIO(bson.encode({"n": 1}) + bson.encode({"n": 2}))
        >>> [document["n"] for document in bson.decode_file_iter(file)]
        [1, 2]
    """
    _check_codec_options(codec_options)
    return _decode_file_iter(file_obj, codec_options)


def _decode_file_iter(
    file_obj: BinaryIO | IO[bytes], codec_options: CodecOptions[Any] | None
) -> Iterator[Any]:
    while head := file_obj.read(4):
        missing = _size(head, "in the file") - 4
        parts = [head]
        while missing:
            part = file_obj.read(min(missing, _READ_AT_ONCE))
            if not part:
                raise InvalidBSON(f"expected {missing} more bytes of a document, got the end of the file")
            parts.append(part)
            missing -= len(part)
        yield decode(b"".join(parts), codec_options)


def _size(head: bytes, where: str) -> int:
    """Return the length that the first four bytes of a document state."""
    if len(head) < 4:
        raise InvalidBSON(f"expected the 4 bytes of a document's length {where}, got {len(head)}")
    size = int.from_bytes(head, "little", signed=True)
    if size < _SHORTEST:
        raise InvalidBSON(f"expected a document of at least {_SHORTEST} bytes {where}, got length {size}")
    return size


def _check_codec_options(codec_options: object) -> None:
    if codec_options is not None and not isinstance(codec_options, CodecOptions):
        raise TypeError(f'expected CodecOptions for "codec_options", got {type(codec_options).__name__}')


def is_valid(bson: bytes) -> bool:
    """Tell whether `bson` is one whole valid document that the default options can decode.

    Args:
        bson: what to look at.

    Raises:
        TypeError: `bson` is not bytes.

    Example:
        >>> bson.is_valid(bson.encode({"n": 1}))
        True
    """
    if not isinstance(bson, bytes):
        raise TypeError(f'expected bytes for "bson", got {type(bson).__name__}')
    try:
        decode(bson)
    except InvalidBSON:
        return False
    return True


class BSON(bytes):
    """One document as bytes. The functions `encode` and `decode` do the same without this class."""

    @classmethod
    def encode(
        cls: type[BSON],
        document: Mapping[str, Any],
        check_keys: bool = False,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
    ) -> BSON:
        """Return `document` as BSON; see the function `encode`."""
        return cls(encode(document, check_keys, codec_options))

    def decode(  # type: ignore[override]
        self, codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS
    ) -> dict[str, Any]:
        """Return the document; see the function `decode`."""
        document: dict[str, Any] = decode(self, codec_options)
        return document


def has_c() -> bool:
    """Return True: the codec is always native."""
    return True


def gen_list_name() -> Iterator[bytes]:
    """Yield the keys of an array: "0", "1", "2" and so on, each with the zero byte that ends it in BSON."""
    number = 0
    while True:
        yield b"%d\0" % number
        number += 1


def get_data_and_view(data: _ReadableBuffer) -> tuple[bytes | bytearray, memoryview]:
    """Return the bytes of a buffer, copied only if they are not bytes yet, and a view of it.

    Args:
        data: any object with a buffer.

    Example:
        >>> bson.get_data_and_view(bytearray(b"ab"))[0]
        bytearray(b'ab')
    """
    view = memoryview(data)
    if isinstance(data, bytes | bytearray):
        return data, view
    return view.tobytes(), view


def _built_in_types() -> tuple[Any, ...]:
    """Return the types that the encoder handles by itself; no TypeEncoder may change them."""
    from collections.abc import Mapping
    from uuid import UUID

    return (
        *(bool, bytes, datetime.datetime, DatetimeMS, dict, float, int, list, str, tuple, type(None), UUID),
        *(Binary, Int64, Code, DBRef, MaxKey, MinKey, ObjectId, Regex, re.Pattern, SON, Timestamp),
        *(Decimal128, Mapping),
    )
