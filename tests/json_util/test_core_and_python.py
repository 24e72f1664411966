"""The core's extended JSON is that of the Python functions and of PyMongo; hooks and classes go on working."""

from __future__ import annotations

import datetime
import json
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from bson import json_util as peer_json

from mangonel import _core
from mangonel.bson import (
    SON,
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    json_util,
)
from mangonel.bson.json_util import CANONICAL_JSON_OPTIONS, DEFAULT_JSON_OPTIONS, JSONOptions, dumps, loads

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import fuzz_json

ID = ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f")
USUAL = {
    "_id": ID,
    "name": 'Ada é \U0001f600 "\\\n\x7f',
    "count": 5,
    "large": Int64(2**40),
    "ratio": 1e16,
    "at": datetime.datetime(2020, 1, 2, 3, 4, 5, 678000),
    "price": Decimal128("1.50"),
    "data": [b"ab", Binary(b"ab", 128), Timestamp(4, 5), None, True, Code("x"), DBRef("c", ID), MaxKey()],
    "rare": [Code("y", {"n": 1, "of": [ID]}), Code("é", {}), MinKey(), Int64(2**63 - 1), Int64(-(2**63))],
    "like": [Regex("^a", "i"), Regex("é/")],
    "deeper": {"a": {"b": [1.5, -0.0, 2**70]}},
}


@pytest.mark.parametrize("seed", range(4))
def test_random_documents_and_text_agree_three_ways(seed: int) -> None:
    counts = fuzz_json.run(1_500, seed)

    assert min(counts["written"], counts["read"], counts["refused"]) > 50


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_usual_values_stay_in_the_core(mode: int) -> None:
    options = JSONOptions(json_mode=mode)
    text = _core.json_dumps(USUAL, options, True, ", ", ": ")

    assert text is not NotImplemented
    assert text == json_util._dumps_in_python(USUAL, options)
    assert _core.json_loads(text, options) == json_util._loads_in_python(text, options)


@pytest.mark.parametrize(
    "arguments",
    [
        {"indent": 2},
        {"sort_keys": True},
        {"ensure_ascii": False},
        {"separators": (",", ":")},
        {"separators": ("→", "="), "ensure_ascii": False},
        {"default": str},
        {"cls": json.JSONEncoder},
        {"skipkeys": True, "allow_nan": False},
    ],
)
def test_arguments_of_json_dumps_do_what_they_do_there(arguments: dict[str, Any]) -> None:
    theirs = peer_json.loads(dumps(USUAL, json_options=CANONICAL_JSON_OPTIONS))

    assert dumps(USUAL, **arguments) == peer_json.dumps(theirs, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"parse_float": str},
        {"parse_int": str},
        {"parse_constant": str},
        {"object_hook": lambda found: sorted(found)},
        {"object_pairs_hook": OrderedDict},
        {"cls": json.JSONDecoder},
        {"json_options": JSONOptions(document_class=SON)},
        {"json_options": JSONOptions(document_class=OrderedDict)},
    ],
)
def test_hooks_and_classes_are_called(arguments: dict[str, Any]) -> None:
    text = '{"b": {"$numberInt": "5"}, "a": [1.5, 2, NaN, {"$date": "2020-01-02T03:04:05Z"}]}'
    peers = dict(arguments)
    if "json_options" in peers:
        peers["json_options"] = peer_json.JSONOptions(document_class=peers["json_options"].document_class)

    found, wanted = loads(text, **arguments), peer_json.loads(text, **peers)

    assert type(found).__name__ == type(wanted).__name__
    assert repr(found) == repr(wanted)


def test_class_derived_from_options_is_honoured() -> None:
    class Derived(JSONOptions):
        pass

    options = Derived(document_class=OrderedDict)

    assert loads('{"b": 1, "a": 2}', json_options=options) == OrderedDict(b=1, a=2)


def test_zone_of_the_options_is_that_of_the_dates() -> None:
    east = datetime.timezone(datetime.timedelta(hours=5))
    options = JSONOptions(tz_aware=True, tzinfo=east)

    found = loads('{"$date": "2020-01-02T03:04:05Z"}', json_options=options)

    assert found.isoformat() == "2020-01-02T08:04:05+05:00"


def test_bytes_are_read_in_each_encoding_of_json() -> None:
    text = '{"é": 1}'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"):
        assert loads(text.encode(encoding)) == {"é": 1}, encoding
    assert loads(bytearray(text.encode())) == {"é": 1}
    with pytest.raises(json.JSONDecodeError, match="BOM"):
        loads("\ufeff{}")


