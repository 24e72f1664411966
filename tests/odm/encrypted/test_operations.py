"""Fields marked `Encrypted`: the commands sent, the values returned, and the refusals."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from mangonel import bson
from mangonel.api import AsyncCollection, Collection
from mangonel.odm import (
    Connection,
    UnsupportedOption,
    add_to_set,
    all_,
    asc,
    each,
    elem,
    expr,
    in_,
    inc,
    max_,
    not_,
    not_in,
    or_,
    pop,
    pull,
    pull_where,
    push,
    regex,
    rename,
    set_,
    size,
    unset,
    where_js,
)

pytest.importorskip("pymongocrypt")

from odm.encrypted.people import (
    OBJECTS,
    OPTIONS,
    Person,
    Phone,
    Visit,
    is_secret,
    make,
    stored,
)


def test_the_server_gets_no_plain_value(db: Connection, face: Any, server: Any) -> None:
    face.save(make())
    [row] = stored(server, db)
    assert row["name"] == "Ada"
    assert row["phones"][0]["kind"] == "home"
    secret = [row["ssn"], row["pay"], row["born"], *row["words"], *row["codes"], *row["marks"].values()]
    secret += [phone["number"] for phone in [*row["phones"], row["home"]]] + [row["phones"][0]["note"]]
    assert all(is_secret(value) for value in secret)
    assert row["phones"][0]["number"] == row["home"]["number"] != row["phones"][1]["number"]
    assert "note" not in row["home"]


@pytest.mark.parametrize("db", [OPTIONS, OBJECTS], indirect=True)
def test_every_way_of_reading_gives_plain_values(db: Connection, face: Any) -> None:
    face.save(make())
    query = Person.find()
    [person] = face.call(query, "all")
    assert (person.ssn, person.pay, person.words, person.codes) == (
        "457-55-5462",
        4200.5,
        ["one", "two", "three"],
        {"a", "b"},
    )
    assert person.phones[0].note == "late"
    assert person.home.number == "1"
    assert person.marks["latin"] == 5
    assert person.born == dt.datetime(1815, 12, 10, tzinfo=dt.UTC)
    assert face.call(Person, "get", person.id).ssn == "457-55-5462"
    assert face.call(query.only(Person.ssn), "one").ssn == "457-55-5462"
    assert face.call(query.exclude(Person.ssn), "one").pay == 4200.5
    assert face.call(query, "dicts")[0]["ssn"] == "457-55-5462"
    assert bson.decode(face.call(query, "raw")[0])["pay"] == 4200.5
    assert json.loads(face.call(query, "json"))[0]["ssn"] == "457-55-5462"
    assert face.call(query, "values", Person.ssn, Person.pay) == [("457-55-5462", 4200.5)]
    assert face.call(query, "distinct", Person.ssn) == ["457-55-5462"]
    assert sorted(face.call(query, "distinct", Person.codes)) == ["a", "b"]
    assert [one.ssn for one in face.collect(query)] == ["457-55-5462"]
    assert face.call(query.sort("name"), "page", 1).items[0].ssn == "457-55-5462"
    assert face.call(query, "paginate", 1, 5).items[0].ssn == "457-55-5462"
    assert face.call(query.eager(), "first").phones[1].number == "2"
    assert face.call(query, "to_numpy", {"ssn": str, "pay": float})["pay"].tolist() == [4200.5]
    assert "4200.5" in person.to_json()


def test_equal_values_are_found(db: Connection, face: Any) -> None:
    ada, eve, bob = make(), make(name="Eve", ssn="2", codes={"c"}, phones=[], marks={}), Person(name="Bob")
    face.save(ada, eve, bob)
    number = ada.home.number if ada.home else ""
    for where, names in (
        (Person.ssn == "457-55-5462", ["Ada"]),
        (Person.ssn != "457-55-5462", ["Bob", "Eve"]),
        (in_(Person.ssn, ["2", "457-55-5462"]), ["Ada", "Eve"]),
        (in_(Person.ssn, ["2", None]), ["Bob", "Eve"]),
        (not_in(Person.ssn, ["2", None]), ["Ada"]),
        (not_(Person.ssn == "2"), ["Ada", "Bob"]),
        (or_(Person.ssn == "2", Person.name == "Bob"), ["Bob", "Eve"]),
        (Person.ssn == None, ["Bob"]),  # noqa: E711
        ({"ssn": {"$exists": True}}, ["Ada", "Eve"]),
        ({"$and": [{"ssn": {"$not": {"$eq": "2"}}}, {"name": "Ada"}]}, ["Ada"]),
        (Person.born == dt.datetime(1815, 12, 10, tzinfo=dt.UTC), ["Ada", "Eve"]),
        (each(Person.codes) == "a", ["Ada"]),
        (all_(Person.codes, ["a", "b"]), ["Ada"]),
        (size(Person.codes, 1), ["Eve"]),
        (each(Person.phones).number == number, ["Ada"]),
        ({"phones.0.number": number}, ["Ada"]),
        (elem(Person.phones, lambda phone: (phone.number == "1") & (phone.kind == "home")), ["Ada"]),
        ({"marks.latin": 5}, ["Ada"]),
        ({"codes": {"$elemMatch": {"$eq": "c"}}}, ["Eve"]),
    ):
        found = sorted(person.name for person in face.call(Person.find(where), "all"))
        assert found == names, where
        assert face.call(Person.find(where), "count") == len(names), where


REFUSED_QUERIES: list[tuple[str, Any]] = [
    ("$gt", lambda: Person.find(Person.ssn > "4")),  # type: ignore[operator]
    ("$regex", lambda: Person.find(regex(Person.ssn, "^4"))),
    ("$type", lambda: Person.find({"ssn": {"$type": "string"}})),
    ("$not", lambda: Person.find({"ssn": {"$not": bson.Regex("^4")}})),
    ("regular expression", lambda: Person.find({"ssn": {"$in": [bson.Regex("^4")]}})),
    ("$mod", lambda: Person.find({"marks.latin": {"$mod": [2, 0]}})),
    ("==", lambda: Person.find(Person.pay == 4200.5)),
    ("$in", lambda: Person.find(in_(Person.pay, [4200.5]))),
    ("$eq", lambda: Person.find(Person.home == Phone(kind="a", number="1", note="x"))),
    ("==", lambda: Person.find(each(Person.words) == "one")),
    ("$elemMatch", lambda: Person.find({"ssn": {"$elemMatch": {"$eq": "a"}}})),
    ("$expr", lambda: Person.find(expr({"$gt": ["$ssn", "$name"]}))),
    ("$expr", lambda: Person.find(expr({"$eq": [{"$getField": "ssn"}, "4"]}))),
    ("$where", lambda: Person.find(where_js("this.ssn == '4'"))),
    ("$jsonSchema", lambda: Person.find({"$jsonSchema": {"properties": {"ssn": {"minLength": 4}}}})),
    ("sort", lambda: Person.find().sort("ssn")),
    ("sort", lambda: Person.find().sort(asc(Person.home))),
    ("projection", lambda: Person.find()._with(projection={"x": {"$concat": ["$ssn", "!"]}})),
    ("collation", lambda: Person.find(Person.ssn == "4").collation({"locale": "en", "strength": 2})),
    ("a condition", lambda: Person.find({"ssn.x": 1})),
]


def test_what_a_query_cannot_ask_is_refused_by_name(db: Connection, face: Any) -> None:
    face.save(Person(name="Ada"))
    for named, query in REFUSED_QUERIES:
        is_of_find = named in ("sort", "projection")
        for terminal in (
            ("all", "find_and_delete") if is_of_find else ("all", "count", "delete", "find_and_delete")
        ):
            with pytest.raises(UnsupportedOption) as caught:
                face.call(query(), terminal)
            assert named in str(caught.value)
            assert "Person" in str(caught.value)
            assert "4200" not in str(caught.value)
            assert "457" not in str(caught.value)
    assert face.call(Person.find(), "count") == 1


@pytest.mark.parametrize("db", [OPTIONS, OBJECTS], indirect=True)
def test_a_save_sends_what_changed(db: Connection, face: Any, server: Any) -> None:
    person = make()
    face.save(person)
    before = stored(server, db)[0]
    person = face.call(Person, "get", person.id)
    face.save(person)
    assert stored(server, db)[0] == before
    person.pay = 1.5
    person.home.number = "9"
    person.phones[1].note = "new"
    person.phones.append(Phone(kind="car", number="3"))
    person.words.remove("two")
    person.codes.remove("a")
    person.codes.add("z")
    person.marks["latin"] = 2
    person.ssn = None
    face.save(person)
    after = stored(server, db)[0]
    assert after["born"] == before["born"]
    assert is_secret(after["pay"])
    assert "ssn" not in after
    assert len(after["words"]) == 2
    assert all(map(is_secret, after["words"]))
    found = face.call(Person, "get", person.id)
    assert (found.pay, found.home.number, found.phones[1].note, found.phones[2].number) == (
        1.5,
        "9",
        "new",
        "3",
    )
    assert (found.words, found.codes, found.marks["latin"], found.ssn) == (
        ["one", "three"],
        {"b", "z"},
        2,
        None,
    )
    assert found.rev == person.rev == 1


def test_a_model_without_marks_is_saved_by_the_short_way(
    db: Connection, face: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the program has marks: of other models."""
    visit, person = Visit(person=make()), make()
    face.save(person)
    face.save(visit)
    ways: list[str] = []
    kind = AsyncCollection if face.is_async else Collection
    long_way = kind.update_one

    def noted(collection: Any, *arguments: Any, **options: Any) -> Any:
        ways.append(collection.name)
        return long_way(collection, *arguments, **options)

    monkeypatch.setattr(kind, "update_one", noted)
    visit.at, person.name = 7, "Eve"
    face.save(visit)
    face.save(person)

    assert ways == [Person.__collection__]
    assert [row["at"] for row in stored(server, db, Visit)] == [7]


