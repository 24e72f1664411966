"""trio-asyncio gives a trio program asyncio's loop, and the asyncio client works on it.

Runs in a process of its own, because importing trio-asyncio changes asyncio's loop in every thread.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from mangonel.server import Server
from tools.faces import TIMEOUT

BEFORE = f"""
import sys
import trio
import trio_asyncio
from mangonel import AsyncMongoClient
from mangonel.gridfs import AsyncGridFSBucket
from trio_asyncio import aio_as_trio

async def main():
    with trio.fail_after({TIMEOUT}):
        async with trio_asyncio.open_loop():
            client = AsyncMongoClient(sys.argv[1])
            await steps(client[sys.argv[2]])
            await aio_as_trio(client.close)()
"""
FILES = """
@aio_as_trio
async def steps(database):
    await database.rows.insert_many([{"_id": n} for n in range(1000)])
    found = [row["_id"] async for row in database.rows.find(prefetch=True, batch_size=50)]
    assert found == list(range(1000))
    bucket = AsyncGridFSBucket(database, chunk_size_bytes=1000)
    file_id = await bucket.upload_from_stream("file", b"x" * 50_000)
    assert await (await bucket.open_download_stream(file_id)).read() == b"x" * 50_000
"""
TASKS = """
async def steps(database):
    async def insert(n):
        await aio_as_trio(database.rows.insert_one)({"_id": n})

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(insert, n)
    assert await aio_as_trio(database.rows.count_documents)({}) == 20
"""
CANCELLED = """
async def steps(database):
    await aio_as_trio(database.rows.insert_one)({"_id": 1})
    with trio.move_on_after(0.2) as scope:
        await aio_as_trio(database.rows.find_one)({"$where": "sleep(5000) || true"})
    assert scope.cancelled_caught
    assert await aio_as_trio(database.rows.find_one)() == {"_id": 1}
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="trio-asyncio 0.16 does not import on 3.14")
@pytest.mark.parametrize("steps", [FILES, TASKS, CANCELLED], ids=["files", "tasks", "cancelled"])
def test_the_asyncio_client_works_on_trio(server: Server, database_name: str, steps: str) -> None:
    run = [sys.executable, "-c", f"{BEFORE}{steps}\ntrio.run(main)", server.uri, database_name]
    done = subprocess.run(run, capture_output=True, text=True, timeout=3 * TIMEOUT)
    assert done.returncode == 0, done.stderr[-4000:]


PLAIN = """
import sys
import trio
from mangonel import AsyncMongoClient
from mangonel.gridfs import AsyncGridFSBucket

async def main():
    client = AsyncMongoClient(sys.argv[1], timeoutMS=60_000)
    rows = client[sys.argv[2]].rows
    bucket = AsyncGridFSBucket(rows.database)
    for call in (
        rows.find_one,
        rows.find().to_list,
        rows.watch,
        lambda: rows.insert_many([{}]),
        lambda: rows.aggregate([]),
        lambda: bucket.upload_from_stream("file", b"x"),
        lambda: bucket.open_download_stream(1),
    ):
        try:
            await call()
        except RuntimeError as error:
            print(error)
    await client.close()

trio.run(main)
"""


def test_without_a_loop_of_asyncio_the_error_names_how_to_open_one(
    server: Server, database_name: str
) -> None:
    run = [sys.executable, "-W", "error", "-c", PLAIN, server.uri, database_name]
    done = subprocess.run(run, capture_output=True, text=True, timeout=3 * TIMEOUT)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert len(told) == 7
    assert all(
        line.startswith("no running event loop") and "trio_asyncio.open_loop()" in line for line in told
    )
