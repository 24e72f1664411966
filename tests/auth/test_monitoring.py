"""Listeners are told that authentication happened and how long it took, but nothing of its messages."""

from __future__ import annotations

from typing import Any

import pymongo
import pytest
from pymongo import monitoring as their_monitoring

from auth.conftest import uri
from mangonel.errors import OperationFailure, PyMongoError
from mangonel.server import Server
from monitoring.conftest import Heard
from tools.faces import Face, eventually
from tools.scripted_server import Hang, ScriptedServer


class Told(their_monitoring.CommandListener):
    """The events of the peer."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def started(self, event: Any) -> None:
        self.events.append(event)

    succeeded = failed = started


def test_authentication_is_told_without_its_content(face: Face, guarded: Server) -> None:
    heard = Heard()
    client = face.client(guarded.uri, event_listeners=[heard])
    face.run(lambda: client.admin.command("ping"))

    # The first hello is no event; it already contains the first message.
    assert heard.story == ["started saslContinue", "succeeded saslContinue", "started ping", "succeeded ping"]
    started, succeeded, ping, _ = heard.events
    assert (started.command, succeeded.reply, started.database_name) == ({}, {}, "admin")
    assert started.operation_id == started.request_id == succeeded.request_id
    assert ping.operation_id == ping.request_id != started.request_id
    assert started.server_connection_id == ping.server_connection_id > 0
    assert succeeded.duration_micros > 0


@pytest.mark.parametrize("password", ["sha256 secret", "wrong"])
def test_the_same_commands_are_told_as_by_the_peer(face: Face, guarded: Server, password: str) -> None:
    heard, told = Heard(), Told()
    target = uri(guarded, "sha256", password)
    client = face.client(target, event_listeners=[heard])
    with pymongo.MongoClient(target, event_listeners=[told]) as peer:
        for attempt in (
            lambda: peer.admin.command("ping"),
            lambda: face.run(lambda: client.admin.command("ping")),
        ):
            try:
                attempt()
            except (PyMongoError, pymongo.errors.PyMongoError):
                assert password == "wrong"
        theirs = [(type(event).__name__, event.command_name, event.database_name) for event in told.events]

    ours = [(type(event).__name__, event.command_name, event.database_name) for event in heard.events]
    assert ours == theirs


def test_refused_authentication_shows_only_its_codes(face: Face, guarded: Server) -> None:
    heard = Heard()
    client = face.client(uri(guarded, "sha256", "wrong"), event_listeners=[heard])
    with pytest.raises(OperationFailure):
        face.run(lambda: client.admin.command("ping"))

    assert heard.story == ["started saslContinue", "failed saslContinue"]
    assert heard.events[1].failure == {"code": 18, "codeName": "AuthenticationFailed"}


def test_line_that_breaks_while_authenticating_ends_what_was_told(
    face: Face, scripted_server: ScriptedServer
) -> None:
    heard = Heard()
    scripted_server.on("saslStart", Hang())
    target = f"mongodb://user:pencil@{scripted_server.address}/?authMechanism=PLAIN&connectTimeoutMS=200"
    client = face.client(target, event_listeners=[heard], serverSelectionTimeoutMS=300)

    def is_told() -> bool:
        with pytest.raises(PyMongoError):
            face.run(lambda: client.admin.command("ping"))
        return heard.story != []

    # On a busy machine the earlier steps may exceed the limits; then no event is published.
    eventually(is_told)
    assert heard.story[:2] == ["started saslStart", "failed saslStart"]
    assert heard.events[1].failure["errtype"] == "NetworkTimeout"
    assert heard.events[0].database_name == "$external"
    assert heard.story.count("started saslStart") == heard.story.count("failed saslStart")
