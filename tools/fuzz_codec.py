"""Fuzz the codec: mutated documents are decoded with both ways of making dicts, compared, changed and encoded again.

    python tools/fuzz_codec.py --seconds 1200 [--seed N]

Any bytes must give a value or InvalidBSON. Both ways must agree with each other and with PyMongo, on the value and on
invalid bytes. A decoded value must survive the round trip to PyMongo's bytes, and a dict made by the fast way must
behave as a dict. Ends with a line of counts, or with the bytes and a traceback.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import time
from typing import Any

import bson as peer

from mangonel import _core
from mangonel.bson.binary import Binary
from mangonel.bson.code import Code
from mangonel.bson.codec_options import CodecOptions, DatetimeConversion
from mangonel.bson.datetime_ms import DatetimeMS
from mangonel.bson.dbref import DBRef
from mangonel.bson.decimal128 import Decimal128
from mangonel.bson.errors import InvalidBSON, InvalidDocument
from mangonel.bson.int64 import Int64
from mangonel.bson.max_key import MaxKey
from mangonel.bson.min_key import MinKey
from mangonel.bson.objectid import ObjectId
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.bson.regex import Regex
from mangonel.bson.son import SON
from mangonel.bson.timestamp import Timestamp

OPTIONS = [
    CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO),
    CodecOptions(),
    CodecOptions(tz_aware=True, uuid_representation=4, datetime_conversion=DatetimeConversion.DATETIME_CLAMP),
    CodecOptions(document_class=SON, unicode_decode_error_handler="replace"),
    CodecOptions(document_class=RawBSONDocument),
    CodecOptions(uuid_representation=5, datetime_conversion=DatetimeConversion.DATETIME_MS),
]
# The same options for PyMongo. A raw document checks nothing until a field is read, so it is not compared.
PEER_OPTIONS = [
    None
    if options.document_class is RawBSONDocument
    else peer.CodecOptions(
        document_class=peer.SON if options.document_class is SON else dict,
        tz_aware=options.tz_aware,
        uuid_representation=options.uuid_representation,
        unicode_decode_error_handler=options.unicode_decode_error_handler,
        datetime_conversion=int(options.datetime_conversion),
    )
    for options in OPTIONS
]
LENGTHS = (0, 1, 4, 5, 6, 12, 16, 127, 128, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 5, 2**32 - 1)


def random_value(source: random.Random, depth: int) -> Any:
    """Return a value of any BSON type."""
    kind = source.randrange(22 if depth else 19)
    text = "".join(source.choices("ab$.é\u1234\U0001f600\0", k=source.choice((0, 1, 2, 7, 8, 40))))
    match kind:
        case 0:
            return source.random() * 10 ** source.randrange(-300, 300)
        case 1 | 2:
            return text
        case 3:
            return source.randbytes(source.choice((0, 1, 5, 100)))
        case 4:
            return Binary(source.randbytes(16), source.choice((2, 3, 4, 5, 128)))
        case 5:
            return ObjectId(source.randbytes(12))
        case 6:
            return source.random() < 0.5
        case 7:
            return DatetimeMS(
                source.randrange(-(2**50), 2**50) if source.random() < 0.7 else source.randrange(2**63)
            )
        case 8:
            return None
        case 9:
            return Regex(text.replace("\0", ""), source.randrange(128))
        case 10:
            return DBRef(text, source.randrange(9), source.choice((None, "db")))
        case 11:
            return Code(text)
        case 12:
            return Code(text, random_document(source, depth - 1) if depth > 0 else {})
        case 13 | 14:
            return source.randrange(-(2**31), 2**31) >> source.randrange(31)
        case 15:
            return Timestamp(source.randrange(2**32), source.randrange(2**32))
        case 16:
            return Int64(source.randrange(-(2**63), 2**63) >> source.randrange(63))
        case 17:
            return Decimal128.from_bid(source.randbytes(16))
        case 18:
            return source.choice((MinKey(), MaxKey()))
        case 19:
            return [random_value(source, depth - 1) for _ in range(source.choice((0, 1, 3, 12)))]
        case _:
            return random_document(source, depth - 1)


def random_document(source: random.Random, depth: int) -> dict[str, Any]:
    """Return a document of few or many fields, with repeated or new names."""
    count = source.choice((0, 1, 2, 5, 6, 11, 22, 43) if depth > 1 else (0, 1, 3))
    names = (
        "a",
        "b",
        "_id",
        "name",
        "$ref",
        "$id",
        "a longer name",
        "x" * 15,
        "y" * 16,
        "z" * 17,
        "w" * 130,
        "é",
    )
    document = {}
    for index in range(count):
        fresh = source.random() < 0.3
        document[f"{source.random()}" if fresh else source.choice(names) + str(index % 7 or "")] = (
            random_value(source, depth)
        )
    return document


def mutate(source: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Return the bytes with a few changes."""
    mutated = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        at = source.randrange(len(mutated))
        match source.randrange(7):
            case 0:
                mutated[at] = source.randrange(256)
            case 1:
                mutated[at] ^= 1 << source.randrange(8)
            case 2:
                mutated[at : at + 4] = source.choice(LENGTHS).to_bytes(4, "little")
            case 3:
                del mutated[at : at + source.randrange(1, 9)]
            case 4:
                mutated[at:at] = source.randbytes(source.randrange(1, 9))
            case 5:
                other = source.choice(others)
                start = source.randrange(len(other))
                mutated[at : at + 8] = other[start : start + source.randrange(1, 40)]
            case 6:
                mutated[at] = source.choice(
                    b"\0\1\2\3\4\5\6\7\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x7f\xff"
                )
        if not mutated:
            mutated = bytearray(data)
    if source.random() < 0.7:
        mutated[:4] = len(mutated).to_bytes(4, "little")
    if source.random() < 0.7 and len(mutated) > 4:
        mutated[-1] = 0
    return bytes(mutated)


