"""Secured connections carry the same as plain ones, on every face, in any sizes and pieces."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel import CursorType, MongoClient
from mangonel import server as mongod
from mangonel._core import run_now
from mangonel._faces import secure
from mangonel.errors import AutoReconnect
from tls.certificates import Certificates
from tools.faces import EMPTY, TIMEOUT, Face, eventually, found, open_sockets, pool_sizes
from tools.messages import Request, op_msg
from tools.scripted_server import Close, Hang, Raw, Reply, ScriptedServer


def uri_of(server: ScriptedServer) -> str:
    return f"mongodb://localhost:{server.port}/?directConnection=true"


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def secure_server(request: pytest.FixtureRequest, server_context: Any) -> Iterator[ScriptedServer]:
    context = server_context()
    context.minimum_version = context.maximum_version = request.param
    with ScriptedServer(ssl_context=context) as server:
        server.on("find", EMPTY)
        yield server


@pytest.mark.parametrize(
    "options",
    [
        {"tlsCAFile": True},
        {"tls": True, "tlsInsecure": True},
        {"tls": True, "tlsAllowInvalidCertificates": True},
        {"ssl": True, "tlsCAFile": True, "tlsAllowInvalidHostnames": True},
        {"tlsCAFile": True, "tlsDisableOCSPEndpointCheck": True},
        {"tlsCAFile": True, "tlsCRLFile": True},
        {"ssl_context": True},
    ],
    ids=lambda options: "+".join(options),
)
def test_every_option_leads_to_a_connection(
    face: Face, certificates: Certificates, server_context: Any, options: dict[str, Any]
) -> None:
    paths: dict[str, Any] = {
        "tlsCAFile": str(certificates.authority),
        "tlsCRLFile": str(certificates.revocations),
        "ssl_context": ssl.create_default_context(cafile=certificates.authority),
    }
    options = {name: paths.get(name, value) for name, value in options.items()}
    with ScriptedServer(ssl_context=server_context()) as server:
        server.on("find", EMPTY)
        client = face.client(uri_of(server), **options)
        assert face.run(lambda: client.shop.orders.find_one()) is None


def test_a_certificate_for_another_host_passes_when_names_are_not_checked(
    face: Face, certificates: Certificates, server_context: Any
) -> None:
    with ScriptedServer(ssl_context=server_context(certificates.elsewhere)) as server:
        server.on("find", EMPTY)
        client = face.client(
            uri_of(server), tlsCAFile=str(certificates.authority), tlsAllowInvalidHostnames=True
        )
        assert face.run(lambda: client.shop.orders.find_one()) is None


def test_the_server_hears_the_name_that_it_was_called_by(
    face: Face, certificates: Certificates, server_context: Any
) -> None:
    names: list[str | None] = []
    context = server_context()
    context.sni_callback = lambda line, name, context: names.append(name)
    with ScriptedServer(ssl_context=context) as server:
        server.on("find", EMPTY)
        client = face.client(uri_of(server), tlsCAFile=str(certificates.authority))
        face.run(lambda: client.shop.orders.find_one())
    assert set(names) == {"localhost"}


@pytest.mark.parametrize("pieces", [None, 1, 7, 1000])
def test_a_reply_in_pieces_is_put_together(
    face: Face, certificates: Certificates, secure_server: ScriptedServer, pieces: int | None
) -> None:
    secure_server.once("find", Reply(found({"_id": 1, "text": "x" * 300}), pieces=pieces))
    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    assert face.run(lambda: client.shop.orders.find_one()) == {"_id": 1, "text": "x" * 300}


@pytest.mark.parametrize("size", [1, 16_300, 16_384, 65_536, 5_000_000])
def test_sizes_around_those_of_records_and_buffers(
    face: Face, certificates: Certificates, secure_server: ScriptedServer, size: int
) -> None:
    document = {"_id": 1, "data": b"x" * size}
    secure_server.on("find", found(document))
    secure_server.on("insert", {"ok": 1, "n": 1})
    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    face.run(lambda: client.shop.orders.insert_one(document))
    assert face.run(lambda: client.shop.orders.find_one()) == document
    (insert,) = secure_server.received("insert")
    assert insert.documents == [document]


def test_several_replies_in_one_record_are_all_read(
    face: Face, certificates: Certificates, secure_server: ScriptedServer
) -> None:
    def both(request: Request) -> Raw:
        first = op_msg(
            found({"_id": 2}, id=9, batch="nextBatch"), response_to=request.request_id, request_id=7, flags=2
        )
        return Raw(first + op_msg(found({"_id": 3}, batch="nextBatch"), response_to=7))

    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    secure_server.on("find", found({"_id": 1}, id=9))
    secure_server.on("getMore", both)
    cursor = client.shop.orders.find(cursor_type=CursorType.EXHAUST)
    assert face.collect(cursor) == [{"_id": 1}, {"_id": 2}, {"_id": 3}]


def test_a_cut_reply_is_an_error_and_its_connection_is_closed(
    face: Face, certificates: Certificates, secure_server: ScriptedServer
) -> None:
    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority), retryReads=False)
    face.run(lambda: client.shop.orders.find_one())
    secure_server.once("find", Reply(found({"_id": 1}), cut=20))
    with pytest.raises(AutoReconnect):
        face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client)[:3] == (0, 0, 0))


def test_a_closed_connection_is_replaced(
    face: Face, certificates: Certificates, secure_server: ScriptedServer
) -> None:
    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    face.run(lambda: client.shop.orders.find_one())
    secure_server.once("find", Close())
    assert face.run(lambda: client.shop.orders.find_one()) is None


def test_a_cancelled_find_closes_its_connection(
    certificates: Certificates, secure_server: ScriptedServer, face: Face
) -> None:
    if not face.is_async:
        pytest.skip("a thread cannot be cancelled")
    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    face.run(lambda: client.shop.orders.find_one())
    secure_server.once("find", Hang())
    running = face.start(lambda: client.shop.orders.find_one())
    secure_server.wait_for("find", 2)
    running.cancel()
    eventually(lambda: pool_sizes(client)[:3] == (0, 0, 0))
    assert face.run(lambda: client.shop.orders.find_one()) is None


def test_a_silent_server_is_given_up_during_the_handshake(face: Face, certificates: Certificates) -> None:
    # It listens and never replies.
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = face.client(
            f"mongodb://127.0.0.1:{server.getsockname()[1]}/?directConnection=true&connectTimeoutMS=200",
            tlsCAFile=str(certificates.authority),
            serverSelectionTimeoutMS=500,
        )
        with pytest.raises(AutoReconnect):
            face.run(lambda: client.shop.orders.find_one())


def test_no_socket_is_left_behind(
    face: Face, certificates: Certificates, secure_server: ScriptedServer
) -> None:
    warm = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    face.run(lambda: warm.shop.orders.find_one())
    face.run(warm.close)
    eventually(lambda: not secure_server._open)
    before = open_sockets()
    client = face.client(uri_of(secure_server), tlsCAFile=str(certificates.authority))
    face.run(lambda: client.shop.orders.find_one())
    face.run(client.close)
    eventually(lambda: open_sockets() <= before)


@pytest.fixture(scope="module")
def deployment(certificates: Certificates) -> Iterator[mongod.Server]:
    tls = {
        "certificateKeyFile": Path(certificates.server),
        "CAFile": str(certificates.authority),
        "allowConnectionsWithoutCertificates": True,
    }
    with mongod.start(1, tls=tls) as started:
        yield started


def test_a_real_server_stores_and_finds(face: Face, deployment: mongod.Server) -> None:
    client = face.client(deployment.uri)
    orders = client.tls[f"orders_{face.name}"]
    documents = [{"_id": i, "data": b"x" * 200_000} for i in range(40)]
    assert len(face.run(lambda: orders.insert_many(documents)).inserted_ids) == 40
    assert face.collect(orders.find().sort("_id", 1)) == documents


def test_a_wait_that_is_interrupted_goes_on(
    deployment: mongod.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANGONEL_IMPL", "reference")

    def interrupted(_sock: Any) -> None:
        raise KeyboardInterrupt

    client: Any
    with MongoClient(deployment.uri) as client:
        rows, port = client.tls.waits, client._port
        rows.drop()
        started = port.start(rows._insert_checked({"_id": 1}, None), connects=True)
        with monkeypatch.context() as patch:
            patch.setattr(secure, "wait_readable", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run_now(port.outlast(started))
        run_now(port.outlast(started))
        assert rows.find_one() == {"_id": 1}


def test_a_real_server_resumes_sessions(face: Face, deployment: mongod.Server) -> None:
    resumed = []

    class Context(ssl.SSLContext):
        def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
            made = super().wrap_bio(*args, **named)
            resumed.append(made)
            return made

    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    address = deployment.members[0].address
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    client = face.client(f"mongodb://{address}/?directConnection=true", ssl_context=context)
    slow = client.tls[f"slow_{face.name}"]
    face.run(lambda: slow.insert_one({}))
    resumed.clear()

    def play() -> bool:
        running = [face.start(lambda: slow.find_one({"$where": "sleep(200) || true"})) for _ in range(4)]
        assert [future.result(TIMEOUT) is not None for future in running] == [True] * 4
        return sum(made.session_reused for made in resumed) >= 3

    # Four at once, one of them on the existing connection; threads that start late make another round necessary.
    eventually(play, "three resumed sessions")
