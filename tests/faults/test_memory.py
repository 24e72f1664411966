"""When memory runs out the driver raises MemoryError, and the client remains usable.

Other parts of a process may fail, so each case runs in a process of its own with a memory limit.
"""

from __future__ import annotations

import sys

import pytest

from faults import programs
from tools.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")

EMPTY = {"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "firstBatch": []}}
MIB = 1 << 20

HEAD = """
import asyncio, resource, sys
from mangonel import AsyncMongoClient, MongoClient
import mangonel.bson as bson
from mangonel.bson.raw_bson import RawBSONDocument

def limited(more, action):
    "Run `action` with at most this many MiB more than there are, and return the error that it must raise."
    with open("/proc/self/statm") as pages:
        used = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more * 2**20, resource.RLIM_INFINITY))
    try:
        action()
    except MemoryError as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    raise AssertionError("expected MemoryError, got none")

def client():
    client = MongoClient(sys.argv[1])
    assert client.shop.orders.find_one() is None
    return client
"""

ENCODING = {
    "text": "value = {'a': ['x' * 2**20] * 300}",
    "numbers": "value = {'a': [{'b': 1.5, 'c': [1, 2]}] * 6_000_000}",
    "binary": "value = {'a': bytes(300 * 2**20)}",
    "raw": "value = {'a': [RawBSONDocument(bson.encode({'b': bytes(9 * 2**20)}))] * 40}",
    "mapping": "import collections; value = {'a': [collections.UserDict(b='x' * 2**20)] * 300}",
    "nested": "value = {'a': [[['x' * 2**20]]] * 300}",
}


@pytest.mark.enough(3)
@pytest.mark.parametrize("name", ENCODING)
def test_a_document_that_there_is_no_memory_for_is_a_memory_error(name: str) -> None:
    program = HEAD + f"{ENCODING[name]}\nlimited(100, lambda: bson.encode(value))\nassert bson.encode({{}})"
    programs.must_end_well(programs.run(program))


TEXTS = {
    "text": "value = {'a': ['x' * 2**20] * 300}",
    "escaped": "value = {'a': ['é\\n' * 2**20] * 100}",
    "binary": "value = {'a': bytes(300 * 2**20)}",
    "numbers": "value = {'a': [[1, 2.5]] * 12_000_000}",
}


@pytest.mark.enough(2)
@pytest.mark.parametrize("name", TEXTS)
def test_json_that_there_is_no_memory_for_is_a_memory_error(name: str) -> None:
    program = HEAD + f"from mangonel.bson import json_util\n{TEXTS[name]}\n"
    program += "limited(100, lambda: json_util.dumps(value))\nassert json_util.dumps({}) == '{}'"
    programs.must_end_well(programs.run(program))


# The classes of a batch's documents, and the treatment of a value that does not fit.
COLUMNS = {
    "texts": ("{'a': 'x' * 1000}", "raise"),
    "numbers": ("{'a': [1] * 100}", "raise"),
    "structs": ("{'a': [{'b': 2.5, 'c': None}] * 10}", "raise"),
    "json": ("{'a': {'b': 'x' * 1000}} if n % 2 else {'a': 1}", "string"),
}


@pytest.mark.enough(2)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_table_that_there_is_no_memory_for_is_a_memory_error(name: str) -> None:
    document, on_invalid = COLUMNS[name]
    program = (
        HEAD
        + f"""
from mangonel import _core
builder = _core.ColumnBuilder(None, "{on_invalid}", 10**9)
batch = b"".join(bson.encode({document}) for n in range(1000))
def build():
    while True:
        builder.add_bytes(batch)
limited(40, build)
builder = _core.ColumnBuilder(None, "raise", 10**9)
builder.add_bytes(batch[: int.from_bytes(batch[:4], "little")])
assert builder.take().num_rows == 1
"""
    )
    programs.must_end_well(programs.run(program))


@pytest.fixture(scope="module")
def server() -> ScriptedServer:
    with ScriptedServer() as server:

        def answer(request: object) -> object:
            filter = request.command.get("filter", {})  # type: ignore[attr-defined]
            if "large" not in filter:
                return Reply(EMPTY)
            batch = [{"_id": 1, "data": b"x" * 15 * MIB}] * 3
            reply = {"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "firstBatch": batch}}
            return Reply(reply, compressor="zlib" if "packed" in filter else None)

        server.on("find", answer)
        yield server


READING = """
client = client()
find = lambda: list(client.shop.orders.find({"large": 1, **dict.fromkeys(sys.argv[2:], 1)}))
limited(20, find)
assert client.shop.orders.find_one() is None
assert len(find()) == 3
"""


def test_a_compressed_reply_that_there_is_no_memory_for_costs_its_connection_only(
    server: ScriptedServer,
) -> None:
    programs.must_end_well(programs.run(HEAD + READING, server.uri + "&compressors=zlib", "packed"))


@pytest.mark.parametrize("impl", ["fused", "reference"])
def test_a_reply_that_there_is_no_memory_for_costs_its_connection_only(
    server: ScriptedServer, impl: str
) -> None:
    programs.must_end_well(programs.run(HEAD + READING, server.uri, MANGONEL_IMPL=impl))


READING_ON_A_LOOP = """
async def main():
    client = AsyncMongoClient(sys.argv[1])
    orders = client.shop.orders
    assert await orders.find_one() is None
    with open("/proc/self/statm") as pages:
        used = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, resource.RLIM_INFINITY))
    try:
        await orders.find({"large": 1}).to_list()
    except MemoryError:
        pass
    else:
        raise AssertionError("expected MemoryError")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await orders.find_one() is None
    assert len(await orders.find({"large": 1}).to_list()) == 3
    await client.close()
asyncio.run(main())
"""


def test_a_reply_that_there_is_no_memory_for_fails_one_task_of_a_loop(server: ScriptedServer) -> None:
    programs.must_end_well(programs.run(HEAD + READING_ON_A_LOOP, server.uri))


INSERTING = """
client = client()
documents = [{"_id": n, "data": bytes(15 * 2**20)} for n in range(3)]
limited(20, lambda: client.shop.orders.insert_many(documents))
assert client.shop.orders.find_one() is None
"""


INSERTING_A_TABLE = """
import pyarrow
client = client()
texts = pyarrow.array(["x" * (15 * 2**20)] * 3)
limited(20, lambda: client.shop.orders.insert_arrow(pyarrow.table({"a": texts})))
assert client.shop.orders.find_one() is None
"""


def test_rows_that_there_is_no_memory_for_are_a_memory_error(server: ScriptedServer) -> None:
    pytest.importorskip("pyarrow")
    programs.must_end_well(programs.run(HEAD + INSERTING_A_TABLE, server.uri))


@pytest.mark.parametrize("impl", ["fused", "reference"])
def test_a_batch_that_there_is_no_memory_for_is_a_memory_error(server: ScriptedServer, impl: str) -> None:
    programs.must_end_well(programs.run(HEAD + INSERTING, server.uri, MANGONEL_IMPL=impl))
