"""Documents that are out of shape in every way that a server can store, and the model that they do not fit."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import os
import random
import uuid
from collections.abc import Callable
from typing import Any, Literal

from mangonel import bson
from mangonel.bson import (
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
)
from mangonel.bson.datetime_ms import DatetimeMS
from mangonel.bson.errors import InvalidBSON
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.odm import Connection, Document, Embedded, Point, Ref, ValidationError, field
from mangonel.odm.model.codec import codec_options

# Ten thousand in the long part.
IS_LONG = int(os.environ.get("MANGONEL_MODEL_RUNS", "5")) > 5


class Kind(enum.Enum):
    A = "a"
    B = "b"


class Part(Embedded):
    n: int = 0
    text: str = ""
    tags: list[str] = field(default_factory=list)
    inner: Part | None = None


class Thing(Document):
    __collection__ = "things"
    id: int = field(key="_id")  # type: ignore[assignment]
    number: int
    real: float = 0.0
    is_on: bool = False
    text: str = ""
    data: bytes = b""
    moment: dt.datetime | None = None
    day: dt.date | None = None
    money: decimal.Decimal | None = None
    key: uuid.UUID | None = None
    numbers: list[int] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    part: Part | None = None
    parts: list[Part] = field(default_factory=list)
    kind: Kind = Kind.A
    word: Literal["x", "y"] = "x"
    at: Point | None = None
    other: Ref[Thing] | None = None
    either: int | str | None = None


# Text that is stored as invalid UTF-8.
BROKEN = "broken-broken"


def value(chance: random.Random, depth: int = 0) -> Any:
    """Any value that a server stores."""
    scalars: list[Callable[[], Any]] = [
        lambda: None,
        lambda: chance.randrange(-5, 5),
        lambda: Int64(2**62),
        lambda: chance.choice([0.5, float("nan"), float("inf"), 1e300, 3.0]),
        lambda: chance.choice([True, False]),
        lambda: chance.choice(["", "x", "3", "Ünï", "2024-01-01", "a" * 50]),
        lambda: BROKEN,
        lambda: chance.choice([b"", b"\x00\xff"]),
        lambda: Binary(b"12", 5),
        lambda: Binary(b"0123456789abcdef", 4),
        lambda: dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC),
        lambda: DatetimeMS(chance.choice([10**17, -(10**17), 253402300800000])),
        ObjectId,
        lambda: Decimal128(chance.choice(["1.5", "NaN", "Infinity", "1E+6000"])),
        lambda: chance.choice([MinKey(), MaxKey(), Timestamp(1, 2), Code("f()"), Regex("a", "i")]),
        lambda: DBRef("things", 1),
        lambda: [1.5, 2.5],
        lambda: {"type": "Point", "coordinates": [1.0, 2.0]},
        lambda: {"type": "Point", "coordinates": "here"},
    ]
    if depth < 3 and chance.random() < 0.3:
        inner = [value(chance, depth + 1) for _ in range(chance.randrange(4))]
        if chance.random() < 0.5:
            return inner
        names = ("n", "text", "tags", "inner", "0", "", "a.b", "_cls")
        return dict(zip(chance.sample(names, len(inner)), inner, strict=True))
    return chance.choice(scalars)()


def made(number: int, chance: random.Random) -> dict[str, Any]:
    """A document that fits, with up to three faults."""
    document: dict[str, Any] = {
        "_id": number,
        "number": number,
        "text": "t",
        "part": {"n": 1, "text": "p", "tags": ["a"], "inner": {"n": 2}},
        "parts": [{"n": 1}, {"n": 2, "tags": []}],
        "numbers": [1, 2],
        "counts": {"a": 1},
        "moment": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    }
    for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
        name = chance.choice([name for name in Thing.__fields__ if name != "id"] + ["extra", "number.x"])
        way = chance.randrange(5)
        if way == 0:
            document.pop(name, None)
        elif way == 1 and isinstance(document.get(name), list):
            document[name] = [*document[name], value(chance)]
        elif way == 2 and isinstance(document.get(name), dict):
            document[name] = {**document[name], chance.choice(["n", "text", "tags", "new"]): value(chance)}
        else:
            document[name] = value(chance)
    return document


class Stored:
    """The documents, and the subset that fits and can be decoded."""

    def __init__(self, db: Connection, count: int) -> None:
        chance = random.Random(34)
        broken = BROKEN.encode()
        self.data = [
            bson.encode(made(number, chance)).replace(broken, b"\xff" * len(broken))
            for number in range(count)
        ]
        self.unfit: list[int] = []
        self.undecodable: list[int] = []
        options = codec_options(True)
        for number, data in enumerate(self.data):
            try:
                Thing.from_bson(data)
            except ValidationError:
                self.unfit.append(number)
            try:
                bson.decode(data, options)
            except InvalidBSON:
                self.undecodable.append(number)
        self.fit = sorted(set(range(count)) - set(self.unfit))
        db.client[db.name]["things"].insert_many(map(RawBSONDocument, self.data))


def is_located(error: ValidationError, among: list[int]) -> None:
    """Fail unless an error names the collection, one of these documents and a path in it."""
    assert error.collection == "things"
    assert error.id in among
    assert error.faults
    for fault in error.errors():
        assert fault["path"].startswith("$"), fault
    assert any(fault["path"] != "$" for fault in error.errors()), error
    assert f"{error.id!r} in 'things'" in str(error)
