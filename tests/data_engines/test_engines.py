"""Real Ray, Dask and Spark read the same as find() beside 20 writers, and store each row once although workers die."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import MaxKey, MinKey
from mangonel.server import Server, find_mongod
from tools.router import Router

HERE = Path(__file__).parent
# By hand MANGONEL_ENGINE_ROWS=100000; seconds for a program with 20 000 documents, beside other tests.
SECONDS = 900 * max(int(os.environ.get("MANGONEL_ENGINE_ROWS", "0")) // 20_000, 1)
# Places where workers were killed.
WRITES = {"before_a_commit", "after_a_commit"}
# Bounds of six chunks on three shards, in the field `n`. Writers' documents have -1.
CHUNKS = [MinKey(), 1_000, 4_000, 8_000, 12_000, 16_000, MaxKey()]
KILLS: dict[str, set[str]] = {"spark_stream": WRITES, "spark_parts": set(), "lab": set()}


# Each takes a minute and a gigabyte.
@pytest.mark.no_sample
# Without the environment, whose installation may need 1.5 GB.
@pytest.mark.timeout(SECONDS + 100, func_only=True)
@pytest.mark.parametrize("engine", ["ray", "dask", "spark", "spark_parts", "spark_stream", "lab"])
def test_rows_are_those_of_the_collection_and_dying_workers_lose_none(
    engine: str, server: Server, interpreter: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    if engine.startswith("spark") and shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    name = f"engine_{uuid.uuid4().hex[:8]}"
    router = Router(server.wait_for_primary().port, f"{name}.rows", {"n": 1}, CHUNKS)
    environment = {**variables, "MANGONEL_MONGOD": find_mongod(), "MANGONEL_ENGINE_ROUTER": router.uri}
    try:
        done = subprocess.run(
            [interpreter, HERE / f"{engine}_program.py", server.uri, name, tmp_path],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        # A summary shows the first line.
        last = done.stderr.rstrip().rpartition("\n")[2]
        assert done.returncode == 0, f"{last}\n{done.stdout[-1000:]}\n{done.stderr[-6000:]}"
        assert {path.name for path in tmp_path.iterdir()} >= KILLS.get(engine, {"in_a_read", *WRITES})
        ranges = [each.command for each in router.received("find") if "min" in each.command]
        # All parts but the first chunk's; programs without a sharded collection have none instead. A part is read again
        # if its worker was lost, as on a busy machine.
        assert len({command["min"]["n"] for command in ranges}) == (0 if engine in KILLS else 5)
        assert all(command["hint"] == {"n": 1} for command in ranges)
    finally:
        router.stop()
        with MongoClient[Any](server.uri) as client:
            client.drop_database(name)
