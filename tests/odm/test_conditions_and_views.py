"""Smaller features: types of texts, conditions by name, pipelines, listeners, views, counts."""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import pickle
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mangonel import CursorType
from mangonel.errors import DuplicateKeyError, OperationFailure
from mangonel.odm import (
    AnyRef,
    Connection,
    Document,
    Email,
    Embedded,
    KeepsChanges,
    NotConnected,
    Pipeline,
    Ref,
    Secret,
    Timestamps,
    TooManyCommands,
    UnsupportedOption,
    Url,
    ValidationError,
    around,
    by_name,
    connect,
    count_commands,
    field,
    inc,
    listen,
    set_,
)
from mangonel.odm.errors import DocumentNotFound


class Street(Embedded):
    city: str
    number: int = 0


class Person(Document):
    __collection__ = "persons"
    name: str
    age: int = 0
    status: str = "new"
    street: Street | None = None
    tags: list[str] = field(default_factory=list, key="t")


class Contact(Document):
    mail: Email
    home: Url | None = None
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None = None
    host: ipaddress.IPv4Address | None = None
    token: Secret | None = None


class Wallet(Embedded):
    pin: Secret


class Owner(Document):
    wallet: Wallet | None = None


class Place(Embedded):
    shop: str
    day: int


class Total(Document):
    id: Place = field(key="_id")
    cents: int = 0


class Adult(Document):
    __view__ = (Person, Pipeline().match(Person.age >= 18).project(Person.name, Person.age))
    name: str
    age: int


class Tracked(KeepsChanges):
    name: str = ""
    tags: list[str] = field(default_factory=list)


class Thread(Timestamps):
    title: str = ""


class Reply(Document):
    thread: Ref[Thread] = field(touch=True)
    text: str = ""


told: list[Any] = []


class Wrapped(Document):
    name: str = ""

    @around("save")
    def _around_save(self) -> Iterator[None]:
        told.append(f"save of {self.name} begins")
        try:
            yield
        except Exception as error:
            told.append(type(error).__name__)
            raise
        told.append(f"save of {self.name} ends")

    @around("delete")
    def _around_delete(self) -> Iterator[None]:
        told.append("delete begins")
        yield
        told.append("delete ends")


class Awaited(Document):
    name: str = ""

    @around("insert")
    async def _around_insert(self) -> AsyncIterator[None]:
        told.append("begins")
        yield
        told.append("ends")


class Vote(Document):
    on: AnyRef
    others: list[AnyRef] = field(default_factory=list)


class Line(Document):
    __collection__ = "lines"
    __collection_options__ = {"capped": True, "size": 100_000}  # noqa: RUF012  # as programs write it
    n: int


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    told.clear()


@pytest.fixture
def people(db: Connection, face: Any) -> None:
    face.save(
        Person(name="Ada", age=36, status="old", street=Street(city="Oslo", number=3), tags=["a", "b"]),
        Person(name="Bob", age=20, street=Street(city="Bergen"), tags=["b"]),
        Person(name="Eve", age=10),
    )


def names(face: Any, *where: Any) -> list[str]:
    return [person.name for person in face.call(Person.find(*where).sort("name"), "all")]


# Types.


def test_texts_of_a_form_are_checked_and_come_back(db: Connection, face: Any) -> None:
    made = Contact(
        mail="ada@example.org",
        home="https://example.org/ada",
        host=ipaddress.IPv4Address("10.0.0.1"),
        token=Secret("s3cr3t"),
    )
    face.save(made)
    found = face.call(Contact, "get", made.id)
    assert (found.mail, found.home, str(found.host)) == (made.mail, made.home, "10.0.0.1")
    assert found.token is not None
    assert found.token.reveal() == "s3cr3t"
    assert db.client[db.name]["contact"].find_one()["token"] == "s3cr3t"
    assert not found.is_changed
    for wrong in ("ada", "ada@example", "a da@example.org", "ada@example.org\n", "@example.org"):
        with pytest.raises(ValidationError, match=r"\$\.mail"):
            Contact(mail=wrong)
    for wrong in ("example.org", "https://", "https:///x", "http://exa mple"):
        with pytest.raises(ValidationError, match=r"\$\.home"):
            Contact(mail="a@b.c", home=wrong)
    with pytest.raises(ValidationError, match=r"\$\.host"):
        Contact.from_dict({"mail": "a@b.c", "host": 1})


