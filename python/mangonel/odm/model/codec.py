"""How models' documents are decoded where the driver decodes them itself."""

from __future__ import annotations

from typing import Any

from mangonel.bson.binary import UuidRepresentation
from mangonel.bson.codec_options import CodecOptions

_NAIVE: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
_TZ_AWARE: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=UuidRepresentation.STANDARD)


def codec_options(tz_aware: bool) -> CodecOptions[Any]:
    """Return the options that models are decoded with."""
    return _TZ_AWARE if tz_aware else _NAIVE
