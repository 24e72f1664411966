"""CodecOptions, TypeRegistry and JSONOptions behave as in PyMongo's package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

CODEC_OPTIONS = """
CodecOptions()
CodecOptions(SON, True, 4, "replace", utc, None, DatetimeConversion.DATETIME_MS)
CodecOptions(document_class=None), CodecOptions(document_class=UserDict)
CodecOptions(document_class=OrderedDict)
CodecOptions(document_class=MutableMapping), CodecOptions(document_class=dict[str, int])
CodecOptions(document_class=RawBSONDocument), CodecOptions(document_class=RawLike)
CodecOptions(document_class=5)
CodecOptions(document_class=list)
CodecOptions(document_class=Mapping)
CodecOptions(document_class=list[int])
CodecOptions(tz_aware=1)
CodecOptions(tz_aware=None)
CodecOptions(uuid_representation=9)
CodecOptions(uuid_representation="a")
CodecOptions(uuid_representation=None)
[CodecOptions(uuid_representation=r) for r in (0, 3, 4, 5, 6)]
CodecOptions(unicode_decode_error_handler=5)
CodecOptions(unicode_decode_error_handler=None)
CodecOptions(unicode_decode_error_handler="ignore")
CodecOptions(tzinfo=5)
CodecOptions(tzinfo=utc)
CodecOptions(tz_aware=True, tzinfo=5)
CodecOptions(tz_aware=True, tzinfo=east)
CodecOptions(type_registry=5)
CodecOptions(type_registry=TypeRegistry([decoder]))
CodecOptions(datetime_conversion=3), CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
CodecOptions(datetime_conversion="DATETIME_MS"), CodecOptions(datetime_conversion=None)
CodecOptions(foo=1)
CodecOptions() == CodecOptions(), CodecOptions() != CodecOptions(tz_aware=True), CodecOptions() == 5
hash(CodecOptions())
CodecOptions().with_options(tz_aware=True), CodecOptions()._replace(tz_aware=True)
CodecOptions().with_options(tz_aware=5)
CodecOptions().with_options(foo=1)
CodecOptions()._asdict(), CodecOptions._fields, len(CodecOptions()), CodecOptions()[0], list(CodecOptions())
CodecOptions().document_class, CodecOptions().datetime_conversion, CodecOptions().type_registry
isinstance(CodecOptions(), tuple), CodecOptions.__match_args__
bson.DEFAULT_CODEC_OPTIONS == CodecOptions()
codec_options.DEFAULT_CODEC_OPTIONS is bson.DEFAULT_CODEC_OPTIONS
list(DatetimeConversion), str(DatetimeConversion.DATETIME), f"{DatetimeConversion.DATETIME}"
DatetimeConversion(7)
codec_options._parse_codec_options({"tz_aware": True, "uuidrepresentation": 4, "foo": 1})
"""

REGISTRY = """
TypeRegistry(), TypeRegistry([decoder]), TypeRegistry((encoder(D), decoder), len)
TypeRegistry((encoder(D),)).codecs, TypeRegistry(fallback_encoder=len).fallback_encoder, bool(TypeRegistry())
TypeRegistry(encoder(D) for _ in [1])
TypeRegistry(5)
TypeRegistry([5])
TypeRegistry(fallback_encoder=5)
[TypeRegistry([encoder(int)])]
[TypeRegistry([encoder(MyInt)])]
[TypeRegistry([encoder(MyStr)])]
[TypeRegistry([encoder(type(ID16))])]
[TypeRegistry([encoder(ObjectId)])]
[TypeRegistry([encoder(re.Pattern)])]
(lambda held: [TypeRegistry([encoder(type("Mine", (held,), {}))])])(DatetimeMS)
[TypeRegistry([encoder(DatetimeMS)])]
[TypeRegistry([encoder(DBRef)])]
[TypeRegistry([encoder(Decimal128)])]
[TypeRegistry([encoder(MaxKey)])]
[TypeRegistry([encoder(MinKey)])]
[TypeRegistry([encoder(MyRegex)])]
[TypeRegistry([encoder(Regex)])]
[TypeRegistry([encoder(Timestamp)])]
[TypeRegistry([encoder(RawBSONDocument)])]
[TypeRegistry([encoder(OrderedDict)])]
[TypeRegistry([encoder(UserDict)])]
[TypeRegistry([encoder(set)])]
[TypeRegistry([encoder(date)])]
TypeRegistry() == TypeRegistry(), TypeRegistry() != TypeRegistry(), TypeRegistry() == 5
TypeRegistry([decoder]) == TypeRegistry()
(lambda d: TypeRegistry([d]) == TypeRegistry([d]))(decoder)
TypeRegistry(fallback_encoder=len) == TypeRegistry(fallback_encoder=len)
hash(TypeRegistry())
TypeEncoder()
TypeDecoder()
TypeCodec()
sorted(TypeCodec.__abstractmethods__), sorted(TypeEncoder.__abstractmethods__)
issubclass(TypeCodec, TypeEncoder), issubclass(TypeCodec, TypeDecoder)
"""

JSON_OPTIONS = """
[JSONOptions(json_mode=mode) for mode in (0, 1, 2)]
JSONOptions(None, None, None, 1, SON)
JSONOptions(document_class=SON, tz_aware=True), JSONOptions(tz_aware=True, tzinfo=east)
JSONOptions(json_mode=5)
JSONOptions(strict_number_long=True)
JSONOptions(json_mode=2, strict_number_long=False)
JSONOptions(json_mode=2, strict_uuid=False)
JSONOptions(json_mode=2, datetime_representation=2)
JSONOptions(json_mode=1, datetime_representation=0)
JSONOptions(json_mode=1, datetime_representation=7)
JSONOptions(json_mode=0, datetime_representation=7)
JSONOptions(json_mode=1, strict_uuid=False)
JSONOptions(json_mode=0, strict_uuid=True, strict_number_long=True, datetime_representation=1)
JSONOptions(foo=1)
JSONOptions(tz_aware=5)
JSONOptions().with_options(tz_aware=True)
JSONOptions(json_mode=0, strict_uuid=True).with_options(tz_aware=True)
JSONOptions().with_options(json_mode=2)
JSONOptions(json_mode=2).with_options(json_mode=0)
JSONOptions().with_options(strict_number_long=True)
JSONOptions().with_options(foo=True)
JSONOptions()._asdict(), JSONOptions(json_mode=2) == JSONOptions(json_mode=1)
isinstance(JSONOptions(), CodecOptions)
json_util.LEGACY_JSON_OPTIONS, json_util.CANONICAL_JSON_OPTIONS, json_util.RELAXED_JSON_OPTIONS
json_util.DEFAULT_JSON_OPTIONS is json_util.RELAXED_JSON_OPTIONS
JSONOptions().json_mode, JSONOptions().strict_uuid
JSONOptions().strict_number_long, JSONOptions().datetime_representation
JSONMode.LEGACY, JSONMode.RELAXED, JSONMode.CANONICAL
DatetimeRepresentation.LEGACY, DatetimeRepresentation.NUMBERLONG, DatetimeRepresentation.ISO8601
"""

ERRORS = """
[kind.__mro__[1].__name__ for kind in (InvalidBSON, InvalidStringData, InvalidDocument, errors.InvalidId)]
errors.BSONError.__mro__[1], issubclass(InvalidBSON, ValueError)
InvalidDocument("m", {"a": 1}).document, InvalidDocument("m").document, InvalidDocument("m", {"a": 1}).args
InvalidDocument()
InvalidBSON("a"), str(InvalidDocument("m", 5)), InvalidDocument(message="m", document=1).document
"""


def lines(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


@pytest.mark.parametrize("expression", lines(CODEC_OPTIONS, REGISTRY, JSON_OPTIONS, ERRORS))
def test_options_agree_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)


@pytest.mark.parametrize("package", ["mangonel.bson", "bson"])
def test_package_exports_what_the_field_exports(package: str) -> None:
    import importlib

    theirs = set(importlib.import_module("bson").__all__)
    module = importlib.import_module(package)

    assert set(module.__all__) == theirs
    assert all(hasattr(module, name) for name in theirs)
