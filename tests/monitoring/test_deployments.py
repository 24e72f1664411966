"""Events of topology, server and heartbeat listeners."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from mangonel import MongoClient, errors, event_loggers, monitoring
from mangonel.hello import Hello
from mangonel.read_preferences import Secondary
from mangonel.server import Server
from mangonel.server_description import ServerDescription
from mangonel.topology_description import TOPOLOGY_TYPE, TopologyDescription
from monitoring.conftest import Connect
from tools.faces import TIMEOUT, Face, eventually, in_the_end


class Deployment(monitoring.ServerListener, monitoring.TopologyListener):
    """Keeps every event of servers and of the topology, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def opened(self, event: Any) -> None:
        self.events.append(event)

    def description_changed(self, event: Any) -> None:
        self.events.append(event)

    def closed(self, event: Any) -> None:
        self.events.append(event)

    @property
    def story(self) -> list[str]:
        return [type(event).__name__.removesuffix("Event") for event in self.events]


class Heartbeats(monitoring.ServerHeartbeatListener):
    """Keeps every event of heartbeats, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def started(self, event: Any) -> None:
        self.events.append(event)

    def succeeded(self, event: Any) -> None:
        self.events.append(event)

    def failed(self, event: Any) -> None:
        self.events.append(event)


def test_topology_is_opened_filled_and_closed(face: Face, connect: Connect) -> None:
    heard = Deployment()
    client = connect(heard)
    face.run(lambda: client.admin.command("ping"))
    eventually(lambda: len(heard.events) > 4)
    face.run(client.close)

    assert heard.story == [
        "TopologyOpened",
        "TopologyDescriptionChanged",
        "ServerOpening",
        "ServerDescriptionChanged",
        "TopologyDescriptionChanged",
        "ServerClosed",
        "TopologyDescriptionChanged",
        "TopologyClosed",
    ]
    assert len({event.topology_id for event in heard.events}) == 1
    changed, new = heard.events[3], heard.events[4].new_description
    assert changed.previous_description.server_type_name == "Unknown"
    assert changed.new_description.server_type_name == "RSPrimary"
    assert changed.new_description.round_trip_time > 0
    assert new.topology_type == TOPOLOGY_TYPE.ReplicaSetWithPrimary
    assert new.has_writable_server()
    assert not new.has_readable_server(Secondary())
    assert new.server_descriptions()[changed.server_address] == changed.new_description


class Slow(Deployment):
    """A listener that is still handling a server's first description when the topology is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_inside, self.is_closed = threading.Event(), threading.Event()

    def description_changed(self, event: Any) -> None:
        super().description_changed(event)
        if isinstance(event, monitoring.ServerDescriptionChangedEvent):
            self.is_inside.set()
            self.is_closed.wait(0.3)

    def closed(self, event: Any) -> None:
        super().closed(event)
        self.is_closed.set()


def test_what_a_thread_is_still_telling_comes_before_what_another_one_did_later(server: Server) -> None:
    heard = Slow()
    client = MongoClient(server.uri, event_listeners=[heard])
    assert heard.is_inside.wait(TIMEOUT)
    client.close()

    # All events were delivered when `close` returns.
    assert heard.story[-4:] == [
        "TopologyDescriptionChanged",
        "ServerClosed",
        "TopologyDescriptionChanged",
        "TopologyClosed",
    ]


def test_a_listener_may_close_its_client(server: Server) -> None:
    heard = Deployment()

    class Closing(monitoring.ServerHeartbeatListener):
        def started(self, event: Any) -> None:
            pass

        def succeeded(self, event: Any) -> None:
            client.close()

        failed = started

    client = MongoClient(server.uri, event_listeners=[heard, Closing()], connect=False)
    in_the_end(errors.PyMongoError, "after close", lambda: client.admin.command("ping"))
    eventually(lambda: heard.story[-1:] == ["TopologyClosed"])


def test_heartbeat_is_heard_of_with_the_servers_reply(face: Face, connect: Connect) -> None:
    heard = Heartbeats()
    client = connect(heard)
    face.run(lambda: client.admin.command("ping"))

    eventually(lambda: len(heard.events) > 1)
    started, succeeded = heard.events[:2]
    assert (started.awaited, succeeded.awaited) == (False, False)
    assert succeeded.reply.document["setName"] == succeeded.reply.replica_set_name
    assert succeeded.reply.is_writable
    assert succeeded.duration > 0
    assert succeeded.connection_id == started.connection_id


def test_heartbeat_of_a_server_that_is_gone_fails(face: Face, nowhere: str) -> None:
    heard = Heartbeats()
    client = face.client(nowhere, event_listeners=[heard], serverSelectionTimeoutMS=100)
    with pytest.raises(errors.ServerSelectionTimeoutError):
        face.run(lambda: client.admin.command("ping"))

    eventually(lambda: len(heard.events) > 1)
    assert isinstance(heard.events[1], monitoring.ServerHeartbeatFailedEvent)
    assert "refused" in str(heard.events[1].reply)


def test_loggers_of_events_write_to_the_root_logger(
    face: Face, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    loggers = [getattr(event_loggers, name)() for name in event_loggers.__all__]
    with caplog.at_level(logging.INFO):
        client = connect(*loggers)
        face.run(lambda: client.admin.command("ping"))
        face.run(client.close)

    for start in ("Command ping", "Heartbeat", "Topology", "[pool"):
        assert any(line.startswith(start) for line in caplog.messages), start


def test_description_of_a_hello_has_pymongos_values() -> None:
    pytest.importorskip("pymongo")
    from pymongo import hello as their_hello
    from pymongo import server_description as theirs

    reply = {
        "ok": 1,
        "setName": "rs0",
        "secondary": True,
        "hosts": ["a.example:27017", "B.example:27018"],
        "arbiters": ["c.example:27019"],
        "primary": "a.example:27017",
        "me": "b.example:27018",
        "tags": {"dc": "east"},
        "minWireVersion": 0,
        "maxWireVersion": 21,
        "setVersion": 3,
        "logicalSessionTimeoutMinutes": 30,
    }
    address = ("b.example", 27018)
    ours = ServerDescription(address, Hello(reply), 0.5)
    their = theirs.ServerDescription(address, their_hello.Hello(reply), 0.5)
    for name in dir(their):
        if not name.startswith("_") and name not in ("election_tuple", "last_update_time", "to_unknown"):
            assert getattr(ours, name) == getattr(their, name), name
    assert repr(ours) == repr(their)
    assert ours != ours.to_unknown()
    assert repr(ours.to_unknown(ValueError("x"))) == repr(their.to_unknown(ValueError("x")))


def test_readable_server_is_found_by_mode_and_tags() -> None:
    reply = {"ok": 1, "setName": "rs0", "secondary": True, "tags": {"dc": "east"}, "hosts": []}
    address = ("b.example", 27018)
    known = {address: ServerDescription(address, Hello(reply))}
    description = TopologyDescription(TOPOLOGY_TYPE.ReplicaSetNoPrimary, known, "rs0", None, None)

    assert not description.has_writable_server()
    assert description.has_readable_server(Secondary())
    assert description.has_readable_server(Secondary(tag_sets=[{"dc": "west"}, {"dc": "east"}]))
    assert not description.has_readable_server(Secondary(tag_sets=[{"dc": "west"}]))
