"""Idle connections keep no buffers: neither to receive into nor of compression."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux tells it")

CONNECTIONS = 60
MOST_BYTES = 9_000
# Of the replies' documents and tasks, which all existed at once, the allocators keep some memory.
MOST_USED_BYTES = 30_000

# Runs in a process of its own, whose memory nothing else changes. Prints the bytes that each connection adds.
PROGRAM = """
import asyncio, os, sys, time
from mangonel import AsyncMongoClient, MongoClient

way, uri, connections, compressors = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
options = {"minPoolSize": connections, "compressors": compressors}
def memory():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous:"))

def are_open(before):
    return len(os.listdir("/proc/self/fd")) >= before + connections

def blocking():
    with MongoClient(uri) as first:
        first.admin.command("ping")
        before, files = memory(), len(os.listdir("/proc/self/fd"))
        with MongoClient(uri, **options) as client:
            client.admin.command("ping")
            while not are_open(files):
                time.sleep(0.02)
            return memory() - before

async def use(client):
    assert len((await client.idle_memory.texts.find_one())["text"]) == 50_000

async def on_asyncio():
    async with AsyncMongoClient(uri) as first:
        await first.idle_memory.texts.replace_one({"_id": 1}, {"text": "x" * 50_000}, upsert=True)
        await use(first)
        before, files = memory(), len(os.listdir("/proc/self/fd"))
        async with AsyncMongoClient(uri, **options) as client:
            await client.admin.command("ping")
            while not are_open(files):
                await asyncio.sleep(0.02)
            if way == "used":
                await asyncio.gather(*(use(client) for _ in range(connections)))
            return memory() - before

print((blocking() if way == "blocking" else asyncio.run(on_asyncio())) // connections)
"""


def added(way: str, uri: str, compressors: str = "") -> int:
    program = [sys.executable, "-c", PROGRAM, way, uri, str(CONNECTIONS), compressors]
    told = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr[-1000:]
    return int(told.stdout)


@pytest.mark.parametrize("way", ["blocking", "asyncio"])
def test_a_connection_that_was_only_opened_adds_little_memory(server, way):
    assert added(way, server.uri) < MOST_BYTES


@pytest.mark.parametrize("compressors", ["", "zlib"])
def test_a_used_connection_gives_up_its_buffers(server, compressors):
    assert added("used", server.uri, compressors) < MOST_USED_BYTES
