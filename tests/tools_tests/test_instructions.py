"""Codec, protocol and mapper take no more instructions than before, and a slowdown of 5 % is found.

Needs cargo and valgrind; MANGONEL_INSTALL_SERVERS=1 lets the test install the latter from Debian, and with
MANGONEL_REQUIRE_SERVERS=1 its absence is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from tools.needed import needed

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("instructions", ROOT / "tools" / "instructions.py")
instructions = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = instructions
SPEC.loader.exec_module(instructions)

# The first build of the program may have to wait for others that build.
pytestmark = pytest.mark.timeout(600)


HINT = "if that is meant: make instructions UPDATE=1, and say why in the commit"


@pytest.fixture(scope="module")
def valgrind():
    """Return the path of the program."""
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        pytest.skip("cargo is not installed, so the compiler that counts belong to is not known")
    return needed("valgrind")


@pytest.fixture(scope="module")
def counts(valgrind):
    """Return a function that counts, with or without a planted slowdown."""
    program = instructions.build()
    return lambda slow="": instructions.count(program, valgrind, slow)


@pytest.mark.no_sample
def test_the_codec_and_the_protocol_take_no_more_instructions_than_is_kept(counts):
    where = instructions.environment()
    kept = instructions.kept_counts().get(where)
    if kept is None:
        known = " | ".join(instructions.kept_counts())
        pytest.skip(
            f"no counts are kept for {where}, only for {known}; make instructions UPDATE=1 keeps them"
        )
    changes = instructions.compare(kept, counts())
    problems = instructions.verdict(changes)
    assert not problems, "\n".join([*problems, HINT])


built_as_released = pytest.mark.skipif(
    "MANGONEL_REQUIRE_SERVERS" not in os.environ,
    reason="only continuous integration is sure to have the extension as a release builds it",
)


@built_as_released
@pytest.mark.no_sample
def test_encode_and_decode_take_no_more_instructions_than_is_kept(valgrind):
    must_take_no_more(valgrind, "codec.py")


@built_as_released
@pytest.mark.no_sample
def test_reading_and_saving_objects_take_no_more_instructions_than_is_kept(valgrind):
    must_take_no_more(valgrind, "mapper.py")


def must_take_no_more(valgrind, script):
    """Compare the rows of one of the extension's scripts with the stored ones."""
    where = instructions.of_extension(instructions.environment())
    kept = instructions.kept_counts().get(where)
    if kept is None:
        pytest.skip(f"no counts are kept for {where}; make instructions UPDATE=1 keeps them")
    problems = instructions.verdict(
        instructions.compare(kept, instructions.count_extension(valgrind, [script]))
    )
    assert not problems, "\n".join([*problems, HINT])


@pytest.mark.no_sample
def test_counts_are_the_same_in_every_run_and_a_planted_slowdown_is_found_in_its_row(counts):
    first, slowed = counts(), counts("find_one")
    problems = instructions.verdict(instructions.compare(first, slowed))

    assert len(problems) == 1
    assert problems[0].startswith("find_one takes 5.")
    others = {name: figure for name, figure in slowed.items() if name != "find_one"}
    assert others == pytest.approx({name: first[name] for name in others}, rel=0.005)


def test_more_than_the_tolerance_is_slower_less_is_faster_and_a_row_that_is_not_kept_is_named():
    kept = {"same": 1000, "within": 1000, "slower": 1000, "faster": 1000}
    found = {"same": 1000, "within": 1020, "slower": 1021, "faster": 979, "new": 5}
    changes = {change.name: change for change in instructions.compare(kept, found)}

    assert [name for name, change in changes.items() if change.is_slower] == ["slower"]
    assert [name for name, change in changes.items() if change.is_faster] == ["faster"]
    assert instructions.verdict(list(changes.values())) == [
        "slower takes 2.1% more instructions than before: 1021, kept 1000",
        "new is not kept yet",
    ]


def test_what_is_kept_of_one_compiler_stays_when_another_is_added(tmp_path):
    path = tmp_path / "counts.toml"
    instructions.keep({"row": 1}, "rustc 1, glibc", path)
    instructions.keep({"row": 2}, "rustc 2, glibc", path)
    instructions.keep({"row": 3}, "rustc 2, glibc", path)

    assert instructions.kept_counts(path) == {"rustc 1, glibc": {"row": 1}, "rustc 2, glibc": {"row": 3}}
