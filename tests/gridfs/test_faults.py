"""Broken connections, dying servers and cursors that end early: the right bytes, or a clear error."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, server
from mangonel._core import run_now
from mangonel._faces.blocking import BlockingLoop
from mangonel._faces.encrypting import EncryptingPort
from mangonel.errors import AutoReconnect, OperationFailure, PyMongoError
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket
from mangonel.server import Server
from tools.faces import pool_sizes
from tools.proxy import LineProxy

MIB = 1024 * 1024
SIZE = 30 * MIB + 77


@pytest.fixture(scope="module")
def data() -> bytes:
    return os.urandom(SIZE)


@pytest.fixture(scope="module")
def file_id(standalone: Server, data: bytes) -> Iterator[Any]:
    with MongoClient(standalone.uri) as client:
        yield GridFSBucket(client["gridfs_faults"]).upload_from_stream("file", data)
        client.drop_database("gridfs_faults")


@pytest.fixture
def source(face: Any, standalone: Server, file_id: Any) -> Any:
    bucket = face.bucket_class(face.client(standalone.uri)["gridfs_faults"])
    return face.wait(bucket.open_download_stream(file_id))


@pytest.fixture
def fail(standalone: Server) -> Iterator[Callable[..., None]]:
    """Make the server's next commands of this name fail."""
    with MongoClient(standalone.uri) as client:

        def switch(*names: str, times: int = 1, skip: int = 0, **how: Any) -> None:
            mode = {"skip": skip} if skip else {"times": times}
            fail_data = {"failCommands": names, **how}
            client.admin.command("configureFailPoint", "failCommand", mode=mode, data=fail_data)

        yield switch
        client.admin.command("configureFailPoint", "failCommand", mode="off")


def whole(face: Any, source: Any) -> bytes:
    return bytes(face.wait(source.read()))


def in_parts(face: Any, source: Any) -> bytes:
    parts = []
    while part := face.wait(source.read(3 * MIB)):
        parts.append(part)
    return b"".join(parts)


def over_connections(face: Any, source: Any) -> bytes:
    return bytes(face.wait(source.download(connections=3)))


WAYS = [whole, in_parts, over_connections]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    "how",
    [{"closeConnection": True}, {"errorCode": 43}, {"errorCode": 237}, {"errorCode": 175}],
    ids=["cut", "timed out", "killed", "plan killed"],
)
def test_cursor_that_ends_is_opened_anew_at_the_right_place(
    face: Any,
    source: Any,
    data: bytes,
    fail: Callable[..., None],
    way: Callable[[Any, Any], bytes],
    how: dict[str, Any],
) -> None:
    fail("getMore", **how)

    assert way(face, source) == data


def test_cursor_that_cannot_be_opened_anew_is_an_error(
    face: Any, source: Any, fail: Callable[..., None]
) -> None:
    face.wait(source.read(5))
    fail("getMore", "find", times=100, errorCode=43)

    with pytest.raises(OperationFailure) as caught:
        face.wait(source.read())

    assert caught.value.code == 43


