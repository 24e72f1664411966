"""Documents out of shape: each way to read them ends in an error that names one, or in what its option says."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import io
import json
import os
import random
import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest

from mangonel import bson
from mangonel.arrow.errors import ColumnError
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
from mangonel.odm import Connection, Document, Embedded, Point, Ref, ValidationError, cli, field
from mangonel.odm.diff import differences
from mangonel.odm.model.codec import TOLERANT, codec_options
from mangonel.odm.pulled import Writer
from odm.conftest import Face

# In the long part, ten thousand.
IS_LONG = int(os.environ.get("MANGONEL_MODEL_RUNS", "5")) > 5
COUNT = 10_000 if IS_LONG else 300
# How many documents are asked for alone.
ALONE = 300 if IS_LONG else 20

pytestmark = pytest.mark.timeout(600)


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


@dataclasses.dataclass
class Shape:
    number: int
    text: str = ""
    moment: dt.datetime | None = None


@dataclasses.dataclass
class ShapeWithId:
    id: int
    number: int
    part: dict[str, Any] | None = None


# Text that is stored as bytes that are no UTF-8.
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
    """The documents, and which of them fit and can be decoded."""

    def __init__(self, db: Connection) -> None:
        chance = random.Random(34)
        broken = BROKEN.encode()
        self.data = [
            bson.encode(made(number, chance)).replace(broken, b"\xff" * len(broken))
            for number in range(COUNT)
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
        self.fit = sorted(set(range(COUNT)) - set(self.unfit))
        db.client[db.name]["things"].insert_many(map(RawBSONDocument, self.data))


@pytest.fixture
def stored(db: Connection) -> Stored:
    return Stored(db)


def is_located(error: ValidationError, among: list[int]) -> None:
    """Fail unless an error names the collection, one of these documents and a path in it."""
    assert error.collection == "things"
    assert error.id in among
    assert error.faults
    for fault in error.errors():
        assert fault["path"].startswith("$"), fault
    assert any(fault["path"] != "$" for fault in error.errors()), error
    assert f"{error.id!r} in 'things'" in str(error)


def ids(found: Any) -> list[int]:
    return [one.id for one in found]


def test_there_are_enough_documents_of_each_sort(stored: Stored) -> None:
    assert min(len(stored.fit), len(stored.unfit), len(stored.undecodable)) >= COUNT // 20


def test_what_fits_is_read_and_the_rest_is_skipped_or_told(stored: Stored, face: Face) -> None:
    skipping = Thing.find(on_invalid="skip").sort("_id").eager()
    assert ids(face.call(skipping, "all")) == stored.fit
    assert ids(face.collect(skipping)) == stored.fit
    assert ids(face.call(skipping.limit(7), "all")) == stored.fit[:7]
    assert ids(face.call(skipping, "paginate", 3, 10).items) == stored.fit[20:30]
    assert face.call(skipping, "first").id == stored.fit[0]
    assert face.call(skipping, "last").id == stored.fit[-1]
    pages: list[int] = []
    after: str | None = None
    while True:
        page = face.call(skipping, "page", 50, after)
        pages += ids(page.items)
        assert len(page.items) == 50 or page.next is None
        after = page.next
        if after is None:
            break
    assert pages == stored.fit
    told: list[ValidationError] = []
    query = Thing.find(on_invalid=told.append).sort("_id").eager()
    assert ids(face.call(query, "all")) == stored.fit
    assert [error.id for error in told] == stored.unfit
    for error in told:
        is_located(error, stored.unfit)


@pytest.mark.parametrize("way", ["all", "first", "one", "last", "iterate", "page", "paginate", "aggregate"])
def test_an_error_names_the_document_and_its_places(way: str, stored: Stored, face: Face) -> None:
    for number in random.Random(1).sample(stored.unfit, ALONE):
        query: Any = Thing.find(Thing.id == number).eager()
        read = partial(face.collect, query) if way == "iterate" else partial(face.call, query, way)
        if way == "aggregate":
            read = partial(read, [], Thing)
        with pytest.raises(ValidationError) as raised:
            read()
        is_located(raised.value, [number])


def test_an_error_in_another_shape_names_what_the_shape_reads(stored: Stored, face: Face) -> None:
    for shape, among in ((Shape, [None]), (ShapeWithId, [*range(COUNT)])):
        told: list[Any] = []
        query = Thing.find(on_invalid=told.append).as_(shape)
        found = face.call(query, "all")
        assert len(found) + len(told) == COUNT
        assert told
        for error in told:
            is_located(error, among)


@pytest.mark.parametrize("way", ["dicts", "json", "values"])
def test_a_reading_without_instances_names_what_it_cannot_decode(
    way: str, stored: Stored, face: Face
) -> None:
    arguments = [Thing.number, Thing.text, Thing.moment, Thing.part] if way == "values" else []
    if way != "values":
        with pytest.raises(ValidationError) as raised:
            face.call(Thing.find(), way, *arguments)
        is_located(raised.value, stored.undecodable)
    found = face.call(Thing.find({"_id": {"$nin": stored.undecodable}}), way, *arguments)
    rows = json.loads(found) if way == "json" else found
    assert len(rows) == COUNT - len(stored.undecodable)


def test_values_of_fields_and_extremes_end_in_values_or_in_a_located_error(
    stored: Stored, face: Face
) -> None:
    decodable = Thing.find({"_id": {"$nin": stored.undecodable}})
    errors: list[ValidationError] = []
    for name in Thing.__fields__:
        for way in ("distinct", "min", "max", "values"):
            face.call(decodable, way, getattr(Thing, name))
            try:
                face.call(Thing.find(), way, getattr(Thing, name))
            except ValidationError as error:
                errors.append(error)
    assert errors
    assert {error.collection for error in errors} == {"things"}
    assert all(fault["path"].startswith("$.") for error in errors for fault in error.errors())


def test_columns_are_made_or_the_error_names_the_document(stored: Stored, face: Face) -> None:
    with pytest.raises(ColumnError, match="_id"):
        face.call(Thing.find(), "to_arrow")
    errors: dict[int, ColumnError] = {}
    for number in random.Random(2).sample(range(COUNT), ALONE):
        try:
            face.call(Thing.find(Thing.id == number), "to_arrow")
        except ColumnError as error:
            errors[number] = error
    for number, error in errors.items():
        assert re.search(rf"_id.*\b{number}\b", str(error)), error


def test_the_tools_end_and_count_what_does_not_fit(stored: Stored, db: Connection) -> None:
    said = io.StringIO()
    cli._read_all(Thing, Thing.collection(), 5, said)
    lines = said.getvalue().splitlines()
    counted = re.search(r"(\d+) read, (\d+) do not fit", lines[-1])
    assert counted is not None
    assert counted[1] == str(COUNT)
    assert int(counted[2]) >= len(stored.unfit)
    assert len(lines) == 6
    assert list(differences(Thing, COUNT))
    writer = Writer()
    tolerant = db.database().with_options(codec_options=TOLERANT)
    writer.collection("things", tolerant["things"].find())
    compile(writer.module(), "pulled", "exec")
