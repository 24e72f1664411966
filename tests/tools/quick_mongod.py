"""A copy of mongod that starts with a fifth of the processor time; all tests that start servers take it.

At each start, WiredTiger learns the rate of the processor's time stamp counter: it counts to a hundred million, three
times. That is 0.3 to 0.7 s of processor time, nine tenths of a start. The copy counts to a million, and is the same in
every other byte. The rate serves WiredTiger's own timings, and three readings of some milliseconds are enough for it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
from pathlib import Path

from mangonel.server import MongodNotFound, find_mongod
from mangonel.server.find import VARIABLE

__all__ = ["install", "quick_copy"]

# The loop's end in `__global_once`, on x86-64: `cmp rax, 99_999_999`, `jbe` back, `rdtsc`, and what joins its halves.
LOOP = bytes.fromhex("48 3d ff e0 f5 05 76 e8 0f 31 48 c1 e2 20")
# The number in it: the last that is counted.
LAST = slice(2, 6)
SHORT = (1_000_000 - 1).to_bytes(4, "little")


def install(folder: Path) -> None:
    """Make this process, and what it starts, use a quick copy, unless a mongod is named; `folder` keeps it."""
    if os.environ.get(VARIABLE):
        return
    # Where there is no mongod, the tests that need one say so.
    with contextlib.suppress(MongodNotFound):
        if copy := quick_copy(Path(find_mongod()), folder):
            os.environ[VARIABLE] = str(copy)


def quick_copy(program: Path, folder: Path) -> Path | None:
    """Return a quick copy of this mongod, made unless it is there; None if it cannot be had, and the tests take longer.

    None is for a mongod of another processor or compiler, where the loop looks different, and for a folder that may
    not be written to.
    """
    found = program.stat()
    copy = folder / f"{found.st_size}-{found.st_mtime_ns}" / "mongod"
    if copy.exists():
        return copy
    try:
        place = _place(program)
        if place is None:
            return None
        copy.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            # Complete before it has its name, since another run may be looking for it.
            made = shutil.copy2(program, scratch)
            with open(made, "r+b") as file:
                file.seek(place)
                file.write(SHORT)
            os.replace(made, copy)
    except OSError:
        return None
    return copy


def _place(program: Path) -> int | None:
    """Return where the number is, or None if it is not in one place."""
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = data.find(LOOP)
        if found < 0 or data.find(LOOP, found + 1) >= 0:
            return None
        return found + LAST.start
