"""Where the official specification cases are: the folder that MONGODB_SPECIFICATIONS names, or PyMongo's copies.

`make test` lays the copies out in build/specifications (tools/specifications.py). Importing this module sets the
variable for processes that a test starts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

__all__ = ["FOLDER", "NO_FOLDER", "is_partial", "told"]

_COPIES = Path(__file__).resolve().parents[2] / "build" / "specifications"
_ORIGIN = "ORIGIN.txt"
_VARIABLE = "MONGODB_SPECIFICATIONS"
# The sample of these cases, as far as one mongod can play them.
_CASES = "some 3 600 official cases"

NO_FOLDER = f"{_VARIABLE} names no folder, and `make test` laid out no copies"

if not os.environ.get(_VARIABLE) and (_COPIES / _ORIGIN).exists():
    os.environ[_VARIABLE] = str(_COPIES)

FOLDER = Path(os.environ[_VARIABLE]) if os.environ.get(_VARIABLE) else None


def is_partial() -> bool:
    """Return whether the folder holds PyMongo's copies, which are not all cases."""
    return FOLDER is not None and (FOLDER / _ORIGIN).exists()


def told() -> str:
    """Return the origin of the cases, or how many are left out and why."""
    if FOLDER is None:
        try:
            why = _COPIES.with_suffix(".txt").read_text(encoding="utf-8").strip()
        except OSError:
            why = "nothing fetched them; `make test` does"
        return f"left out: {_CASES}. {_VARIABLE} names no folder. {why}"
    if is_partial():
        origin = json.loads((FOLDER / _ORIGIN).read_text(encoding="utf-8"))
        return (
            f"official cases: {origin['files']} files of PyMongo {origin['pymongo']}, which lacks some of the "
            f"published ones; {_VARIABLE} names a folder with all"
        )
    return f"official cases: those of {FOLDER}"
