"""Documents that stay bytes until somebody asks for a key. Spec: raw BSON is sent as it came.

The bytes are walked here to find the extent of each element; what an element means is left to the codec.
"""

from __future__ import annotations

from collections.abc import Mapping

from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from mangonel.bson.errors import InvalidBSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator
    from typing import Any

_RAW_BSON_DOCUMENT_MARKER = 101

_DOCUMENT = 0x03
_ARRAY = 0x04

# Bytes of the value of each element type that has a fixed size.
_FIXED = {0x01: 8, 0x06: 0, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x11: 8, 0x12: 8, 0x13: 16}
_FIXED[0x7F] = _FIXED[0xFF] = 0
# Bytes of the value beyond what its own leading length counts.
_PREFIXED = {0x02: 4, 0x03: 0, 0x04: 0, 0x05: 5, 0x0C: 16, 0x0D: 4, 0x0E: 4, 0x0F: 0}
_REGEX = 0x0B


class RawBSONDocument(Mapping[str, "Any"]):
    """A read-only document over BSON bytes; it is decoded the first time a key is asked for.

    Nested documents are RawBSONDocuments too. Encoding it copies the bytes as they are.

    Args:
        bson_bytes: one whole document.
        codec_options: how to decode the values; its `document_class` must be RawBSONDocument. None:
            DEFAULT_RAW_BSON_OPTIONS.

    Raises:
        InvalidBSON: the length or the final zero byte is wrong. Other faults show when a key is asked for.
        TypeError: `codec_options` has another document class.

    Example:
        >>> raw = RawBSONDocument(encode({"_id": 1, "name": {"first": "Ada"}}))
        >>> raw["name"]["first"]
        'Ada'
    """

    __slots__ = ("__codec_options", "__inflated_doc", "__raw")
    _type_marker = _RAW_BSON_DOCUMENT_MARKER
    __codec_options: CodecOptions[Any]
    __inflated_doc: dict[str, Any] | None

    def __init__(
        self, bson_bytes: bytes | memoryview, codec_options: CodecOptions[Any] | None = None
    ) -> None:
        self.__raw = bson_bytes
        self.__inflated_doc = None
        if codec_options is None:
            codec_options = DEFAULT_RAW_BSON_OPTIONS
        elif not issubclass(codec_options.document_class, RawBSONDocument):
            raise TypeError(
                "expected codec_options with document_class RawBSONDocument, "
                f"got {codec_options.document_class!r}"
            )
        self.__codec_options = codec_options
        _check_document(bson_bytes)

    @property
    def raw(self) -> bytes | memoryview:
        """The bytes of the document."""
        return self.__raw

    @property
    def __inflated(self) -> dict[str, Any]:
        if self.__inflated_doc is None:
            self.__inflated_doc = self._inflate_bson(self.__raw, self.__codec_options)
        return self.__inflated_doc

    @staticmethod
    def _inflate_bson(bson_bytes: bytes | memoryview, codec_options: CodecOptions[Any]) -> dict[str, Any]:
        return inflate_bson(bson_bytes, codec_options)

    def items(self) -> ItemsView[str, Any]:
        """Return a view of the keys and values."""
        return self.__inflated.items()

    def __getitem__(self, item: str) -> Any:
        return self.__inflated[item]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__inflated)

    def __len__(self) -> int:
        return len(self.__inflated)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RawBSONDocument):
            return self.__raw == other.raw
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({bytes(self.__raw)!r}, codec_options={self.__codec_options!r})"


def _check_document(data: bytes | memoryview) -> None:
    if len(data) < 5:
        raise InvalidBSON(f"expected at least 5 bytes for a document, got {len(data)}")
    size = int.from_bytes(data[:4], "little", signed=True)
    if size != len(data):
        raise InvalidBSON(f"expected a document of {size} bytes, as its length says, got {len(data)}")
    if data[-1] != 0:
        raise InvalidBSON(f"expected 0x00 at the end of the document, got 0x{data[-1]:02X}")


def _elements(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield type, start, start of the value and end of each element of a checked document.

    Raises:
        InvalidBSON: an element runs past the end, or its type is unknown.
    """
    position, last = 4, len(data) - 1
    while position < last:
        kind = data[position]
        value = data.find(0, position + 1, last) + 1
        if not value:
            raise InvalidBSON(f"expected a key that ends with 0x00 at byte {position + 1} of the document")
        if kind in _FIXED:
            end = value + _FIXED[kind]
        elif kind in _PREFIXED:
            end = value + _PREFIXED[kind] + int.from_bytes(data[value : value + 4], "little", signed=True)
        elif kind == _REGEX:
            options = data.find(0, value, last) + 1
            end = data.find(0, options, last) + 1 if options else 0
        else:
            key = data[position + 1 : value - 1].decode("utf-8", "backslashreplace")
            raise InvalidBSON(f"unknown element type 0x{kind:02X} of key {key!r}")
        # Each step moves forward: a negative length may not lead back, nor a large one out.
        if not value <= end <= last:
            raise InvalidBSON(f"the element at byte {position} runs past the end of the document")
        yield kind, position, value, end
        position = end


def inflate_bson(bson_bytes: bytes | memoryview, codec_options: CodecOptions[Any]) -> dict[str, Any]:
    """Return the top level of a document as a dict; documents inside it stay raw.

    Args:
        bson_bytes: one whole document.
        codec_options: how to decode the values; its `document_class` is made of each nested document.

    Raises:
        InvalidBSON: the bytes are no valid document.
    """
    from mangonel import _core

    _check_document(bson_bytes)
    data = bytes(bson_bytes)
    result: dict[str, Any] = {}
    plain: list[bytes] = []
    for kind, start, value, end in _elements(data):
        key = data[start + 1 : value - 1].decode("utf-8", codec_options.unicode_decode_error_handler)
        if kind == _DOCUMENT:
            result[key] = codec_options.document_class(data[value:end], codec_options)  # type: ignore[call-arg]
        elif kind == _ARRAY:
            # Its keys are positions, and only their order counts.
            result[key] = list(inflate_bson(data[value:end], codec_options).values())
        else:
            result[key] = None
            plain.append(data[start:end])
    # What is left goes through the codec in one call.
    if plain:
        body = b"".join(plain)
        document = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
        result.update(_core.decode(document, codec_options._replace(document_class=dict)))
    return result


DEFAULT_RAW_BSON_OPTIONS: CodecOptions[RawBSONDocument] = DEFAULT_CODEC_OPTIONS.with_options(
    document_class=RawBSONDocument
)
"""Options that decode to RawBSONDocument and are otherwise the defaults."""
