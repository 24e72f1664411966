"""The distribution of tests to workers: file by file, slow files first, large files in parts.

A worker starts the servers that its tests ask for, so the tests of a file stay together where they can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

__all__ = ["Parts", "in_order"]

# Tests of one file that a worker gets at once. With more, one worker would be left alone at the end.
PART = 200

# Tests that mostly wait, or run long in one piece, start first; quick ones fill the end. The mapper's matrix takes
# three minutes of the rest, and would run alone at its end; the official cases wait for six minutes.
FIRST = (
    "odm/test_matrix.py",
    "spec",
    "faults",
    "packaging",
    "lab",
    "demo",
    "examples",
    "websessions",
    "server",
    "faces",
)
LAST = ("tools_tests", "unit")


_PLACES = {name: number - len(FIRST) for number, name in enumerate(FIRST)}
_PLACES |= {name: number + 1 for number, name in enumerate(LAST)}


def in_order(items: list[pytest.Item], path_of: Callable[[Any], str]) -> None:
    """Return tests in starting order; tests of a file keep theirs, except those of its last part."""

    def place(item: pytest.Item) -> tuple[bool, int]:
        path = path_of(item)
        is_calm = item.get_closest_marker("needs_calm") is not None
        return is_calm, _PLACES.get(path, _PLACES.get(path.partition("/")[0], 0))

    items.sort(key=place)


class Parts:
    """The remaining tests, in parts of a file each; a worker takes those of its own folder first.

    A worker that comes to a folder starts the servers of its tests, most of which is processor time: a mongod takes
    0.7 s of it. So a folder has one worker, until folders without one are used up.
    """

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._parts: dict[_Part, list[int]] = {}
        self._folders: dict[int, str] = {}
        seen: Counter[tuple[str, bool]] = Counter()
        for number, item in enumerate(items):
            file = item.nodeid.partition("::")[0]
            is_calm = item.get_closest_marker("needs_calm") is not None
            part = _Part(file, is_calm, seen[file, is_calm] // PART)
            seen[file, is_calm] += 1
            self._parts.setdefault(part, []).append(number)

    @property
    def count(self) -> int:
        """How many parts are left."""
        return len(self._parts)

    def take(self, worker: int) -> list[int]:
        """Return the places of the tests that a worker plays next; none when all are taken."""
        if not self._parts:
            return []
        part = self._next(worker)
        self._folders[worker] = _folder(part.file)
        return self._parts.pop(part)

    def left(self) -> Counter[str]:
        """Return how many tests of each folder are left."""
        left: Counter[str] = Counter()
        for part, numbers in self._parts.items():
            left[_folder(part.file)] += len(numbers)
        return left

    def _next(self, worker: int) -> _Part:
        """Return a part of the worker's folder, or of a folder without a worker, or of the one with most tests left."""
        # Tests that need calm wait for all others.
        parts = [part for part in self._parts if not part.is_calm]
        if not parts:
            return next(iter(self._parts))
        left: Counter[str] = Counter()
        for part in parts:
            left[_folder(part.file)] += len(self._parts[part])
        others = {folder for other, folder in self._folders.items() if other != worker}
        folder = self._folders.get(worker)
        if folder not in left:
            folder = next((one for one in left if one not in others), max(left, key=left.__getitem__))
        return next(part for part in parts if _folder(part.file) == folder)


class _Part(NamedTuple):
    file: str
    is_calm: bool
    number: int


def _folder(file: str) -> str:
    return file.split("/")[1] if "/" in file else ""
