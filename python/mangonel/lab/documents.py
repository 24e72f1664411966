"""Benchmark documents, generated with a fixed seed in the shapes that the driver benchmarking
specification publishes (key counts, types, nesting, sizes). Nothing is copied from its data files.

BSON types come from the contender's own module, passed as `types`.
Spec: driver benchmarking.
"""

from __future__ import annotations

import datetime
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mangonel.lab.contender import Document

SEED = 20_151_121
EPOCH = datetime.datetime(2015, 11, 1)
LETTERS = string.ascii_letters + string.digits
CITIES = ("Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi")
LARGE_FIELDS = 94_355
# Strings and numbers are random, as in the others.
TWEET = Path(__file__).with_name("tweet.json").read_text()


def flat(types: Any) -> Document:
    """An id, 48 strings of 80 characters, and 24 each of int32, int64, double and boolean, all at top level."""
    source = random.Random(SEED)
    makers: list[Callable[[], Any]] = [
        *[lambda: _text(source, 80)] * 48,
        *[lambda: source.randrange(10, 1000)] * 24,
        *[lambda: source.randrange(2**55, 2**62)] * 24,
        *[lambda: source.uniform(-1e3, 1e3)] * 24,
        *[lambda: source.random() < 0.5] * 24,
    ]
    source.shuffle(makers)
    return {"_id": types.ObjectId(source.randbytes(12)), **{_text(source, 8): make() for make in makers}}


def deep() -> Document:
    """A binary tree of documents six levels deep, with leaves of two strings of 8 characters."""
    source = random.Random(SEED + 1)

    def branch(depth: int) -> Document:
        if depth == 0:
            return {"leftValue": _text(source, 8), "rightValue": _text(source, 8)}
        return {"left": branch(depth - 1), "right": branch(depth - 1)}

    return branch(5)


def full(types: Any) -> Document:
    """91 fields of all BSON types: dates, binaries, codes with a scope, regular expressions, keys."""
    source = random.Random(SEED + 2)

    def number() -> int:
        return source.randrange(10, 1000)

    def scope() -> Document:
        return {_text(source, 8): number() for _ in range(source.choice((0, 0, 3, 5)))}

    makers: list[Callable[[], Any]] = [
        *[number] * 6,
        *[lambda: source.randrange(2**55, 2**62)] * 12,
        *[lambda: source.uniform(-1e3, 1e3)] * 6,
        *[lambda: _text(source, 80)] * 6,
        *[lambda: source.random() < 0.5] * 12,
        *[lambda: types.Binary(source.randbytes(80), 0)] * 6,
        *[lambda: types.Code(_text(source, 80), scope())] * 12,
        *[lambda: types.Regex(_text(source, 8), 0)] * 2,
        *[lambda: types.Timestamp(source.randrange(2**30), source.randrange(1, 100))] * 6,
        *[lambda: EPOCH + datetime.timedelta(milliseconds=source.randrange(10**12))] * 6,
        *[lambda: types.MinKey()] * 4,
        *[lambda: types.MaxKey()] * 4,
        *[lambda: [source.randrange(1, 11) for _ in range(source.randrange(4, 11))]] * 6,
        *[dict] * 2,
    ]
    source.shuffle(makers)
    return {"_id": types.ObjectId(source.randbytes(12)), **{_text(source, 8): make() for make in makers}}


def tweet() -> Document:
    """A message as a social network sent them: 17 fields; one is a user with 32 fields, one a list of mentions."""
    return json.loads(TWEET)


def small(number: int = 0) -> Document:
    """13 fields with keys of 8 characters: 7 strings of 8 characters and 6 integers."""
    keys = random.Random(SEED + 4)
    source = random.Random(SEED + 5 + number)
    names = [_text(keys, 8) for _ in range(13)]
    values: list[Any] = [_text(source, 8) for _ in range(7)] + [source.randrange(2**30) for _ in range(6)]
    return dict(zip(names, values, strict=True))


def large() -> Document:
    """94 355 fields with keys of 12 characters, alternating strings of 12 characters and integers: 2.5 MB."""
    source = random.Random(SEED + 6)
    pairs = LARGE_FIELDS // 2 + 1
    letters = "".join(source.choices(LETTERS, k=36 * pairs))
    found: Document = {}
    for place in range(0, len(letters), 36):
        found[letters[place : place + 12]] = letters[place + 12 : place + 24]
        found[letters[place + 24 : place + 36]] = int(10 ** source.uniform(9, 12.2))
    found.popitem()
    return found


def message() -> Document:
    """A message reduced to 14 fields, as in the JSON lines files: 1129 bytes of JSON."""
    found = tweet()
    for key in ("in_reply_to_user_id", "favorited", "id"):
        del found[key]
    found["user"] = dict(list(found["user"].items())[:18])
    found["user"]["profile_image_url"] += _text(random.Random(SEED + 7), 4)
    return found


def user(number: int) -> Document:
    """A small document of 5 keys and 85 bytes with its `_id`: the usual one in mapper comparisons."""
    return {
        "name": f"u{number:05d}",
        "age": 18 + number % 70,
        "birthday": EPOCH - datetime.timedelta(days=6570 + number % 20_000),
        "timestamp": EPOCH + datetime.timedelta(seconds=number),
    }


def member(number: int) -> Document:
    """A document of ten fields with its `_id`, for the programs of other languages: they make the same."""
    return {
        "name": f"Ada Lovelace {number:05d}",
        "email": f"ada.{number:05d}@example.org",
        "city": CITIES[number % len(CITIES)],
        "n": number,
        "age": 18 + number % 70,
        "score": number + 0.5,
        "active": number % 2 == 0,
        "created": datetime.datetime(2026, 1, 1) + datetime.timedelta(minutes=number),
        "note": "member of the analytical society since the engine was drawn up",
    }


def users(types: Any, count: int) -> list[Document]:
    return [{"_id": types.ObjectId(f"{number:024x}"), **user(number)} for number in range(count)]


def post(number: int) -> Document:
    """A blog post as the web comparison stored them: title and date."""
    return {"_id": number, "title": "Post title", "created": EPOCH + datetime.timedelta(minutes=number)}


def _text(source: random.Random, length: int) -> str:
    return "".join(source.choices(LETTERS, k=length))
