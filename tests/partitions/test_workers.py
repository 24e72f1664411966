"""Parts in processes that are killed are read again: the target has every document once."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import Int64, ObjectId
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")

# Copies a part, and kills itself after this many tables, half-way through its work.
PROGRAM = """
import os, pickle, signal, sys
from mangonel.errors import BulkWriteError

part, tables = pickle.loads(bytes.fromhex(sys.argv[1])), int(sys.argv[2])
target = part.find().collection.database[sys.argv[3]]
for number, table in enumerate(part.iter_arrow({"_id": int, "n": int}, rows=50)):
    if number == tables:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        target.insert_arrow(table, ordered=False)
    except BulkWriteError as error:
        # Rows that an earlier run stored.
        assert {each["code"] for each in error.details["writeErrors"]} == {11000}
"""


def run(part: Any, tables: int) -> int:
    arguments = [sys.executable, "-c", PROGRAM, pickle.dumps(part).hex(), str(tables), "copies"]
    return subprocess.run(arguments, check=False, capture_output=True, timeout=120).returncode


def test_part_of_a_killed_process_is_read_again(server: Server) -> None:
    with MongoClient[Any](server.uri) as client:
        database = client[f"workers_{uuid.uuid4().hex[:8]}"]
        database.rows.insert_many([{"_id": n, "n": n * 3} for n in range(2000)])

        waiting = [(part, 1 + part.index) for part in database.rows.partitions(2)]
        kills = 0
        while waiting:
            part, tables = waiting.pop()
            ended = run(part, tables)
            if ended == -signal.SIGKILL:
                kills += 1
                waiting.insert(0, (part, 10_000))
            else:
                assert ended == 0

        assert kills == 2
        assert database.copies.find().sort("_id").to_list() == database.rows.find().sort("_id").to_list()
        client.drop_database(database.name)


def mixed(number: int, chance: random.Random) -> dict[str, Any]:
    """A document with an id of one of several types, and nested, null and missing fields."""
    id: Any = chance.choice(
        [number, f"{number}", Int64(2**40 + number), number + 0.5, {"n": number}, ObjectId()]
    )
    row: dict[str, Any] = {"_id": id, "n": number, "stays": True}
    if number % 3:
        row["deep"] = {"x": number, "y": None if number % 2 else {"z": [number]}}
    if number % 5:
        row["maybe"] = None if number % 7 == 0 else number / 4
    return row


@pytest.mark.no_sample
def test_parts_have_the_rows_of_find_under_writers(server: Server) -> None:
    chance = random.Random(7)
    with MongoClient[Any](server.uri) as client:
        rows = client[f"workers_{uuid.uuid4().hex[:8]}"].rows
        stay = [mixed(n, chance) for n in range(100_000)]
        rows.insert_many(stay)
        is_over = threading.Event()

        def write(seed: int) -> None:
            mine = random.Random(seed)
            while not is_over.is_set():
                id = mine.choice([f"p{mine.random()}", mine.random(), {"p": mine.random()}, ObjectId()])
                rows.insert_one({"_id": id, "n": -1})
                rows.update_one(
                    {"_id": mine.choice(stay)["_id"]}, {"$set": {"pad": "x" * mine.randrange(200)}}
                )
                rows.delete_one({"_id": id})

        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(20)]
        for writer in writers:
            writer.start()
        try:
            schema = {"n": int, "stays": bool, "deep": {"x": int, "y": {"z": [int]}}, "maybe": float}
            wanted = pa.Table.from_pylist(
                [{name: each.get(name) for name in schema} for each in stay],
                pa.table(rows.find().limit(1).to_arrow(schema)).schema,
            )
            for options in ({}, {"snapshot": True}):
                parts = rows.partitions(8, {"stays": True}, **options)
                tables = [pa.table(pickle.loads(pickle.dumps(part)).to_arrow(schema)) for part in parts]
                assert pa.concat_tables(tables).sort_by("n").equals(wanted)
        finally:
            is_over.set()
            for writer in writers:
                writer.join()
        client.drop_database(rows.database.name)
