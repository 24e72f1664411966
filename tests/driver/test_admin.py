"""Create, list, check and remove databases and collections on both faces, beside PyMongo on the same server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest

from driver.outcomes import outcome
from mangonel import errors
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.dbref import DBRef
from mangonel.bson.son import SON
from mangonel.driver_info import DriverInfo
from mangonel.read_preferences import ReadPreference
from mangonel.server import Server
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import Reply, ScriptedServer

# Each call gets a database that holds `things` (two documents), `capped` and the view `view`.
CALLS: dict[str, Callable[[Any], Any]] = {
    "create": lambda d: d.create_collection("new").name,
    "create one that is there": lambda d: d.create_collection("things"),
    "create one that is there unasked": lambda d: d.create_collection("capped", check_exists=False),
    "create capped": lambda d: d.create_collection("new", capped=True, size=5000, max=3).name,
    "create with a size that is none": lambda d: d.create_collection("new", capped=True, size="x"),
    "create with a collation": lambda d: d.create_collection("new", collation={"locale": "fr"}).name,
    "create with a validator": lambda d: (
        d.create_collection(
            "new", validator={"a": {"$type": "int"}}, validationLevel="moderate", validationAction="warn"
        ).name
    ),
    "create a time series": lambda d: (
        d.create_collection(
            "new", timeseries={"timeField": "t", "metaField": "m"}, expireAfterSeconds=60
        ).name
    ),
    "create clustered": lambda d: (
        d.create_collection("new", clusteredIndex={"key": {"_id": 1}, "unique": True}).name
    ),
    "create with a clustered index that is none": lambda d: d.create_collection("new", clusteredIndex=5),
    "create a view": lambda d: (
        d.create_collection("new", viewOn="things", pipeline=[{"$match": {"n": 1}}]).name
    ),
    "create with an unknown option": lambda d: d.create_collection("new", nope=1),
    "create with a bad name": lambda d: d.create_collection("a..b"),
    "create with a name that is none": lambda d: d.create_collection(5),
    "drop": lambda d: d.drop_collection("things"),
    "drop by collection": lambda d: d.drop_collection(d.things, comment="why"),
    "drop what is not there": lambda d: d.drop_collection("nope"),
    "drop a number": lambda d: d.drop_collection(5),
    "drop on the collection": lambda d: d.things.drop(),
    "drop a view": lambda d: d.view.drop(),
    "names": lambda d: sorted(d.list_collection_names()),
    "names by name": lambda d: d.list_collection_names(filter={"name": "things"}),
    "names by type": lambda d: d.list_collection_names(filter={"type": "view"}, comment="why"),
    "names by a filter that is none": lambda d: d.list_collection_names(filter=5),
    "names with options": lambda d: sorted(d.list_collection_names(authorizedCollections=True)),
    "validate": lambda d: d.validate_collection("things")["nrecords"],
    "validate by collection": lambda d: d.validate_collection(d.things, scandata=True, full=True)["valid"],
    "validate in the background": lambda d: d.validate_collection("things", background=True)["valid"],
    "validate what is not there": lambda d: d.validate_collection("nope"),
    "validate a number": lambda d: d.validate_collection(5),
    "options": lambda d: d.capped.options(),
    "options of a view": lambda d: d.view.options(comment="why"),
    "options of none": lambda d: d.things.options(),
    "options of what is not there": lambda d: d.nope.options(),
    "rename": lambda d: d.things.rename("renamed"),
    "rename onto another": lambda d: d.things.rename("capped"),
    "rename over another": lambda d: d.things.rename("capped", dropTarget=True, comment="why"),
    "rename what is not there": lambda d: d.nope.rename("x"),
    "rename to a number": lambda d: d.things.rename(5),
    "rename to nothing": lambda d: d.things.rename(""),
    "rename to a dot": lambda d: d.things.rename(".x"),
    "rename to a dollar": lambda d: d.things.rename("x$y"),
    "dereference a number": lambda d: d.dereference(5),
    "cursor command": lambda d: d.cursor_command("find", "things", filter={"n": 1}),
    "cursor command without a cursor": lambda d: d.cursor_command("ping"),
    "cursor command that fails": lambda d: d.cursor_command("find", "things", nope=1),
    "drop database": lambda d: d.client.drop_database(d),
    "drop database by name": lambda d: d.client.drop_database(d.name, comment="why"),
    "drop a database that is a number": lambda d: d.client.drop_database(5),
    "drop a database with a bad name": lambda d: d.client.drop_database("a b"),
}


@pytest.fixture
def databases(client: Any, server: Server, database_name: str) -> Iterator[tuple[Any, Any]]:
    """A database of the driver under test and one of PyMongo's, with the same collections."""
    name = database_name + "_oracle"
    with pymongo.MongoClient(server.uri) as peer:
        for database in (peer[database_name], peer[name]):
            database.things.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
            database.create_collection("capped", capped=True, size=8192)
            database.create_collection("view", viewOn="things", pipeline=[])
        yield client[database_name], peer[name]
        peer.drop_database(name)