def test_lists_of_random_values_lose_what_was_removed(db: Connection, face: Any) -> None:
    person = make()
    face.save(person)
    person = face.call(Person, "get", person.id)
    del person.words[0]
    del person.phones[1]
    assert face.call(Person, "save_all", [person]) == 1
    found = face.call(Person, "get", person.id)
    assert found.words == ["two", "three"]
    assert [phone.number for phone in found.phones] == ["1"]


@pytest.mark.parametrize("db", [OPTIONS, OBJECTS], indirect=True)
def test_every_way_of_writing_encrypts(db: Connection, face: Any, server: Any) -> None:
    face.call(Person, "insert_many", [make(ssn=str(n), name=f"n{n}") for n in range(3)])
    one = face.call(Person.find(Person.ssn == "1"), "one")
    one.pay = 2.0
    face.call(one, "replace")
    two = make(ssn="9", name="n9")
    assert face.call(Person, "save_all", [two]) == 1
    assert face.call(Person.find(Person.ssn == "2"), "update", set_(Person.pay, 5.0), unset(Person.born)) == 1
    assert face.call(Person.find(Person.ssn == "2"), "find_and_update", set_(Person.ssn, "22")).ssn == "22"
    made = face.call(
        Person.find(Person.ssn == "30"), "upsert", set_(Person.pay, 1.0), on_insert=make(name="x")
    )
    assert (made.ssn, made.pay) == ("30", 1.0)
    found, is_new = face.call(Person.find(Person.ssn == "31"), "get_or_create", make(name="y", ssn="31"))
    assert is_new
    assert found.ssn == "31"
    replaced = face.call(Person.find(Person.ssn == "31"), "find_and_update", {"$set": {"ssn": "32"}})
    assert replaced.ssn == "32"
    update = face.call(found, "update", set_(Person.pay, 7.0), push(Person.words, "four", "five"))
    assert update.pay == 7.0
    assert update.words[-2:] == ["four", "five"]
    assert face.call(Person.find(Person.ssn == "40"), "update", set_(Person.name, "z"), upsert=True) == 1
    face.call(Person.find(Person.ssn == "32"), "update", add_to_set(Person.codes, "a", "q"))
    face.call(Person.find(Person.ssn == "32"), "update", pull(Person.codes, "b"))
    face.call(Person.find(Person.ssn == "32"), "update", pull_where(Person.phones, lambda p: p.number == "2"))
    face.call(Person.find(Person.ssn == "32"), "update", pop(Person.words))
    last = face.call(Person.find(Person.ssn == "32"), "one")
    assert last.codes == {"a", "q"}
    assert [p.number for p in last.phones] == ["1"]
    assert last.words[-1] == "four"
    face.call(
        Person.find(Person.ssn == "32"),
        "update",
        {"$set": {"phones.$[p].note": "hm"}},
        array_filters=[{"p.number": "1"}],
    )
    assert face.call(Person.find(Person.ssn == "32"), "one").phones[0].note == "hm"
    for row in stored(server, db):
        for key in ("ssn", "pay", "born"):
            assert key not in row or row[key] is None or is_secret(row[key]), row["name"]
        for value in [*row.get("words", ()), *row.get("codes", ())]:
            assert is_secret(value)