def test_a_secret_is_shown_nowhere_but_where_it_is_asked_for(db: Connection, face: Any) -> None:
    secret = Secret("s3cr3t")
    made = Contact(mail="a@b.c", token=secret)
    face.save(made)
    shown = [repr(secret), str(secret), f"{secret}", repr(made), made.to_json(), str(made.to_dict())]
    assert not any("s3cr3t" in text for text in shown)
    assert copy.deepcopy(made).token == secret == pickle.loads(pickle.dumps(made)).token
    with pytest.raises(UnsupportedOption, match=r"json\(\) cannot honour the Secret Contact.token"):
        face.call(Contact.find(), "json")
    assert b"s3cr3t" not in face.call(Contact.find(), "json", exclude=[Contact.token])
    assert b"s3cr3t" not in face.call(Contact.find().only(Contact.mail), "json")
    with pytest.raises(UnsupportedOption, match=r"Wallet\.pin"):
        face.call(Owner.find(), "json")


def test_an_id_of_several_fields_is_a_document(db: Connection, face: Any) -> None:
    tea, jam = Total(id=Place(shop="tea", day=1), cents=5), Total(id=Place(shop="jam", day=1))
    face.save(tea, jam)
    found = face.call(Total, "get", Place(shop="tea", day=1))
    assert (found.id.shop, found.id.day, found.cents) == ("tea", 1, 5)
    found.cents = 7
    face.save(found)
    assert face.call(tea, "reload").cents == 7
    assert face.call(Total.find(Total.id == Place(shop="jam", day=1)), "count") == 1
    assert face.call(Total.find(Total.id.shop == "jam"), "count") == 1
    assert [one.id.shop for one in face.call(Total, "get_many", [jam.id, tea.id])] == ["jam", "tea"]
    with pytest.raises(DuplicateKeyError):
        face.call(Total(id=Place(shop="tea", day=1)), "insert")
    assert found == tea
    assert len({found, tea, jam}) == 2
    face.call(found, "delete")
    assert face.call(Total.find(), "count") == 1


# Queries.


def test_conditions_have_names_as_in_mongoengine(people: None, face: Any) -> None:
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "equal": ({"name": "Ada"}, ["Ada"]),
        "several": ({"age__gt": 10, "age__lt": 30}, ["Bob"]),
        "inside": ({"street__city": "Oslo"}, ["Ada"]),
        "inside, compared": ({"street__number__gte": 3}, ["Ada"]),
        "in": ({"age__in": [10, 20]}, ["Bob", "Eve"]),
        "nin": ({"age__nin": [10, 20]}, ["Ada"]),
        "ne": ({"name__ne": "Ada"}, ["Bob", "Eve"]),
        "case": ({"name__istartswith": "a"}, ["Ada"]),
        "text": ({"street__city__endswith": "en"}, ["Bob"]),
        "place": ({"tags__0": "a"}, ["Ada"]),
        "element": ({"tags": "b"}, ["Ada", "Bob"]),
        "all": ({"tags__all": ["a", "b"]}, ["Ada"]),
        "size": ({"tags__size": 1}, ["Bob"]),
        "exists": ({"street__exists": False}, ["Eve"]),
        "mod": ({"age__mod": (9, 0)}, ["Ada"]),
        "regex": ({"name__regex": "^[BE]"}, ["Bob", "Eve"]),
        "pattern, any case": ({"name__iregex": "^a"}, ["Ada"]),
    }
    for label, (conditions, expected) in cases.items():
        assert names(face, by_name(Person, **conditions)) == expected, label
    assert names(face, by_name(Person, age__gt=10) & (Person.status == "new")) == ["Bob"]
    ada = face.call(Person.find(by_name(Person, name="Ada")), "one")
    assert names(face, by_name(Person, pk=ada.id)) == names(face, by_name(Person, id=str(ada.id))) == ["Ada"]


