"""A database is empty for the next test, whoever wrote to it and how; untouched collections are not emptied again."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import InsertOne, MongoClient
from mangonel._emptied import Emptier
from mangonel.bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Timestamp,
    encode,
)
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import InvalidOperation, OperationFailure
from mangonel.monitoring import CommandListener
from mangonel.server import Server, start
from mangonel.testing import count_commands

NAMES = [f"things{number}" for number in range(6)]


@pytest.fixture(params=["server", "standalone"])
def database(request: Any) -> Iterator[Any]:
    """A database with six empty collections, of a replica set or of one mongod."""
    with MongoClient[Any](request.getfixturevalue(request.param).uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database[name].create_index("a")
        yield database
        client.drop_database(database)


def documents(database: Any) -> dict[str, int]:
    """Return how many documents each non-empty collection has."""
    counts = {name: database[name].count_documents({}) for name in database.list_collection_names()}
    return {name: count for name, count in counts.items() if count and not name.startswith("system.")}


def in_a_transaction(database: Any) -> None:
    with database.client.start_session() as session, session.start_transaction():
        database.things3.insert_one({}, session=session)


def with_a_time_series(database: Any) -> None:
    import datetime

    database.create_collection("measured", timeseries={"timeField": "at"})
    database.measured.insert_one({"at": datetime.datetime.now(tz=datetime.UTC)})


def as_a_capped_one(database: Any) -> None:
    database.things3.insert_one({})
    database.command("convertToCapped", "things3", size=4096)


def through_a_view(database: Any) -> None:
    if "seen" not in database.list_collection_names():
        database.create_collection("seen", viewOn="things3", pipeline=[])
    database.things3.insert_one({})


def dropped_and_made_again(database: Any) -> None:
    database.things3.drop()
    database.things3.create_index("a")
    database.things3.insert_one({})


def renamed(database: Any) -> None:
    database.things2.insert_one({})
    database.things2.rename("things3", dropTarget=True)


def merged(database: Any) -> None:
    source = database.client[f"{database.name}_source"].things
    source.insert_one({"_id": 1})
    source.aggregate([{"$merge": {"into": {"db": database.name, "coll": "things3"}}}])
    database.client.drop_database(source.database)


def put_out(database: Any) -> None:
    source = database.client[f"{database.name}_source"].things
    source.insert_one({"_id": 1})
    source.aggregate([{"$out": {"db": database.name, "coll": "things3"}}])
    database.client.drop_database(source.database)


def mapped(database: Any) -> None:
    source = database.client[f"{database.name}_source"].things
    source.insert_one({"_id": 1})
    out = {"merge": "things3", "db": database.name}
    source.database.command(
        "mapReduce", "things", map="function() { emit(1, 1) }", reduce="function(k, v) { return 1 }", out=out
    )
    database.client.drop_database(source.database)


def by_operations(database: Any) -> None:
    operation = {"op": "i", "ns": f"{database.name}.things3", "o": {"_id": 1}}
    database.client.admin.command("applyOps", [operation])


def by_a_command_among_operations(database: Any) -> None:
    create = {"op": "c", "ns": f"{database.name}.$cmd", "o": {"create": "made"}}
    insert = {"op": "i", "ns": f"{database.name}.made", "o": {"_id": 1}}
    database.client.admin.command("applyOps", [create])
    database.client.admin.command("applyOps", [insert])
    database.client.admin.command("applyOps", [{**insert, "ns": f"{database.name}.things3"}])


def made_in_a_transaction(database: Any) -> None:
    with database.client.start_session() as session, session.start_transaction():
        database.things3.insert_one({}, session=session)
        database.made.insert_one({}, session=session)


def renamed_from_another_database(database: Any) -> None:
    source = database.client[f"{database.name}_source"]
    source.things.insert_one({})
    command = {"renameCollection": f"{source.name}.things", "to": f"{database.name}.things3"}
    database.client.admin.command({**command, "dropTarget": True})
    database.things3.create_index("a")
    database.client.drop_database(source)


PYMONGO = "import pymongo, sys; pymongo.MongoClient(sys.argv[1])[sys.argv[2]].things3.insert_one({})"


def by_pymongo_in_another_process(database: Any) -> None:
    pytest.importorskip("pymongo")
    uri = "mongodb://{}:{}/?directConnection=true".format(*database.client.address)
    subprocess.run([sys.executable, "-c", PYMONGO, uri, database.name], check=True, timeout=100)


IDS: list[Any] = [
    *(ObjectId(), "a", 1, Int64(2), 1.5, True, None, b"a", Binary(b"a", 5), uuid.UUID(int=1).bytes),
    *(Decimal128("7"), Timestamp(1, 1), DatetimeMS(2**60), DatetimeMS(0), MinKey(), MaxKey(), Code("a")),
    *({"a": 1}, {}, DBRef("a", 1), float("nan")),
]

WRITES: dict[str, Callable[[Any], Any]] = {
    "insert one": lambda database: database.things3.insert_one({}),
    "insert many": lambda database: database.things3.insert_many([{} for _ in range(2000)]),
    "unconfirmed": lambda database: database.things3.with_options(
        write_concern=database.write_concern.__class__(w=0)
    ).insert_one({}),
    "upsert": lambda database: database.things3.update_one({"a": 1}, {"$set": {"b": 1}}, upsert=True),
    "replace": lambda database: database.things3.replace_one({"a": 1}, {"b": 1}, upsert=True),
    "find and update": lambda database: database.things3.find_one_and_update(
        {"a": 1}, {"$set": {"b": 1}}, upsert=True
    ),
    "bulk": lambda database: database.things3.bulk_write([InsertOne({})]),
    "bulk of the client": lambda database: database.client.bulk_write(
        [InsertOne({}, namespace=f"{database.name}.things3")]
    ),
    "words of an oplog": lambda database: database.things3.insert_one(
        {"applyOps": [{"ui": {}, "ns": 1, "op": "c"}], "op": "d", "ui": 1}
    ),
    "transaction": in_a_transaction,
    "a new collection in a transaction": made_in_a_transaction,
    "a collection of another database": renamed_from_another_database,
    "a command among operations": by_a_command_among_operations,
    "time series": with_a_time_series,
    "capped": lambda database: (
        database.create_collection("recent", capped=True, size=4096),
        database.recent.insert_one({}),
    ),
    "converted to capped": as_a_capped_one,
    "view": through_a_view,
    "dropped": dropped_and_made_again,
    "renamed": renamed,
    "out": put_out,
    "merge": merged,
    "map and reduce": mapped,
    "operations": by_operations,
    "an index, and then a document": lambda database: (
        database.things3.create_index("b"),
        database.things3.insert_one({}),
    ),
    "a new collection": lambda database: database.new.insert_one({}),
    "ids of all types": lambda database: database.things3.insert_many([{"_id": id} for id in IDS]),
    "ids that are no text": lambda database: database.things3.insert_one(
        RawBSONDocument(encode({"_id": "??"}).replace(b"??", b"\xff\xff"))
    ),
    "more than one look at an oplog shows": lambda database: [
        database.things3.insert_many([{} for _ in range(600)]) for _ in range(2)
    ],
    "deleted and inserted again": lambda database: (
        database.things3.insert_many([{"_id": 1}, {"_id": True}, {"_id": 2}]),
        database.things3.delete_many({"_id": {"$in": [1, 2]}}),
        database.things3.insert_one({"_id": 1}),
    ),
    "emptied and renamed": lambda database: (
        database.things2.insert_one({"_id": 1}),
        database.things2.rename("new", dropTarget=True),
        database.things2.create_index("a"),
        database.things2.insert_one({"_id": 1}),
    ),
    "PyMongo": by_pymongo_in_another_process,
}


@pytest.mark.enough(4)
@pytest.mark.parametrize("write", WRITES)
def test_what_was_written_since_the_last_look_is_deleted(database: Any, write: str) -> None:
    emptier = Emptier(database)
    emptier.empty()
    emptier.empty()
    for _ in range(2):
        try:
            WRITES[write](database)
        except (OperationFailure, InvalidOperation) as error:
            # No transactions, or no `bulkWrite`.
            if getattr(error, "code", None) not in (None, 20):
                raise
            pytest.skip(f"this server has none: {error}")
        for _ in range(2):
            emptier.empty()
            assert documents(database) == {}
    assert "things0" in database.list_collection_names()
    assert "a_1" in database.things0.index_information()


@pytest.mark.parametrize("looks", [1, 2])
def test_what_a_transaction_commits_after_a_look_is_deleted_at_the_next(server: Server, looks: int) -> None:
    with MongoClient[Any](server.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)
        emptier.empty()
        with client.start_session() as session, session.start_transaction():
            database.things3.insert_one({}, session=session)
            for _ in range(looks):
                emptier.empty()
        assert documents(database) == {"things3": 1}
        emptier.empty()
        assert documents(database) == {}
        client.drop_database(database)


def test_what_was_written_before_a_restart_of_the_server_is_deleted() -> None:
    with start() as deployment, MongoClient[Any](deployment.uri) as client:
        for name in NAMES:
            client.shop.create_collection(name)
        emptier = Emptier(client.shop)
        emptier.empty()
        client.shop.things3.insert_one({})
        deployment.members[0].kill()
        deployment.members[0].restart()
        # As often as before.
        client.shop.things2.insert_one({})
        emptier.empty()
        assert documents(client.shop) == {}


def test_what_was_not_written_is_neither_asked_nor_deleted_again(
    standalone: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests have collections on this server.
    monkeypatch.setattr("mangonel._emptied._MOST_FOREIGN", 10_000)
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)

        def sent() -> list[Any]:
            with count_commands() as commands:
                emptier.empty()
            return sorted(key for key in commands.sent if key[0] not in ("listCollections", "top"))

        assert [name for name, _ in sent()] == ["aggregate"]
        for _ in range(2):
            database.things3.insert_one({})
            database.things4.insert_many([{}, {}])
            # A read is not a write.
            for name in NAMES:
                database[name].find_one()
            assert sent() == [("delete", "things3"), ("delete", "things4")]
        assert [name for name, _ in sent()] == ["aggregate"]
        assert sent() == []
        client.drop_database(database)


def test_the_oplog_of_a_set_tells_what_to_delete(server: Server) -> None:
    with MongoClient[Any](server.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)

        def sent() -> list[Any]:
            with count_commands() as commands:
                emptier.empty()
            return commands.sent

        for _ in range(2):
            sent()
        look = ("find", "oplog.rs")
        for _ in range(2):
            database.things3.insert_one({})
            database.things4.insert_many([{}, {}])
            for name in NAMES:
                database[name].find_one()
            database.client.other.things.insert_one({})
            assert sorted(sent()) == [("delete", "things3"), ("delete", "things4"), look]
            assert sent() == [look]
        database.create_collection("new")
        assert sent() == [look, ("listCollections", ""), ("delete", "new")]
        assert sent() == [look]
        client.drop_database(database)


def test_a_few_documents_are_deleted_by_their_ids(server: Server) -> None:
    deletions: list[Any] = []

    class Deletions(CommandListener):
        def started(self, event: Any) -> None:
            if event.command_name == "delete":
                deletions.append([statement["q"] for statement in event.command["deletes"]])

        def succeeded(self, event: Any) -> None: ...

        def failed(self, event: Any) -> None: ...

    with MongoClient[Any](server.uri) as client, MongoClient[Any](server.uri) as other:
        database = other[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(client[database.name])
        for _ in range(2):
            emptier.empty()
        client._listeners.add(Deletions())
        database.things1.insert_many([{"_id": 1}, {"_id": "a"}])
        database.things1.update_one({"_id": 1}, {"$set": {"a": 1}})
        with other.start_session() as session, session.start_transaction():
            database.things1.insert_one({"_id": 2}, session=session)
        # Collections that the test emptied itself are left alone.
        database.things2.insert_one({})
        database.things2.delete_many({})
        emptier.empty()
        assert deletions == [[{"_id": 1}, {"_id": "a"}, {"_id": 2}]]
        deletions.clear()
        emptier.empty()
        assert deletions == []
        # An id that the driver cannot compare with another.
        database.things1.insert_many([{"_id": 1}, {"_id": 1.5}])
        emptier.empty()
        assert deletions == [[{}]]
        assert documents(database) == {}
        other.drop_database(database)


@pytest.mark.parametrize("message", ["Reconfig set", "new primary"])
def test_a_set_that_changes_is_looked_at_anew(server: Server, message: str) -> None:
    with MongoClient[Any](server.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)
        for _ in range(3):
            emptier.empty()
        client.admin.command("appendOplogNote", data={"msg": message})
        with count_commands() as commands:
            emptier.empty()
        assert ("listCollections", "") in commands.sent
        client.admin.command("appendOplogNote", data={"msg": "periodic noop"})
        with count_commands() as commands:
            emptier.empty()
        assert commands.sent == [("find", "oplog.rs")]
        client.drop_database(database)


@pytest.mark.parametrize(("members", "waits"), [(1, 0), pytest.param(3, 1, marks=pytest.mark.no_sample)])
def test_only_the_last_deletion_waits_and_only_for_other_members(members: int, waits: int) -> None:
    concerns: list[Any] = []

    class Deletions(CommandListener):
        def started(self, event: Any) -> None:
            if event.command_name == "delete":
                concerns.append(event.command.get("writeConcern"))

        def succeeded(self, event: Any) -> None: ...

        def failed(self, event: Any) -> None: ...

    with (
        start(replica_set=members) as deployment,
        MongoClient[Any](deployment.uri, event_listeners=[Deletions()]) as client,
    ):
        for name in NAMES:
            client.shop[name].insert_one({})
        Emptier(client.shop).empty()
        assert documents(client.shop) == {}
    assert concerns == [{"w": 1}] * (len(NAMES) - waits) + [None] * waits


def test_what_could_not_be_deleted_is_deleted_at_the_next_look(database: Any) -> None:
    emptier = Emptier(database)
    for _ in range(3):
        emptier.empty()
    database.things3.insert_one({})
    fails = {"failCommands": ["delete"], "errorCode": 13}
    database.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fails)
    with pytest.raises(OperationFailure):
        emptier.empty()
    emptier.empty()
    assert documents(database) == {}


@pytest.mark.no_sample
def test_what_was_written_before_an_election_is_deleted() -> None:
    with start(replica_set=1) as deployment, MongoClient[Any](deployment.uri) as client:
        for name in NAMES:
            client.shop.create_collection(name)
        emptier = Emptier(client.shop)
        for _ in range(3):
            client.shop.things3.insert_one({})
            emptier.empty()
        client.shop.things3.insert_one({})
        client.admin.command("replSetStepDown", 1, force=True)
        client.shop.things4.insert_one({})
        with count_commands() as commands:
            emptier.empty()
        # Information from the old primary is not trusted.
        assert ("listCollections", "") in commands.sent
        assert documents(client.shop) == {}


def test_an_oplog_that_has_lost_entries_is_not_relied_on(server: Server) -> None:
    with MongoClient[Any](server.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)
        for _ in range(3):
            emptier.empty()
        assert emptier._oplog._newest is not None
        database.things3.insert_one({})
        # As if the entry of this insert had been lost first.
        emptier._oplog._newest = Timestamp(emptier._oplog._newest.time, 10_000)
        emptier.empty()
        assert documents(database) == {}
        client.drop_database(database)


@pytest.mark.parametrize(
    "options",
    [
        {"readPreference": "secondary"},
        {"readConcernLevel": "majority"},
        {"w": 0},
        {"w": 1},
        {"uuidRepresentation": "standard"},
    ],
    ids=str,
)
def test_options_of_the_client_change_nothing(server: Server, options: dict[str, Any]) -> None:
    with (
        MongoClient[Any](server.uri, serverSelectionTimeoutMS=5000, **options) as client,
        MongoClient[Any](server.uri) as other,
    ):
        database = other[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(client[database.name])
        for _ in range(4):
            database.things3.insert_one({})
            emptier.empty()
            assert documents(database) == {}
        other.drop_database(database)


@pytest.mark.parametrize("code", [13, 136])
def test_a_set_whose_oplog_may_not_be_read_is_asked_for_documents(server: Server, code: int) -> None:
    with MongoClient[Any](server.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)
        emptier.empty()
        fails = {"failCommands": ["find"], "namespace": "local.oplog.rs", "errorCode": code}
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fails)
        for _ in range(3):
            database.things3.insert_one({})
            with count_commands() as commands:
                emptier.empty()
            assert documents(database) == {}
        assert [name for name, _ in commands.sent] == ["listCollections", "aggregate", "delete"]
        client.drop_database(database)


@pytest.mark.parametrize("code", [13, 59])
def test_a_server_that_counts_no_writes_is_asked_for_documents(standalone: Server, code: int) -> None:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"emptied_{uuid.uuid4().hex[:8]}"]
        for name in NAMES:
            database.create_collection(name)
        emptier = Emptier(database)
        fails = {"failCommands": ["top"], "errorCode": code}
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fails)
        for _ in range(2):
            database.things3.insert_one({})
            with count_commands() as commands:
                emptier.empty()
            assert documents(database) == {}
        assert [name for name, _ in commands.sent] == ["listCollections", "aggregate", "delete"]
        client.drop_database(database)
