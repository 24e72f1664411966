"""References to documents out of shape: each way to fetch them raises an error that names one, or returns them."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from mangonel import bson
from mangonel.bson import CodecOptions
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Many,
    Ref,
    Refs,
    ValidationError,
    cli,
    field,
    many,
    related,
)
from mangonel.odm.diff import differences
from mangonel.odm.model.codec import TOLERANT
from mangonel.odm.pulled import Writer
from odm.conftest import Face
from odm.misshapen import IS_LONG, Stored, Thing, is_located

COUNT = 2_000 if IS_LONG else 100
# How many documents are read one by one.
ALONE = COUNT if IS_LONG else 25

RAW: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)

pytestmark = pytest.mark.timeout(600)


class Place(Embedded):
    thing: Ref[Thing] | None = None


class Trip(Document):
    __collection__ = "trips_to_things"
    id: int = field(key="_id")  # type: ignore[assignment]
    one: Ref[Thing] | None = None
    several: list[Ref[Thing]] = field(default_factory=list)
    refs: Refs[Thing]
    named: dict[str, Ref[Thing]] = field(default_factory=dict)
    place: Place | None = None
    places: list[Place] = field(default_factory=list)
    again: Ref[Trip] | None = None
    # Things refer to things, and so to trips with the same numbers.
    things: Many[Thing] = many(by="other")


WAYS = [*("one", "several", "refs", "named", "place.thing", "places.thing", "again.one", "again.refs")]


def path_of(name: str) -> Any:
    """Return the path of a field by its name."""
    found: Any = Trip
    for part in name.split("."):
        found = getattr(found, part)
    return found


def put(stored: Stored, db: Connection) -> None:
    """Store a trip to each document, and for each a second trip that refers to the first."""
    rows = []
    for number in range(COUNT):
        row = {
            "one": number,
            "several": [stored.fit[0], number],
            "refs": [number, stored.fit[1]],
            "named": {"a": number},
            "place": {"thing": number},
            "places": [{"thing": stored.fit[2]}, {"thing": number}],
        }
        rows += [{"_id": number, **row}, {"_id": COUNT + number, "refs": [], "again": number}]
    db.client[db.name]["trips_to_things"].insert_many(rows)


def targets(trip: Any, name: str, *, is_missing_left_out: bool = False) -> list[Any]:
    """Return the documents that a reference leads to."""
    found = [trip]
    for part in name.split("."):
        inner: list[Any] = []
        for each in found:
            value = each[part] if isinstance(each, dict) else getattr(each, part)
            values = (
                value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            )
            for one in values:
                if isinstance(one, Refs):
                    inner += (
                        one.values
                        if not is_missing_left_out
                        else [ref.value for ref in one if not ref.is_missing]
                    )
                elif isinstance(one, Ref):
                    inner += [] if is_missing_left_out and one.is_missing else [one.value]
                elif one is not None:
                    inner.append(one)
        found = inner
    return found


def read_whole(documents: list[Any]) -> None:
    """Read every value of documents that may not be decoded yet."""
    for document in documents:
        document.to_dict()


@pytest.fixture
def stored(db: Connection) -> Stored:
    made = Stored(db, COUNT)
    put(made, db)
    return made


def start_of(name: str, number: int) -> int:
    """Return the trip whose reference leads to a document."""
    return COUNT + number if name.startswith("again") else number


@pytest.mark.parametrize("how", ["include", "lookup"])
@pytest.mark.parametrize("name", WAYS)
def test_each_target_is_read_or_named(how: str, name: str, stored: Stored, face: Face) -> None:
    if how == "lookup" and name == "named":
        pytest.skip("a lookup of references in a map is refused")
    chance = random.Random(name)
    asks = ["all", "one", "first", "iterate", *(["page", "json", "paginate"] if how == "include" else [])]
    for number in chance.sample(range(COUNT), ALONE):
        query = getattr(Trip.find(Trip.id == start_of(name, number)), how)(path_of(name))
        query = query.eager() if chance.random() < 0.5 else query
        ask = chance.choice(asks)
        is_told = False
        try:
            if ask == "json":
                # It reads the fetched documents.
                face.call(query, "json")
                continue
            found = face.collect(query) if ask == "iterate" else face.call(query, ask)
            found = [found] if ask in ("one", "first") else list(found)
            read_whole(targets(found[0], name))
        except ValidationError as error:
            is_told = True
            is_located(error, [number])
        assert is_told == (number in stored.unfit), (number, ask)


@pytest.mark.parametrize("name", WAYS)
def test_what_on_invalid_says_of_targets_is_done(name: str, stored: Stored, face: Face) -> None:
    skipped = Trip.find().sort("_id").include(related(path_of(name), Thing.find(on_invalid="skip").eager()))
    told: list[ValidationError] = []
    asked = Thing.find(on_invalid=told.append).eager()
    for query in (skipped, Trip.find().sort("_id").include(related(path_of(name), asked))):
        found = face.call(query, "all")
        assert len(found) == 2 * COUNT
        for number in range(COUNT):
            trip = found[start_of(name, number)]
            seen = [thing.id for thing in targets(trip, name, is_missing_left_out=True)]
            assert (number in seen) == (number in stored.fit), number
    assert {error.id for error in told} == set(stored.unfit)
    for error in told:
        is_located(error, stored.unfit)


@pytest.mark.parametrize("how", ["all", "iterate"])
@pytest.mark.parametrize("name", ["one", "refs", "place.thing"])
def test_outer_documents_that_do_not_fit_are_left_out_and_targets_are_told(
    how: str, name: str, stored: Stored, face: Face
) -> None:
    raw = Trip.collection()
    raw.update_many({"_id": {"$mod": [2, 1]}}, {"$set": {"several": 7}})
    for way in ("include", "lookup"):
        fit = {"_id": {"$in": [number for number in stored.fit if number < COUNT]}}
        query = getattr(Trip.find(fit, on_invalid="skip").sort("_id").eager(), way)(path_of(name))
        found = face.call(query, "all") if how == "all" else face.collect(query)
        assert [trip.id for trip in found] == [number for number in stored.fit if number % 2 == 0]
        read_whole([thing for trip in found for thing in targets(trip, name)])
        unfit = next(number for number in stored.unfit if number % 2 == 0)
        query = getattr(Trip.find(Trip.id == unfit, on_invalid="skip"), way)(path_of(name))
        told: list[ValidationError] = []
        try:
            found = face.call(query, "all") if how == "all" else face.collect(query)
            read_whole([thing for trip in found for thing in targets(trip, name)])
        except ValidationError as error:
            told.append(error)
        is_located(told[0], [unfit])


@pytest.mark.parametrize("way", ["include", "lookup", "cut"])
def test_each_child_is_read_or_named(way: str, stored: Stored, face: Face) -> None:
    raw = Thing.collection()
    # Each thing is the child of the trip with its number, whatever its former field held.
    raw.update_many({}, [{"$set": {"other": "$_id"}}])
    for number in random.Random(way).sample(range(COUNT), ALONE):
        node = related(Trip.things, Thing.find().limit(3)) if way == "cut" else Trip.things
        query = Trip.find(Trip.id == number)
        query = query.lookup(node) if way == "lookup" else query.include(node)
        is_told = False
        try:
            trip = face.call(query, "one")
            assert [thing.id for thing in trip.things.values] == [number]
            read_whole(trip.things.values)
        except ValidationError as error:
            is_told = True
            is_located(error, [number])
        assert is_told == is_unfit(raw, number), number


def is_unfit(raw: Any, number: int) -> bool:
    """Return whether a stored thing does not fit its model."""
    (data,) = raw.with_options(codec_options=RAW).find({"_id": number})
    try:
        Thing.from_bson(bytes(data.raw)).to_dict()
    except ValidationError:
        return True
    return False


def test_conditions_on_targets_find_the_trips_of_those_that_fit_or_not(stored: Stored, face: Face) -> None:
    found = face.call(Trip.find(Trip.one.text == "t").sort("_id"), "all")  # type: ignore[union-attr]
    texts = [bson.decode(data, TOLERANT).get("text") for data in stored.data]
    assert [trip.id for trip in found] == [number for number, text in enumerate(texts) if text == "t"]


def test_the_tools_read_trips_whatever_their_targets_are(stored: Stored, db: Connection) -> None:
    said = io.StringIO()
    assert cli._read_all(Trip, Trip.collection(), 5, said) == 0
    assert f"{2 * COUNT} read, 0 do not fit" in said.getvalue()
    assert not [found for found in differences(Trip, COUNT) if "fit" in str(found)]
    writer = Writer()
    tolerant = db.database().with_options(codec_options=TOLERANT)
    writer.collection("things", tolerant["things"].find())
    writer.collection("trips_to_things", tolerant["trips_to_things"].find())
    compile(writer.module(), "pulled", "exec")
