"""The blocks of the page on Ray, Dask and Spark run unchanged, each engine's in a program of its own."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT, blocks, name_of, pages
from mangonel import MongoClient
from mangonel.server import Server

PROGRAM = ROOT / "tests/docs/program.py"
NEEDS = {(page, block.needs) for page in pages() for block in blocks(page) if block.needs is not None}
SPARK = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 pyspark-shell"
SECONDS = 900


@pytest.mark.no_sample
# Without the environment, whose installation may need 1.5 GB.
@pytest.mark.timeout(SECONDS + 100, func_only=True)
@pytest.mark.parametrize(("page", "engine"), sorted(NEEDS), ids=lambda value: getattr(value, "stem", value))
def test_blocks_of_a_page_run_with_their_engine(
    page: Path, engine: str, server: Server, interpreter: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    if engine == "Spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    code = [dataclasses.asdict(block) for block in blocks(page) if block.needs == engine]
    member = server.members[0]
    with MongoClient[Any](server.uri) as client:
        client.drop_database("shop")
        try:
            done = subprocess.run(
                [interpreter, PROGRAM, name_of(page), f"{member.host}:{member.port}"],
                input=json.dumps(code),
                env={**variables, "PYSPARK_SUBMIT_ARGS": SPARK},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        finally:
            client.drop_database("shop")
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"


def test_every_engine_has_blocks() -> None:
    assert {engine for _, engine in NEEDS} == {"Ray", "Dask", "Spark"}
