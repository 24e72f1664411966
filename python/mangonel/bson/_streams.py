"""Sequences of documents in bytes and files, and the class `BSON` that old programs use.

`mangonel.bson` exports all of it. Must not know: the meaning of options, which only the codec knows.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._core import decode, encode
from mangonel._light import overload
from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from mangonel.bson.errors import InvalidBSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO, Any, BinaryIO

    from mangonel.bson.typings import _DocumentType

# The shortest document: its length and the final zero byte.
_SHORTEST = 5
# The most bytes to request from a file at once, so that a wrong length cannot request gigabytes.
_READ_AT_ONCE = 1 << 20


@overload
def decode_iter(data: bytes, codec_options: None = None) -> Iterator[dict[str, Any]]: ...
@overload
def decode_iter(data: bytes, codec_options: CodecOptions[_DocumentType]) -> Iterator[_DocumentType]: ...
def decode_iter(data: bytes, codec_options: CodecOptions[Any] | None = None) -> Iterator[Any]:
    """Yield the documents stored one after another in `data`, decoding each when it is requested.

    Args:
        data: the documents.
        codec_options: options for decoding. None: DEFAULT_CODEC_OPTIONS.

    Raises:
        InvalidBSON: a document is truncated or invalid; the documents before it were yielded.
        TypeError: `codec_options` is not a CodecOptions.

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
    """Yield the documents stored one after another in a file, holding one at a time in memory.

    Args:
        file_obj: a file opened for reading bytes, for example a `.bson` file of `mongodump`.
        codec_options: options for decoding. None: DEFAULT_CODEC_OPTIONS.

    Raises:
        InvalidBSON: a document is truncated or invalid; the documents before it were yielded.
        TypeError: `codec_options` is not a CodecOptions.

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
    """Return the document length in the first four bytes."""
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
    """Return whether `bson` is exactly one valid document that the default options can decode.

    Args:
        bson: the bytes to check.

    Raises:
        TypeError: `bson` is not bytes.

    Example:
        >>> bson.is_valid(bson.encode({"n": 1}))
        True
    """
    expect("bson", bson, bytes, "bytes")
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

    def decode(  # type: ignore[override]  # bytes decode to text; PyMongo's name
        self, codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS
    ) -> dict[str, Any]:
        """Return the document; see the function `decode`."""
        return decode(self, codec_options)


# Programs, and pickles, know the class under this module.
BSON.__module__ = "mangonel.bson"
