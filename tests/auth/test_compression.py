"""Compression against a real mongod, whose counters show compressed bytes, and against a scripted server."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest

from auth.conftest import ROOT, uri
from mangonel import CursorType, InsertOne, WriteConcern
from mangonel.errors import AutoReconnect, ProtocolError
from mangonel.server import Server, start
from tools.faces import TIMEOUT, Face, eventually, found, pool_sizes
from tools.messages import EXHAUST_ALLOWED, HEADER, MORE_TO_COME, OP_COMPRESSED, OP_MSG
from tools.scripted_server import Close, Raw, Reply, Script, ScriptedServer

COMPRESSORS = ["snappy", "zlib", "zstd"]
TEXT = "compressible " * 400


@pytest.fixture(scope="module")
def packer() -> Iterator[Server]:
    """A server that knows all compressors; not shared with other files, since its counters are read."""
    with start(
        arguments=["--networkMessageCompressors", "snappy,zstd,zlib"],
        set_parameters={"enableTestCommands": 1},
    ) as server:
        yield server


@pytest.fixture(scope="module")
def other_packer() -> Iterator[Server]:
    """A server that knows two compressors, in its own order."""
    with start(arguments=["--networkMessageCompressors", "zlib,snappy"]) as server:
        yield server


@pytest.fixture(scope="module")
def plain() -> Iterator[Server]:
    """A server that knows no compressor."""
    with start(arguments=["--networkMessageCompressors", "disabled"]) as server:
        yield server


def counters(server: Server, compressor: str) -> dict[str, int]:
    """Return how many bytes the server decompressed and compressed, read over an uncompressed connection."""
    with pymongo.MongoClient(server.uri) as client:
        counted = client.admin.command("serverStatus")["network"]["compression"][compressor]
    return {
        "received": counted["decompressor"]["bytesOut"],
        "received packed": counted["decompressor"]["bytesIn"],
        "sent": counted["compressor"]["bytesIn"],
        "sent packed": counted["compressor"]["bytesOut"],
    }


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_the_server_counts_what_comes_and_goes_compressed(
    face: Face, packer: Server, compressor: str
) -> None:
    client = face.client(packer.uri, compressors=compressor)
    orders = client.shop[f"{face.name}_{compressor}"]
    documents = [{"_id": number, "text": TEXT} for number in range(300)]
    before = counters(packer, compressor)
    face.run(lambda: orders.insert_many(documents))
    assert face.collect(orders.find().sort("_id")) == documents
    after = counters(packer, compressor)
    moved = {name: after[name] - before[name] for name in before}
    assert moved["received"] > 300 * len(TEXT)
    assert moved["sent"] > 300 * len(TEXT)
    assert moved["received packed"] * 5 < moved["received"]
    assert moved["sent packed"] * 5 < moved["sent"]
    face.run(orders.drop)


def test_nothing_is_compressed_unless_it_is_asked_for(face: Face, packer: Server) -> None:
    before = [counters(packer, name) for name in COMPRESSORS]
    client = face.client(packer.uri)
    face.run(lambda: client.shop.orders.insert_one({"text": TEXT}))
    assert [counters(packer, name) for name in COMPRESSORS] == before


def test_the_first_wanted_that_the_server_knows_is_used(face: Face, other_packer: Server) -> None:
    client = face.client(other_packer.uri, compressors="zstd,zlib,snappy")
    before = counters(other_packer, "zlib")["received"]
    face.run(lambda: client.shop.orders.insert_one({"text": TEXT}))
    assert counters(other_packer, "zlib")["received"] - before > len(TEXT)
    assert counters(other_packer, "snappy")["received"] == 0


def test_a_server_without_compression_is_talked_to_plainly(face: Face, plain: Server) -> None:
    orders = face.client(plain.uri, compressors="zstd,zlib,snappy").shop[face.name]
    face.run(lambda: orders.insert_one({"_id": 1, "text": TEXT}))
    assert face.run(orders.find_one) == {"_id": 1, "text": TEXT}


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_exhaust_cursors_read_compressed_replies(
    blocking_face: Face, packer: Server, compressor: str
) -> None:
    client = blocking_face.client(packer.uri, compressors=compressor)
    orders = client.shop[f"exhaust_{compressor}"]
    orders.drop()
    orders.insert_many([{"_id": number, "text": TEXT} for number in range(200)])
    before = counters(packer, compressor)["sent"]
    found = list(orders.find(cursor_type=CursorType.EXHAUST, batch_size=20).sort("_id"))
    assert [document["_id"] for document in found] == list(range(200))
    assert counters(packer, compressor)["sent"] - before > 200 * len(TEXT)


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_unacknowledged_writes_and_bulks_are_compressed(face: Face, packer: Server, compressor: str) -> None:
    client = face.client(packer.uri, compressors=compressor)
    orders = client.shop[f"unacknowledged_{face.name}_{compressor}"]
    before = counters(packer, compressor)["received"]
    blind = orders.with_options(write_concern=WriteConcern(w=0))
    face.run(lambda: blind.insert_one({"_id": 1, "text": TEXT}))
    face.run(
        lambda: orders.bulk_write([InsertOne({"_id": number, "text": TEXT}) for number in range(2, 100)])
    )
    assert counters(packer, compressor)["received"] - before > 98 * len(TEXT)
    face.run(orders.drop)


def test_a_batch_of_the_largest_size_survives_compression(face: Face, packer: Server) -> None:
    client = face.client(packer.uri, compressors="snappy")
    large = client.shop[f"large_{face.name}"]
    documents = [{"_id": number, "data": bytes(15_000_000)} for number in range(4)]
    face.run(lambda: large.insert_many(documents))
    assert [len(document["data"]) for document in face.collect(large.find())] == [15_000_000] * 4
    face.run(large.drop)


def test_commands_with_credentials_and_hello_are_never_compressed(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["compression"] = ["zlib"]
    client = face.client(scripted_server.uri, compressors="zlib", zlibCompressionLevel=9)
    plain = [
        "hello",
        "isMaster",
        "saslStart",
        "saslContinue",
        "getnonce",
        "authenticate",
        "createUser",
        "updateUser",
    ]
    packed = ["ping", "find", "dropUser", "aggregate"]
    for name in plain + packed:
        scripted_server.on(name, {"ok": 1, **({} if "ello" not in name else scripted_server.hello)})
        face.run(lambda name=name: client.admin.command(name, "x"))
    for request in scripted_server.requests:
        assert request.compressor == ("zlib" if request.name in (*packed, "endSessions") else None), (
            request.name
        )


def test_a_client_names_its_compressors_in_its_order(face: Face, scripted_server: ScriptedServer) -> None:
    client = face.client(scripted_server.uri, compressors="zstd,snappy,zlib")
    face.run(lambda: client.admin.command("ping"))
    asked = [
        hello.command.get("compression") for hello in scripted_server.requests if "client" in hello.command
    ]
    assert ["zstd", "snappy", "zlib"] in asked


def packed(body: bytes, claimed: int, code: int = 2, opcode: int = OP_MSG) -> Any:
    """Return a function that replies with an OP_COMPRESSED message of these bytes."""

    def answer(request: Any) -> Raw:
        content = struct.pack("<iiB", opcode, claimed, code) + body
        return Raw(HEADER.pack(16 + len(content), 1, request.request_id, OP_COMPRESSED) + content)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        packed(zlib.compress(bytes(40)), 50_000_000),
        packed(zlib.compress(bytes(40)), -1),
        packed(zlib.compress(bytes(40)), 39),
        packed(zlib.compress(bytes(40)), 41),
        packed(zlib.compress(bytes(10_000_000)), 1000),
        packed(b"no zlib", 7),
        packed(zlib.compress(bytes(40)), 40, code=77),
        packed(zlib.compress(bytes(40)), 40, opcode=OP_COMPRESSED),
        packed(zlib.compress(bytes(40)), 40),
    ],
    ids=[
        "over the limit",
        "negative",
        "too little",
        "too much",
        "a bomb",
        "damaged",
        "unknown",
        "twice",
        "no message",
    ],
)
def test_what_does_not_decompress_to_a_message_closes_the_connection(
    face: Face, scripted_server: ScriptedServer, answer: Any
) -> None:
    scripted_server.hello["compression"] = ["zlib"]
    client = face.client(scripted_server.uri, compressors="zlib")
    scripted_server.once("find", answer)
    with pytest.raises((ProtocolError, AutoReconnect)):
        face.run(lambda: client.shop.orders.find_one())
    scripted_server.wait_for_open(0)
    scripted_server.on("find", found({"_id": 1}))
    assert face.run(lambda: client.shop.orders.find_one()) == {"_id": 1}


def test_compressed_replies_of_an_exhaust_cursor_come_one_after_the_other(
    blocking_face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["compression"] = ["zlib"]
    client = blocking_face.client(scripted_server.uri, compressors="zlib")
    scripted_server.on("find", Reply(found({"_id": 1}, id=5), compressor="zlib"))
    scripted_server.on(
        "getMore",
        Script(
            Reply(found({"_id": 2}, id=5, batch="nextBatch"), compressor="zlib", flags=MORE_TO_COME),
            Reply(found({"_id": 3}, batch="nextBatch"), compressor="zlib", response_to=1),
        ),
    )
    cursor = client.shop.orders.find(cursor_type=CursorType.EXHAUST)
    assert [document["_id"] for document in cursor] == [1, 2, 3]
    (more,) = scripted_server.received("getMore")
    assert more.flags & EXHAUST_ALLOWED
    assert more.compressor == "zlib"


def test_a_compressed_line_that_breaks_is_tried_again_compressed(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["compression"] = ["zlib"]
    client = face.client(scripted_server.uri, compressors="zlib")
    scripted_server.on("find", Reply(found({"_id": 1}), compressor="zlib"))
    scripted_server.once("find", Close())
    assert face.run(lambda: client.shop.orders.find_one()) == {"_id": 1}
    assert [request.compressor for request in scripted_server.received("find")] == ["zlib", "zlib"]


def test_authentication_is_not_compressed_and_what_follows_is(face: Face, guarded: Server) -> None:
    client = face.client(uri(guarded, *ROOT, compressors="zlib"))
    before = counters(guarded, "zlib")["received"]
    face.run(lambda: client.shop.packed.insert_one({"text": TEXT}))
    assert counters(guarded, "zlib")["received"] - before > len(TEXT)


def test_connections_that_the_pool_keeps_ready_have_users_and_compress(face: Face, guarded: Server) -> None:
    client = face.client(uri(guarded, *ROOT, compressors="zlib", minPoolSize=3))
    face.run(lambda: client.admin.command("ping"))
    eventually(lambda: pool_sizes(client)[0] == 3, "three idle connections")
    before = counters(guarded, "zlib")["received"]
    started = [face.start(lambda: client.shop.packed.insert_one({"text": TEXT})) for _ in range(3)]
    for future in started:
        future.result(TIMEOUT)
    assert counters(guarded, "zlib")["received"] - before > 3 * len(TEXT)


def test_stored_files_come_and_go_compressed(face: Face, packer: Server) -> None:
    from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket

    database = face.client(packer.uri, compressors="snappy")[f"files_{face.name}"]
    bucket = (AsyncGridFSBucket if face.is_async else GridFSBucket)(database)
    data = TEXT.encode() * 400
    before = counters(packer, "snappy")
    key = face.run(lambda: bucket.upload_from_stream("file", data))

    async def read_async() -> bytes:
        return await (await bucket.open_download_stream(key)).read()

    found = face.run(read_async if face.is_async else (lambda: bucket.open_download_stream(key).read()))
    assert found == data
    after = counters(packer, "snappy")
    assert after["sent"] - before["sent"] > len(data)
    assert after["received"] - before["received"] > len(data)
    face.run(lambda: database.client.drop_database(database.name))
