"""Transfers whose process ends half-way: nothing is lost or stored twice; exit codes and messages are right."""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import MongoClient
from mangonel.jsonl import JSONLinesError, export_jsonl, import_jsonl, reading
from mangonel.jsonl.files import open_lines
from mangonel.server import Server
from tools.faces import eventually

ROWS = 3_000
SIMPLE = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"breaks_{uuid.uuid4().hex[:8]}"]
        yield database
        client.drop_database(database.name)


@given(data=st.data())
@SIMPLE
def test_export_that_was_cut_at_any_byte_goes_on(
    database: Any, tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path, whole = folder / "cut.jsonl", folder / "whole.jsonl"
    if not database.cut.find_one():
        database.cut.insert_many([{"_id": number, "t": "é" * (number % 7)} for number in range(50)])
    export_jsonl(database.cut, whole, resume=True)
    text = whole.read_bytes()
    path.write_bytes(text[: data.draw(st.integers(0, len(text)))])

    export_jsonl(database.cut, path, resume=True)

    assert path.read_bytes() == text


@pytest.mark.enough(2)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
@pytest.mark.parametrize("has_id", [True, False])
def test_import_whose_process_is_killed_goes_on(
    database: Any, tmp_path: Path, ending: str, has_id: bool
) -> None:
    path, kept = tmp_path / f"many{ending}", tmp_path / "progress"
    with open_lines(path, "wb") as file:
        for number in range(ROWS):
            document = {"_id": number} if has_id else {"n": number}
            file.write(json.dumps(document).encode() + b"\n")
    rows = database[f"killed_{uuid.uuid4().hex[:8]}"]
    uri = "mongodb://{}:{}/".format(*database.client.address)
    for break_at in (1, 700, 2_000):
        # It kills itself half-way, once with pieces that are stored but not yet recorded.
        program = f"""
import os, signal
from mangonel import MongoClient
from mangonel.jsonl import import_jsonl, reading

reading._PIECE = 3_000
write = reading._State._write

def stop(state):
    if state.line >= {break_at}:
        os.kill(os.getpid(), signal.SIGKILL)
    write(state)

reading._State._write = stop
import_jsonl(MongoClient({uri!r})[{database.name!r}][{rows.name!r}], {str(path)!r}, resume={str(kept)!r})
"""
        assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL

    found = import_jsonl(rows, path, resume=kept)

    assert rows.count_documents({}) == ROWS
    assert found.present > 0
    key = "_id" if has_id else "n"
    assert sorted(row[key] for row in rows.find()) == list(range(ROWS))
    assert not kept.exists()


@given(data=st.data())
@SIMPLE
def test_progress_file_that_was_cut_is_refused_by_name(
    database: Any, tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("progress")
    path, kept = folder / "a.jsonl", folder / "progress"
    path.write_text('{"_id": 1}\n')
    reading._State("a.a", path, kept)
    text = kept.read_bytes()
    kept.write_bytes(text[: data.draw(st.integers(0, len(text) - 1))])

    with pytest.raises(JSONLinesError, match=r"progress of an import in .*progress"):
        import_jsonl(database.refused, path, resume=kept)


@given(place=st.floats(0, 1), flip=st.integers(0, 255), ending=st.sampled_from([".gz", ".zst"]))
@SIMPLE
def test_compression_that_is_damaged_anywhere_is_told_with_its_place(
    database: Any, tmp_path_factory: pytest.TempPathFactory, place: float, flip: int, ending: str
) -> None:
    path = tmp_path_factory.mktemp("damaged") / f"a.jsonl{ending}"
    source = random.Random(5)
    lines = [json.dumps({"_id": source.randbytes(16).hex()}).encode() + b"\n" for _ in range(100)]
    with open_lines(path, "wb") as file:
        file.write(b"".join(lines))
    text = bytearray(path.read_bytes())
    at = 1 + int(place * (len(text) - 2))
    if flip:
        text[at] ^= flip
    else:
        del text[at:]
    path.write_bytes(text)
    rows = database[f"damaged_{uuid.uuid4().hex[:8]}"]

    told = None
    try:
        import_jsonl(rows, path)
    except JSONLinesError as error:
        told = str(error)
    # A byte may carry no data, such as the time in the head of gzip, or data that no checksum covers.
    assert (
        re.match(rf"{path.name}, (after )?line \d+: expected ", told)
        if told
        else flip and rows.count_documents({}) <= len(lines)
    )
    rows.drop()


def press_ctrl_c_at_a_pipe(pid: int) -> None:
    """Interrupt a command as soon as its main thread waits for a pipe.

    CPython checks for signals before a system call. It notices a signal that comes in between, or that another thread
    receives, only after the wait. So the signal goes to the main thread.
    """
    eventually(lambda: "pipe" in Path(f"/proc/{pid}/wchan").read_text(), "a command that a pipe holds")
    assert ctypes.CDLL(None).tgkill(pid, pid, signal.SIGINT) == 0


@pytest.mark.parametrize("verb", ["import", "export"])
def test_ctrl_c_ends_a_command_without_a_traceback(database: Any, tmp_path: Path, verb: str) -> None:
    # A pipe without a writer or reader blocks the command there.
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    database.held.replace_one({"_id": 1}, {"text": "x" * (1 << 20)}, upsert=True)
    uri = "mongodb://{}:{}/".format(*database.client.address)
    file = [str(pipe), "--collection", "never"] if verb == "import" else ["held", "-o", str(pipe)]
    command = [sys.executable, "-m", "mangonel", verb, uri, *file, "--database", database.name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # This waits until the command has the other end open.
        other = os.open(pipe, os.O_WRONLY if verb == "import" else os.O_RDONLY)
        press_ctrl_c_at_a_pipe(process.pid)
        _, told = process.communicate(timeout=60)
        os.close(other)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in told
