"""Documents that stay bytes until a key is read, and are sent unchanged.

Must not know: the layout of BSON beyond a document's length and its last byte.
"""

from __future__ import annotations

from mangonel._light import Mapping
from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from mangonel.bson.errors import InvalidBSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator
    from typing import Any

_RAW_BSON_DOCUMENT_MARKER = 101


class RawBSONDocument(Mapping[str, "Any"]):
    """A read-only document over BSON bytes; it is decoded when a key is first read.

    Nested documents are RawBSONDocuments too. Encoding copies the bytes unchanged.

    Args:
        bson_bytes: exactly one document.
        codec_options: options for decoding the values; `document_class` must be RawBSONDocument. None:
            DEFAULT_RAW_BSON_OPTIONS.

    Raises:
        InvalidBSON: the length or the final zero byte is wrong. Other faults show when a key is read.
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
        elif not isinstance(codec_options, CodecOptions):
            raise TypeError(f'expected CodecOptions for "codec_options", got {type(codec_options).__name__}')
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
        return _inflate_bson(bson_bytes, codec_options)

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
        return self.__raw == other.raw if isinstance(other, RawBSONDocument) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> Any:
        # A subclass may have its own attributes and slots.
        state: Any = super().__getstate__()
        # A memoryview cannot be pickled.
        return state[0], state[1] | {"_RawBSONDocument__raw": bytes(self.__raw)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({bytes(self.__raw)!r}, codec_options={self.__codec_options!r})"


def _check_document(data: bytes | memoryview) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"expected bytes for a document, got {type(data).__name__}")
    if len(data) < 5:
        raise InvalidBSON(f"expected at least 5 bytes for a document, got {len(data)}")
    size = int.from_bytes(data[:4], "little", signed=True)
    if size != len(data):
        raise InvalidBSON(
            f"invalid object length: expected a document of {size} bytes, as its length says, got {len(data)}"
        )
    if data[-1] != 0:
        raise InvalidBSON(f"bad eoo: expected 0x00 at the end of the document, got 0x{data[-1]:02X}")


def _inflate_bson(bson_bytes: bytes | memoryview, codec_options: CodecOptions[Any]) -> dict[str, Any]:
    """Return the top level of a document as a dict; nested documents stay raw.

    Args:
        bson_bytes: exactly one document.
        codec_options: options for decoding the values; `document_class` is called for each nested document.

    Raises:
        InvalidBSON: the bytes are not a valid document.
    """
    from mangonel._core import decode_fields

    return decode_fields(bson_bytes, codec_options)


DEFAULT_RAW_BSON_OPTIONS: CodecOptions[RawBSONDocument] = DEFAULT_CODEC_OPTIONS.with_options(
    document_class=RawBSONDocument
)
"""Options that decode to RawBSONDocument and are otherwise the defaults."""
