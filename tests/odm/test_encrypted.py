"""Fields marked `Encrypted`: what the server gets, what the program gets back, and what is refused."""

from __future__ import annotations

import collections
import datetime as dt
import json
import os
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from mangonel import bson, errors
from mangonel.bson import Binary, CodecOptions
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Encrypted,
    Indexed,
    Pipeline,
    Ref,
    UnsupportedOption,
    Version,
    add_to_set,
    all_,
    asc,
    connect,
    each,
    elem,
    expr,
    field,
    identity_map,
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
from mangonel.odm.query.request import TERMINALS
from mangonel.odm.store import writes

pytest.importorskip("pymongocrypt")

from mangonel.encryption import AsyncClientEncryption, AutoEncryptionOpts, ClientEncryption

DETERMINISTIC = Encrypted("deterministic", key="people")
RANDOM = Encrypted(key="people")


class Phone(Embedded):
    kind: str
    number: Annotated[str, DETERMINISTIC]
    note: Annotated[str | None, RANDOM] = None


class Person(Document):
    __collection__ = "encrypted_people"
    name: str
    ssn: Annotated[str | None, DETERMINISTIC, Indexed(unique=True, sparse=True)] = None
    pay: Annotated[float, RANDOM] = 0.0
    born: Annotated[dt.datetime | None, DETERMINISTIC] = None
    words: list[Annotated[str, RANDOM]] = field(default_factory=list)
    codes: set[Annotated[str, DETERMINISTIC]] = field(default_factory=set)
    phones: list[Phone] = field(default_factory=list)
    home: Phone | None = None
    marks: dict[str, Annotated[int, DETERMINISTIC]] = field(default_factory=dict)
    rev: Annotated[int, Version] = 0


class Visit(Document):
    __collection__ = "encrypted_visits"
    person: Ref[Person]
    at: int = 0


class Owned(Document):
    __collection__ = "encrypted_owned"
    owner: str
    text: Annotated[str, Encrypted(key_field="owner")]
    n: int = 0


@pytest.fixture
def providers() -> dict[str, Any]:
    return {"local": {"key": os.urandom(96)}}


# The ways that a connection may have keys in; where a test does not say, it is the first.
OPTIONS, OBJECTS = "options of the client", "objects beside it"


@pytest.fixture
def db(
    request: Any, server: Any, database_name: str, face: Any, providers: dict[str, Any]
) -> Iterator[Connection]:
    """A connection with keys."""
    vault = f"{database_name}.vault"
    if getattr(request, "param", OPTIONS) == OPTIONS:
        options = AutoEncryptionOpts(providers, vault, bypass_query_analysis=True)
        made = connect(server.uri, database=database_name, auto_encryption_opts=options)
    else:
        made = connect(
            server.uri,
            database=database_name,
            encryption=ClientEncryption(providers, vault, face_client(server, False), CodecOptions()),
            aencryption=AsyncClientEncryption(providers, vault, face_client(server, True), CodecOptions()),
        )
    with ClientEncryption(providers, vault, face_client(server, False), CodecOptions()) as keys:
        for name in ("people", "ada", "eve"):
            keys.create_data_key("local", key_alt_names=[name])
    yield made
    made.close()
    face.wait(made.aclose())


def face_client(server: Any, is_async: bool) -> Any:
    from mangonel import AsyncMongoClient, MongoClient

    return (AsyncMongoClient if is_async else MongoClient)(server.uri)


def stored(server: Any, db: Connection, model: Any = Person) -> list[dict[str, Any]]:
    """What the server has."""
    with face_client(server, False) as client:
        return client[db.name][model.__collection__].find().sort("_id").to_list()


def is_secret(value: Any) -> bool:
    return isinstance(value, Binary) and value.subtype == 6


def make(**values: Any) -> Person:
    given: dict[str, Any] = {
        "name": "Ada",
        "ssn": "457-55-5462",
        "pay": 4200.5,
        "born": dt.datetime(1815, 12, 10, tzinfo=dt.UTC),
        "words": ["one", "two", "three"],
        "codes": {"a", "b"},
        "phones": [Phone(kind="home", number="1", note="late"), Phone(kind="work", number="2")],
        "home": Phone(kind="home", number="1"),
        "marks": {"maths": 1, "latin": 5},
    }
    return Person(**{**given, **values})


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
    long_way = writes._update_one

    def noted(collection: Any, *arguments: Any) -> Any:
        ways.append(collection.name)
        return long_way(collection, *arguments)

    monkeypatch.setattr(writes, "_update_one", noted)
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
    ("$rename", lambda: rename(Person.name, "ssn")),
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