def _neutral(value: Any, database: Any) -> Any:
    """Remove values that always differ between two databases."""
    if isinstance(value, dict):
        return {key: _neutral(item, database) for key, item in value.items() if key != "uuid"}
    if isinstance(value, (list, tuple)):
        return [_neutral(item, database) for item in value]
    return value.replace(database.name, "db") if isinstance(value, str) else value


@pytest.mark.parametrize("name", CALLS)
def test_result_and_collections_are_those_of_pymongo(
    name: str, face: Face, databases: tuple[Any, Any]
) -> None:
    ours, theirs = databases
    call = CALLS[name]
    mine = outcome(lambda: _settle(face, call, ours))
    peer = outcome(lambda: _plain(call(theirs)))
    assert _neutral(mine, ours) == _neutral(peer, theirs)
    listed = face.collect(face.wait(ours.list_collections()))
    listed_by_peer = list(theirs.list_collections())
    by_name = lambda item: item["name"]  # noqa: E731
    assert _neutral(sorted(listed, key=by_name), ours) == _neutral(
        sorted(listed_by_peer, key=by_name), theirs
    )


def _plain(value: Any) -> Any:
    return list(value) if hasattr(value, "cursor_id") else value


def _settle(face: Face, call: Callable[[Any], Any], database: Any) -> Any:
    """Run `call` on a face; inside it, results are already awaited."""
    value = face.wait(call(_Awaiting(face, database)))
    return face.collect(value) if hasattr(value, "cursor_id") else value


class _Awaiting:
    """A database or client whose methods wait, so that one lambda serves both faces."""

    def __init__(self, face: Face, target: Any) -> None:
        self._face, self._target = face, target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name in ("things", "capped", "view", "nope"):
            # Passed to methods as an argument, so it must be the real database; results of its own methods are awaited
            # last.
            return value
        if name == "client":
            return _Awaiting(self._face, value)
        if not callable(value) or name == "name":
            return value

        def method(*args: Any, **kwargs: Any) -> Any:
            args = tuple(arg._target if isinstance(arg, _Awaiting) else arg for arg in args)
            return self._face.wait(value(*args, **kwargs))

        return method


def test_created_collection_has_the_settings_that_were_asked_for(
    face: Face, databases: tuple[Any, Any]
) -> None:
    ours, _ = databases
    made = face.wait(
        ours.create_collection(
            "new",
            codec_options=CodecOptions(SON),
            read_preference=ReadPreference.SECONDARY_PREFERRED,
            write_concern=WriteConcern(w=1),
        )
    )
    assert made == ours.new
    assert made.codec_options.document_class is SON
    assert made.read_preference == ReadPreference.SECONDARY_PREFERRED
    assert made.write_concern == WriteConcern(w=1)