REFUSED_CHANGES: list[tuple[str, Any]] = [
    ("$inc", lambda: inc(Person.pay, 1.0)),
    ("$max", lambda: max_(Person.pay, 1.0)),
    ("$rename", lambda: rename(Person.ssn, "other")),
    ("$rename", lambda: rename(Person.home, "ssn")),
    ("$addToSet", lambda: add_to_set(Person.words, "one")),
    ("$pullAll", lambda: pull(Person.words, "one")),
    ("==", lambda: {"$pull": {"words": "one"}}),
    ("sort", lambda: push(Person.words, "one", sort=1)),
    ("sort", lambda: push(Person.phones, Phone(kind="a", number="1"), sort={"number": 1})),
    ("$currentDate", lambda: {"$currentDate": {"born": True}}),
    ("$set in a pipeline", lambda: [{"$set": {"ssn": "4"}}]),
    ("$set in a pipeline", lambda: [{"$set": {"name": "$ssn"}}]),
    ("$replaceWith", lambda: [{"$replaceWith": {"ssn": "4"}}]),
]


def test_what_an_update_cannot_compute_is_refused_by_name(db: Connection, face: Any) -> None:
    person = make()
    face.save(person)
    for named, change in REFUSED_CHANGES:
        for terminal in ("update", "find_and_update"):
            with pytest.raises(UnsupportedOption, match="Person") as caught:
                face.call(Person.find(), terminal, change())
            assert named in str(caught.value)
    assert face.call(Person, "get", person.id).words == ["one", "two", "three"]


