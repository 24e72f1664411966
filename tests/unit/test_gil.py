"""What the core leaves to the interpreter's lock, each with its name, and what happens where there is none.

`gil_used = false` may be declared when both tables are empty: every row is something that two threads would do at once.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "crates" / "py" / "src"
IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

# State of the process that only the lock guards -> what two threads would do to it.
CELLS = {
    "codec/key_cache.rs KEYS": "replace a name that the other one is about to use",
    "codec/mod.rs SCRATCH": "take the same output buffer",
    "codec/object_id.rs FREE": "take the same released object",
    "codec/object_id.rs GENERATOR": "count to the same id",
    "codec/options.rs CACHE": "replace options that the other one reads",
    "codec/shapes.rs SHAPES": "change a tree of shapes while the other one walks in it",
    "codec/stack.rs SPARE": "push to one vector of half-made values",
    "odm/fields.rs SPARE": "take the same released state",
    "odm/lifetime.rs LATER": "count the depth of each other's releases",
}

# Types that are said to be safe to share -> why that takes the lock, or does not.
SHARED = {
    "codec/cell.rs Sync for GilCell": "its users are the rows above",
    "driver/ready.rs Sync for Methods": "never written, so it needs no lock",
    "odm/json.rs Send for Names": "made once and read, its pointers never followed, so it needs no lock",
    "odm/json.rs Sync for Names": "made once and read, its pointers never followed, so it needs no lock",
    "odm/plan.rs Send for ModelRef": "a model's plan, slots and spare instances are cells",
    "odm/plan.rs Sync for ModelRef": "a model's plan, slots and spare instances are cells",
}


def found(pattern: str) -> set[str]:
    return {
        f"{path.relative_to(SOURCES).as_posix()} {' for '.join(match.groups())}"
        for path in SOURCES.rglob("*.rs")
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
    }


@pytest.mark.skipif(not SOURCES.exists(), reason="needs the core's sources")
def test_each_cell_that_the_lock_guards_is_named() -> None:
    assert found(r"static (\w+): GilCell<") == CELLS.keys()


@pytest.mark.skipif(not SOURCES.exists(), reason="needs the core's sources")
def test_each_promise_that_a_type_may_be_shared_is_named() -> None:
    assert found(r"unsafe impl(?:<\w+>)? (Send|Sync) for (\w+)") == SHARED.keys()
    assert found(r"(?<!')static (mut) ") == set()


@pytest.mark.skipif(not SOURCES.exists(), reason="needs the core's sources")
def test_the_layout_of_dicts_is_refused_where_tables_have_locks_of_their_own() -> None:
    assert "#ifdef Py_GIL_DISABLED\n#error" in (SOURCES.parent / "layout.c").read_text(encoding="utf-8")


@pytest.mark.skipif(not IS_FREE_THREADED, reason="needs a free-threaded interpreter")
@pytest.mark.parametrize(
    ("option", "expected"),
    [("gil=1", "True"), (None, "True"), ("gil=0", "found it switched off")],
)
def test_a_free_threaded_interpreter_takes_its_lock_back_or_the_import_fails(
    option: str | None, expected: str
) -> None:
    program = "import sys, mangonel.bson; print(sys._is_gil_enabled())"
    options = [] if option is None else ["-X", option]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *options, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert expected in done.stdout + done.stderr