def test_constructor_creates_the_collection_only_where_it_can_wait(
    face: Face, databases: tuple[Any, Any]
) -> None:
    ours, _ = databases
    collection_class = type(ours.things)
    if face.is_async:
        with pytest.raises(ValueError, match="does not support the `create`"):
            collection_class(ours, "new", create=True)
        return
    with pytest.warns(DeprecationWarning, match="create") as caught:
        collection_class(ours, "new", capped=True, size=4096)
    assert caught[0].filename == __file__
    assert ours.new.options() == {"capped": True, "size": 4096}


def test_encrypted_fields_need_a_newer_server(face: Face, databases: tuple[Any, Any]) -> None:
    ours, _ = databases
    with pytest.raises(errors.ConfigurationError, match="need maxWireVersion >= 21"):
        face.wait(ours.create_collection("new", encryptedFields={"fields": [{"path": "a"}]}))
    assert "new" not in face.wait(ours.list_collection_names())


def test_dereference_returns_the_document_or_none(face: Face, databases: tuple[Any, Any]) -> None:
    ours, _ = databases
    assert face.wait(ours.dereference(DBRef("things", 1))) == {"_id": 1, "n": 1}
    assert face.wait(ours.dereference(DBRef("things", 1, ours.name), projection={"_id": 1})) == {"_id": 1}
    assert face.wait(ours.dereference(DBRef("things", 99))) is None
    with pytest.raises(ValueError, match="another_database"):
        face.wait(ours.dereference(DBRef("things", 1, "another_database")))


def test_a_faulty_collection_is_reported(face: Face, scripted_server: ScriptedServer) -> None:
    database = face.client(scripted_server.uri).db
    scripted_server.once("validate", {"ok": 1.0, "valid": False})
    scripted_server.once("validate", {"ok": 1.0, "raw": {"a": {"valid": True}, "b": {"valid": False}}})
    scripted_server.once("validate", {"ok": 1.0, "raw": {"a": {"valid": True}}})
    for _ in range(2):
        with pytest.raises(errors.CollectionInvalid, match="c invalid"):
            face.wait(database.validate_collection("c"))
    face.wait(database.validate_collection("c"))


def test_cursor_command_decodes_and_fetches_with_its_options(face: Face, databases: tuple[Any, Any]) -> None:
    ours, theirs = databases
    theirs.client[ours.name].many.insert_many([{"_id": n} for n in range(50)])
    cursor = face.wait(
        ours.cursor_command({"find": "many", "batchSize": 10}, codec_options=CodecOptions(SON), comment="why")
    )
    documents = face.collect(cursor)
    assert [document["_id"] for document in documents] == list(range(50))
    assert {type(document) for document in documents} == {SON}


def test_databases_are_listed_as_by_pymongo(face: Face, databases: tuple[Any, Any]) -> None:
    ours, theirs = databases
    client, peer = ours.client, theirs.client
    names = face.wait(client.list_database_names(comment="why"))
    assert set(names) >= {"admin", "local", ours.name, theirs.name}
    mine = face.wait(client.list_databases(filter={"name": "admin"}, nameOnly=True))
    assert face.collect(mine) == list(peer.list_databases(filter={"name": "admin"}, nameOnly=True))
    full = face.collect(face.wait(client.list_databases()))
    assert set(full[0]) == {"name", "sizeOnDisk", "empty"}


def test_server_info_is_that_of_pymongo(face: Face, databases: tuple[Any, Any]) -> None:
    ours, theirs = databases
    mine, peer = face.wait(ours.client.server_info()), theirs.client.server_info()
    assert mine["version"] == peer["version"]
    assert mine["gitVersion"] == peer["gitVersion"]


@pytest.mark.parametrize("kind", ["server", "standalone"])
def test_a_client_knows_the_same_of_its_server_as_pymongo(
    kind: str, face: Face, request: pytest.FixtureRequest
) -> None:
    uri = request.getfixturevalue(kind).uri
    names = ("address", "primary", "secondaries", "arbiters", "is_primary", "is_mongos")
    # Otherwise its monitor may have connected before.
    client = face.client(uri, connect=False)
    assert client.nodes == frozenset()
    mine = {name: face.wait(getattr(client, name)) for name in names}
    with pymongo.MongoClient(uri) as peer:
        assert mine == {name: getattr(peer, name) for name in names}
        assert client.nodes == peer.nodes


