"""Random reads of a stored file, whole or damaged: each call returns, or refuses, what PyMongo's does.

By hand: MANGONEL_GRIDFS_FILES=4000, with MANGONEL_GRIDFS_SEED for other files than those of every run.
"""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

import gridfs
import mangonel.gridfs
from models.twins import Side, Twins

pytestmark = pytest.mark.timeout(3600)

FILES = int(os.environ.get("MANGONEL_GRIDFS_FILES", "40"))
SEED = int(os.environ.get("MANGONEL_GRIDFS_SEED", "1"))
SIZES = [0, 1, 3, 4, 5, 7, 8, 9, 12, 16, 17, 40, 100, 255]
CHUNK_SIZES = [1, 2, 3, 4, 5, 8, 16, 300]
LENGTHS = [-1, 0, 1, 2, 3, 4, 5, 7, 9, 20, 300]
# What is done to the file of `size` bytes in chunks of `step` bytes, at chunk `n`.
DAMAGES: dict[str, Callable[[Any, Any, int, int, int], Any]] = {
    "missing chunk": lambda files, chunks, size, step, n: chunks.delete_one({"n": n}),
    "short chunk": lambda files, chunks, size, step, n: chunks.update_one(
        {"n": n}, {"$set": {"data": b"x" * (step - 1)}}
    ),
    "long chunk": lambda files, chunks, size, step, n: chunks.update_one(
        {"n": n}, {"$set": {"data": b"x" * (step + 1)}}
    ),
    "extra chunk": lambda files, chunks, size, step, n: chunks.insert_one(
        {"files_id": 1, "n": -(-size // step), "data": b"zz"}
    ),
    "short length": lambda files, chunks, size, step, n: files.update_one(
        {}, {"$set": {"length": max(size - 1, 0)}}
    ),
    "long length": lambda files, chunks, size, step, n: files.update_one(
        {}, {"$set": {"length": size + step}}
    ),
    "no length": lambda files, chunks, size, step, n: files.update_one({}, {"$unset": {"length": 1}}),
    "a length that is a double": lambda files, chunks, size, step, n: files.update_one(
        {}, {"$set": {"length": float(size)}}
    ),
    "a negative length": lambda files, chunks, size, step, n: files.update_one({}, {"$set": {"length": -5}}),
    "a number that is a double": lambda files, chunks, size, step, n: chunks.update_one(
        {"n": n}, {"$set": {"n": float(n)}}
    ),
}
Call = tuple[Any, ...]


def calls(draw: random.Random, size: int) -> list[Call]:
    """Return some calls of an open file."""
    made = []
    for _ in range(draw.randrange(1, 9)):
        length = draw.choice(LENGTHS)
        made.append(
            draw.choice(
                [
                    *[("read", length), ("readline", length)] * 2,
                    *[("readlines",), ("readlines", length), ("readchunk",), ("next",), ("all",)],
                    *[("seek", draw.randrange(-2, size + 5), 0), ("seek", draw.randrange(-6, 6), 1)],
                    *[("seek", draw.randrange(-size - 1, 3), 2), ("seek", 1, 3), ("tell",), ("close",)],
                    *[("seekable",), ("readable",), ("writable",), ("flush",), ("isatty",), ("fileno",)],
                    *[("truncate", 3), ("write", b"1")],
                ]
            )
        )
    return made


async def outcome_of(source: Any, call: Call) -> Any:
    """Return what a call returned, or the class of what it raised."""
    name, *arguments = call
    try:
        if name == "all":
            if hasattr(source, "__anext__"):
                return [line async for line in source]
            return list(source)
        if name == "next":
            value = source.__anext__() if hasattr(source, "__anext__") else next(source)
        else:
            value = getattr(source, name)(*arguments)
        return await value if inspect.isawaitable(value) else value
    except Exception as error:
        return type(error).__name__


def outcomes(twins: Twins, side: Side, made: list[Call]) -> list[Any]:
    package: Any = mangonel.gridfs if side.driver is mangonel else gridfs
    kind = package.AsyncGridFSBucket if twins.face.is_async else package.GridFSBucket

    async def play() -> list[Any]:
        opened = kind(side.database).open_download_stream(1)
        source = await opened if inspect.isawaitable(opened) else opened
        found = []
        for call in made:
            found.append(await outcome_of(source, call))
            if found[-1] == "CorruptGridFile":
                # Where a refused read leaves the position, neither says.
                break
        return found

    if twins.face.is_async:
        return list(twins.face.run(play))
    try:
        play().send(None)
    except StopIteration as ended:
        return list(ended.value)
    raise AssertionError("expected a blocking file that does not suspend")


def test_random_reads_end_as_in_pymongo(twins: Twins) -> None:
    draw = random.Random(SEED)
    for _ in range(FILES):
        size, step = draw.choice(SIZES), draw.choice(CHUNK_SIZES)
        content = bytes(draw.choice(b"ab\nc\rd\n") for _ in range(size))
        damage = draw.choice([None, None, None, *DAMAGES])
        number, made = draw.randrange(max(-(-size // step), 1)), calls(draw, size)
        for side in twins.sides:
            database = twins.admin[side.database.name]
            database.fs.files.delete_many({})
            database.fs.chunks.delete_many({})
            gridfs.GridFSBucket(database).upload_from_stream_with_id(1, "f", content, chunk_size_bytes=step)
            if damage is not None:
                DAMAGES[damage](database.fs.files, database.fs.chunks, size, step, number)
        ours, theirs = (outcomes(twins, side, made) for side in twins.sides)
        if damage == "extra chunk" and ours[-1:] == ["CorruptGridFile"]:
            # PyMongo's `readchunk` does not look for a chunk too many.
            theirs = [*theirs[: len(ours) - 1], "CorruptGridFile"]
        assert ours == theirs, f"{size} bytes in chunks of {step}, {damage} at {number}: {made}"
