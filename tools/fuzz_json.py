"""Fuzz extended JSON: random documents and mutated text go through `json_util`, its Python functions and PyMongo.

    python tools/fuzz_json.py --inputs 1000000 [--seed N]

Text: `dumps` must write the same as the Python functions and PyMongo, in each mode. Values: `loads` must read the same
as the Python functions, or raise the same error; for text that was written, its BSON must equal PyMongo's. Ends with a
line of counts, or with the input and a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from typing import Any

import bson
from bson import json_util as peer_json
from fuzz_codec import random_document

from mangonel import _core
from mangonel.bson import json_util
from mangonel.bson.json_util import JSONOptions

# Arguments of JSONOptions; the numbers mean the same in both packages.
OPTIONS: list[dict[str, Any]] = [
    {"json_mode": 1},
    {"json_mode": 2},
    {"json_mode": 0},
    {"json_mode": 1, "tz_aware": True, "datetime_conversion": 4},
    {"json_mode": 2, "uuid_representation": 4, "datetime_conversion": 4},
    {"json_mode": 0, "uuid_representation": 5, "datetime_representation": 2, "strict_number_long": True},
    {"json_mode": 1, "datetime_conversion": 3},
    {"json_mode": 0, "datetime_representation": 1, "datetime_conversion": 2, "strict_uuid": True},
]
STYLES: list[dict[str, Any]] = [{}, {}, {"ensure_ascii": False}, {"separators": (",", ":")}]
# Insertions of a mutation: fragments of JSON and of extended JSON.
PIECES = [
    *'{}[]:,"\\ \n-0123456789.eE+',
    *(
        "true",
        "null",
        "NaN",
        "-Infinity",
        "1e400",
        "123456789012345678901234567890",
        "-0",
        "1.",
        "01",
        "\\u0000",
    ),
    *("\\ud83d", "\\ud83d\\ude00", "é", "\x01", "\ufeff", '{"a": ', '"x": 1, ', '"$type": "00", ', "null"),
    *('{"$numberInt": "5"}', '{"$numberLong": "7"}', '{"$date": 5}', '{"$date": "2020-01-02T03:04:05.5Z"}'),
    *(
        '{"$date": "2020-02-30T03:04:05Z"}',
        '{"$oid": "',
        '"$regex": "a"',
        '{"$undefined": true}',
        "9223372036854775808",
    ),
    *(
        '{"$numberDecimal": "1E6145"}',
        '{"$numberDecimal": "1.0"}',
        '{"$numberDouble": "1_0"}',
        '{"$numberInt": " 5"}',
    ),
    *(
        '{"$binary": {"subType": "00", "base64": ""}}',
        '{"$binary": {"base64": "YQ==", "subType": "3"}}',
        '"$ref"',
    ),
]


def shown(value: Any) -> str:
    """Return a value as text that shows its types and its order."""
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {shown(item)}" for key, item in value.items()) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(shown, value)) + "]"
    return f"{type(value).__qualname__}({value!r})"


def outcome(read: Any, *args: Any, **kwargs: Any) -> tuple[str, str]:
    """Return the result of a call, or its error."""
    try:
        return "gave", shown(read(*args, **kwargs))
    except Exception as error:
        return type(error).__qualname__, str(error)


def mutate(source: random.Random, text: str) -> str:
    """Return the text with a few changes."""
    for _ in range(source.choice((1, 1, 2, 4))):
        at = source.randrange(len(text) + 1)
        match source.randrange(4):
            case 0:
                text = text[:at] + source.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + source.randrange(1, 6) :]
            case 2:
                text = text[:at] + source.choice(PIECES) + text[at + source.randrange(1, 4) :]
            case _:
                start = source.randrange(len(text) + 1)
                text = text[:at] + text[start : start + source.randrange(20)] + text[at:]
    return text


def check_text(data: bytes, number: int, style: dict[str, Any]) -> str | None:
    """Write a document in all three ways and compare; return the text."""
    options = JSONOptions(**OPTIONS[number])
    peer_options = peer_json.JSONOptions(**OPTIONS[number])
    ours = _core.decode(data, options)
    written = outcome(json_util.dumps, ours, json_options=options, **style)
    by_python = outcome(json_util._dumps_in_python, ours, options, **style)
    assert written == by_python, f"dumps {written}\nPython {by_python}"
    peers = bson.decode(data, peer_options)
    by_peer = outcome(peer_json.dumps, peers, json_options=peer_options, **style)
    assert (written == by_peer) or written[0] == by_peer[0] != "gave", f"dumps {written}\nPyMongo {by_peer}"
    return json_util.dumps(ours, json_options=options, **style) if written[0] == "gave" else None


def check_values(text: str, number: int) -> str:
    """Read a text in both ways and compare; return whether it was read."""
    options = JSONOptions(**OPTIONS[number])
    read = outcome(json_util.loads, text, json_options=options)
    by_python = outcome(json_util._loads_in_python, text, options)
    assert read == by_python, f"loads {read}\nPython {by_python}"
    return "read" if read[0] == "gave" else "refused"


def check_against_peer(text: str, number: int) -> None:
    """Read a written text, and compare with PyMongo's result."""
    options = JSONOptions(**OPTIONS[number])
    peer_options = peer_json.JSONOptions(**OPTIONS[number])
    try:
        theirs = bson.encode(peer_json.loads(text, json_options=peer_options), codec_options=peer_options)
    except Exception as error:
        theirs = type(error).__name__.encode()
    try:
        ours = _core.encode(json_util.loads(text, json_options=options), False, options)
    except Exception as error:
        ours = type(error).__name__.encode()
    assert ours == theirs, f"read as {ours!r}\nPyMongo {theirs!r}"


def run(inputs: int, seed: int) -> dict[str, int]:
    """Fuzz this many inputs; return counts by event."""
    source = random.Random(seed)
    counts = dict.fromkeys(("written", "read", "refused", "cannot be written"), 0)
    while sum(counts.values()) < inputs:
        # Through JSON's own types, so that both packages have their own values for the same bytes.
        data = _core.encode(random_document(source, source.choice((0, 1, 2))))
        number = source.randrange(len(OPTIONS))
        text: str | None = None
        try:
            try:
                bson.decode(data, peer_json.JSONOptions(**OPTIONS[number]))
            except (bson.InvalidBSON, ValueError):
                continue
            text = check_text(data, number, source.choice(STYLES))
            counts["written" if text else "cannot be written"] += 1
            if text is None:
                continue
            check_values(text, number)
            check_against_peer(text, number)
            whole = text
            for _ in range(10 if len(whole) < 600 else 1):
                text = mutate(source, whole if source.random() < 0.5 else source.choice(PIECES))
                counts[check_values(text, number)] += 1
        except BaseException:
            print(
                f"failed with seed {seed}, options {OPTIONS[number]}\n{data.hex()}\n{json.dumps(text)}",
                flush=True,
            )
            raise
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    arguments = parser.parse_args()
    print("done:", run(arguments.inputs, arguments.seed))


if __name__ == "__main__":
    main()
