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


class Worker(SimpleNamespace):
    """What the schedule sees of a worker: which tests it was sent."""

    shutting_down = False

    def send_runtest_some(self, places: list[int]) -> None:
        self.sent = places

    def __hash__(self) -> int:
        return id(self)


@pytest.fixture
def shared(monkeypatch):
    """A schedule of these tests, without workers yet."""

    def of(names: list[str]) -> side_by_side.ByFile:
        config = SimpleNamespace(
            option=SimpleNamespace(loadscopereorder=False), stash=pytest.Stash(), getvalue=lambda name: None
        )
        found = side_by_side.ByFile.__new__(side_by_side.ByFile)
        monkeypatch.setattr(side_by_side.LoadScopeScheduling, "__init__", lambda self, config, log: None)
        monkeypatch.setattr(side_by_side.LoadScopeScheduling, "schedule", lambda self: None)
        monkeypatch.setattr(side_by_side.ByFile, "collection_is_completed", True)
        side_by_side.ByFile.__init__(found, config)
        found.config, found.registered_collections, found.assigned_work = config, {"gw0": names}, {}
        found.schedule()
        found.workqueue = {}
        for name in names:
            found.workqueue.setdefault(found._split_scope(name), {})[name] = False
        return found

    return of


def test_what_of_a_file_comes_later_is_a_part_of_its_own(shared):
    names = [*(f"a.py::{number}" for number in range(3)), "b.py::0", "a.py::timed"]
    found = shared(names)

    assert [found._split_scope(name) for name in names] == ["a.py 0", "a.py 0", "a.py 0", "b.py 0", "a.py 1"]
    assert found.config.stash[TOTAL] == 5


def test_a_worker_keeps_to_its_folder_and_then_takes_one_without_a_worker_and_calm_waits(shared):
    names = [
        "tests/lab/a.py::0",
        "tests/lab/b.py::0",
        "tests/demo/a.py::0",
        "tests/spec/a.py::0",
        "tests/spec/b.py::0",
        "tests/spec/c.py::0",
        "tests/lab/a.py::timed",
    ]
    found, one, other = shared(names), Worker(), Worker()
    found.assigned_work = {one: {}, other: {}}
    sent = []
    for worker in (one, other, one, other, one, other, one):
        found._assign_work_unit(worker)
        sent.append((worker is one, *(names[place] for place in worker.sent)))

    assert sent == [
        (True, "tests/lab/a.py::0"),
        (False, "tests/demo/a.py::0"),
        (True, "tests/lab/b.py::0"),
        (False, "tests/spec/a.py::0"),
        # No folder is without a worker: it helps where most is left.
        (True, "tests/spec/b.py::0"),
        (False, "tests/spec/c.py::0"),
        (True, "tests/lab/a.py::timed"),
    ]
    assert not found.workqueue
