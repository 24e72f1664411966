"""The order in which tests are shared out."""

from __future__ import annotations

from types import SimpleNamespace

from tools import side_by_side


class Item(SimpleNamespace):
    def get_closest_marker(self, name: str) -> object:
        return name if name in self.marks else None


def test_long_tests_begin_first_and_those_that_need_calm_last():
    items = [
        Item(path="unit/test_quick.py", marks=[]),
        Item(path="spec/test_timed.py", marks=["needs_calm"]),
        Item(path="odm/test_plain.py", marks=[]),
        Item(path="faults/test_long.py", marks=[]),
        Item(path="spec/test_case.py", marks=[]),
        Item(path="odm/test_matrix.py", marks=[]),
    ]

    side_by_side.in_order(items, lambda item: item.path)

    assert [item.path.partition("test_")[2] for item in items] == [
        "matrix.py",
        "case.py",
        "long.py",
        "plain.py",
        "quick.py",
        "timed.py",
    ]


def named(name: str) -> Item:
    return Item(nodeid=name, marks=["needs_calm"] if name.endswith("timed") else [])


def test_large_files_are_shared_out_in_parts_and_what_needs_calm_comes_last() -> None:
    names = [*(f"a.py::{number}" for number in range(side_by_side.PART + 1)), "b.py::0", "a.py::timed"]
    parts = side_by_side.Parts(list(map(named, names)))

    assert parts.count == 4
    assert [[names[place] for place in parts.take(0)][-1] for _ in range(4)] == [
        f"a.py::{side_by_side.PART - 1}",
        f"a.py::{side_by_side.PART}",
        "b.py::0",
        "a.py::timed",
    ]
    assert parts.take(0) == []


def test_a_worker_keeps_to_its_folder_and_then_takes_one_without_a_worker_and_calm_waits() -> None:
    names = [
        "tests/lab/a.py::0",
        "tests/lab/b.py::0",
        "tests/demo/a.py::0",
        "tests/spec/a.py::0",
        "tests/spec/b.py::0",
        "tests/spec/c.py::0",
        "tests/lab/a.py::timed",
    ]
    parts = side_by_side.Parts(list(map(named, names)))
    sent = [(worker, *(names[place] for place in parts.take(worker))) for worker in (0, 1, 0, 1, 0, 1, 0)]

    assert sent == [
        (0, "tests/lab/a.py::0"),
        (1, "tests/demo/a.py::0"),
        (0, "tests/lab/b.py::0"),
        (1, "tests/spec/a.py::0"),
        # Every folder has a worker, so it helps where most is left.
        (0, "tests/spec/b.py::0"),
        (1, "tests/spec/c.py::0"),
        (0, "tests/lab/a.py::timed"),
    ]
    assert parts.count == 0