def test_appended_metadata_is_sent_on_new_connections(face: Face, scripted_server: ScriptedServer) -> None:
    # Otherwise its first connection may have sent hello before.
    client = face.client(scripted_server.uri, connect=False)
    client.append_metadata(DriverInfo("some-library", "1.2"))
    client.append_metadata(DriverInfo("some-library", "1.2"))
    face.wait(client.admin.command("ping"))
    hello = next(r.command for r in scripted_server.requests if "client" in r.command)
    assert hello["client"]["driver"]["name"].split("|").count("some-library") == 1
    with pytest.raises(TypeError, match="DriverInfo"):
        client.append_metadata("some-library")


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.create_collection("x", check_exists=False),
        lambda d: d.drop_collection("x"),
        lambda d: d.things.rename("x"),
        lambda d: d.client.drop_database("db"),
        lambda d: d.things.create_index("a"),
        lambda d: d.things.drop_indexes(),
    ],
)
def test_an_administrative_write_is_sent_once_and_carries_the_write_concern(
    call: Callable[[Any], Any], face: Face, scripted_server: ScriptedServer
) -> None:
    from tools.scripted_server import Close

    names = ("create", "drop", "renameCollection", "dropDatabase", "createIndexes", "dropIndexes")
    for name in names:
        scripted_server.on(name, Close())
    database = face.client(scripted_server.uri + "&w=2").db
    with pytest.raises(errors.AutoReconnect):
        face.wait(call(database))
    sent = [request.command for name in names for request in scripted_server.received(name)]
    assert [command["writeConcern"] for command in sent] == [{"w": 2}]


@pytest.mark.parametrize("call", [lambda d: d.drop_collection("x"), lambda d: d.client.drop_database("db")])
def test_an_administrative_write_that_is_not_confirmed_raises(
    call: Callable[[Any], Any], face: Face, scripted_server: ScriptedServer
) -> None:
    reply = {"ok": 1.0, "writeConcernError": {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}}
    for name in ("drop", "dropDatabase"):
        scripted_server.on(name, reply)
    with pytest.raises(errors.WTimeoutError):
        face.wait(call(face.client(scripted_server.uri + "&w=2").db))


def test_unacknowledged_drop_does_not_wait_for_a_reply(face: Face, databases: tuple[Any, Any]) -> None:
    ours, _ = databases
    unsure = ours.with_options(write_concern=WriteConcern(w=0))
    assert face.wait(unsure.drop_collection("things")) == {"ok": 1}
    # The next command on the same connection finds the collection dropped.
    assert "things" not in face.wait(ours.list_collection_names())


def test_aconnect_reaches_the_server_or_raises(face: Face, server: Server, nowhere: str) -> None:
    if not face.is_async:
        pytest.skip("a blocking client has no aconnect")
    client = face.client(server.uri)
    assert face.wait(client.aconnect()) is None
    assert len(client.nodes) == 1
    face.wait(client.aclose())
    with pytest.raises(errors.InvalidOperation):
        face.wait(client.admin.command("ping"))
    lost = face.client(f"{nowhere}/?serverSelectionTimeoutMS=50&directConnection=true")
    with pytest.raises(errors.ServerSelectionTimeoutError):
        face.wait(lost.aconnect())


def test_aconnect_has_its_own_limit_and_not_that_of_operations(
    face: Face, scripted_server: ScriptedServer
) -> None:
    if not face.is_async:
        pytest.skip("a blocking client has no aconnect")
    slow = Reply({"ismaster": True, **scripted_server.hello}, delay=0.1)
    scripted_server.once("isMaster", slow)
    client = face.client(scripted_server.uri, timeoutMS=5)
    assert face.wait(client.aconnect()) is None
