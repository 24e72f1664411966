"""`tools/agents.py` finds faults in the spans of an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.programs import load_program

agents = load_program(Path(__file__).parents[2] / "tools/agents.py")


def spans(**changed: Any) -> list[dict[str, Any]]:
    """Return an agent's spans for each cell, a find and a failed one; the first find as `changed`."""
    found = [
        {
            "cell": cell,
            "name": "find",
            "parent": cell,
            "statement": '{"find":"people","filter":{"name":"?"}}',
            "failed": failed,
            "seconds": 0.001,
            "all": '{"server.address": "127.0.0.1"}',
        }
        for cell in agents.CELLS
        for failed in (False, True)
    ]
    found[0] |= changed
    return found


def test_spans_as_they_should_be_are_no_problem() -> None:
    assert agents.problems_of(spans()) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"parent": None}, "find in 'blocking driver' is below no span that was sent"),
        ({"all": f'{{"name": "{agents.SECRET}"}}'}, "a value is shown"),
        ({"seconds": -1}, "find took -1 s"),
        ({"failed": True}, "every span failed in 'blocking driver'"),
    ],
)
def test_what_is_wrong_with_a_span_is_named(changed: dict[str, Any], problem: str) -> None:
    assert [found[: len(problem)] for found in agents.problems_of(spans(**changed))] == [problem]


def test_a_cell_without_a_statement_is_named() -> None:
    without = [span | {"statement": None} if "driver" in span["cell"] else span for span in spans()]
    assert agents.problems_of(without) == [
        "no statement of the find in 'blocking driver'",
        "no statement of the find in 'asyncio driver'",
        "no statement in 'blocking driver'",
        "no statement in 'asyncio driver'",
    ]


def test_a_cell_without_a_span_is_named() -> None:
    assert agents.problems_of([span for span in spans() if span["cell"] != "asyncio GridFS"]) == [
        "no span in 'asyncio GridFS'",
        "no statement in 'asyncio GridFS'",
        "no server in 'asyncio GridFS'",
    ]