def test_references_bring_decrypted_documents(db: Connection, face: Any) -> None:
    ada = make()
    face.save(ada)
    face.save(Visit(person=Ref(ada)))
    for query in (Visit.find().include(Visit.person), Visit.find().lookup(Visit.person)):
        [visit] = face.call(query, "all")
        assert visit.person.value.ssn == "457-55-5462"
    found = face.call(
        Visit.find(),
        "aggregate",
        [
            {
                "$lookup": {
                    "from": "encrypted_people",
                    "pipeline": [{"$match": {"ssn": "457-55-5462"}}],
                    "as": "who",
                }
            }
        ],
    )
    assert found[0]["who"][0]["ssn"] == "457-55-5462"


def test_a_unique_index_refuses_the_second_of_equal_values(db: Connection, face: Any) -> None:
    face.call(Person, "sync_indexes")
    face.save(make())
    with pytest.raises(errors.DuplicateKeyError):
        face.save(make(name="Eve"))
    face.save(Person(name="a"), Person(name="b"))


def test_the_servers_validator_takes_encrypted_values_alone(db: Connection, face: Any, server: Any) -> None:
    face.call(Person, "create_collection", validate=True)
    face.save(make(), Person(name="nobody"))
    with face_client(server, False) as client, pytest.raises(errors.WriteError):
        client[db.name].encrypted_people.insert_one({"name": "x", "pay": 4.0, "rev": 0})


def test_a_key_for_each_document_is_named_by_a_field(
    db: Connection, face: Any, server: Any, providers: dict[str, Any]
) -> None:
    ada, eve = Owned(owner="ada", text="a"), Owned(owner="eve", text="e")
    face.call(Owned, "insert_many", [ada, eve])
    ada = face.call(Owned, "get", ada.id)
    ada.text = "b"
    face.save(ada)
    assert face.call(ada, "update", set_(Owned.text, "c")).text == "c"
    assert face.call(Owned.find(Owned.owner == "eve"), "update", set_(Owned.text, "f")) == 1
    with pytest.raises(UnsupportedOption, match=r"Owned\.owner == …"):
        face.call(Owned.find(), "update", set_(Owned.text, "x"))
    keys = {row["owner"]: bytes(row["text"])[1:17] for row in stored(server, db, Owned)}
    with face_client(server, False) as client:
        names = {bytes(key["_id"]): key["keyAltNames"] for key in client[db.name].vault.find()}
    assert {owner: names[key] for owner, key in keys.items()} == {"ada": ["ada"], "eve": ["eve"]}


def test_changes_are_watched_decrypted(db: Connection, face: Any) -> None:
    face.save(make(ssn="0"))

    async def watched() -> list[Any]:
        async with Person.watch([{"$match": {"fullDocument.ssn": "2"}}]) as changes:
            await Person(name="no", ssn="1").asave()
            await Person(name="yes", ssn="2").asave()
            return [(await anext(aiter(changes))).document]

    if face.is_async:
        [found] = face.run(watched)
    else:
        with Person.watch([{"$match": {"fullDocument.ssn": "2"}}]) as changes:
            face.save(Person(name="no", ssn="1"), Person(name="yes", ssn="2"))
            found = next(iter(changes)).document
    assert (found.name, found.ssn) == ("yes", "2")


@pytest.mark.parametrize("db", [OPTIONS, OBJECTS], indirect=True)
def test_one_document_is_one_object_and_transactions_encrypt(db: Connection, face: Any, server: Any) -> None:
    if face.is_async:

        async def moved() -> Any:
            async with db.transaction():
                await make().asave()
                return await Person.find(Person.ssn == "457-55-5462").aone()

        found = face.run(moved)
    else:
        with db.transaction():
            make().save()
            found = Person.find(Person.ssn == "457-55-5462").one()
    assert found.pay == 4200.5
    assert is_secret(stored(server, db)[0]["pay"])
    with identity_map():
        assert face.call(Person, "get", found.id) is face.call(Person.find(Person.ssn == found.ssn), "one")


