"""Log messages of the driver: JSON with the specification's keys, only when a logger is enabled."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import InsertOne, errors, monitoring
from mangonel.logger import LogMessage
from mangonel.server import Server
from monitoring.conftest import Connect
from tools.faces import Face, eventually
from tools.scripted_server import ScriptedServer


class Kept(logging.Handler):
    """Keeps every message, decoded from JSON."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append((record.name.removeprefix("mangonel."), json.loads(record.getMessage())))

    def of(self, component: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.messages if name == component]


@pytest.fixture
def log() -> Iterator[Kept]:
    logger, kept = logging.getLogger("mangonel"), Kept()
    level = logger.level
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    yield kept
    logger.setLevel(level)
    logger.removeHandler(kept)


def test_command_is_written_with_all_that_identifies_it(
    face: Face, connect: Connect, log: Kept, database_name: str
) -> None:
    client = connect()
    face.run(lambda: client[database_name].things.insert_one({"_id": 1}))

    started, succeeded = log.of("command")
    assert (started["message"], succeeded["message"]) == ("Command started", "Command succeeded")
    for key in ("requestId", "operationId", "driverConnectionId", "serverConnectionId", "serverPort"):
        assert isinstance(started[key], int), key
        assert started[key] == succeeded[key]
    assert started["clientId"] == succeeded["clientId"]
    assert (started["commandName"], started["databaseName"]) == ("insert", database_name)
    assert json.loads(started["command"])["documents"] == [{"_id": 1}]
    assert json.loads(succeeded["reply"])["n"] == 1
    assert succeeded["durationMS"] > 0
    assert "serviceId" not in started


def test_failed_command_is_written_with_the_servers_reply(face: Face, connect: Connect, log: Kept) -> None:
    client = connect()
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: client.admin.command("nope"))

    failed = log.of("command")[1]
    assert failed["message"] == "Command failed"
    assert json.loads(failed["failure"])["code"] == 59


def test_credentials_are_not_written(face: Face, scripted_server: ScriptedServer, log: Kept) -> None:
    client = face.client(scripted_server.uri)
    scripted_server.on("saslStart", {"ok": 1, "payload": "secret"})
    face.run(lambda: client.admin.command("saslStart", payload="secret"))

    started, succeeded = log.of("command")
    assert (started["command"], succeeded["reply"]) == ("{}", "{}")
    assert "secret" not in str(log.messages)


def test_documents_are_written_as_text_although_a_listener_read_them(
    face: Face, scripted_server: ScriptedServer, log: Kept
) -> None:
    class Reader(monitoring.CommandListener):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            assert event.command is not None

        def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
            assert event.reply is not None

        def failed(self, event: monitoring.CommandFailedEvent) -> None:
            assert event.failure is not None

    client = face.client(scripted_server.uri, event_listeners=[Reader()])
    scripted_server.on("saslStart", {"ok": 1, "payload": "secret"})
    scripted_server.on("wrong", {"ok": 0, "errmsg": "no", "code": 59})
    face.run(lambda: client.admin.command("saslStart", payload="secret"))
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: client.admin.command("wrong"))

    redacted, answered, started, failed = log.of("command")
    assert (redacted["command"], answered["reply"]) == ("{}", "{}")
    assert json.loads(started["command"])["wrong"] == 1
    assert json.loads(failed["failure"])["code"] == 59


@pytest.mark.parametrize(("longest", "expected"), [("10", 10), ("", 1000), ("wrong", 1000)])
def test_long_documents_are_cut(
    face: Face,
    connect: Connect,
    log: Kept,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
    longest: str,
    expected: int,
) -> None:
    monkeypatch.setenv("MONGODB_LOG_MAX_DOCUMENT_LENGTH", longest)
    client = connect()
    face.run(lambda: client[database_name].things.insert_one({"text": "x" * 5000}))

    command = log.of("command")[0]["command"]
    assert len(command) == expected + 3
    assert command.endswith("...")


def test_cut_never_divides_a_character() -> None:
    import mangonel._core
    from mangonel.bson import encode

    whole = mangonel._core.shown_json(encode({"a": "äöü"}), 1000)
    assert json.loads(whole) == {"a": "äöü"}
    for longest in range(len(whole.encode())):
        text = mangonel._core.shown_json(encode({"a": "äöü"}), longest)
        assert text.endswith("...")
        assert whole.startswith(text[:-3])