def test_repeated_keys_keep_the_first_place_and_the_last_value() -> None:
    assert list(loads('{"a": 1, "b": 2, "a": 3}').items()) == [("a", 3), ("b", 2)]


def test_keys_of_every_kind_are_those_of_the_python_functions() -> None:
    # The shapes are shared with BSON, whose names may hold characters that JSON escapes; each text occurs often enough
    # to be cached.
    names = [
        "a\\n",
        'a"',
        "a",
        "",
        "a\x01",
        "é",
        "k" * 15,
        "k" * 16,
        "k" * 17,
        "k" * 126,
        "k" * 127,
        "k" * 128,
        "$a",
    ]
    for name in names:
        for _ in range(3):
            _core.decode(_core.encode({name: 1, "b": 2}))
    texts = [
        r'{"a\n": 1, "b": 2}',
        r'{"a\\n": 1, "b": 2}',
        r'{"a\"": 1, "b": 2}',
        r'{"\u0061": 1, "b": 2}',
        r'{"a": 1, "\u0024oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}',
        r'{"\u0024oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}',
        r'{"b": 1, "$undefined": 2, "c": 3}',
        r'{"a": {"$a": {"$date": 5, "x": 1}}}',
        r'{"a":{"b":{"a":{"b":[]}}},"b":[{"a":1},{"b":2},{"a":{}}]}',
        r'{"a": 1, "a": {"a": 2, "a": 3}, "b": 1, "a": 4}',
        *(json.dumps({name: 1, "b": {name: [{name: "x"}]}}) for name in names),
        *(json.dumps({name: 1, "b": {name: 2}}, ensure_ascii=False, separators=(",", ":")) for name in names),
    ]
    for _ in range(4):
        for text in texts:
            found, wanted = (
                fuzz_json.outcome(read, text, DEFAULT_JSON_OPTIONS)
                for read in (
                    lambda text, options: loads(text, json_options=options),
                    json_util._loads_in_python,
                )
            )
            assert found == wanted, text


def test_objects_of_ever_new_keys_are_read_when_no_shape_has_room() -> None:
    for round in range(40):
        text = json.dumps([{f"r{round}n{number}": {"in": number}, "x": None} for number in range(300)])
        assert loads(text) == json.loads(text)


def test_text_of_any_length_and_alphabet_is_read() -> None:
    alphabets = ("a", "é", "☆", "\U0001f600", "\n", '"', "\\", "\x7f", "aé", "é☆\U0001f600a", 'a"\n')
    for alphabet in alphabets:
        for length in (0, 1, 2, 7, 8, 9, 15, 16, 17, 40):
            value = {"x" * (length % 5): (alphabet * length)[:length], "y": [alphabet]}
            for is_ascii in (True, False):
                assert loads(json.dumps(value, ensure_ascii=is_ascii)) == value


def test_text_is_made_as_the_interpreter_makes_it() -> None:
    # The last character of each width of UTF-8 and of each width of str, and the first of the next.
    edges = [
        "\x7f",
        "\x80",
        "\xff",
        "\u0100",
        "\u07ff",
        "\u0800",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
        '"',
        "\n",
    ]
    texts = [
        f"{before}{edge}{after}"
        for edge in edges
        for before in ("", "a" * 7, "é" * 9)
        for after in ("", "b" * 8, "☆")
    ]
    for text in texts:
        for found in (loads(json.dumps([text], ensure_ascii=is_ascii))[0] for is_ascii in (True, False)):
            assert found == text
            assert hash(found) == hash(text)
            assert found.isascii() is text.isascii()
            # As narrow, and a single character that the interpreter owns, which may keep its UTF-8.
            if len(text) == 1 and text <= "\xff":
                assert found is chr(ord(text))
            else:
                assert sys.getsizeof(found) == sys.getsizeof(text)


def test_iterators_are_read_once() -> None:
    assert dumps({"a": iter([1, 2]), "b": 3}) == '{"a": [1, 2], "b": 3}'


def test_deepest_nesting_of_the_core_is_followed_by_that_of_python() -> None:
    for depth in (199, 200, 201, 230):
        text = '{"a":' * depth + "[]" + "}" * depth
        assert dumps(loads(text), separators=(",", ":")) == text


def test_ctrl_c_in_a_rare_value_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    from mangonel.bson import _json_read

    def stop(*_arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(_json_read, "read", stop)
    with pytest.raises(KeyboardInterrupt):
        _core.json_loads('{"$symbol": "x"}', DEFAULT_JSON_OPTIONS)
