"""Models with fields of Queryable Encryption on a server that has it, 7.0 or newer; values are encrypted by the mapper,
so nothing analyses queries.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import pytest

from mangonel import bson, errors
from mangonel.bson import Binary, CodecOptions, ObjectId
from mangonel.encryption import ClientEncryption, RangeOpts
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Encrypted,
    Indexed,
    UnsupportedOption,
    encrypted_fields_map,
    set_,
)
from odm.encrypted.people import OBJECTS, face_client
from tools import target

pytest.importorskip("pymongocrypt")

NEEDS_SERVER = pytest.mark.skipif(
    target.version() < (7,), reason="Queryable Encryption needs MongoDB 7.0 or newer"
)


class Address(Embedded):
    city: str
    street: Annotated[str, Encrypted("indexed", key="street", contention_factor=0)]


class Patient(Document):
    __collection__ = "queryable_patients"
    __unknown__ = "forbid"
    name: Annotated[str, Indexed()]
    ssn: Annotated[str, Encrypted("indexed", key="ada", contention_factor=2)]
    born: Annotated[dt.datetime | None, Encrypted("indexed", key="eve", contention_factor=0)] = None
    note: Annotated[str | None, Encrypted("unindexed", key="note")] = None
    home: Address | None = None


BORN = dt.datetime(1815, 12, 10, tzinfo=dt.UTC)
STATE = ["enxcol_.queryable_patients.ecoc", "enxcol_.queryable_patients.esc"]


def ada() -> Patient:
    home = Address(city="London", street="Dorset Street")
    return Patient(name="Ada", ssn="457", born=BORN, note="late", home=home)


def stored(server: Any, db: Connection) -> dict[str, dict[str, Any]]:
    """Return the stored document, by names."""
    with face_client(server, False) as client:
        return {row["name"]: row for row in client[db.name].queryable_patients.find()}


def kind(value: Any) -> tuple[int, int]:
    """Return the subtype of an encrypted value and the kind that libmongocrypt names."""
    return value.subtype, value[0]


# As the server stores them: searchable by equality, and not searchable.
INDEXED, UNINDEXED = (6, 14), (6, 16)


@pytest.fixture
def patients(db: Connection, face: Any) -> Connection:
    """A connection to a server whose collection has one document."""
    face.call(Patient, "create_collection")
    face.save(ada())
    return db


@NEEDS_SERVER
def test_a_collection_is_made_with_the_fields_of_its_model(db: Connection, face: Any, server: Any) -> None:
    face.call(Patient, "create_collection")
    with face_client(server, False) as client:
        made = {row["name"]: row["options"] for row in client[db.name].list_collections()}
        ids = {key["keyAltNames"][0]: key["_id"] for key in client[db.name].vault.find()}
    assert sorted(made) == [*STATE, Patient.__collection__, "vault"]
    fields = encrypted_fields_map(db.name, Patient, key_ids=ids)[f"{db.name}.{Patient.__collection__}"][
        "fields"
    ]
    found = made[Patient.__collection__]["encryptedFields"]["fields"]
    assert [row["path"] for row in found] == ["ssn", "born", "note", "home.street"]
    assert sorted(found, key=str) == sorted(({**row} for row in found if row in fields), key=str)
    with pytest.raises(errors.CollectionInvalid):
        face.call(Patient, "create_collection")


@NEEDS_SERVER
def test_the_server_has_no_plain_value_and_the_model_reads_all(
    patients: Connection, face: Any, server: Any
) -> None:
    row = stored(server, patients)["Ada"]
    assert [kind(row[name]) for name in ("ssn", "born", "note")] == [INDEXED, INDEXED, UNINDEXED]
    assert kind(row["home"]["street"]) == INDEXED
    assert len(row["__safeContent__"]) == 3
    found = face.call(Patient.find(Patient.name == "Ada"), "one")
    assert (found.ssn, found.born, found.note, found.home.street) == (
        "457",
        BORN,
        "late",
        "Dorset Street",
    )
    assert "__safeContent__" not in found.to_bson()


@NEEDS_SERVER
@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Patient.ssn == "457", ["Ada"]),
        (Patient.ssn == "0", []),
        (Patient.ssn.in_(["457", "1"]), ["Ada", "Eve"]),
        (Patient.ssn != "457", ["Eve", "Max"]),
        (Patient.ssn.not_in(["457", "1"]), ["Max"]),
        (Patient.born == BORN, ["Ada"]),
        (Patient.home.street == "Dorset Street", ["Ada"]),
        (Patient.note.is_none(), ["Eve", "Max"]),
        ((Patient.name == "Ada") & (Patient.ssn == "457"), ["Ada"]),
        ((Patient.ssn == "1") | (Patient.ssn == "2"), ["Eve", "Max"]),
    ],
    ids=["==", "== nothing", "in_", "!=", "not_in", "date", "embedded", "is_none", "and", "or"],
)
def test_equal_values_are_found(patients: Connection, face: Any, query: Any, names: list[str]) -> None:
    assert (
        face.call(Patient, "insert_many", [Patient(name="Eve", ssn="1"), Patient(name="Max", ssn="2")]) == 2
    )
    assert [one.name for one in face.call(Patient.find(query).sort(Patient.name), "all")] == names
    assert face.call(Patient.find(query), "count") == len(names)


@NEEDS_SERVER
def test_a_changed_document_is_found_by_its_new_value_alone(patients: Connection, face: Any) -> None:
    def found(ssn: str) -> int:
        return int(face.call(Patient.find(Patient.ssn == ssn), "count"))

    one = face.call(Patient.find(Patient.ssn == "457"), "one")
    one.ssn, one.note = "458", "later"
    face.save(one)
    assert (found("457"), found("458")) == (0, 1)
    one.ssn = "459"
    face.call(one, "replace")
    assert (found("458"), found("459")) == (0, 1)
    assert (
        face.call(one, "update", set_(Patient.ssn, "460"), set_(Patient.home.street, "St James")).ssn == "460"
    )
    assert one.home.street == "St James"
    assert (found("459"), found("460")) == (0, 1)
    assert (
        face.call(
            Patient.find(Patient.ssn == "460"), "find_and_update", set_(Patient.ssn, "461"), new=False
        ).ssn
        == "460"
    )
    assert (found("460"), found("461")) == (0, 1)
    assert face.call(Patient.find(Patient.home.street == "St James"), "find_and_delete").note == "later"
    assert face.call(Patient.find(), "count") == 0


@NEEDS_SERVER
def test_a_query_changes_all_that_match_one_after_the_other(
    patients: Connection, face: Any, server: Any
) -> None:
    face.call(Patient, "insert_many", [Patient(name="Eve", ssn="1"), Patient(name="Max", ssn="1")])
    assert face.call(Patient.find(Patient.ssn == "1"), "update", set_(Patient.note, "seen")) == 2
    assert face.call(Patient.find(), "update", set_(Patient.ssn, "7")) == 3
    assert face.call(Patient.find(Patient.ssn == "7", Patient.note == None), "count") == 0  # noqa: E711
    assert face.call(Patient.find(Patient.name == "nobody"), "update", set_(Patient.ssn, "8")) == 0
    query = Patient.find(Patient.name == "Zoe")
    assert face.call(query, "update", set_(Patient.ssn, "9"), upsert=True) == 1
    assert face.call(Patient.find(Patient.ssn == "9"), "one").name == "Zoe"
    assert face.call(Patient.find(Patient.ssn == "7"), "delete") == 3
    assert list(stored(server, patients)) == ["Zoe"]


@NEEDS_SERVER
def test_a_transaction_keeps_or_loses_all_of_it(patients: Connection, face: Any) -> None:
    if face.is_async:

        async def moved() -> None:
            async with patients.transaction():
                await Patient(name="Eve", ssn="1").asave()
                assert await Patient.find(Patient.ssn == "1").acount() == 1
                raise KeyError

        def run() -> None:
            face.run(moved)
    else:

        def run() -> None:
            with patients.transaction():
                Patient(name="Eve", ssn="1").save()
                assert len(Patient.find(Patient.ssn == "1").all()) == 1
                raise KeyError

    with pytest.raises(KeyError):
        run()
    assert face.call(Patient.find(Patient.ssn == "1"), "count") == 0


@NEEDS_SERVER
def test_what_the_server_cannot_do_is_said_before_it_is_asked(patients: Connection, face: Any) -> None:
    eve, max = Patient(name="Eve", ssn="1"), Patient(name="Max", ssn="2")
    face.save(eve, max)
    eve.note = max.note = "x"
    with pytest.raises(UnsupportedOption, match=r"save_all\(\) cannot change 2 documents of Patient"):
        face.call(Patient, "save_all", [eve, max])
    face.save(eve, max)
    with pytest.raises(UnsupportedOption, match="new=False"):
        face.call(Patient.find(Patient.ssn == "1"), "find_and_update", set_(Patient.note, "y"))
    with pytest.raises(UnsupportedOption, match="insert the document"):
        face.call(Patient.find(Patient.ssn == "3"), "update", set_(Patient.name, "Zoe"), upsert=True)


@NEEDS_SERVER
def test_the_servers_own_index_is_not_in_the_way(patients: Connection, face: Any, server: Any) -> None:
    plan = face.call(Patient, "sync_indexes", drop=True)
    assert (plan.create, plan.drop, plan.unknown) == (["name_1"], [], [])
    with face_client(server, False) as client:
        assert "__safeContent___1" in client[patients.name].queryable_patients.index_information()


@NEEDS_SERVER
def test_values_of_explicit_encryption_are_stored_and_read(
    patients: Connection, face: Any, server: Any, providers: dict[str, Any]
) -> None:
    with (
        face_client(server, False) as client,
        ClientEncryption(providers, f"{patients.name}.vault", client, CodecOptions()) as keys,
    ):
        key = keys.get_key_by_alt_name("ada")["_id"]
        row = stored(server, patients)["Ada"]
        assert keys.decrypt(row["ssn"]) == "457"
        secret = keys.encrypt("457", "Indexed", key, query_type="equality", contention_factor=2)
    # An operand that is already encrypted stays unchanged.
    assert face.call(Patient.find({"ssn": secret}), "one").name == "Ada"


@NEEDS_SERVER
def test_pymongo_reads_what_the_model_writes_and_the_other_way_round(
    patients: Connection, face: Any, server: Any, providers: dict[str, Any]
) -> None:
    pymongo = pytest.importorskip("pymongo")
    from bson.codec_options import CodecOptions as PeerCodec
    from pymongo.encryption import ClientEncryption as PeerKeys
    from pymongo.encryption_options import AutoEncryptionOpts as PeerOptions

    vault = f"{patients.name}.vault"
    options = PeerOptions(providers, vault, bypass_query_analysis=True)
    with (
        pymongo.MongoClient(server.uri, auto_encryption_opts=options) as client,
        PeerKeys(providers, vault, client, PeerCodec()) as keys,
    ):
        people = client[patients.name].queryable_patients
        key = keys.get_key_by_alt_name("ada")["_id"]
        operand = keys.encrypt("457", "Indexed", key, query_type="equality", contention_factor=2)
        assert people.find_one({"ssn": operand})["note"] == "late"
        people.insert_one({"name": "Peer", "ssn": keys.encrypt("77", "Indexed", key, contention_factor=2)})
    assert face.call(Patient.find(Patient.ssn == "77"), "one").name == "Peer"


@NEEDS_SERVER
@pytest.mark.skipif(target.version() >= (8,), reason="MongoDB 8.0 has ranges")
def test_a_server_without_ranges_refuses_the_collection(db: Connection, face: Any) -> None:
    class Aged(Document):
        __collection__ = "queryable_aged"
        age: Annotated[
            int,
            Encrypted(
                "range", key="people", contention_factor=0, range=RangeOpts(sparsity=1, min=0, max=200)
            ),
        ]

    with pytest.raises(errors.OperationFailure, match="range"):
        face.call(Aged, "create_collection")


@NEEDS_SERVER
@pytest.mark.skipif(target.version() < (8,), reason="ranges need MongoDB 8.0")
def test_ranges_are_found(db: Connection, face: Any) -> None:
    class Ranged(Document):
        __collection__ = "queryable_ranged"
        age: Annotated[
            int,
            Encrypted(
                "range", key="people", contention_factor=0, range=RangeOpts(sparsity=1, min=0, max=200)
            ),
        ]

    face.call(Ranged, "create_collection")
    face.save(*(Ranged(age=age) for age in (10, 20, 30)))
    found = face.call(Ranged.find((Ranged.age > 10) & (Ranged.age <= 30)), "all")
    assert sorted(one.age for one in found) == [20, 30]


# On any server.


class Mixed(Document):
    __collection__ = "queryable_mixed"
    ssn: Annotated[str, Encrypted("indexed", key="ada")]
    words: list[Annotated[str, Encrypted(key="people")]]


class Shared(Document):
    __collection__ = "queryable_shared"
    ssn: Annotated[str, Encrypted("indexed", key="ada")]
    note: Annotated[str, Encrypted("unindexed", key="ada")]


class Loose(Document):
    __collection__ = "queryable_loose"
    name: str


def test_what_the_server_looks_values_up_by_is_no_part_of_a_document() -> None:
    tags = [Binary(bytes(32))]
    strict = Patient.from_bson(
        bson.encode({"_id": ObjectId(), "name": "Ada", "ssn": "457", "__safeContent__": tags})
    )
    assert "__safeContent__" not in strict.to_bson()
    kept = Loose.from_bson(
        bson.encode({"_id": ObjectId(), "name": "Ada", "__safeContent__": tags, "__safeContent": 1})
    )
    assert kept.extra == {"__safeContent": 1}


@pytest.mark.parametrize(
    ("model", "reason"),
    [(Mixed, r'no "random" field, such as words\.\[\]'), (Shared, "the same for ssn and note")],
    ids=["another algorithm", "one key"],
)
def test_a_collection_that_no_server_makes_is_refused(
    db: Connection, face: Any, server: Any, model: Any, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        face.call(model, "create_collection")
    with face_client(server, False) as client:
        assert model.__collection__ not in client[db.name].list_collection_names()


def test_a_collection_that_was_not_made_for_it_gets_nothing(db: Connection, face: Any, server: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"Patient\.create_collection\(\)"):
        face.save(ada())
    with pytest.raises(errors.ConfigurationError, match=r"Patient\.create_collection\(\)"):
        face.call(Patient.find(Patient.ssn == "457"), "all")
    with face_client(server, False) as client:
        assert Patient.__collection__ not in client[db.name].list_collection_names()


@pytest.mark.parametrize("db", [OBJECTS], indirect=True)
def test_keys_without_a_client_that_encrypts_are_not_enough(db: Connection, face: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="bypass_query_analysis=True"):
        face.call(Patient.find(Patient.name == "Ada"), "all")