def test_texts_of_documents_do_not_show_encrypted_fields(db: Connection) -> None:
    shown = repr(make())
    assert "457" not in shown
    assert "4200" not in shown
    assert "Ada" in shown
    assert "late" not in shown


def test_without_keys_the_remedy_is_named(server: Any, database_name: str, face: Any) -> None:
    made = connect(server.uri, database=database_name)
    with pytest.raises(errors.ConfigurationError, match=r"Person.*ssn.*auto_encryption_opts"):
        face.save(make())
    made.close()
    face.wait(made.aclose())


def test_pymongo_reads_what_is_written_and_the_other_way_round(
    db: Connection, face: Any, server: Any, providers: dict[str, Any]
) -> None:
    pymongo = pytest.importorskip("pymongo")
    from bson.codec_options import CodecOptions as PeerCodec
    from pymongo.encryption import ClientEncryption as PeerKeys
    from pymongo.encryption_options import AutoEncryptionOpts as PeerOptions

    vault = f"{db.name}.vault"
    options = PeerOptions(providers, vault, bypass_auto_encryption=True)
    with (
        pymongo.MongoClient(server.uri, auto_encryption_opts=options) as client,
        PeerKeys(providers, vault, client, PeerCodec()) as keys,
    ):
        face.save(make())
        row = client[db.name].encrypted_people.find_one()
        assert (row["ssn"], row["pay"], row["words"]) == ("457-55-5462", 4200.5, ["one", "two", "three"])
        secret = keys.encrypt("77", "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic", key_alt_name="people")
        pay = keys.encrypt(7.5, "AEAD_AES_256_CBC_HMAC_SHA_512-Random", key_alt_name="people")
        client[db.name].encrypted_people.insert_one({"name": "Peer", "ssn": secret, "pay": pay, "rev": 0})
    found = face.call(Person.find(Person.ssn == "77"), "one")
    assert (found.name, found.ssn, found.pay) == ("Peer", "77", 7.5)


# What each operation of a query gives for one person; a new operation has no row, which fails the test.
PERSON = {"ssn": "457-55-5462", "pay": 4200.5}
DEEDS: dict[str, Any] = {
    "iterate": lambda face, q: [p.pay for p in face.collect(q)] == [4200.5],
    "all": lambda face, q: face.call(q, "all")[0].pay == 4200.5,
    "first": lambda face, q: face.call(q, "first").pay == 4200.5,
    "last": lambda face, q: face.call(q, "last").pay == 4200.5,
    "nth": lambda face, q: face.call(q, "nth", 0).pay == 4200.5,
    "one": lambda face, q: face.call(q, "one").pay == 4200.5,
    "page": lambda face, q: face.call(q, "page", 2).items[0].pay == 4200.5,
    "paginate": lambda face, q: face.call(q, "paginate", 1, 2).items[0].pay == 4200.5,
    "dicts": lambda face, q: face.call(q, "dicts")[0]["pay"] == 4200.5,
    "raw": lambda face, q: bson.decode(face.call(q, "raw")[0])["pay"] == 4200.5,
    "json": lambda face, q: json.loads(face.call(q, "json"))[0]["pay"] == 4200.5,
    "to_arrow": lambda face, q: face.call(q, "to_numpy", {"pay": float})["pay"].tolist() == [4200.5],
    "iter_arrow": lambda face, q: (
        [
            value
            for part in face.collect(
                (q.aiter_arrow if face.is_async else q.iter_arrow)({"pay": float}, rows=2)
            )
            for value in pytest.importorskip("pyarrow").table(part)["pay"].to_pylist()
        ]
        == [4200.5]
    ),
    "values": lambda face, q: face.call(q, "values", Person.pay) == [4200.5],
    "explain": lambda face, q: bool(face.call(q, "explain")),
    "exists": lambda face, q: face.call(q, "exists"),
    "is_empty": lambda face, q: not face.call(q, "is_empty"),
    "count": lambda face, q: face.call(q, "count") == 1,
    "distinct": lambda face, q: face.call(q, "distinct", Person.ssn) == ["457-55-5462"],
    "aggregate": lambda face, q: face.call(q, "aggregate", [{"$project": {"pay": 1}}])[0]["pay"] == 4200.5,
    "sum": lambda face, q: face.call(q, "sum", Person.rev) == 0,
    "avg": lambda face, q: face.call(q, "avg", Person.rev) == 0,
    "min": lambda face, q: face.call(q, "min", Person.name) == "Ada",
    "max": lambda face, q: face.call(q, "max", Person.name) == "Ada",
    "update": lambda face, q: face.call(q, "update", set_(Person.pay, 1.5)) == 1,
    "find_and_update": lambda face, q: face.call(q, "find_and_update", set_(Person.pay, 2.5)).pay == 2.5,
    "upsert": lambda face, q: face.call(q, "upsert", set_(Person.pay, 3.5)).pay == 3.5,
    "get_or_create": lambda face, q: face.call(q, "get_or_create", make())[0].pay == 3.5,
    "find_and_replace": lambda face, q: (
        face.call(
            Unversioned.find(Unversioned.ssn == "457-55-5462"), "find_and_replace", Unversioned(ssn="1")
        ).ssn
        == "1"
    ),
    "find_and_delete": lambda face, q: (
        face.call(Unversioned.find(Unversioned.ssn == "1"), "find_and_delete").ssn == "1"
    ),
    "delete": lambda face, q: face.call(Person.find(Person.ssn == "2"), "delete") == 1,
}


