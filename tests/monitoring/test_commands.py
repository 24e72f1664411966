"""Events of a command listener: one start and one end for each command sent, and no secrets."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pymongo import event_loggers

from mangonel import DeleteOne, InsertOne, WriteConcern, errors, monitoring
from mangonel.bson import encode
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.server import Server
from monitoring.conftest import Connect, Heard, kind
from tools.faces import Face
from tools.scripted_server import ScriptedServer


def encode_all(documents: list[dict[str, Any]]) -> bytes:
    return b"".join(map(encode, documents))


def fail_next(server: Server, command: str, **data: Any) -> None:
    server.members[0].run_command(
        {
            "configureFailPoint": "failCommand",
            "mode": {"times": 1},
            "data": {"failCommands": [command], **data},
            "$db": "admin",
        },
        timeout=30.0,
    )


def test_command_is_heard_of_when_it_starts_and_when_it_is_answered(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard = Heard()
    things = connect(heard)[database_name]["things"]
    face.run(lambda: things.insert_one({"_id": 1, "name": "Ada"}))

    started, succeeded = heard.events
    assert heard.story == ["started insert", "succeeded insert"]
    assert started.command["insert"] == "things"
    assert started.command["documents"] == [{"_id": 1, "name": "Ada"}]
    assert started.command["$db"] == started.database_name == succeeded.database_name == database_name
    assert "lsid" in started.command
    assert succeeded.reply["n"] == 1
    assert succeeded.request_id == started.request_id
    assert succeeded.operation_id == started.operation_id
    assert started.connection_id[0] == "127.0.0.1"
    assert isinstance(started.server_connection_id, int)
    assert started.service_id is None
    assert 0 < succeeded.duration_micros < 30_000_000


def test_every_document_of_a_bulk_write_is_shown(face: Face, connect: Connect, database_name: str) -> None:
    heard = Heard()
    things = connect(heard)[database_name]["things"]
    face.run(lambda: things.bulk_write([InsertOne({"_id": n}) for n in range(120)]))

    # Commands that the driver sends first, to learn the server's limits, are left out.
    assert heard.story == ["started insert", "succeeded insert"]
    assert [d["_id"] for d in heard.events[0].command["documents"]] == list(range(120))


def test_commands_of_a_bulk_write_share_their_operation_id(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard = Heard()
    things = connect(heard)[database_name]["things"]
    mixed = [InsertOne({"_id": 1}), DeleteOne({"_id": 1}), InsertOne({"_id": 1})]
    for _ in range(2):
        face.run(lambda: things.bulk_write(mixed))
        face.run(lambda: things.delete_many({}))
    ids = [event.operation_id for event in heard.events[::2]]
    assert len(ids) == 8
    assert len(set(ids[:3])) == len(set(ids[4:7])) == 1
    assert len(set(ids)) == 4


def test_refused_command_fails_with_the_servers_reply(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard = Heard()
    database = connect(heard)[database_name]
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: database.command("nope"))

    assert heard.story == ["started nope", "failed nope"]
    assert heard.events[1].failure["code"] == 59
    assert heard.events[1].failure["errmsg"] == "no such command: 'nope'"


def test_broken_line_fails_one_attempt_and_its_retry_is_another(
    face: Face, connect: Connect, server: Server, database_name: str
) -> None:
    heard = Heard()
    things = connect(heard)[database_name]["things"]
    face.run(lambda: things.find_one({}))
    fail_next(server, "find", closeConnection=True)
    heard.events.clear()
    face.run(lambda: things.find_one({}))

    assert heard.story == ["started find", "failed find", "started find", "succeeded find"]
    assert heard.events[1].failure["errtype"] == "AutoReconnect"
    assert heard.events[0].request_id != heard.events[2].request_id
    assert heard.events[0].operation_id == heard.events[2].operation_id


def test_unacknowledged_write_succeeds_with_nothing_but_ok(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard = Heard()
    things = connect(heard)[database_name].get_collection("things", write_concern=WriteConcern(w=0))
    face.run(lambda: things.insert_one({}))

    assert heard.story == ["started insert", "succeeded insert"]
    assert heard.events[1].reply == {"ok": 1}


@pytest.mark.parametrize(
    "name", ["authenticate", "saslStart", "createUser", "copydbgetnonce", "hello", "isMaster"]
)
def test_nothing_of_a_sensitive_command_is_shown(
    face: Face, scripted_server: ScriptedServer, name: str
) -> None:
    heard = Heard()
    client = face.client(scripted_server.uri, event_listeners=[heard])
    if name not in ("hello", "isMaster"):
        scripted_server.on(name, {"ok": 1, "secret": "no"})
    face.run(lambda: client.admin.command(name, speculativeAuthenticate={"secret": "no"}))

    started, succeeded = heard.of(name)
    assert (started.command, succeeded.reply) == ({}, {})


def test_error_of_a_sensitive_command_keeps_only_its_codes(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard = Heard()
    database = connect(heard)[database_name]
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: database.command("createUser", pwd="secret"))

    assert set(heard.of("createUser")[1].failure) == {"code", "codeName"}


def test_listener_that_raises_is_reported_and_harms_nothing(
    face: Face, connect: Connect, database_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(Heard):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            raise ZeroDivisionError("a fault of the listener")

    heard = Heard()
    things = connect(Broken(), heard)[database_name]["things"]
    assert face.run(lambda: things.find_one({})) is None

    assert heard.story == ["started find", "succeeded find"]
    assert "a fault of the listener" in capsys.readouterr().err


def test_listener_may_use_the_driver(
    face: Face, connect: Connect, server: Server, database_name: str
) -> None:
    from mangonel import MongoClient

    class Counting(Heard):
        def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
            super().succeeded(event)
            self.count = other[database_name]["things"].count_documents({})

    heard = Counting()
    things = connect(heard)[database_name]["things"]
    with MongoClient(server.uri) as other:
        face.run(lambda: things.insert_one({}))

    assert heard.count == 1


def test_registered_listener_hears_of_clients_made_later(
    face: Face, connect: Connect, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "_registered", [])
    heard = Heard()
    monitoring.register(heard)
    things = connect()[database_name]["things"]
    face.run(lambda: things.find_one({}))

    assert heard.story == ["started find", "succeeded find"]


@pytest.mark.parametrize("wrong", [object(), monitoring.CommandListener, "a listener"])
def test_what_is_no_listener_is_refused(face: Face, server: Server, wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be either a CommandListener"):
        face.client(server.uri, event_listeners=[wrong])
    with pytest.raises(TypeError, match="must be either a CommandListener"):
        monitoring.register(wrong)


class OnlyMethods:
    """Has the methods of a CommandListener, but not the base class."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: Any) -> None:
        self.names.append(event.command_name)

    succeeded = failed = started


