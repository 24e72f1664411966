"""How tests are shared out to workers: file by file, those that take long first, large files in parts.

A worker starts the servers that its tests ask for, so the tests of a file stay together where they can.
"""

from __future__ import annotations

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


def in_order(items: list[pytest.Item], folder_of: Any) -> None:
    """Put tests into the order in which they are begun; those of a file stay as they are, but for its last part."""
    places = {name: number - len(FIRST) for number, name in enumerate(FIRST)}
    places |= {name: number + 1 for number, name in enumerate(LAST)}

    def place(item: pytest.Item) -> tuple[bool, int]:
        return item.get_closest_marker("needs_calm") is not None, places.get(folder_of(item), 0)

    items.sort(key=place)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Workers take files from a queue, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._parts: dict[str, str] = {}

    def schedule(self) -> None:
        """Begin, or go on after a worker was replaced."""
        if not self._parts and self.collection_is_completed:
            seen: dict[str, int] = {}
            before = ""
            names = next(iter(self.registered_collections.values()))
            self.config.stash[TOTAL] = len(names)
            for name in names:
                file = name.partition("::")[0]
                if file != before:
                    # What of a file comes later is a part of its own.
                    seen[file] = -(-seen.get(file, 0) // PART) * PART
                before = file
                seen[file] += 1
                self._parts[name] = f"{file} {(seen[file] - 1) // PART}"
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._parts[nodeid]