def test_connections_and_pools_are_written(face: Face, connect: Connect, log: Kept) -> None:
    client = connect(maxPoolSize=5)
    face.run(lambda: client.admin.command("ping"))
    face.run(client.close)

    messages = log.of("connection")
    # The monitor thread reports the pool's events, and another thread may use the pool before that.
    ready = next(message for message in messages if message["message"] == "Connection pool ready")
    assert messages.index(ready) > 0
    messages.remove(ready)
    assert [message["message"] for message in messages[:6]] == [
        "Connection pool created",
        "Connection checkout started",
        "Connection created",
        "Connection ready",
        "Connection checked out",
        "Connection checked in",
    ]
    assert messages[0]["maxPoolSize"] == 5
    assert messages[3]["durationMS"] > 0
    assert messages[-2]["reason"] == "Connection pool was closed"
    assert messages[-1]["message"] == "Connection pool closed"


def test_choice_of_a_server_is_written(face: Face, connect: Connect, log: Kept) -> None:
    client = connect()
    face.run(lambda: client.admin.command("ping"))
    face.run(lambda: client.db.things.find_one({}))

    messages = [m for m in log.of("serverSelection") if m["operation"] == "find"]
    assert [message["message"] for message in messages] == [
        "Server selection started",
        "Server selection succeeded",
    ]
    assert messages[1]["serverPort"] > 0
    assert "RSPrimary" in messages[1]["topologyDescription"]


def test_choice_that_fails_says_that_it_waited_and_why(face: Face, log: Kept, nowhere: str) -> None:
    client = face.client(nowhere, serverSelectionTimeoutMS=50)
    with pytest.raises(errors.ServerSelectionTimeoutError):
        face.run(lambda: client.admin.command("ping"))

    messages = log.of("serverSelection")
    assert [message["message"] for message in messages] == [
        "Server selection started",
        "Waiting for suitable server to become available",
        "Server selection failed",
    ]
    assert 0 <= messages[1]["remainingTimeMS"] <= 50
    assert "no server" in messages[2]["failure"]


@pytest.mark.parametrize("way", ["insert_one", "insert_many", "bulk_write", "client bulk_write"])
def test_choice_that_fails_is_written_whatever_the_write(
    face: Face, log: Kept, way: str, nowhere: str
) -> None:
    client = face.client(nowhere, serverSelectionTimeoutMS=50)
    calls = {
        "insert_one": lambda: client.db.things.insert_one({}),
        "insert_many": lambda: client.db.things.insert_many([{}]),
        "bulk_write": lambda: client.db.things.bulk_write([InsertOne({})]),
        "client bulk_write": lambda: client.bulk_write([InsertOne({}, namespace="db.things")]),
    }
    with pytest.raises(errors.ServerSelectionTimeoutError):
        face.run(calls[way])

    messages = log.of("serverSelection")
    assert [(message["message"], message["operation"]) for message in messages] == [
        (message, "bulkWrite" if way == "client bulk_write" else "insert")
        for message in (
            "Server selection started",
            "Waiting for suitable server to become available",
            "Server selection failed",
        )
    ]


@pytest.mark.parametrize("way", ["insert_one", "insert_many", "bulk_write"])
def test_choice_of_a_write_that_waits_is_written_to_its_end(
    face: Face, log: Kept, scripted_server: ScriptedServer, way: str
) -> None:
    hosts = [scripted_server.address]
    scripted_server.hello.update(setName="rs0", isWritablePrimary=False, secondary=True, hosts=hosts)
    scripted_server.on("insert", {"ok": 1, "n": 1})
    # On a direct connection a secondary would be suitable, too.
    client = face.client(f"mongodb://{hosts[0]}/?replicaSet=rs0", heartbeatFrequencyMS=500)

    def elect(record: logging.LogRecord) -> bool:
        if "Waiting for suitable server" in record.getMessage():
            scripted_server.hello.update(isWritablePrimary=True, secondary=False)
        return True

    log.addFilter(elect)
    calls = {
        "insert_one": lambda: client.db.things.insert_one({}),
        "insert_many": lambda: client.db.things.insert_many([{}]),
        "bulk_write": lambda: client.db.things.bulk_write([InsertOne({})]),
    }
    face.run(calls[way])

    written = [
        message["message"] for message in log.of("serverSelection") if message["operation"] == "insert"
    ]
    assert written[:3] == [
        "Server selection started",
        "Waiting for suitable server to become available",
        "Server selection succeeded",
    ]
    # An unfinished server selection would look like one that hangs.
    assert written.count("Server selection started") == written.count("Server selection succeeded")


