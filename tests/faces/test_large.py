"""Large messages: loops run on while they are sent and received, and documents are decoded one by one."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangonel import AsyncMongoClient
from mangonel.server import Server
from tools.faces import TIMEOUT, Face, new_loop
from tools.messages import op_msg
from tools.scripted_server import Hang, Raw, Request, ScriptedServer

# Python's memory blocks: a document takes at least three, and other objects made meanwhile take far fewer.
FEW = 100_000
DOCUMENTS = 200_000


async def turns_beside(steps: Callable[[], Awaitable[Any]]) -> int:
    """Run `steps`; return how many turns a task had that does nothing but yield."""
    turns, is_over = 0, False

    async def beat() -> None:
        nonlocal turns
        while not is_over:
            await asyncio.sleep(0)
            turns += 1

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await steps()
    is_over = True
    await beating
    return turns


def test_a_large_send_does_not_block_the_loop(loop_name: str) -> None:
    gate = threading.Event()
    opened: list[bool] = []

    def slow_server(request: Request) -> Any:
        # The server does not read during this time: the large command behind it must wait in the client.
        if not request.is_unacknowledged:
            return {"ok": 1, "n": 1}
        opened.append(gate.wait(TIMEOUT / 2))
        return Hang()

    from mangonel.write_concern import WriteConcern

    with ScriptedServer() as server:
        server.on("insert", slow_server)

        async def go_on() -> None:
            # The server reads only after the loop has had this turn; if the send blocked the loop, that would never
            # happen.
            await asyncio.sleep(0.3)
            gate.set()

        async def steps() -> None:
            client = AsyncMongoClient(server.uri, maxPoolSize=1)
            orders = client.shop.orders
            # Encoding runs in the caller's task; the loop is free only between documents and during the send.
            unacknowledged = orders.with_options(write_concern=WriteConcern(w=0))
            await unacknowledged.insert_one({"_id": 0})
            large = {"_id": 1, "data": b"x" * 15_000_000}
            await asyncio.gather(go_on(), orders.insert_one(large))
            await client.close()

        with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
            runner.run(steps())
        assert opened == [True]
        assert len(server.received("insert")[1].documents[0]["data"]) == 15_000_000


def test_forty_megabytes_are_inserted_while_the_loop_goes_on(loop_name: str, standalone: Server) -> None:
    documents = [{"_id": n, "data": b"x" * 1_000_000} for n in range(40)]

    async def steps() -> int:
        client = AsyncMongoClient(standalone.uri)
        orders = client[f"faces_large_{loop_name}"].orders
        turns = await turns_beside(lambda: orders.insert_many(documents))
        assert await orders.count_documents({}) == 40
        await client.drop_database(orders.database.name)
        await client.close()
        return turns

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        # The operating system buffers some megabytes.
        assert runner.run(steps()) > 4


def test_large_documents_come_back_whole(face: Face, standalone: Server) -> None:
    client = face.client(standalone.uri)
    orders = client[f"faces_whole_{face.name}"].orders
    data = bytes(range(256)) * 58_000
    face.run(lambda: orders.insert_one({"_id": 1, "data": data}))
    assert face.run(orders.find_one) == {"_id": 1, "data": data}
    face.run(lambda: client.drop_database(orders.database.name))


@pytest.fixture(scope="module")
def big_reply() -> bytes:
    """A batch of 16 MB in many documents."""
    import bson

    document = bson.encode({"_id": 0, "text": "x" * 40, "flag": True})
    batch = b"".join(b"\x03" + str(n).encode() + b"\0" + document for n in range(DOCUMENTS))
    batch = (len(batch) + 5).to_bytes(4, "little") + batch + b"\0"
    cursor = b"\x12id\0" + bytes(8) + b"\x02ns\0\x04\0\0\0a.b\0" + b"\x04firstBatch\0" + batch
    cursor = (len(cursor) + 5).to_bytes(4, "little") + cursor + b"\0"
    body = b"\x10ok\0\x01\0\0\0\x03cursor\0" + cursor
    return (len(body) + 5).to_bytes(4, "little") + body + b"\0"


def test_a_large_reply_is_decoded_document_by_document(loop_name: str, big_reply: bytes) -> None:
    with ScriptedServer() as server:
        server.on("find", lambda request: Raw(op_msg(big_reply, response_to=request.request_id)))

        async def steps() -> list[int]:
            client = AsyncMongoClient(server.uri)
            await client.admin.command("ping")
            gc.collect()
            cursor = client.shop.orders.find()
            before = sys.getallocatedblocks()
            await cursor.next()
            made = [sys.getallocatedblocks() - before]
            for _ in range(1000):
                await cursor.next()
            made.append(sys.getallocatedblocks() - before)
            rest = await cursor.to_list()
            made.append(sys.getallocatedblocks() - before)
            assert len(rest) == DOCUMENTS - 1001
            await client.close()
            return made

        with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
            first, thousand, all_of_them = runner.run(steps())
        assert first < FEW
        assert thousand < FEW
        # The number when all have been decoded.
        assert all_of_them > 2 * DOCUMENTS
