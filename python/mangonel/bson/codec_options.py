"""Codec options: how BSON becomes Python objects and back, with hooks for your own types.

Must not know: the codec that reads them.
"""

from __future__ import annotations

import abc
import datetime

from mangonel import _light
from mangonel._arguments import expect
from mangonel._light import Iterable, MutableMapping, TypeVar
from mangonel.bson.binary import (
    ALL_UUID_REPRESENTATIONS,
    UUID_REPRESENTATION_NAMES,
    UuidRepresentation,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterable,
        Iterator,
        Mapping,
    )
    from typing import Any, ClassVar, Generic, Self

    from mangonel.bson._enumerations import DatetimeConversion as DatetimeConversion

    _Fallback = Callable[[Any], Any]

__all__ = [
    "ALL_UUID_REPRESENTATIONS",
    "DEFAULT_CODEC_OPTIONS",
    "UUID_REPRESENTATION_NAMES",
    "CodecOptions",
    "DatetimeConversion",
    "TypeCodec",
    "TypeDecoder",
    "TypeEncoder",
    "TypeRegistry",
    "UuidRepresentation",
]

_DocumentType = TypeVar("_DocumentType", bound="Mapping[str, Any]", default="dict[str, Any]")

_RAW_BSON_DOCUMENT_MARKER = 101
# `DatetimeConversion.DATETIME`.
_DATETIME: Any = 1
# That member, once asked for: the import statement takes 2 µs even then.
_members: dict[int, DatetimeConversion] = {}


class TypeEncoder(abc.ABC):
    """Converts values of one Python type to a type that BSON can store; subclass it.

    Example:
        >>> class FractionEncoder(TypeEncoder):
        ...     python_type = Fraction
        ...     def transform_python(self, value):
        ...         return [value.numerator, value.denominator]
    """

    @property
    @abc.abstractmethod
    def python_type(self) -> Any:
        """The type to encode. Its subclasses are not included."""

    @abc.abstractmethod
    def transform_python(self, value: Any) -> Any:
        """Return a value that can be encoded in place of `value`."""


class TypeDecoder(abc.ABC):
    """Converts decoded values of one type to another type; subclass it."""

    @property
    @abc.abstractmethod
    def bson_type(self) -> Any:
        """The type of the decoded values to transform, for example Decimal128."""

    @abc.abstractmethod
    def transform_bson(self, value: Any) -> Any:
        """Return the replacement of the decoded `value`."""


class TypeCodec(TypeEncoder, TypeDecoder):
    """Both directions in one class; subclass it."""


class TypeRegistry:
    """The type hooks of a CodecOptions.

    Args:
        type_codecs: TypeEncoder, TypeDecoder and TypeCodec objects; for each type the last one wins.
        fallback_encoder: called with a value of an unknown type; returns a value that can be encoded.

    Raises:
        TypeError: an element is not a codec, an encoder is for a type that BSON stores already, or `fallback_encoder`
            is not callable.
    """

    def __init__(
        self,
        type_codecs: Iterable[TypeEncoder | TypeDecoder | TypeCodec] | None = None,
        fallback_encoder: _Fallback | None = None,
    ) -> None:
        if type_codecs is not None and not isinstance(type_codecs, Iterable):
            raise TypeError(f'expected a list of codecs for "type_codecs", got {type(type_codecs).__name__}')
        self.__type_codecs = list(type_codecs or [])
        self._fallback_encoder = fallback_encoder
        self._encoder_map: dict[Any, Any] = {}
        self._decoder_map: dict[Any, Any] = {}
        if fallback_encoder is not None and not callable(fallback_encoder):
            raise TypeError(f"fallback_encoder {fallback_encoder!r} is not a callable")
        for codec in self.__type_codecs:
            if not isinstance(codec, TypeEncoder | TypeDecoder):
                raise TypeError(
                    f"Expected an instance of TypeEncoder, TypeDecoder, or TypeCodec, got {codec!r} instead"
                )
            if isinstance(codec, TypeEncoder):
                _check_type_encoder(codec)
                self._encoder_map[codec.python_type] = codec.transform_python
            if isinstance(codec, TypeDecoder):
                self._decoder_map[codec.bson_type] = codec.transform_bson

    @property
    def codecs(self) -> list[TypeEncoder | TypeDecoder | TypeCodec]:
        """The codecs passed to the constructor."""
        return self.__type_codecs

    @property
    def fallback_encoder(self) -> _Fallback | None:
        """The fallback passed to the constructor, or None."""
        return self._fallback_encoder

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(type_codecs={self.__type_codecs!r}, "
            f"fallback_encoder={self._fallback_encoder!r})"
        )

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (
            self._decoder_map == other._decoder_map
            and self._encoder_map == other._encoder_map
            and self._fallback_encoder == other._fallback_encoder
        )

    __hash__ = None  # type: ignore[assignment]