def test_a_name_that_no_field_or_operator_has_is_refused() -> None:
    with pytest.raises(AttributeError, match="Person has no field 'nme'"):
        by_name(Person, nme="x")
    with pytest.raises(AttributeError, match="Street has no field 'town'"):
        by_name(Person, street__town__gt="x")
    with pytest.raises(AttributeError, match="got 'bigger'; operators are all, contains"):
        by_name(Person, age__bigger=3)


def test_a_pipeline_is_made_of_fields(people: None, face: Any) -> None:
    by_tag = (
        Pipeline()
        .unwind(Person.tags)
        .group(Person.tags, people="count", oldest=("max", Person.age), who=("push", Person.name))
        .sort("-people", "_id")
    )
    found = face.call(Person.find(Person.age > 15), "aggregate", by_tag)
    assert [(row["_id"], row["people"], row["oldest"]) for row in found] == [("b", 2, 36), ("a", 1, 36)]
    ages = Pipeline().bucket(Person.age, [0, 18, 100], people="count")
    assert [row["people"] for row in face.call(Person.find(), "aggregate", ages)] == [1, 2]
    shaped = Pipeline().sort(Person.name).limit(1).project(Person.name, years=Person.age, _id=False)
    assert face.call(Person.find(), "aggregate", shaped) == [{"name": "Ada", "years": 36}]
    both = Pipeline().facet(all=Pipeline().count(), some=Pipeline().match(Person.age < 18).count("n"))
    assert face.call(Person.find(), "aggregate", both) == [{"all": [{"count": 3}], "some": [{"n": 1}]}]
    with pytest.raises(TypeError, match="expected an accumulator for 'x'"):
        Pipeline().group(None, x=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a field or a key"):
        Pipeline().unwind(3)


def test_searches_come_first_in_what_is_sent(people: None, face: Any, db: Connection) -> None:
    near = Pipeline().vector_search("v", [0.5, 1], 3, index="near", where=Person.age > 3, score="s")
    words = Pipeline().search("words", text={"query": "tea", "path": Person.street.city})  # type: ignore[union-attr]
    assert list(near) == [
        {
            "$vectorSearch": {
                "index": "near",
                "path": "v",
                "queryVector": [0.5, 1],
                "limit": 3,
                "exact": True,
                "filter": {"age": {"$gt": 3}},
            }
        },
        {"$set": {"s": {"$meta": "vectorSearchScore"}}},
    ]
    assert list(words) == [{"$search": {"index": "words", "text": {"query": "tea", "path": "street.city"}}}]
    # The server of these tests has no search, and says so; any other stage in front would cause another error.
    for pipeline in (near, words):
        with pytest.raises(OperationFailure, match=r"(?i)search"):
            face.call(Person.find(Person.age > 3), "aggregate", pipeline)


def test_a_tailing_query_waits_for_what_comes(db: Connection, face: Any) -> None:
    face.call(Line, "create_collection")
    face.save(Line(n=0))
    query = Line.find().options(cursor_type=CursorType.TAILABLE_AWAIT)
    seen: list[int] = []

    def another() -> bool:
        """Store the next document without the reader's knowledge; return False when there were enough."""
        if len(seen) < 4:
            db.client[db.name]["lines"].insert_one({"n": len(seen)})
        return len(seen) < 4

    if face.is_async:

        async def read() -> None:
            async for line in query:
                seen.append(line.n)
                if not another():
                    break

        face.wait(read())
    else:
        for line in query:
            seen.append(line.n)
            if not another():
                break
    assert seen == [0, 1, 2, 3]
    assert [line.n for line in face.call(query, "all")] == [0, 1, 2, 3]
    exhausted = Line.find().options(cursor_type=CursorType.EXHAUST).batch_size(2)
    assert [line.n for line in face.collect(exhausted)] == [0, 1, 2, 3]


def test_a_view_is_read_and_not_written(people: None, db: Connection, face: Any) -> None:
    face.call(Adult, "create_collection")
    assert [adult.name for adult in face.call(Adult.find().sort("name"), "all")] == ["Ada", "Bob"]
    assert face.call(Adult.find(Adult.age > 30), "count") == 1
    ada = face.call(Adult.find(Adult.name == "Ada"), "one")
    ada.age = 1
    with pytest.raises(OperationFailure, match="view"):
        face.save(ada)
    with pytest.raises(OperationFailure, match="view"):
        face.call(Adult.find(), "update", set_(Adult.age, 1))
    with pytest.raises(ValueError, match="cannot validate Adult: it is a view"):
        face.call(Adult, "create_collection", validate=True)
    assert names(face, Person.age == 36) == ["Ada"]


# References.


def test_a_reference_to_any_model_finds_its_document(people: None, db: Connection, face: Any) -> None:
    ada = face.call(Person.find(Person.name == "Ada"), "one")
    thread = Thread(title="t")
    face.save(thread)
    vote = Vote(on=AnyRef(ada), others=[AnyRef(thread)])
    face.save(vote)
    stored = db.client[db.name]["vote"].find_one()
    assert (stored["on"].collection, stored["on"].id) == ("persons", ada.id)
    found = face.call(Vote, "get", vote.id)
    assert not found.on.is_loaded
    assert not found.is_changed
    assert face.call(found.on, "get").name == "Ada"
    assert face.call(found.others[0], "get").title == "t"
    assert found.on == ada
    assert found.on == vote.on
    assert found.on != thread
    assert face.call(Vote.find(Vote.on == AnyRef(ada)), "count") == 1
    face.call(ada, "delete")
    with pytest.raises(DocumentNotFound):
        face.call(face.call(Vote, "get", vote.id).on, "get")
    with pytest.raises(TypeError, match="expected a document for an AnyRef, got str"):
        AnyRef("x")


def test_storing_a_document_touches_what_it_says(db: Connection, face: Any) -> None:
    thread = Thread(title="t")
    face.save(thread)

    def changed_at() -> Any:
        return face.call(Thread, "get", thread.id).updated_at

    before = changed_at()
    moments = [before]
    reply = Reply(thread=Ref(thread))

    def at_another_moment(act: Any) -> None:
        while int(time.time() * 1000) <= int(moments[-1].timestamp() * 1000):
            time.sleep(0.001)
        act()
        moments.append(changed_at())

    at_another_moment(lambda: face.save(reply))
    reply.text = "new"
    at_another_moment(lambda: face.save(reply))
    reply.text = "newer"
    at_another_moment(lambda: face.call(Reply, "save_all", [reply]))
    at_another_moment(lambda: face.call(reply, "delete"))
    assert len(set(moments)) == 5
    assert moments == sorted(moments)
    assert face.call(Thread, "get", thread.id).title == "t"


def test_only_references_to_models_with_times_can_be_touched() -> None:
    class Bad(Document):
        person: Ref[Person] = field(touch=True)

    try:
        with pytest.raises(TypeError, match=r"cannot touch what Bad\.person leads to"):
            Bad(person="x")
    finally:
        from mangonel.odm._registry import models

        models.remove(Bad)


# State and events.


def test_what_the_last_save_stored_is_kept_where_a_model_wants_it(db: Connection, face: Any) -> None:
    made = Tracked(name="a")
    assert made.previous_changes() == {}
    face.save(made)
    assert made.previous_changes()["name"] == (None, "a")
    made.name = "b"
    made.tags.append("x")
    assert made.previous_changes()["name"] == (None, "a")
    face.save(made)
    assert made.previous_changes() == {"name": ("a", "b"), "tags": ([], ["x"])}
    made.tags.append("y")
    assert made.previous_changes()["tags"] == ([], ["x"])
    face.call(Tracked, "save_all", [made])
    assert made.previous_changes() == {"tags": (["x"], ["x", "y"])}
    # Another object of the same document has its own state.
    assert face.call(Tracked, "get", made.id).previous_changes() == {}
    db.client[db.name]["tracked"].delete_many({})
    made.name = "c"
    with pytest.raises(DocumentNotFound):
        face.save(made)
    assert made.previous_changes() == {"tags": (["x"], ["x", "y"])}


def test_hooks_stand_around_what_is_stored(db: Connection, face: Any) -> None:
    made = Wrapped(name="a")
    face.save(made)
    made.name = "b"
    face.save(made)
    face.call(made, "replace")
    face.call(Wrapped, "insert_many", [Wrapped(name="c"), Wrapped(name="d")])
    face.call(made, "delete")
    assert told == [
        *(f"save of {name} {part}" for name in ("a", "b", "b") for part in ("begins", "ends")),
        "save of c begins",
        "save of d begins",
        "save of d ends",
        "save of c ends",
        "delete begins",
        "delete ends",
    ]


def test_an_error_passes_through_the_hooks_around_it(db: Connection, face: Any) -> None:
    made = Wrapped(name="a")
    face.save(made)
    told.clear()
    with pytest.raises(DuplicateKeyError):
        face.call(Wrapped(id=made.id, name="x"), "insert")
    assert told == ["save of x begins", "DuplicateKeyError"]


def test_a_hook_around_must_be_a_generator() -> None:
    with pytest.raises(TypeError, match=r"expected a generator function for around\(\), got '_plain'"):

        class Plain(Document):
            @around("save")
            def _plain(self) -> None:
                return

    with pytest.raises(ValueError, match="expected events among delete, insert, save, update, got 'load'"):
        around("load")


def test_an_asynchronous_generator_stands_around_on_asyncio_alone(db: Connection, face: Any) -> None:
    if face.is_async:
        face.save(Awaited(name="a"))
        assert told == ["begins", "ends"]
    else:
        with pytest.raises(TypeError, match="cannot run the coroutine function '_around_insert'"):
            face.save(Awaited(name="a"))


def test_functions_listen_to_all_models_or_to_one(db: Connection, face: Any) -> None:
    plain, other = Person(name="Ada"), Thread(title="t")
    face.save(plain, other)
    stops = [
        listen("after", "save", lambda document: told.append(("all", type(document).__name__))),
        listen("before", "save", lambda document: told.append(("one", document.name)), Person),
        listen("after", "load", lambda document: told.append(("loaded", document.name)), Person),
        listen("before", "query_update", lambda model, query, update: told.append(update), Person),
    ]
    try:

        class Later(Document):
            name: str = ""

        plain.name = "Eve"
        face.save(plain, Later())
        other.title = "new"
        face.save(other)
        assert told == [("one", "Eve"), ("all", "Person"), ("all", "Later"), ("all", "Thread")]
        told.clear()
        face.call(Person, "get", plain.id)
        face.call(Person.find(), "update", inc(Person.age))
        assert told == [("loaded", "Eve"), {"$inc": {"age": 1}}]
    finally:
        for stop in stops:
            stop()
            stop()
    told.clear()
    plain.name = "Bob"
    face.save(plain, Later())
    face.call(Person, "get", plain.id)
    assert told == []
    with pytest.raises(ValueError, match='expected "before" or "after", got \'around\''):
        listen("around", "save", print)


def test_commands_are_counted_and_repeated_ones_named(people: None, db: Connection, face: Any) -> None:
    with count_commands(db) as commands:
        ids = [person.id for person in face.call(Person.find(), "all")]
        for id in ids:
            face.call(Person, "get", id)
    assert len(commands) == 4
    assert commands.repeated() == {("find", "persons"): 4}

    def too_many() -> None:
        with count_commands(db, at_most=2):
            for id in ids:
                face.call(Person, "get", id)

    with pytest.raises(
        TooManyCommands, match="expected at most 2 commands, got 3: 3 times find persons; an include"
    ):
        too_many()
    face.call(Person.find(), "count")
    assert len(commands) == 4


# The end of a connection.


def terminals() -> dict[str, Any]:
    """Return every reading or writing operation, by name."""
    known = Person(name="known")
    calls: dict[str, Any] = {
        name: lambda face, name=name: face.call(Person.find(), name)
        for name in (
            *("all", "first", "one", "last", "count", "exists", "is_empty", "dicts", "raw", "json"),
            *("explain", "page", "paginate", "delete", "find_and_delete"),
        )
    }
    calls |= {
        "iterate": lambda face: face.collect(Person.find()),
        "nth": lambda face: face.call(Person.find(), "nth", 1),
        "distinct": lambda face: face.call(Person.find(), "distinct", Person.age),
        "values": lambda face: face.call(Person.find(), "values", Person.age),
        "sum": lambda face: face.call(Person.find(), "sum", Person.age),
        "aggregate": lambda face: face.call(Person.find(), "aggregate", []),
        "update": lambda face: face.call(Person.find(), "update", inc(Person.age)),
        "find_and_update": lambda face: face.call(Person.find(), "find_and_update", inc(Person.age)),
        "upsert": lambda face: face.call(Person.find(), "upsert", inc(Person.age)),
        "get_or_create": lambda face: face.call(Person.find(), "get_or_create", known),
        "watch": lambda face: face.call(Person.watch(), "try_next"),
        "get": lambda face: face.call(Person, "get", known.id),
        "get_many": lambda face: face.call(Person, "get_many", [known.id]),
        "estimated_count": lambda face: face.call(Person, "estimated_count"),
        "insert": lambda face: face.call(Person(name="x"), "insert"),
        "insert_many": lambda face: face.call(Person, "insert_many", [Person(name="x")]),
        "save_all": lambda face: face.call(Person, "save_all", [Person(name="x")]),
        "sync_indexes": lambda face: face.call(Person, "sync_indexes"),
        "create_collection": lambda face: face.call(Person, "create_collection"),
    }
    return calls


async def closed(db: Connection) -> None:
    """Close a connection's clients on asyncio."""
    await db.aclose()


def test_after_its_end_a_connection_refuses_everything_in_one_way(
    server: Any, database_name: str, face: Any
) -> None:
    db = connect(server.uri, database=database_name)
    stored = Person(name="stored")
    face.save(stored)
    sibling = db.sibling(database_name + "_other")
    stored.age = 3
    if face.is_async:
        face.wait(db.aclose())
        face.wait(db.aclose())
    else:
        db.close()
        db.close()
    message = "client of this connection was closed; call connect"
    calls = terminals()
    for name in ("save", "reload", "delete", "replace"):
        calls[f"document.{name}"] = lambda face, name=name: face.call(stored, name)
    calls["document.update"] = lambda face: face.call(stored, "update", inc(Person.age))
    calls["sibling"] = lambda face: face.call(Person.find().using(sibling), "count")
    for name, call in calls.items():
        with pytest.raises(NotConnected) as raised:
            call(face)
        assert message in str(raised.value), name
    with pytest.raises(NotConnected, match=message):
        face.call(db, "run", lambda: None)
    # The other face continues, and a new connection serves both.
    assert db.database(not face.is_async).name == database_name
    db.close()
    if face.is_async:
        face.wait(db.aclose())
    else:
        asyncio.run(closed(db))
    again = connect(server.uri, database=database_name)
    try:
        assert face.call(Person.find(), "count") == 1
    finally:
        again.close()
        face.wait(again.aclose())
