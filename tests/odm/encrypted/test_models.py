"""Models with fields marked `Encrypted` beside others: references, families, indexes, keys, watching, and PyMongo."""

from __future__ import annotations

import collections
import json
from typing import Annotated, Any

import pytest

from mangonel import bson, errors
from mangonel.odm import (
    Connection,
    Document,
    Encrypted,
    Indexed,
    Pipeline,
    Ref,
    UnsupportedOption,
    connect,
    identity_map,
    set_,
)
from mangonel.odm.query.request import TERMINALS

pytest.importorskip("pymongocrypt")

from odm.encrypted.people import (
    DETERMINISTIC,
    OBJECTS,
    OPTIONS,
    RANDOM,
    Owned,
    Person,
    Phone,
    Visit,
    face_client,
    is_secret,
    make,
    stored,
)


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
    # Whole values only: the id may contain the digits of a part.
    assert "457-55-5462" not in shown
    assert "4200.5" not in shown
    assert "Ada" in shown
    assert "late" not in shown


def test_without_keys_the_remedy_is_named(server: Any, database_name: str, face: Any) -> None:
    made = connect(server.uri, database=database_name)
    with pytest.raises(errors.ConfigurationError, match=r"Person.*ssn.*auto_encryption_opts"):
        face.save(make())
    made.close()
    face.wait(made.aclose())


def test_the_model_that_encrypts_a_shared_collection_is_named(
    server: Any, database_name: str, face: Any
) -> None:
    class Secretive(Document):
        __collection__ = "shared_with_secretive"
        pin: Annotated[str, Encrypted(key="pins")]

    class Open(Document):
        __collection__ = "shared_with_secretive"
        note: str

    made = connect(server.uri, database=database_name)
    with pytest.raises(
        errors.ConfigurationError, match=r"use Open, whose pin .* in .*Secretive, stored in shared_with"
    ):
        face.save(Open(note=""))
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


# The result of each query operation for one person; a new operation lacks a row, which fails the test.
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
        (Annotated[str, RANDOM, DETERMINISTIC], "got two"),
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


# With the client's options replies are decrypted as in PyMongo, even where the driver finds an error.
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