class Unversioned(Document):
    __collection__ = "encrypted_unversioned"
    ssn: Annotated[str, DETERMINISTIC]


def test_every_operation_of_a_query_encrypts_and_decrypts(db: Connection, face: Any, server: Any) -> None:
    assert set(DEEDS) == set(TERMINALS) - {"watch"}
    face.save(make(), make(name="Eve", ssn="2"), Unversioned(ssn="457-55-5462"))
    for name, deed in DEEDS.items():
        assert deed(face, Person.find(Person.ssn == "457-55-5462")), name
        assert all(is_secret(row["ssn"]) and is_secret(row["pay"]) for row in stored(server, db)), name
        assert all(is_secret(row["ssn"]) for row in stored(server, db, Unversioned)), name
    assert [row["name"] for row in stored(server, db)] == ["Ada"]


def test_members_of_a_family_that_come_later_are_encrypted_too(
    db: Connection, face: Any, server: Any
) -> None:
    class Animal(Document):
        __root__ = True
        __collection__ = "encrypted_animals"
        name: str

    class Cat(Animal):
        pass

    face.save(Cat(name="a"))

    class Dog(Animal):
        chip: Annotated[str, DETERMINISTIC]

    face.call(Animal, "insert_many", [Cat(name="b"), Dog(name="c", chip="77")])
    rows = stored(server, db, Animal)
    assert is_secret(rows[-1]["chip"])
    assert [getattr(one, "chip", None) for one in face.call(Animal.find().sort("name"), "all")] == [
        None,
        None,
        "77",
    ]
    assert face.call(Animal.find({"chip": "77"}), "one").name == "c"


def test_models_of_one_collection_encrypt_for_each_other(db: Connection, face: Any, server: Any) -> None:
    class Open(Document):
        __collection__ = "encrypted_shared"
        name: str

    class Closed(Document):
        __collection__ = "encrypted_shared"
        name: str
        code: Annotated[str, RANDOM]

    face.call(Open, "insert_many", [Open(name="a"), Closed(name="b", code="77")])
    assert is_secret(stored(server, db, Open)[1]["code"])