def test_pipelines_hand_encrypted_fields_on(db: Connection, face: Any) -> None:
    face.save(make(), make(name="Eve", ssn="2"), make(name="Max", ssn="2x", born=None))
    run = lambda *stages: face.call(Person.find(), "aggregate", list(stages))  # noqa: E731
    assert run({"$match": {"ssn": "2"}}, {"$project": {"s": "$ssn", "_id": 0}}) == [{"s": "2"}]
    assert run({"$project": {"s": "$ssn"}}, {"$match": {"s": "2"}}, {"$count": "n"}) == [{"n": 1}]
    groups = run({"$group": {"_id": "$born", "who": {"$push": "$ssn"}}})
    assert sorted(sorted(group["who"]) for group in groups) == [["2", "457-55-5462"], ["2x"]]
    assert run({"$replaceWith": "$home"}, {"$match": {"number": "1"}}, {"$count": "n"}) == [{"n": 3}]
    assert run({"$unwind": "$phones"}, {"$match": {"phones.number": "2"}}, {"$count": "n"}) == [{"n": 3}]
    assert (
        run({"$facet": {"a": [{"$match": {"ssn": "2"}}, {"$project": {"ssn": 1}}]}})[0]["a"][0]["ssn"] == "2"
    )
    assert run({"$addFields": {"name": "x"}}, {"$match": {"name": "x"}}, {"$count": "n"}) == [{"n": 3}]
    assert (
        run({"$unionWith": {"coll": "encrypted_people", "pipeline": [{"$match": {"ssn": "2"}}]}})[-1]["ssn"]
        == "2"
    )


REFUSED_STAGES: list[tuple[str, Any]] = [
    ("$sort", {"$sort": {"ssn": 1}}),
    ("$group", {"$group": {"_id": "$pay"}}),
    ("$max", {"$group": {"_id": None, "x": {"$max": "$ssn"}}}),
    ("$sum", {"$group": {"_id": None, "x": {"$sum": "$pay"}}}),
    ("$project", {"$project": {"x": {"$toUpper": "$ssn"}}}),
    ("$addFields", {"$addFields": {"x": {"$concat": ["$$ROOT.ssn", "!"]}}}),
    ("$bucket", {"$bucket": {"groupBy": "$pay", "boundaries": [0, 1]}}),
    ("$lookup", {"$lookup": {"from": "o", "localField": "ssn", "foreignField": "x", "as": "y"}}),
    (
        "$lookup",
        {"$lookup": {"from": "encrypted_people", "localField": "name", "foreignField": "ssn", "as": "y"}},
    ),
    ("$geoNear", {"$geoNear": {"near": [0, 0], "distanceField": "d", "query": {"ssn": {"$gt": "a"}}}}),
    ("$setWindowFields", {"$setWindowFields": {"sortBy": {"ssn": 1}, "output": {}}}),
    ("$search", {"$search": {"text": {"query": "x", "path": "ssn"}}}),
]


def test_what_a_pipeline_cannot_compute_is_refused_by_name(db: Connection, face: Any) -> None:
    for named, stage in REFUSED_STAGES:
        with pytest.raises(UnsupportedOption, match=r"Person|encrypted") as caught:
            face.call(Person.find(), "aggregate", [stage])
        assert named.lstrip("$") in str(caught.value) or named == "$geoNear", str(caught.value)


def test_figures_of_encrypted_fields_are_refused(db: Connection, face: Any) -> None:
    for terminal in ("sum", "avg", "min", "max"):
        with pytest.raises(UnsupportedOption, match=rf"\${terminal} cannot work on Person.pay"):
            face.call(Person.find(), terminal, Person.pay)