def outcome(data: bytes, options: CodecOptions[Any]) -> tuple[Any, str]:
    """Return the decoded value and its repr, or the error."""
    try:
        value = _core.decode(data, options)
        if isinstance(value, RawBSONDocument):
            value = _core.decode_fields(data, options)
    except InvalidBSON as error:
        return None, f"invalid: {error}"
    return value, repr(value)


def peer_outcome(data: bytes, options: peer.CodecOptions[Any]) -> tuple[Any, str]:
    """Return PyMongo's decoded value and its repr; None if it refuses the bytes."""
    try:
        value = peer.decode(data, options)
    except (peer.InvalidBSON, OverflowError, ValueError):
        return None, "invalid"
    return value, repr(value)


def peer_encoded(value: Any, options: peer.CodecOptions[Any]) -> bytes | None:
    """Return PyMongo's encoding; None if it refuses the value."""
    try:
        return peer.encode(value, codec_options=options)
    except (peer.InvalidDocument, UnicodeEncodeError, OverflowError, ValueError):
        return None


def change(source: random.Random, value: Any, twin: Any) -> None:
    """Change two equal decoded values in the same way, as a program would."""
    if not isinstance(value, dict):
        return
    keys = list(value)
    for _ in range(source.randrange(4)):
        action = source.randrange(6)
        key = source.choice(keys) if keys else "none"
        for one in (value, twin):
            match action:
                case 0:
                    one.pop(key, None)
                case 1:
                    one[key] = one
                    one[key] = 5
                case 2:
                    one.update({f"new {index}": index for index in range(12)})
                case 3:
                    one[7] = None
                case 4:
                    one.copy().clear()
                case 5:
                    one["cycle"] = [one]
    if list(value) != list(twin) or len(value) != len(twin):
        raise AssertionError("the two dicts went different ways")


def run(seconds: float, seed: int) -> dict[str, int]:
    """Fuzz for this long; return counts by event."""
    source = random.Random(seed)
    counts = dict.fromkeys(("inputs", "decoded", "refused", "encoded again", "cannot be encoded"), 0)
    corpus = [_core.encode(random_document(source, 3)) for _ in range(300)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        at = source.randrange(len(corpus))
        data = corpus[at] if source.random() < 0.1 else mutate(source, corpus[at], corpus)
        options, peer_options = source.choice(tuple(zip(OPTIONS, PEER_OPTIONS, strict=True)))
        try:
            check(source, data, options, peer_options, counts)
        except BaseException:
            print(f"failed with seed {seed} on {data.hex()}\noptions {options}", flush=True)
            raise
        counts["inputs"] += 1
        if source.random() < 0.02:
            corpus[at] = _core.encode(random_document(source, 3))
        if counts["inputs"] % 20_000 == 0:
            gc.collect()
            print(counts, flush=True)
    return counts


def check(
    source: random.Random,
    data: bytes,
    options: CodecOptions[Any],
    peer_options: peer.CodecOptions[Any] | None,
    counts: dict[str, int],
) -> None:
    """Decode both ways, compare, encode again, and use the values."""
    # More than once, because a repeated shape becomes a template.
    for _ in range(3):
        value, shown = outcome(data, options)
    # Rarely, because switching clears the tree of shapes, which must also get a chance to fill.
    is_switched = source.random() < 0.003
    if is_switched:
        _core._set_dict_layout(False)
    twin, twin_shown = outcome(data, options)
    if is_switched:
        _core._set_dict_layout(True)
    if shown != twin_shown:
        raise AssertionError(f"the two ways disagree:\n{shown}\n{twin_shown}")
    peer_value = None
    if peer_options is not None:
        peer_value, peer_shown = peer_outcome(data, peer_options)
        if (value is None) != (peer_value is None) or (
            value is not None and shown.replace("mangonel.bson", "bson") != peer_shown
        ):
            raise AssertionError(f"PyMongo disagrees:\n{shown}\n{peer_shown}")
    if value is None:
        counts["refused"] += 1
        return
    counts["decoded"] += 1
    try:
        again = _core.encode(value, False, options)
    except (InvalidDocument, UnicodeEncodeError, ValueError):
        # Leniently decoded values, such as a UUID that needs a representation, need not encode again.
        counts["cannot be encoded"] += 1
        again = None
    if peer_options is not None and again != peer_encoded(peer_value, peer_options):
        raise AssertionError(f"PyMongo encodes to other bytes\n{shown}")
    if again is not None:
        counts["encoded again"] += 1
        back, back_shown = outcome(again, options)
        if back is None or _core.encode(back, False, options) != again:
            raise AssertionError(f"the round trip changed\n{shown}\n{back_shown}")
    change(source, value, twin)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, layout {_core._set_dict_layout(True)}", flush=True)
    print("done:", run(arguments.seconds, arguments.seed))


if __name__ == "__main__":
    main()