def _check_type_encoder(codec: TypeEncoder) -> None:
    """Refuse an encoder for a built-in BSON type: readers could not tell the two encodings apart."""
    import re
    from collections.abc import Mapping
    from uuid import UUID

    basic = (bool, bytes, datetime.datetime, dict, float, int, list, str, tuple, type(None))
    for built_in in (*basic, UUID, re.Pattern, Mapping, *_own_bases(codec.python_type)):
        if issubclass(codec.python_type, built_in):
            raise TypeError(
                f"expected an encoder for a type that BSON does not hold, got {codec!r} for {built_in}"
            )


def _own_bases(python_type: Any) -> list[type]:
    """Return the bases that are classes of this package; a marker identifies them without an import."""
    bases = getattr(python_type, "__mro__", ())
    return [
        base for base in bases if "_type_marker" in vars(base) and base.__module__.startswith("mangonel.bson")
    ]


__getattr__ = _light.late_names(__name__, {"DatetimeConversion": "mangonel.bson._enumerations"})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    # For type checkers: a named tuple cannot express the class of decoded documents.
    class _BaseCodecOptions(tuple[Any, ...], Generic[_DocumentType]):
        _fields: ClassVar[tuple[str, ...]]
        document_class: type[_DocumentType]
        tz_aware: bool
        uuid_representation: int
        unicode_decode_error_handler: str
        tzinfo: datetime.tzinfo | None
        type_registry: TypeRegistry
        datetime_conversion: DatetimeConversion | None

        def _asdict(self) -> dict[str, Any]:
            raise NotImplementedError

        def _replace(self, **kwargs: Any) -> Self:
            raise NotImplementedError

else:
    # The native half of `collections`.
    from _collections import _tuplegetter

    class _BaseCodecOptions(tuple):
        """What `namedtuple` would make; the last field's default is a number, since importing `enum` takes long."""

        __slots__ = ()
        _fields = (
            "document_class",
            "tz_aware",
            "uuid_representation",
            "unicode_decode_error_handler",
            "tzinfo",
            "type_registry",
            "datetime_conversion",
        )
        __match_args__ = _fields

        document_class = _tuplegetter(0, "The class that documents become.")
        tz_aware = _tuplegetter(1, "Whether dates become aware datetimes.")
        uuid_representation = _tuplegetter(2, "How UUIDs are stored, one of UuidRepresentation.")
        unicode_decode_error_handler = _tuplegetter(3, "How bytes that are not UTF-8 are decoded.")
        tzinfo = _tuplegetter(4, "The time zone of aware datetimes, or None for UTC.")
        type_registry = _tuplegetter(5, "The hooks for the user's own types.")
        # The codec uses the member's number.
        _datetime_conversion = _tuplegetter(6, "The Python type of decoded dates, as a number or a member.")

        @property
        def datetime_conversion(self) -> DatetimeConversion | None:
            """The Python type of decoded dates, one of DatetimeConversion."""
            kept = self[6]
            if kept is not _DATETIME:
                return kept
            found = _members.get(kept)
            if found is None:
                from mangonel.bson._enumerations import DatetimeConversion

                found = _members[kept] = DatetimeConversion.DATETIME
            return found

        def __iter__(self) -> Iterator[Any]:
            return (getattr(self, name) for name in self._fields)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            return cls(*values)

        def _asdict(self) -> dict[str, Any]:
            return {name: getattr(self, name) for name in self._fields}

        def _replace(self, **kwargs: Any) -> Self:
            return type(self)(**{**self._asdict(), **kwargs})

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)