def test_deployment_is_written(
    face: Face, connect: Connect, log: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_LOG_MAX_DOCUMENT_LENGTH", "unlimited")
    client = connect()
    face.run(lambda: client.admin.command("ping"))
    face.run(client.close)

    # A client of another test may still be monitoring.
    begun = next(m for m in log.of("topology") if m["message"] == "Starting topology monitoring")
    messages = [m for m in log.of("topology") if m["clientId"] == begun["clientId"]]
    told = [message["message"] for message in messages]
    assert told[:3] == [
        "Starting topology monitoring",
        "Topology description changed",
        "Starting server monitoring",
    ]
    assert {"Server heartbeat started", "Server heartbeat succeeded"} <= set(told)
    assert told[-1] == "Stopped topology monitoring"
    heartbeat = next(m for m in messages if m["message"] == "Server heartbeat succeeded")
    assert json.loads(heartbeat["reply"])["ok"] == 1
    assert len({str(message["topologyId"]) for message in messages}) == 1


@pytest.mark.parametrize("name", ["mangonel", "mangonel.command"])
def test_level_of_the_drivers_loggers_counts_at_once(
    face: Face, scripted_server: ScriptedServer, name: str
) -> None:
    logger, kept = logging.getLogger(name), Kept()
    logger.addHandler(kept)
    client = face.client(scripted_server.uri)
    face.run(lambda: client.admin.command("ping"))
    try:
        logger.setLevel(logging.DEBUG)
        face.run(lambda: client.admin.command("ping"))
        logger.setLevel(logging.NOTSET)
        face.run(lambda: client.admin.command("ping"))
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(kept)

    assert [fields["message"] for fields in kept.of("command")] == ["Command started", "Command succeeded"]


def test_logger_that_is_turned_on_later_is_heard_of_after_a_heartbeat(face: Face, server: Server) -> None:
    logger, kept = logging.getLogger("mangonel.command"), Kept()
    client = face.client(server.uri, heartbeatFrequencyMS=500, serverMonitoringMode="poll")
    face.run(lambda: client.admin.command("ping"))
    logger.addHandler(kept)
    # As if a parent logger's level changed: a change of this logger's own level would be noticed at once.
    logging.Logger.setLevel(logger, logging.DEBUG)
    try:
        eventually(lambda: face.run(lambda: client.admin.command("ping")) and kept.messages, "a message")
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(kept)


def test_without_a_logger_nothing_of_logging_is_loaded() -> None:
    program = (
        "import sys, mangonel; mangonel.MongoClient(); before = 'logging' in sys.modules; import logging; "
        "mangonel.MongoClient(); print(before, *sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    before, *loaded = out.stdout.split()

    assert before == "False"
    assert not {"mangonel.logger", "mangonel._observe.log", "mangonel._observe.publisher"} & set(loaded)


def test_message_shows_what_json_cannot() -> None:
    message = LogMessage("it happened", thing=object, missing=None)

    assert json.loads(str(message)) == {"message": "it happened", "thing": repr(object)}
    assert message.fields == {"message": "it happened", "thing": object}


@pytest.mark.parametrize(
    ("command", "kind", "run"),
    [
        ("find", "read", lambda things: things.find_one({})),
        ("insert", "write", lambda things: things.insert_one({})),
        ("findAndModify", "write", lambda things: things.find_one_and_delete({})),
    ],
)
def test_each_further_attempt_is_written_before_it_starts(
    face: Face, connect: Connect, log: Kept, database_name: str, command: str, kind: str, run: Any
) -> None:
    client = connect(appname="retried")
    face.run(lambda: client.admin.command("ping"))
    refuses = {
        "failCommands": [command],
        "errorCode": 10107,
        "errorLabels": ["RetryableWriteError"],
        "appName": "retried",
    }
    point = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": refuses}
    face.run(lambda: client.admin.command(point))
    log.messages.clear()

    for _ in range(2):
        face.run(lambda: run(client[database_name].things))

    told = [message for message in log.of("command") if message["commandName"] == command]
    assert [message["message"] for message in told] == [
        "Command started",
        "Command failed",
        f"Retrying {kind} attempt number 1",
        "Command started",
        "Command succeeded",
        "Command started",
        "Command succeeded",
    ]
    assert told[2]["operationId"] == told[3]["operationId"]
