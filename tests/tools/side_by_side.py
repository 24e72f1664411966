"""How tests are shared out to workers: file by file, those that take long first, large files in parts.

A worker starts the servers that its tests ask for, so the tests of a file stay together where they can.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tools.closing import TOTAL

__all__ = ["ByFile", "in_order"]

# Tests of one file that go to a worker at once. More would leave one worker alone at the end.
PART = 200

# What mostly waits, or takes long in one piece, begins first; what takes no time fills the end.
FIRST = ("faults", "packaging", "lab", "demo", "examples", "websessions", "server", "faces", "spec")
LAST = ("tools_tests", "unit")


_PLACES = {name: number - len(FIRST) for number, name in enumerate(FIRST)}
_PLACES |= {name: number + 1 for number, name in enumerate(LAST)}


def in_order(items: list[pytest.Item], folder_of: Any) -> None:
    """Put tests into the order in which they begin; tests of a file keep theirs, except those of its last part."""

    def place(item: pytest.Item) -> tuple[bool, int]:
        return item.get_closest_marker("needs_calm") is not None, _PLACES.get(folder_of(item), 0)

    items.sort(key=place)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Workers take files from a queue in the order of collection, each those of its own folder first.

    A worker that comes to a folder imports what its tests need and starts their servers, most of which is processor
    time: a mongod takes 0.7 s of it. So a folder has one worker, until folders without one are used up.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._parts: dict[str, str] = {}
        # Those that need calm wait for all others.
        self._calm: set[str] = set()
        self._places: dict[str, int] = {}
        self._folders: dict[Any, str] = {}

    def schedule(self) -> None:
        """Begin, or go on after a worker was replaced."""
        if not self._parts and self.collection_is_completed:
            seen: dict[str, int] = {}
            before = ""
            names = next(iter(self.registered_collections.values()))
            self.config.stash[TOTAL] = len(names)
            self._places = {name: place for place, name in enumerate(names)}
            last, is_calm = -len(FIRST), False
            for name in names:
                file = name.partition("::")[0]
                if file != before:
                    # What of a file comes later is a part of its own.
                    seen[file] = -(-seen.get(file, 0) // PART) * PART
                    place = _PLACES.get(_folder(file), 0)
                    # The order begins anew with those that need calm.
                    is_calm, last = is_calm or place < last, place
                before = file
                seen[file] += 1
                self._parts[name] = f"{file} {(seen[file] - 1) // PART}"
                if is_calm:
                    self._calm.add(self._parts[name])
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._parts[nodeid]

    def _assign_work_unit(self, node: Any) -> None:
        scope = self._next(node)
        self._folders[node] = _folder(scope)
        unit = self.assigned_work[node][scope] = self.workqueue.pop(scope)
        node.send_runtest_some([self._places[name] for name, is_done in unit.items() if not is_done])

    def _next(self, node: Any) -> str:
        """Return a part of the worker's folder, else of a folder that has no worker, else of the one with most left."""
        scopes = [scope for scope in self.workqueue if scope not in self._calm]
        if not scopes:
            return str(next(iter(self.workqueue)))
        left: Counter[str] = Counter()
        for scope in scopes:
            left[_folder(scope)] += len(self.workqueue[scope])
        others = {folder for other, folder in self._folders.items() if other != node}
        folder = self._folders.get(node)
        if folder not in left:
            folder = next((one for one in left if one not in others), max(left, key=left.__getitem__))
        return next(scope for scope in scopes if _folder(scope) == folder)


def _folder(file: str) -> str:
    return file.split("/")[1] if "/" in file else ""
