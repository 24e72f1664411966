"""Reading a large file in parts keeps only a few batches in memory, whatever the file's size.

The full form: GRIDFS_MEMORY_MIB=1024 pytest tests/gridfs/test_memory.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.gridfs import GridFSBucket
from mangonel.server import Server

SIZE_MIB = int(os.environ.get("GRIDFS_MEMORY_MIB", "128"))
MOST_MIB = 32

# Runs in a process of its own, so the peak is that of reading. The first batches are read before the measurement,
# because they fill pools and caches that any program has.
PROGRAM = """
import asyncio, resource, sys
from mangonel import AsyncMongoClient, MongoClient
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket

way, uri = sys.argv[1:]
MIB = 1024 * 1024

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def blocking():
    with MongoClient(uri) as client:
        source = GridFSBucket(client.gridfs_memory).open_download_stream("large")
        client.admin.command("ping")
        before, total = peak(), 0
        while part := source.read(MIB):
            total += len(part)
        return before, total

async def on_asyncio():
    async with AsyncMongoClient(uri) as client:
        source = await AsyncGridFSBucket(client.gridfs_memory).open_download_stream("large")
        before, total = peak(), 0
        if way == "lines":
            async for line in source:
                total += len(line)
        else:
            while part := await source.read(MIB):
                total += len(part)
        return before, total

before, total = blocking() if way == "blocking" else asyncio.run(on_asyncio())
print(total, (peak() - before) // 1024)
"""


@pytest.fixture(scope="module")
def uri(standalone: Server) -> Iterator[str]:
    class Source:
        left = SIZE_MIB
        line = (b"x" * 4095 + b"\n") * 256

        def read(self, size: int) -> bytes:
            self.left -= 1
            return self.line if self.left >= 0 else b""

    with MongoClient(standalone.uri) as client:
        bucket: Any = GridFSBucket(client["gridfs_memory"])
        bucket.upload_from_stream_with_id("large", "large", Source())
        yield standalone.uri
        client.drop_database("gridfs_memory")


@pytest.mark.parametrize("way", ["blocking", "asyncio", "lines"])
def test_reading_in_parts_holds_a_few_batches(uri: str, way: str) -> None:
    program = [sys.executable, "-c", PROGRAM, way, uri]
    ended = subprocess.run(program, check=True, capture_output=True, text=True, timeout=100)
    total, growth = map(int, ended.stdout.split())

    assert total == SIZE_MIB * 1024 * 1024
    assert growth < MOST_MIB, f"the process grew by {growth} MiB"