def test_an_object_with_the_methods_of_a_listener_is_one(face: Face, connect: Connect) -> None:
    heard = OnlyMethods()
    face.run(lambda: connect(heard).admin.command("ping"))
    assert heard.names == ["ping", "ping"]


class OnlyBrief:
    """Lacks two methods of a CommandListener."""

    def started(self, event: Any) -> None: ...


class Ambiguous:
    """Has the methods of a ServerListener, which are those of a TopologyListener."""

    def opened(self, event: Any) -> None: ...

    description_changed = closed = opened


@pytest.mark.parametrize("wrong", [OnlyBrief(), Ambiguous(), OnlyMethods])
def test_an_object_of_which_nothing_tells_what_it_hears_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="needs every method"):
        monitoring.register(wrong)


def test_listeners_of_pymongo_hear_of_everything(
    face: Face, server: Server, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    loggers = [
        event_loggers.CommandLogger(),
        event_loggers.ConnectionPoolLogger(),
        event_loggers.HeartbeatLogger(),
        event_loggers.ServerLogger(),
        event_loggers.TopologyLogger(),
    ]
    client = face.client(server.uri, event_listeners=loggers)
    face.wait(client.admin.command("ping"))
    face.wait(client.close())
    said = " ".join(record.getMessage() for record in caplog.records)
    for part in (
        "Command ping",
        "pool ready",
        "Heartbeat to server",
        "added to topology",
        "Topology with id",
    ):
        assert part in said, part
    assert capsys.readouterr().err == ""


def test_replies_to_raw_documents_are_heard_of_as_raw_documents(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard = Heard()
    things = connect(heard, document_class=RawBSONDocument)[database_name].things
    face.run(lambda: things.insert_one({"_id": 1, "inner": {"n": 1}}))
    face.run(lambda: things.find({}).to_list())
    face.run(lambda: things.find_one_and_delete({"_id": 1}))
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: things.aggregate([{"$nope": 1}]))

    found = heard.of("find")[1].reply
    assert isinstance(found, RawBSONDocument)
    assert isinstance(found["cursor"]["firstBatch"][0], RawBSONDocument)
    assert found["cursor"]["firstBatch"][0]["inner"]["n"] == 1
    assert isinstance(heard.of("findAndModify")[1].reply, RawBSONDocument)
    assert isinstance(heard.of("aggregate")[1].failure, RawBSONDocument)
    # The driver itself reads the results of the writes.
    assert type(heard.of("insert")[1].reply) is dict
    assert {type(event.command) for event in heard.events if kind(event) == "started"} == {dict}


@pytest.mark.parametrize("way", ["find", "aggregate"])
def test_raw_batches_are_heard_of_as_one_block_of_bytes_each(
    face: Face, connect: Connect, database_name: str, way: str
) -> None:
    heard = Heard()
    things = connect(heard)[database_name].things
    documents = [{"_id": number} for number in range(5)]
    face.run(lambda: things.insert_many(documents))
    in_order: list[Any] = [{"$sort": {"_id": 1}}]
    opened = {
        "find": lambda: things.find_raw_batches({}, sort=[("_id", 1)], batch_size=3),
        "aggregate": lambda: face.run(lambda: things.aggregate_raw_batches(in_order, batchSize=3)),
    }[way]()

    assert face.run(opened.to_list) == [encode_all(documents[:3]), encode_all(documents[3:])]
    batches = [
        event.reply["cursor"].get("firstBatch", event.reply["cursor"].get("nextBatch"))
        for event in heard.events
        if kind(event) == "succeeded" and "cursor" in event.reply
    ]
    first, *others = batches
    assert first == ([] if way == "aggregate" else [encode_all(documents[:3])])
    assert others[-1] == [encode_all(documents[3:])]
    assert all(type(block) is bytes for batch in batches for block in batch)


def test_public_constructors_and_reprs_are_pymongos() -> None:
    from datetime import timedelta

    theirs = pytest.importorskip("pymongo.monitoring")
    address, took = ("a.example", 27017), timedelta(microseconds=1500)
    for name, arguments in {
        "CommandStartedEvent": ({"find": "c"}, "shop", 7, address, 8, None, 9),
        "CommandSucceededEvent": (took, {"ok": 1}, "find", 7, address, 8, None, "shop", 9),
        "CommandFailedEvent": (took, {"ok": 0}, "find", 7, address, None, None, "shop"),
    }.items():
        ours, their = getattr(monitoring, name)(*arguments), getattr(theirs, name)(*arguments)
        assert repr(ours) == repr(their)
        for attribute in dir(their):
            if not attribute.startswith("_"):
                assert getattr(ours, attribute) == getattr(their, attribute), attribute
    secret = monitoring.CommandStartedEvent({"saslStart": 1, "payload": "x"}, "admin", 1, address, None)
    assert secret.command == {}
    with pytest.raises(ValueError, match="not a valid command"):
        monitoring.CommandStartedEvent({}, "shop", 1, address, None)


def test_without_a_listener_nothing_of_monitoring_is_loaded() -> None:
    import subprocess

    program = "import sys, mangonel; mangonel.MongoClient(connect=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert not {"mangonel.monitoring", "mangonel._observe.publisher"} & set(loaded.stdout.split())
