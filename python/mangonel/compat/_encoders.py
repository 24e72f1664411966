"""`bson._ENCODERS`: the types that BSON knows, each with a function that encodes one element."""

from __future__ import annotations

import datetime as datetime  # programs import it from `bson`
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel.bson import (
    SON,
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mangonel.bson.codec_options import CodecOptions


def _name_value_to_bson(name: bytes, value: Any, check_keys: bool, opts: CodecOptions[Any]) -> bytes:
    """Return one element of a document; `name` ends with its zero byte."""
    return encode({name[:-1].decode(): value}, check_keys, opts)[4:-1]


_TYPES = (
    bool,
    bytes,
    datetime.datetime,
    DatetimeMS,
    dict,
    float,
    int,
    list,
    str,
    tuple,
    type(None),
    uuid.UUID,
    Binary,
    Int64,
    Code,
    DBRef,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    re.Pattern,
    SON,
    Timestamp,
    Decimal128,
    Mapping,
)
_ENCODERS: dict[type, Callable[[bytes, Any, bool, CodecOptions[Any]], bytes]] = dict.fromkeys(
    _TYPES, _name_value_to_bson
)
