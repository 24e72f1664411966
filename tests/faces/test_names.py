"""Server names that are not resolved in time: no operation waits longer than its limits."""

from __future__ import annotations

import math
import os
import socket
import tempfile
from urllib.parse import quote

import pytest

from mangonel import errors
from tools.faces import TIMEOUT, Face, eventually, in_the_end
from tools.hanging_resolver import NAME, hanging_resolver
from tools.scripted_server import ScriptedServer

LIMIT_MS = 300


def uri_of(server: ScriptedServer) -> str:
    return server.uri.replace("127.0.0.1", NAME)


def test_looking_for_a_server_ends_in_time(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hanging_resolver(monkeypatch) as resolver:
        client = face.client(uri_of(scripted_server), serverSelectionTimeoutMS=LIMIT_MS, connectTimeoutMS=50)
        said = f"no name server answered for '{NAME}'"
        in_the_end(errors.ServerSelectionTimeoutError, said, lambda: face.wait(client.admin.command("ping")))
        assert resolver.is_hanging
        # A second look-up of the same name waits for the same reply.
        assert resolver.asked == 1


@pytest.mark.parametrize("option", ["timeoutMS", "connectTimeoutMS"])
def test_a_connection_for_an_operation_ends_in_time_and_the_next_one_is_opened(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    with hanging_resolver(monkeypatch, answers=math.inf) as resolver:
        client = face.client(uri_of(scripted_server), retryReads=False, **{option: LIMIT_MS})
        # The monitor asks first, and may have to ask again on a busy machine.
        if face.is_async:
            face.run(client.aconnect)
        else:
            eventually(lambda: client.nodes, "the server to be known")
        resolver.hang()
        with pytest.raises(errors.PyMongoError) as caught:
            face.wait(client.admin.command("ping"))
        assert caught.value.timeout
        assert resolver.is_hanging
        resolver.release()
        assert face.wait(client.admin.command("ping"))["ok"] == 1


def test_an_answer_that_comes_late_is_in_time_for_who_still_waits(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hanging_resolver(monkeypatch, answers=1) as resolver:
        client = face.client(uri_of(scripted_server))
        waiting = face.start(lambda: client.admin.command("ping"))
        eventually(lambda: resolver.is_hanging)
        resolver.release()
        assert waiting.result(TIMEOUT)["ok"] == 1


@pytest.mark.parametrize("host", [":5", "[[::1]]:5", "a\0b", "é" * 80])
def test_a_host_that_no_name_server_knows_is_an_unreachable_server(face: Face, host: str) -> None:
    client = face.client(host, serverSelectionTimeoutMS=LIMIT_MS)
    said = "Errno|idna"
    in_the_end(errors.ServerSelectionTimeoutError, said, lambda: face.wait(client.admin.command("ping")))


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
def test_a_socket_whose_path_tls_cannot_name_is_an_unreachable_server(face: Face) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, "a..sock")
        listener.bind(path)
        listener.listen()
        uri = f"mongodb://{quote(path, safe='')}"
        client = face.client(uri, tls=True, serverSelectionTimeoutMS=LIMIT_MS)
        in_the_end(
            errors.ServerSelectionTimeoutError, "idna", lambda: face.wait(client.admin.command("ping"))
        )
