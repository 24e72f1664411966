"""The tests that `--sample` takes of a product, and those that it leaves to `--rest`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies

from tools.sampling import ENOUGH, deselect, sample

FACES = ["fused", "reference", "asyncio", "uvloop"]


class Item:
    """As much of a test as sampling reads."""

    path = Path("test_x.py")

    def __init__(self, name: str, marks: list[pytest.Mark] | None = None, **params: Any) -> None:
        self.params, self.marks = params, marks or []
        self.nodeid = f"test_x.py::{name}[{'-'.join(map(str, params.values()))}]"
        if params:
            self.callspec = self

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(self.iter_markers(name), None)


def taken(items: list[Any]) -> list[dict[str, Any]]:
    return [item.params for item in sample(items)]


def test_a_test_without_parameters_is_taken() -> None:
    assert len(taken([Item("test_a"), Item("test_b")])) == 2


def test_a_test_of_faces_is_played_once_blocking_and_once_on_asyncio() -> None:
    found = {params["face"] for params in taken([Item("test_a", face=face) for face in FACES])}
    assert found & {"fused", "reference"}
    assert found & {"asyncio", "uvloop"}


def test_every_way_of_waiting_comes_in_each_file_and_fewer_than_all_tests_are_taken() -> None:
    names = [f"test_{number}" for number in range(20)]
    found = taken([Item(name, face=face) for name in names for face in FACES])
    assert {params["face"] for params in found} == set(FACES)
    assert len(found) < 50


def test_each_pair_of_three_parameters_is_met() -> None:
    values = {"size": [1, 2, 3], "version": ["1.2", "1.3"], "order": ["up", "down"]}
    every = [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    found = taken([Item("test_a", **params) for params in every])
    assert len(found) < len(every)
    for one, other in product(values, values):
        wanted = {(params[one], params[other]) for params in every}
        assert {(params[one], params[other]) for params in found} == wanted


def test_rows_of_one_table_are_all_taken() -> None:
    mark = pytest.mark.parametrize(("given", "option", "expected"), []).mark
    rows = list(product([1, 2], [True, False], ["a", "b"]))
    items = [Item("test_a", [mark], given=a, option=b, expected=c) for a, b, c in rows]
    assert len(taken(items)) == len(rows)


def test_values_that_are_marked_are_met_once() -> None:
    mark = pytest.mark.each_once("case").mark
    rows = product(range(40), ["blocking", "asyncio"], ["set", "alone"])
    found = taken([Item("test_a", [mark], case=case, face=face, server=name) for case, face, name in rows])
    assert {params["case"] for params in found} == set(range(40))
    assert {(params["face"], params["server"]) for params in found} == set(
        product(["blocking", "asyncio"], ["set", "alone"])
    )
    assert len(found) <= 44


def test_of_a_long_table_enough_rows_are_taken_and_each_way_of_waiting_in_the_file() -> None:
    rows = product(range(10 * ENOUGH), FACES)
    found = taken([Item("test_a", case=case, face=face) for case, face in rows])
    assert len(found) == ENOUGH
    assert {params["face"] for params in found} == set(FACES)


def test_of_a_test_whose_cases_take_long_as_many_are_taken_as_it_says() -> None:
    mark = pytest.mark.enough(3).mark
    assert len(taken([Item("test_a", [mark], case=case) for case in range(2 * ENOUGH)])) == 3
    once = pytest.mark.each_once("case").mark
    assert len(taken([Item("test_a", [mark, once], case=case) for case in range(2 * ENOUGH)])) == 3


def test_a_way_of_waiting_that_only_a_long_table_has_is_taken_though_enough_rows_were() -> None:
    # Its rows cover fewer features than the others, so they come last.
    long = [Item("test_a", case=case, size=1, face="fused") for case in range(10 * ENOUGH)]
    found = taken([*long, Item("test_a", face="streams")])
    assert {params["face"] for params in found} == {"fused", "streams"}


def test_the_same_tests_are_taken_each_time() -> None:
    items = [Item(f"test_{number}", face=face) for number in range(9) for face in FACES]
    assert taken(items) == taken(items)


@pytest.mark.parametrize(("option", "expected"), [("--sample", "plain"), ("--rest", "looks")])
def test_a_test_in_a_browser_is_left_to_the_rest(option: str, expected: str) -> None:
    items: list[Any] = [Item("plain"), Item("looks")]
    items[1].fixturenames = ["server", "chromium"]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(getoption=lambda name: name == option, hook=hook)
    deselect(config, items)
    assert [item.nodeid for item in items] == [f"test_x.py::{expected}[]"]


def test_the_rest_plays_properties_and_what_plays_a_sample_again() -> None:
    @given(strategies.integers())
    def holds(number: int) -> None:
        pass

    again = pytest.mark.plays_a_sample.mark
    items: list[Any] = [Item("test_plain"), Item("test_again", [again]), Item("test_property")]
    items[2].obj = holds
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(getoption=lambda name: name == "--rest", hook=hook)
    deselect(config, items)
    assert [item.nodeid for item in items] == ["test_x.py::test_again[]", "test_x.py::test_property[]"]
