"""The rules for the binding's Rust: the sources keep each rule, and each rule detects a violation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "core_rules.py"


@pytest.fixture(scope="module")
def rules() -> ModuleType:
    specification = importlib.util.spec_from_file_location("core_rules", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_sources_keep_the_rules(rules: ModuleType) -> None:
    assert rules.problems() == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("static NEW: GilCell<u8> = x;", "a.rs NEW: expected a row of CELLS"),
        ("unsafe impl Sync for New {}", "a.rs Sync for New: expected a row of SHARED"),
        ("static mut COUNT: u8 = 0;", "a.rs mut: expected a cell"),
    ],
)
def test_what_the_lock_guards_without_a_name_is_found(rules: ModuleType, source: str, expected: str) -> None:
    assert any(found.startswith(expected) for found in rules.unnamed({"a.rs": source}))


def test_a_wait_that_takes_a_lock_without_the_interpreters_is_found(rules: ModuleType) -> None:
    assert [*rules.waiting({"a.rs": "told: Condvar,"})]
    assert not [*rules.waiting({"a.rs": "state: Mutex<State>,"})]


def test_a_row_that_names_nothing_is_found(rules: ModuleType) -> None:
    assert len(list(rules.unnamed({}))) == len(rules.CELLS) + len(rules.SHARED)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("\n#[pymethods]\nimpl New {}", "a.rs:2: expected #[entries]"),
        ("#[pyclass]\npub struct New { held: Py<PyAny> }", "a.rs: New holds references (New)"),
        (
            "#[pyclass]\npub struct New { inner: Inner }\nstruct Inner { held: Py<PyAny> }",
            "a.rs: New holds references (New > Inner)",
        ),
    ],
)
def test_what_could_be_unwound_is_found(rules: ModuleType, source: str, expected: str) -> None:
    assert [found.startswith(expected) for found in rules.unguarded({"a.rs": source})] == [True]


def test_a_guarded_class_is_no_breach(rules: ModuleType) -> None:
    guarded = "#[pyclass]\npub struct New { _entry: Entry, held: Py<PyAny> }"
    assert list(rules.unguarded({"a.rs": guarded})) == []