class CodecOptions(_BaseCodecOptions[_DocumentType]):
    """Options of the codec; an immutable named tuple.

    Args:
        document_class: the class of decoded documents: dict, SON, RawBSONDocument, or any MutableMapping class. None:
            dict.
        tz_aware: True: dates are decoded as aware datetimes (in UTC, unless `tzinfo` is set). False: as naive datetimes
            in UTC.
        uuid_representation: how `uuid.UUID` is stored, one of UuidRepresentation.
        unicode_decode_error_handler: what to do with bytes that are not UTF-8: strict, replace,
            backslashreplace, surrogateescape or ignore.
        tzinfo: time zone that aware datetimes are converted to. Needs `tz_aware`.
        type_registry: hooks for your own types.
        datetime_conversion: the Python type of decoded dates, one of DatetimeConversion.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: `uuid_representation` is unknown, or `tzinfo` is given without `tz_aware`.

    Example:
        >>> CodecOptions(tz_aware=True).with_options(document_class=SON).tz_aware
        True
    """

    def __new__(
        cls,
        document_class: type[_DocumentType] | None = None,
        tz_aware: bool = False,
        uuid_representation: int | None = UuidRepresentation.UNSPECIFIED,
        unicode_decode_error_handler: str = "strict",
        tzinfo: datetime.tzinfo | None = None,
        type_registry: TypeRegistry | None = None,
        datetime_conversion: DatetimeConversion | None = _DATETIME,
    ) -> Self:
        chosen: Any = dict if document_class is None else document_class
        if chosen is not dict:
            _check_document_class(chosen)
        if not isinstance(tz_aware, bool):
            raise TypeError(f'expected bool for "tz_aware", got {tz_aware!r}')
        if uuid_representation not in ALL_UUID_REPRESENTATIONS:
            raise ValueError(
                f'expected a UuidRepresentation for "uuid_representation", got {uuid_representation!r}'
            )
        if not isinstance(unicode_decode_error_handler, str):
            raise TypeError(
                'expected str for "unicode_decode_error_handler", '
                f"got {type(unicode_decode_error_handler).__name__}"
            )
        if tzinfo is not None:
            expect("tzinfo", tzinfo, datetime.tzinfo, "datetime.tzinfo")
            if not tz_aware:
                raise ValueError('"tzinfo" needs "tz_aware": naive datetimes have no time zone')
        if type_registry is None:
            type_registry = TypeRegistry()
        elif not isinstance(type_registry, TypeRegistry):
            raise TypeError(f'expected TypeRegistry for "type_registry", got {type(type_registry).__name__}')
        return tuple.__new__(
            cls,
            (
                chosen,
                tz_aware,
                uuid_representation,
                unicode_decode_error_handler,
                tzinfo,
                type_registry,
                datetime_conversion,
            ),
        )

    def _arguments_repr(self) -> str:
        """Return the arguments as `repr` shows them; subclasses add theirs."""
        shown = {name: repr(value) for name, value in self._asdict().items()}
        if self.document_class is dict:
            shown["document_class"] = "dict"
        uuids = self.uuid_representation
        shown["uuid_representation"] = str(UUID_REPRESENTATION_NAMES.get(uuids, uuids))
        # As format() shows them: the enum's member, or the plain int or str passed in its place.
        shown["datetime_conversion"] = str(self.datetime_conversion)
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._arguments_repr()})"

    def with_options(self, **kwargs: Any) -> CodecOptions[Any]:
        """Return these options with some of them replaced.

        Raises:
            TypeError: an option is unknown or has the wrong type.

        Example:
            >>> CodecOptions().with_options(tz_aware=True).tz_aware
            True
        """
        return CodecOptions(**{**self._asdict(), **kwargs})


def _check_document_class(document_class: Any) -> None:
    # `dict[str, Any]` and the like create objects of their origin.
    plain = getattr(document_class, "__origin__", document_class)
    if getattr(plain, "_type_marker", None) == _RAW_BSON_DOCUMENT_MARKER:
        return
    if isinstance(plain, type) and issubclass(plain, MutableMapping):
        return
    raise TypeError(
        'expected dict, SON, RawBSONDocument or a MutableMapping class for "document_class", '
        f"got {document_class!r}"
    )


DEFAULT_CODEC_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions()


def _parse_codec_options(options: Any) -> CodecOptions[Any]:
    """Return the CodecOptions in a mapping of URI or client options; other options are ignored."""
    names = {name.replace("_", ""): name for name in CodecOptions._fields}
    found = {names[key.replace("_", "")]: options[key] for key in options if key.replace("_", "") in names}
    return CodecOptions(**found)
