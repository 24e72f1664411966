"""The order in which tests are shared out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tools import side_by_side
from tools.closing import TOTAL


class Item(SimpleNamespace):
    def get_closest_marker(self, name: str) -> object:
        return name if name in self.marks else None


def test_long_tests_begin_first_and_those_that_need_calm_last():
    items = [
        Item(name="quick", folder="unit", marks=[]),
        Item(name="timed", folder="spec", marks=["needs_calm"]),
        Item(name="plain", folder="driver", marks=[]),
        Item(name="long", folder="faults", marks=[]),
        Item(name="case", folder="spec", marks=[]),
    ]

    side_by_side.in_order(items, lambda item: item.folder)

    assert [item.name for item in items] == ["long", "case", "plain", "quick", "timed"]


def test_what_of_a_file_comes_later_is_a_part_of_its_own(monkeypatch):
    monkeypatch.setattr(side_by_side.LoadScopeScheduling, "schedule", lambda self: None)
    names = [*(f"a.py::{number}" for number in range(3)), "b.py::0", "a.py::timed"]
    shared = side_by_side.ByFile.__new__(side_by_side.ByFile)
    shared._parts = {}
    shared.config = SimpleNamespace(stash=pytest.Stash())
    shared.registered_collections = {"gw0": names}
    monkeypatch.setattr(side_by_side.ByFile, "collection_is_completed", True)

    shared.schedule()

    assert [shared._split_scope(name) for name in names] == ["a.py 0", "a.py 0", "a.py 0", "b.py 0", "a.py 1"]
    assert shared.config.stash[TOTAL] == 5
