"""Documents out of shape: each way to read them raises an error that names one, or follows its option."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
import random
import re
from functools import partial
from typing import Any

import pytest

from mangonel.arrow.errors import ColumnError
from mangonel.odm import Connection, ValidationError, cli
from mangonel.odm.diff import differences
from mangonel.odm.model.codec import TOLERANT
from mangonel.odm.pulled import Writer
from odm.conftest import Face
from odm.misshapen import IS_LONG, Stored, Thing, is_located

COUNT = 10_000 if IS_LONG else 300
# How many documents are read one by one.
ALONE = 300 if IS_LONG else 20

pytestmark = pytest.mark.timeout(600)


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


@pytest.fixture
def stored(db: Connection) -> Stored:
    return Stored(db, COUNT)


def ids(found: Any) -> list[int]:
    return [one.id for one in found]


def test_there_are_enough_documents_of_each_sort(stored: Stored) -> None:
    assert min(len(stored.fit), len(stored.unfit), len(stored.undecodable)) >= COUNT // 20


def test_what_fits_is_read_and_the_rest_is_skipped_or_told(stored: Stored, face: Face) -> None:
    skipping = Thing.find(on_invalid="skip").sort("_id")
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
    query = Thing.find(on_invalid=told.append).sort("_id")
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
