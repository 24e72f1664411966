"""The codec options of models' documents for decoding by the driver itself."""

from __future__ import annotations

from typing import Any

from mangonel.bson.binary import UUID_SUBTYPE, Binary, UuidRepresentation
from mangonel.bson.codec_options import CodecOptions, DatetimeConversion
from mangonel.bson.raw_bson import RawBSONDocument

_NAIVE: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
_TZ_AWARE: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=UuidRepresentation.STANDARD)
# Their `unicode_decode_error_handler` and `datetime_conversion`.
_PLAIN = _NAIVE[3], _NAIVE[6]
# Any stored document can be read with these.
TOLERANT: CodecOptions[Any] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="surrogateescape"
)


def codec_options(tz_aware: bool, given: CodecOptions[Any] | None = None) -> CodecOptions[Any]:
    """Return the options that the driver decodes models' documents with.

    Args:
        tz_aware: dates have a time zone.
        given: the client's own, whose conversion of dates and handler of broken text are kept.
    """
    options = _TZ_AWARE if tz_aware else _NAIVE
    if given is None:
        return options
    kept: dict[str, Any] = {
        name: getattr(given, name)
        for name in ("datetime_conversion", "unicode_decode_error_handler")
        if getattr(given, name) != getattr(options, name)
    }
    return options.with_options(**kept) if kept else options


def loaded_id(id: Any) -> Any:
    """Convert an `_id` decoded without a model to the form of models: 16 bytes of subtype 4 become a UUID."""
    is_uuid = isinstance(id, Binary) and id.subtype == UUID_SUBTYPE and len(id) == 16
    return id.as_uuid() if is_uuid else id


def raw_collection(collection: Any) -> Any:
    """Return the same collection with undecoded documents; it encodes the values of queries as before."""
    options = collection.codec_options.with_options(document_class=RawBSONDocument)
    return collection.with_options(codec_options=options)


def conversions(given: CodecOptions[Any]) -> tuple[CodecOptions[Any], CodecOptions[Any]] | None:
    """Return the options for instances without and with time zones, or None if no conversions are set.

    Args:
        given: the options of a client or a collection.
    """
    # By position, which calls nothing: the property `datetime_conversion` takes 1 100 instructions.
    if (given[3], given[6]) == _PLAIN:
        return None
    naive = codec_options(False, given)
    return None if naive is _NAIVE else (naive, codec_options(True, given))
