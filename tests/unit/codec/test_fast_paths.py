"""Fast paths around the C API: a self-test at import decides on them, and its result is visible."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mangonel import _core

PROGRAM = """
from mangonel import _core, bson

print(_core._fast_paths()["dicts"])
for fields in range(60):
    document = {f"key {i}": [i] for i in range(fields)} | {"inner": {"a": 1, "b": {"c": None}}}
    encoded = bson.encode(document)
    made = [bson.decode(encoded) for _ in range(4)]
    assert all(each == document and bson.encode(each) == encoded for each in made)
    for each in made:
        each.update(more=each)
        each.clear()
"""


def _printed(**environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_every_fast_path_is_on_or_says_why_not() -> None:
    assert set(_core._fast_paths()) == {"dicts", "objects"}
    assert all(word == "on" or word.startswith("off: ") for word in _core._fast_paths().values())


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="another interpreter has other structures")
def test_fast_paths_are_on_where_versions_were_compared() -> None:
    if (3, 11) <= sys.version_info < (3, 15) and not os.environ.get("MANGONEL_DICT_LAYOUT"):
        assert _core._fast_paths() == {"dicts": "on", "objects": "on"}


def test_all_that_fast_paths_make_behaves_as_what_the_interpreter_makes() -> None:
    assert _core._fast_paths_hold() == {"dicts": True, "objects": True}


def test_the_environment_switches_dicts_off_and_it_is_said() -> None:
    assert _printed(MANGONEL_DICT_LAYOUT="0") == "off: MANGONEL_DICT_LAYOUT is 0"


def test_tables_come_from_the_allocator_that_takes_them_back() -> None:
    # The debugging allocator aborts the process when memory from one allocator is freed by another.
    assert _printed(PYTHONMALLOC="debug") == _core._fast_paths()["dicts"]