def test_a_mark_that_would_encrypt_nothing_is_refused(db: Connection) -> None:
    for annotation, message in (
        (Annotated[dict[str, Any], RANDOM], "mark its values"),
        (dict[Annotated[str, RANDOM], int], "stands at"),  # type: ignore[misc]
        (Annotated[Phone, RANDOM], "mark the fields"),
        (Annotated[Phone, RANDOM] | int, "stands at"),
        (Annotated[list[str], RANDOM], "mark its elements"),
        (collections.deque[Annotated[str, RANDOM]], "deque"),
        (tuple[Annotated[str, RANDOM], int], "some elements"),
        (Annotated[Any, RANDOM], "give it a type"),
        (Annotated[bool, DETERMINISTIC], "too few values"),
        (Annotated[Ref[Person], RANDOM], "references"),
        (list[Annotated[str, Encrypted("indexed", key="people")]], "inside a list"),
        (Annotated[str, RANDOM, Indexed()], "cannot index"),
        (Annotated[str, DETERMINISTIC, Indexed("text")], "cannot index"),
        (Annotated[str, Encrypted], "the class"),
        (Annotated[str, RANDOM, DETERMINISTIC], "found two"),
        (Annotated[str, Encrypted(key_field="nobody")], "key_field"),
    ):
        model: Any = type(Document)("Wrong", (Document,), {"__annotations__": {"f": annotation}})
        with pytest.raises(TypeError, match=message):
            model.collection()
    for arguments, options in (
        (("secret",), {"key": "k"}),
        ((), {}),
        ((), {"key": "k", "key_field": "f"}),
        ((), {"key": 5}),
        (("deterministic",), {"key_field": "f"}),
        (("range",), {"key": "k"}),
        (("random",), {"key": "k", "contention_factor": 1}),
    ):
        with pytest.raises((TypeError, ValueError)):
            Encrypted(*arguments, **options)


def test_a_key_may_be_named_by_a_function(db: Connection, face: Any, server: Any) -> None:
    names = iter(["ada", "eve", "nobody"])

    class Noted(Document):
        __collection__ = "encrypted_noted"
        text: Annotated[str, Encrypted(key=lambda: next(names))]

    face.save(Noted(text="a"), Noted(text="b"))
    with pytest.raises(errors.EncryptionError):
        face.save(Noted(text="c"))
    rows = stored(server, db, Noted)
    assert len({bytes(row["text"])[1:17] for row in rows}) == 2
    assert [noted.text for noted in face.call(Noted.find(), "all")] == ["a", "b"]


# With the client's options replies are decrypted as PyMongo has them, those with errors too.
@pytest.mark.parametrize("db", [OBJECTS], indirect=True)
def test_errors_of_the_server_do_not_quote_plain_values(db: Connection, face: Any) -> None:
    face.call(Person, "sync_indexes")
    face.save(make())
    with pytest.raises(errors.DuplicateKeyError) as caught:
        face.save(make(name="Eve"))
    assert "457-55-5462" not in str(caught.value)


class Elsewhere(Document):
    __collection__ = "encrypted_elsewhere"
    name: str


@pytest.mark.parametrize("db", [OPTIONS, OBJECTS], indirect=True)
def test_pipelines_from_a_plain_model_to_an_encrypted_one_encrypt(db: Connection, face: Any) -> None:
    face.save(make(), make(name="Eve", ssn="2"), Elsewhere(name="Eve"))
    run = lambda *stages: face.call(Elsewhere.find(), "aggregate", list(stages))  # noqa: E731
    found = run(*Pipeline().union(Person, [{"$match": {"ssn": "2"}}]), {"$match": {"ssn": {"$exists": True}}})
    assert [one["ssn"] for one in found] == ["2"]
    asked = Pipeline().lookup(Person, Elsewhere.name, Person.name, "who", pipeline=[{"$match": {"ssn": "2"}}])
    assert [one["ssn"] for one in run(*asked)[0]["who"]] == ["2"]
    with pytest.raises(UnsupportedOption, match=r"\$gt cannot work on Elsewhere\.ssn"):
        run(*Pipeline().union(Person, [{"$match": {"ssn": {"$gt": "2"}}}]))
    with pytest.raises(UnsupportedOption, match=r"\$merge cannot store"):
        run({"$addFields": {"ssn": "2"}}, {"$merge": Person.__collection__})


def test_a_pipeline_to_an_encrypted_model_without_keys_names_the_remedy(
    server: Any, database_name: str, face: Any
) -> None:
    made = connect(server.uri, database=database_name)
    pipeline = Pipeline().union(Person, [{"$match": {"ssn": "2"}}])
    with pytest.raises(errors.ConfigurationError, match=r"from Elsewhere to Person.*auto_encryption_opts"):
        face.call(Elsewhere.find(), "aggregate", pipeline)
    made.close()
    face.wait(made.aclose())


def test_a_model_without_encrypted_fields_keeps_the_clients_port(db: Connection, face: Any) -> None:
    class Plain(Document):
        __collection__ = "encrypted_not"
        name: str

    client = db.aclient if face.is_async else db.client
    assert Plain._bind(face.is_async)._port is client._port