def test_other_errors_are_not_tried_again(face: Any, source: Any, fail: Callable[..., None]) -> None:
    fail("getMore", errorCode=13)

    with pytest.raises(OperationFailure) as caught:
        face.wait(source.read())

    assert caught.value.code == 13


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("after", [100, 300 * 1024, 11 * MIB, 20 * MIB + 5])
def test_connection_cut_within_a_reply_costs_no_byte(
    face: Any, standalone: Server, file_id: Any, data: bytes, way: Callable[[Any, Any], bytes], after: int
) -> None:
    with LineProxy(standalone.members[0].port) as proxy:
        client = face.client(f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true")
        source = face.wait(face.bucket_class(client["gridfs_faults"]).open_download_stream(file_id))
        proxy.cut(down=after)

        assert way(face, source) == data


def test_upload_whose_connection_is_cut_leaves_no_chunk_or_is_whole(
    face: Any, standalone: Server, database_name: str, data: bytes, peer: Any
) -> None:
    with LineProxy(standalone.members[0].port) as proxy:
        client = face.client(
            f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true&serverSelectionTimeoutMS=60000"
        )
        bucket = face.bucket_class(client[database_name])
        proxy.cut(up=9 * MIB)

        # A standalone retries no writes, so the upload fails and its stored chunks are removed.
        with pytest.raises(AutoReconnect):
            face.wait(bucket.upload_from_stream("file", data))

    assert peer["fs.files"].count_documents({}) == 0
    assert peer["fs.chunks"].count_documents({}) == 0


def test_insert_that_is_refused_leaves_no_chunk(
    face: Any, bucket: Any, data: bytes, peer: Any, fail: Callable[..., None]
) -> None:
    fail("insert", skip=3, errorCode=13)

    with pytest.raises(PyMongoError):
        face.wait(bucket.upload_from_stream("file", data, chunk_size_bytes=MIB))

    assert peer["fs.files"].count_documents({}) == 0
    assert peer["fs.chunks"].count_documents({}) == 0


@pytest.mark.no_sample
def test_primary_that_is_killed_during_downloads_costs_no_byte(data: bytes) -> None:
    with server.start(replica_set=3) as deployment, MongoClient(deployment.uri) as client:
        primary = deployment.wait_until_settled()
        bucket = GridFSBucket(client["shop"])
        file_id = bucket.upload_from_stream("file", data)
        source = bucket.open_download_stream(file_id)
        blocking = [source.read(MIB) for _ in range(7)]

        async def read_on_asyncio() -> bytes:
            async with AsyncMongoClient(deployment.uri) as other:
                theirs = await AsyncGridFSBucket(other["shop"]).open_download_stream(file_id)
                parts = [await theirs.read(MIB) for _ in range(7)]
                primary.kill()
                parts.append(await theirs.read())
                return b"".join(parts)

        assert asyncio.run(read_on_asyncio()) == data
        while part := source.read(MIB):
            blocking.append(part)
        assert b"".join(blocking) == data


class Unchanging:
    """A cipher that leaves commands and replies as they are."""

    def __init__(self, encrypts: bool) -> None:
        self.encrypts = encrypts

    async def encrypt_flow(self, database: str, command: bytes) -> None: ...

    async def decrypt_flow(self, reply: bytes) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("way", ["fused", "reference"])
@pytest.mark.parametrize(
    "cipher", [None, Unchanging(False), Unchanging(True)], ids=["plain", "decrypts", "encrypts"]
)
def test_data_sent_ahead_can_be_waited_for_again_after_an_interrupt(
    standalone: Server, database_name: str, cipher: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An interrupted upload removes its chunks only after the insert that the server may still carry out.
    monkeypatch.setenv("MANGONEL_IMPL", way)
    client: Any
    with MongoClient(standalone.uri) as client:
        rows, plain = client[database_name].rows, client._port
        port = plain if cipher is None else EncryptingPort(client._core, plain, cipher)
        rows.find_one()
        started = port.start(rows._insert_checked({"_id": 1}, None), connects=True)

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(BlockingLoop, "_talk", interrupted)
            patch.setattr(plain, "_is_fused", False)
            with pytest.raises(KeyboardInterrupt):
                run_now(port.outlast(started))
        run_now(port.outlast(started))
        assert rows.find_one() == {"_id": 1}
        assert pool_sizes(client)[1:] == (0, 0, 0)
        client.drop_database(database_name)


class TornSocket:
    """A socket that is interrupted after bytes have arrived and before their number is known."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def recv_into(self, buffer: Any) -> int:
        self._whole.recv_into(buffer)
        raise KeyboardInterrupt


def test_an_interrupt_inside_a_receive_ends_the_connection_instead_of_waiting_for_ever(
    standalone: Server, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANGONEL_IMPL", "reference")
    client: Any
    with MongoClient(standalone.uri) as client:
        rows, port = client[database_name].rows, client._port
        rows.find_one()
        started = port.start(rows._insert_checked({"_id": 1}, None), connects=True)
        transport = started.link.transport
        transport.sock = TornSocket(transport.sock)
        with pytest.raises(KeyboardInterrupt):
            run_now(port.outlast(started))
        with pytest.raises(AutoReconnect):
            run_now(port.outlast(started))
        # The reply had arrived, so the server has finished.
        assert rows.find_one() == {"_id": 1}
        assert pool_sizes(client)[1:] == (0, 0, 0)
        client.drop_database(database_name)


def test_the_limit_of_an_upload_is_for_all_of_its_commands(
    face: Any, standalone: Server, fail: Callable[..., None]
) -> None:
    client = face.client(standalone.uri, timeoutMS=2000)
    bucket = face.bucket_class(client["gridfs_limit"])
    face.wait(bucket.upload_from_stream("first", b"x"))
    # Each insert alone has enough time, but one follows the other.
    fail("insert", times=2, blockConnection=True, blockTimeMS=1300)
    with pytest.raises(PyMongoError) as caught:
        face.wait(bucket.upload_from_stream("second", b"x"))
    assert caught.value.timeout
    face.wait(client.drop_database("gridfs_limit"))
