"""The official bson-corpus through the public functions: bytes, values and extended JSON, both ways."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any

import pytest

from mangonel.bson import CodecOptions, DatetimeConversion, DBRef, Decimal128, InvalidBSON, decode, encode
from mangonel.bson.errors import BSONError
from mangonel.bson.json_util import JSONMode, JSONOptions, dumps, loads
from tools.official import FOLDER, NO_FOLDER

if FOLDER is None:
    pytest.skip(NO_FOLDER, allow_module_level=True)

# Dates beyond the year 9999 are kept; all other options are the defaults.
_EVERY_DATE = DatetimeConversion.DATETIME_AUTO
_CODEC = CodecOptions(tz_aware=True, datetime_conversion=_EVERY_DATE)
_CANONICAL = JSONOptions(json_mode=JSONMode.CANONICAL, tz_aware=True, datetime_conversion=_EVERY_DATE)
_RELAXED = JSONOptions(json_mode=JSONMode.RELAXED, tz_aware=True, datetime_conversion=_EVERY_DATE)


def _files() -> list[dict[str, Any]]:
    paths = sorted(Path(FOLDER or "", "bson-corpus", "tests").glob("*.json"))
    files = [{"name": path.stem, **json.loads(path.read_text(encoding="utf-8"))} for path in paths]
    assert files, "the folder holds no test"
    return files


def _cases(section: str, *needed: str) -> list[Any]:
    return [
        pytest.param(file, case, id=f"{file['name']}: {case['description']}")
        for file in _files()
        for case in file.get(section, [])
        if all(key in case for key in needed)
    ]


def _canonical_bson(file: dict[str, Any], case: dict[str, Any]) -> bytes:
    # Deprecated types are not kept: they are read as their successors.
    key = "converted_bson" if "converted_bson" in case else "canonical_bson"
    return bytes.fromhex(case[key])


def _canonical_json(case: dict[str, Any]) -> str:
    return str(case.get("converted_extjson", case["canonical_extjson"]))


def _spelled(text: str) -> str:
    """Return JSON text with normalised white space, escapes and digits of doubles, in the same order."""

    def pairs(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return [
            (key, repr(float(value)) if key == "$numberDouble" and isinstance(value, str) else value)
            for key, value in found
        ]

    return repr(json.loads(text, object_pairs_hook=pairs))


def _parsed(text: str) -> Any:
    document = loads(text, json_options=_CANONICAL)
    # A whole document that looks like a reference is read as one, and only documents can be written.
    return document.as_doc() if isinstance(document, DBRef) else document


def _written(document: Any) -> bytes:
    return encode(document, codec_options=_CODEC)


@pytest.mark.parametrize(("file", "case"), _cases("valid"))
def test_canonical_bson_round_trips(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = decode(bytes.fromhex(case["canonical_bson"]), _CODEC)

    assert _written(document) == _canonical_bson(file, case)


@pytest.mark.parametrize(("file", "case"), _cases("valid", "degenerate_bson"))
def test_degenerate_bson_is_read_and_written_canonically(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = decode(bytes.fromhex(case["degenerate_bson"]), _CODEC)

    assert _written(document) == _canonical_bson(file, case)


@pytest.mark.parametrize(("file", "case"), _cases("valid"))
def test_bson_is_written_as_canonical_json(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = decode(bytes.fromhex(case["canonical_bson"]), _CODEC)

    assert _spelled(dumps(document, json_options=_CANONICAL)) == _spelled(_canonical_json(case))


@pytest.mark.parametrize(("file", "case"), _cases("valid", "relaxed_extjson"))
def test_bson_is_written_as_relaxed_json(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = decode(bytes.fromhex(case["canonical_bson"]), _CODEC)

    assert _spelled(dumps(document, json_options=_RELAXED)) == _spelled(case["relaxed_extjson"])


@pytest.mark.parametrize(("file", "case"), _cases("valid", "relaxed_extjson"))
def test_relaxed_json_round_trips(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = loads(case["relaxed_extjson"], json_options=_RELAXED)

    assert _spelled(dumps(document, json_options=_RELAXED)) == _spelled(case["relaxed_extjson"])


@pytest.mark.parametrize(("file", "case"), _cases("valid"))
def test_canonical_json_round_trips(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = _parsed(case["canonical_extjson"])

    assert _spelled(dumps(document, json_options=_CANONICAL)) == _spelled(_canonical_json(case))
    if not case.get("lossy"):
        assert _written(document) == _canonical_bson(file, case)


@pytest.mark.parametrize(("file", "case"), _cases("valid", "degenerate_extjson"))
def test_degenerate_json_is_read_and_written_canonically(file: dict[str, Any], case: dict[str, Any]) -> None:
    document = _parsed(case["degenerate_extjson"])

    assert _spelled(dumps(document, json_options=_CANONICAL)) == _spelled(_canonical_json(case))
    if not case.get("lossy"):
        assert _written(document) == _canonical_bson(file, case)


@pytest.mark.parametrize(("file", "case"), _cases("decodeErrors"))
def test_invalid_bson_is_refused(file: dict[str, Any], case: dict[str, Any]) -> None:
    with pytest.raises(InvalidBSON):
        decode(bytes.fromhex(case["bson"]), _CODEC)


@pytest.mark.parametrize(("file", "case"), _cases("parseErrors"))
def test_invalid_text_is_refused(file: dict[str, Any], case: dict[str, Any]) -> None:
    # Some faults are in the value, and appear when it is written.
    parse = Decimal128 if file["bson_type"] == "0x13" else lambda text: _written(_parsed(text))

    with pytest.raises((BSONError, decimal.DecimalException, TypeError, ValueError, OverflowError)):
        parse(case["string"])
