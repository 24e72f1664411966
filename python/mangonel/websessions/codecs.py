"""Codecs of session data: MessagePack, JSON or BSON. There is no pickle here, and never will be.

Knows no record and no store. `decode` may receive an attacker's bytes, so it raises only ValueError, and quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mangonel.websessions.errors import EncodeError, UsageError

__all__ = ["CODECS", "Codec", "codec_named"]


class Codec:
    """A pair of functions and its name.

    `encode` must return the same bytes for equal values with the same key order: changes are detected by comparing
    bytes.
    """

    __slots__ = ("decode", "encode", "name", "raw_decode", "raw_encode")

    def __init__(self, name: str, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self.name = name
        self.raw_encode = encode
        self.raw_decode = decode
        self.encode = encode
        self.decode = _guarded(decode, name)

    def blame(self, value: Mapping[str, Any], error: Exception) -> EncodeError:
        """Return the error with the name of the key whose value cannot be stored."""
        for key, part in value.items():
            try:
                self.raw_encode({key: part})
            except Exception as found:
                return EncodeError(
                    f"cannot store {type(part).__name__} at {key!r} of the websession as {self.name}: {found}"
                )
        return EncodeError(f"cannot store the websession as {self.name}: {error}")


def _guarded(decode: Callable[[bytes], Any], name: str) -> Callable[[bytes], dict[str, Any]]:
    def guarded(data: bytes) -> dict[str, Any]:
        try:
            value = decode(data)
        except Exception as error:  # codecs raise different errors; RecursionError if too deep
            raise ValueError(f"expected a websession as {name}: {type(error).__name__}") from None
        if type(value) is not dict:
            raise ValueError(f"expected a mapping as {name}, got {type(value).__name__}")
        return value

    return guarded


def _bson() -> Codec:
    from mangonel.bson import decode, encode

    return Codec("bson", encode, decode)


def _msgpack() -> Codec:
    encoder = msgspec.msgpack.Encoder(enc_hook=_marked)
    return Codec("msgpack", encoder.encode, msgspec.msgpack.Decoder(ext_hook=_markup).decode)


def _plain(value: Any) -> Any:
    """Return a value of a subclass, such as numpy's float64, as one of its base class."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise NotImplementedError(f"Encoding objects of type {type(value).__name__} is unsupported")


# The extension type of HTML, such as the Markup that Flask's flash() may get.
_HTML = 1


def _marked(value: Any) -> Any:
    return (
        msgspec.msgpack.Ext(_HTML, value.__html__().encode()) if hasattr(value, "__html__") else _plain(value)
    )


def _markup(code: int, data: memoryview) -> Any:
    if code != _HTML:
        raise ValueError(code)
    text = str(data, "utf-8")
    try:
        from markupsafe import Markup
    except ImportError:
        return text
    return Markup(text)


CODECS: dict[str, Callable[[], Codec]] = {
    "msgpack": _msgpack,
    "json": lambda: Codec(
        "json", msgspec.json.Encoder(enc_hook=_plain).encode, msgspec.json.Decoder().decode
    ),
    "bson": _bson,
}


def codec_named(name: str) -> Codec:
    """Return the codec with this name.

    Raises:
        UsageError: the codec does not exist.
    """
    if name not in CODECS:
        raise UsageError(f"expected codec to be one of {', '.join(CODECS)}, got {name!r}")
    return CODECS[name]()
