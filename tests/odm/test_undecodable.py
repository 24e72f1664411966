"""Stored documents with bytes that no Python value can represent: errors that name them, and `on_invalid`."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import io
import pickle
from functools import partial
from typing import Any

import pytest

from mangonel import bson
from mangonel.bson.codec_options import DatetimeConversion
from mangonel.bson.datetime_ms import DatetimeMS
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.odm import Connection, Document, Embedded, Ref, ValidationError, cli, connect, field, related
from mangonel.server import Server

FAR_MS = 10**17


class Visit(Document):
    __collection__ = "visits"
    id: str = field(default="", key="_id")  # type: ignore[assignment]
    n: int = 0
    name: str = ""
    at: dt.datetime | None = None


def put(db: Connection, *, good_behind: int = 5) -> list[Any]:
    """Store six documents that cannot be read, and good ones after them; return the ids of the bad ones."""
    raw = db.client[db.name]["visits"]
    far = [{"_id": f"far{n}", "n": n, "at": DatetimeMS(FAR_MS)} for n in range(2)]
    broken = [
        bson.encode({"_id": f"text{n}", "n": n, "name": "text"}).replace(b"text\0\0", b"\xff\xfe\xff\xff\0\0")
        for n in range(2)
    ]
    wrong = [{"_id": f"type{n}", "n": "no"} for n in range(2)]
    raw.insert_many([*far, *map(RawBSONDocument, broken), *wrong])
    raw.insert_many([{"_id": f"good{n}", "n": n} for n in range(good_behind)])
    return [*(row["_id"] for row in far), "text0", "text1", *(row["_id"] for row in wrong)]


@pytest.mark.parametrize("ask", ["all", "first", "iterate", "one"])
@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("far0", r"date value out of range.* at \$\.at"),
        ("text0", r"utf-8.* at \$\.name"),
        ("type0", r"expected int, got str at \$\.n"),
    ],
)
def test_an_error_names_the_document(ask: str, id: str, said: str, db: Connection, face: Any) -> None:
    put(db)
    query = Visit.find({"_id": id}).eager()
    read = partial(face.collect, query) if ask == "iterate" else partial(face.call, query, ask)
    with pytest.raises(ValidationError, match=f"{said}.* of the Visit '{id}' in 'visits'") as raised:
        read()
    assert (raised.value.id, raised.value.collection) == (id, "visits")
    assert raised.value.errors()[0]["path"] in ("$.at", "$.name", "$.n")


def test_on_invalid_is_asked_for_each_of_them(db: Connection, face: Any) -> None:
    bad = put(db)
    assert [one.id for one in face.call(Visit.find(on_invalid="skip"), "all")] == [
        f"good{n}" for n in range(5)
    ]
    seen: list[Any] = []
    query = Visit.find(on_invalid=lambda error: seen.append(error.id))
    assert len(face.collect(query)) == 5
    assert seen == bad


class Leg(Embedded):
    n: int = 0
    at: dt.datetime | None = None


class Route(Document):
    __collection__ = "routes"
    id: str = field(default="", key="_id")  # type: ignore[assignment]
    leg: Leg | None = None
    legs: list[Leg] = field(default_factory=list)
    days: list[dt.datetime] = field(default_factory=list)
    by_name: dict[str, Leg] = field(default_factory=dict)
    owner: Ref[Route] | None = None


@pytest.mark.parametrize("way", ["find", "include", "lookup"])
def test_on_invalid_is_asked_for_what_is_inside_of_a_document(way: str, db: Connection, face: Any) -> None:
    routes = db.client[db.name]["routes"]
    far = {"at": DatetimeMS(FAR_MS)}
    inside: list[dict[str, Any]] = [
        {"leg": far},
        {"legs": [{}, {"n": "no"}]},
        {"days": [far["at"]]},
        {"by_name": {"a": far}},
    ]
    routes.insert_many([{"_id": f"bad{n}", "owner": "good0", **row} for n, row in enumerate(inside)])
    routes.insert_many([{"_id": f"good{n}", "legs": [{"n": n}], "owner": "good0"} for n in range(4)])
    seen: list[Any] = []
    query: Any = Route.find(on_invalid=lambda error: seen.append(error.id))
    if way != "find":
        query = getattr(query, way)(Route.owner)
    assert [one.legs[0].n for one in face.call(query, "all")] == [0, 1, 2, 3]
    assert seen == ["bad0", "bad1", "bad2", "bad3"]
    assert [one.id for one in face.call(query.limit(3), "all")] == ["good0", "good1", "good2"]
    assert [one.id for one in face.collect(query)] == ["good0", "good1", "good2", "good3"]
    if way == "find":
        # Explicitly named fields stay the same.
        assert len(face.call(query.lazy(), "all")) == 8


def test_a_limit_counts_the_documents_that_fit(db: Connection, face: Any) -> None:
    put(db)
    skipping = Visit.find(on_invalid="skip")
    assert face.call(skipping, "first").id == "good0"
    assert [one.id for one in face.call(skipping.limit(3), "all")] == ["good0", "good1", "good2"]
    assert [one.id for one in face.call(skipping.limit(99), "all")] == [f"good{n}" for n in range(5)]
    assert [one.id for one in face.collect(skipping.limit(3))] == ["good0", "good1", "good2"]
    assert [one.id for one in face.collect(skipping.limit(3).batch_size(2))] == ["good0", "good1", "good2"]
    assert [one.id for one in face.collect(skipping[7:9])] == ["good1", "good2"]
    assert face.call(skipping, "last").id == "good4"
    assert face.call(skipping.find({"n": 3}), "one").id == "good3"
    assert [face.call(skipping, "nth", n).id for n in (0, 1, 4)] == ["good0", "good1", "good4"]
    assert face.call(skipping, "nth", 5) is None
    assert face.call(skipping[7:9], "nth", 1).id == "good2"
    assert face.call(skipping.find({"_id": "far0"}), "first") is None


def test_a_connections_conversion_of_dates_holds_for_dicts(server: Server, db: Connection, face: Any) -> None:
    put(db)
    made = connect(server.uri, database=db.name, datetime_conversion="DATETIME_AUTO")
    try:
        found = face.call(Visit.find({"_id": "far0"}).using(made), "dicts")
        assert found == [{"_id": "far0", "n": 0, "at": DatetimeMS(FAR_MS)}]
    finally:
        made.close()
        face.wait(made.aclose())


class Trip(Document):
    __collection__ = "trips"
    id: int = field(default=0, key="_id")  # type: ignore[assignment]
    visit: Ref[Visit] | None = None
    visits: list[Ref[Visit]] = field(default_factory=list)
    n: int = 0


@pytest.mark.parametrize("where", [Trip.visit, Trip.visits])
@pytest.mark.parametrize("way", ["lookup", "include"])
def test_an_error_in_a_referenced_document_names_that_one(
    way: str, where: Any, db: Connection, face: Any
) -> None:
    put(db)
    face.save(Trip(id=1, visit="type0", visits=["good0", "type0"]))
    query = getattr(Trip.find(), way)(where)
    for ask in ("all", "one"):
        # Fetched documents are decoded when read, except for fields that are always decoded.
        with pytest.raises(ValidationError, match=r"at \$\.n of the Visit 'type0' in 'visits'") as raised:
            face.call(query, ask)
        assert (raised.value.id, raised.value.collection) == ("type0", "visits")


@pytest.mark.parametrize("how", ["lookup", "nested lookup", "joined"])
def test_a_limit_counts_the_documents_that_fit_beside_what_they_refer_to(
    how: str, db: Connection, face: Any
) -> None:
    put(db)
    trips = db.client[db.name]["trips"]
    trips.insert_many([{"_id": n, "visit": "good0", "n": "no" if n % 3 else n} for n in range(30)])
    told: list[Any] = []
    query: Any = Trip.find(on_invalid=lambda error: told.append(error.id)).sort("_id").batch_size(4)
    if how == "lookup":
        query = query.lookup(Trip.visit)
    elif how == "nested lookup":
        query = query.lookup(related(Trip.visit, Visit.find(Visit.n >= 0)))
    else:
        query = query.find(Trip.visit.n == 0)  # type: ignore[union-attr]
    found = face.call(query.limit(4), "all")
    assert [one.id for one in found] == [0, 3, 6, 9]
    assert told == [1, 2, 4, 5, 7, 8]
    if how != "joined":
        assert [one.visit.value.id for one in found] == ["good0"] * 4
    assert [one.id for one in face.call(query[9:11], "all")] == [9, 12]
    assert face.call(query, "first").id == 0
    assert [one.id for one in face.collect(query.limit(99))] == list(range(0, 30, 3))


def at_once(made: Connection, face: Any, query: Any, how: str) -> Any:
    query = query.using(made)
    return face.call(query if how == "lazy" else query.eager(), "all")[0]


@pytest.mark.parametrize("how", ["lazy", "eager"])
def test_a_connections_conversion_of_dates_holds_for_instances(
    how: str, server: Server, db: Connection, face: Any
) -> None:
    class Days(Document):
        __collection__ = "days"
        at: dt.datetime
        days: list[dt.datetime]
        day: dt.date
        other: Ref[Visit] | None = None
        text: str = ""

    class NaiveDays(Days):
        __tz_aware__ = False
        __collection__ = "days"

    broken = bson.encode(
        {"at": DatetimeMS(FAR_MS), "days": [DatetimeMS(0), DatetimeMS(-FAR_MS)], "day": DatetimeMS(FAR_MS)}
    )
    db.client[db.name]["days"].insert_one(RawBSONDocument(broken))
    for conversion in ("DATETIME_AUTO", "DATETIME_CLAMP"):
        made = connect(server.uri, database=db.name, alias="converting", datetime_conversion=conversion)
        try:
            for model, zone in ((Days, dt.UTC), (NaiveDays, None)):
                one = at_once(made, face, model.find(), how)
                start = dt.datetime(1970, 1, 1, tzinfo=zone)
                if conversion == "DATETIME_AUTO":
                    assert (one.at, one.days) == (DatetimeMS(FAR_MS), [start, DatetimeMS(-FAR_MS)])
                    assert one.day == DatetimeMS(FAR_MS)
                    # The value is stored again unchanged.
                    one.text = "x"
                    face.call(one, "save")
                    face.call(one, "replace")
                    kept = made.client[db.name]["days"].find_one({}, {"_id": 0, "at": 1, "day": 1, "text": 1})
                    assert bson.encode(kept) == bson.encode(
                        {"at": DatetimeMS(FAR_MS), "day": DatetimeMS(FAR_MS), "text": "x"}
                    )
                else:
                    assert one.at.replace(tzinfo=None, microsecond=0) == dt.datetime(9999, 12, 31, 23, 59, 59)
                    assert one.days[1].year == 1
                    assert one.day == dt.date.max
        finally:
            made.close()
            face.wait(made.aclose())
    with pytest.raises(ValidationError, match=r"at \$\.at"):
        _ = at_once(db, face, Days.find(), how).at


@dataclasses.dataclass
class Seen:
    n: int
    at: Any = None


class SeenAt(Embedded):
    n: int
    at: dt.datetime | None = None


@pytest.mark.parametrize("how", ["all", "first", "iterate", "find_and_update", "aggregate"])
@pytest.mark.parametrize("shape", [Seen, SeenAt, dict])
def test_a_connections_conversion_of_dates_holds_for_shapes(
    how: str, shape: Any, server: Server, db: Connection, face: Any
) -> None:
    put(db)
    made = connect(server.uri, database=db.name, alias="converting", datetime_conversion="DATETIME_AUTO")
    try:
        query = Visit.find({"_id": "far0"}).using(made)
        if how == "aggregate":
            (found,) = face.call(query, "aggregate", [], **({} if shape is dict else {"into": shape}))
        elif how == "find_and_update":
            if shape is dict:
                pytest.skip("find_and_update() makes no dicts")
            found = face.call(query.as_(shape), how, {"$set": {"n": 0}})
        else:
            asked = query.as_(shape)
            found = face.collect(asked) if how == "iterate" else face.call(asked, how)
            found = found if how == "first" else found[0]
        assert (found["at"] if shape is dict else found.at) == DatetimeMS(FAR_MS)
    finally:
        made.close()
        face.wait(made.aclose())


@dataclasses.dataclass(slots=True)
class SeenWithSlots:
    n: int
    at: dt.datetime | None = None


@pytest.mark.parametrize("how", ["find", "find_one"])
@pytest.mark.parametrize("shape", [Seen, SeenWithSlots, SeenAt, Visit])
def test_a_collections_conversion_of_dates_holds_for_the_drivers_into(
    how: str, shape: Any, db: Connection, face: Any
) -> None:
    put(db)
    plain = db.database(face.is_async)["visits"]

    def found(conversion: str) -> Any:
        options = plain.codec_options.with_options(
            datetime_conversion=getattr(DatetimeConversion, conversion)
        )
        asked = plain.with_options(codec_options=options)
        if how == "find_one":
            return face.wait(asked.find_one({"_id": "far0"}, into=shape))
        return face.wait(asked.find({"_id": "far0"}, into=shape).to_list())[0]

    assert found("DATETIME_AUTO").at == DatetimeMS(FAR_MS)
    assert found("DATETIME_CLAMP").at.year == 9999
    if shape is not Seen:
        with pytest.raises(ValidationError, match=r"at \$\.at"):
            found("DATETIME")


def test_a_shape_of_find_and_update_that_does_not_fit_names_its_place(db: Connection, face: Any) -> None:
    put(db)
    with pytest.raises(ValidationError, match=r"at \$\.n of the Visit None in 'visits'"):
        face.call(Visit.find({"_id": "type0"}).as_(SeenAt), "find_and_update", {"$set": {"name": "x"}})


def test_check_lists_what_does_not_fit(db: Connection) -> None:
    put(db)
    said = io.StringIO()
    assert cli._read_all(Visit, Visit.collection(), 20, said) != 0
    lines = said.getvalue().splitlines()
    assert len(lines) == 7
    for line, (id, path) in zip(
        lines,
        [
            ("far0", "$.at"),
            ("far1", "$.at"),
            ("text0", "$.name"),
            ("text1", "$.name"),
            ("type0", "$.n"),
            ("type1", "$.n"),
        ],
        strict=False,
    ):
        assert repr(id) in line
        assert path in line
    assert "11 read, 6 do not fit" in lines[-1]


class Diary(Document):
    id: int = field(default=0, key="_id")  # type: ignore[assignment]
    n: int = 0
    days: list[dt.datetime] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    late: list[int] = field(default_factory=list, lazy=True)


def test_what_cannot_be_decoded_stays_as_it_is_in_copies_and_after_a_rollback(db: Connection) -> None:
    raw = db.client[db.name]["diary"]
    stored = {"_id": 1, "n": 1, "days": [DatetimeMS(FAR_MS)], "tags": ["a"], "late": [1]}
    raw.insert_one(stored)
    diary, other = Diary.find().lazy().first(), Diary(id=2, n=2).save()
    assert diary is not None
    diary.tags.append("b")

    def fail() -> None:
        with db.transaction():
            other.n = diary.n = 3
            diary.late = [2]
            other.save()
            diary.save()
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert (diary.n, diary.tags, other.n, set(diary.changes())) == (1, ["a", "b"], 2, {"tags"})
    diary.late = [2]
    for copied in (copy.copy(diary), pickle.loads(pickle.dumps(diary))):
        assert (copied.tags, copied.late, set(copied.changes())) == (["a", "b"], [2], {"tags", "late"})
        with pytest.raises(ValidationError, match=r"\$\.days\[0\]"):
            _ = copied.days
    copied.save()
    options = bson.CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
    found = raw.with_options(codec_options=options).find_one({"_id": 1})
    assert found == {**stored, "tags": ["a", "b"], "late": [2]}
    with db.unit() as unit:
        unit.delete(other, diary)
    assert raw.count_documents({}) == 0


@pytest.mark.parametrize("ask", ["find_and_update", "find_and_delete"])
def test_a_change_whose_document_does_not_fit_says_that_it_was_made(
    ask: str, db: Connection, face: Any
) -> None:
    put(db)
    raw = db.client[db.name]["visits"]
    with pytest.raises(ValidationError, match=r"at \$\.n of the Visit 'type0' in 'visits'") as raised:
        face.call(Visit.find({"_id": "type0"}), ask, *([{"$set": {"name": "x"}}] if "update" in ask else []))
    assert f"{ask}() has done its work" in "".join(raised.value.__notes__)
    stored = raw.find_one({"_id": "type0"})
    assert stored is None if ask == "find_and_delete" else stored["name"] == "x"  # type: ignore[index]
