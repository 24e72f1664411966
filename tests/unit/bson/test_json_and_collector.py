"""Reading a long text pauses the garbage collector, but only while no other code runs, and restores its state."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator

import pytest

from mangonel.bson import _json_read, json_util

MANY = json.dumps([{"a": {"b": [number]}} for number in range(5_000)])


@pytest.fixture(autouse=True)
def switch() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    "text", [MANY, MANY[:-1] + "x", MANY[:-1] + ', {"$uuid": 5}]'], ids=["read", "wrong", "refused"]
)
def test_collector_is_left_as_it_was(is_on: bool, text: str) -> None:
    (gc.enable if is_on else gc.disable)()

    try:
        json_util.loads(text)
    except (ValueError, TypeError):
        assert text is not MANY
    assert gc.isenabled() is is_on


def test_unfinished_values_are_not_looked_through() -> None:
    seen: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        seen.append(told["generation"])

    gc.enable()
    gc.callbacks.append(note)
    try:
        found = json_util.loads(MANY)
    finally:
        gc.callbacks.remove(note)
    assert len(found) == 5_000
    # With the collector on, every 700 of the 15 000 lists and dicts would start a run, reported twice.
    assert len(seen) <= 4


def test_python_code_finds_the_collector_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    read = _json_read.read

    def asked(*arguments: object) -> object:
        seen.append(gc.isenabled())
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_json_read, "read", asked)
    gc.enable()

    asked_for = '{"$uuid": "5f5f5f5f-5f5f-5f5f-5f5f-5f5f5f5f5f5f"}'
    assert len(json_util.loads(f'[{" " * 5_000}{asked_for}, {{"a": 1}}, {asked_for}]')) == 3
    assert seen == [True, True]
