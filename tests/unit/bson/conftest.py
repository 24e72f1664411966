"""Evaluates an expression with this package's `bson` and with PyMongo's."""

from __future__ import annotations

import copy
import datetime
import decimal
import importlib
import io
import pickle
import re
import struct
import types
import uuid
from collections import OrderedDict, UserDict
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy
import pytest

_MODULES = (
    "binary code codec_options dbref decimal128 datetime_ms errors int64 json_util max_key min_key objectid "
    "raw_bson regex son timestamp tz_util"
)
_OID = "5f5f5f5f5f5f5f5f5f5f5f5f"


def _world(package: str) -> dict[str, Any]:
    """Return the names for an expression: those of one `bson` package, and some of the standard library."""
    root = importlib.import_module(package)
    names: dict[str, Any] = {
        "bson": root,
        "copy": copy,
        "D": decimal.Decimal,
        "decimal": decimal,
        "date": datetime.date,
        "dt": datetime.datetime,
        "io": io,
        "Mapping": Mapping,
        "MutableMapping": MutableMapping,
        "nan": float("nan"),
        "np": numpy,
        "OrderedDict": OrderedDict,
        "pickle": pickle,
        "re": re,
        "struct": struct,
        "timedelta": datetime.timedelta,
        "UserDict": UserDict,
        "ID16": uuid.UUID("00112233445566778899aabbccddeeff"),
    }
    names |= {name: getattr(root, name) for name in root.__all__}
    for name in _MODULES.split():
        module = names[name] = importlib.import_module(f"{package}.{name}")
        public = (key for key in {*vars(module), *getattr(module, "__all__", ())} if not key.startswith("_"))
        names |= {key: getattr(module, key) for key in public if isinstance(getattr(module, key), type)}
    names["OID"] = names["ObjectId"](_OID)
    names["east"] = names["FixedOffset"](60, "east")
    names["west"] = names["FixedOffset"](-60, "west")
    names["jopts"] = names["JSONOptions"]
    names |= _subclasses(names)
    return names


def _subclasses(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return user classes derived from the package's own."""

    def encoder(python_type: type) -> Any:
        body = {"python_type": python_type, "transform_python": lambda self, value: value}
        body["__repr__"] = lambda self: f"encoder({python_type.__name__})"
        return type("Encoder", (names["TypeEncoder"],), body)()

    body = {"bson_type": names["Decimal128"], "transform_bson": lambda self, value: value.to_decimal()}
    body["__repr__"] = lambda self: "decoder"

    def shown(millis: list[int], **options: Any) -> list[Any]:
        opts = names["CodecOptions"](**options)
        return [names["DatetimeMS"](value).as_datetime(opts) for value in millis]

    return {
        "encoder": encoder,
        "shown": shown,
        "decoder": type("Decoder", (names["TypeDecoder"],), body)(),
        "MyBinary": type("MyBinary", (names["Binary"],), {}),
        "MyInt": type("MyInt", (int,), {}),
        "MyStr": type("MyStr", (str,), {}),
        "RawLike": type("RawLike", (), {"_type_marker": 101}),
        "MyRegex": type("MyRegex", (names["Regex"],), {}),
    }


OURS = _world("mangonel.bson")
FIELDS = _world("bson")


def _spelled(value: Any) -> str:
    """Return what a value looks like, without the name of the package it comes from."""
    text = f"{type(value).__module__}.{type(value).__qualname__} {value!r}"
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\bmangonel\.bson\b", "bson", text).replace("mangonel._core", "bson.objectid")


def outcome(world: Mapping[str, Any], expression: str) -> tuple[str, str]:
    """Return the result of an expression: a value as text, or the class of an exception."""
    try:
        value = eval(expression, dict(world))
    except Exception as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        return "raised", " < ".join(names)
    if isinstance(value, types.GeneratorType):
        value = list(value)
    return "gave", _spelled(value)


@pytest.fixture
def agree() -> Callable[[str], None]:
    """Assert that an expression gives the same value, or the same class of exception, with both packages."""

    def check(expression: str) -> None:
        assert outcome(OURS, expression) == outcome(FIELDS, expression)

    return check


@pytest.fixture
def ours() -> Callable[[str], Any]:
    """Evaluate an expression with this package."""
    return lambda expression: eval(expression, dict(OURS))
