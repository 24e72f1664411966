"""The front page's first chart: the client's processor time per operation."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mangonel.lab import costs
from mangonel.lab.report import page
from mangonel.lab.results import Results
from tools.lab_results import cell, content
from tools.programs import load_program

ROOT = Path(__file__).parents[2]


def run(*, level: bool = False) -> dict:
    """Return a run of two operations; the second may tie with the peer's."""
    return content(
        [
            cell("everyday", "find-one", "mangonel", 100, cpu_us=13.71),
            cell("everyday", "find-one", "pymongo", 200, cpu_us=61.2),
            cell("everyday", "insert-one", "mangonel", 100, cpu_us=20),
            cell("everyday", "insert-one", "pymongo", 200, cpu_us=20 if level else 90),
            cell("find-one", "blocking", "mangonel", 100, cpu_us=99),
            cell("find-one", "blocking", "pymongo", 200, cpu_us=100),
        ]
    )


def test_an_operation_is_shown_once_and_by_the_client_s_time():
    found = costs.costs(Results(run()))

    assert [(each.title, each.ours.value, each.peers[0][1].value) for each in found] == [
        ("find_one by _id", 13.71, 61.2),
        ("insert_one", 20, 90),
    ]


def test_an_operation_that_is_level_is_left_out():
    assert [each.title for each in costs.costs(Results(run(level=True)))] == ["find_one by _id"]


def languages() -> dict:
    """Return a run of programs in several languages, one of which failed."""
    figures = {
        "mangonel-program": 40,
        "pymongo-program": 180,
        "c-program-typed": 60,
        "rust-program": 190,
        "rust-program-typed": 120,
        "go-program": 150,
    }
    return content(
        [cell("languages", "find-one", name, 100, cpu_us=figure) for name, figure in figures.items()]
    )


def test_of_a_language_s_programs_the_cheapest_is_shown():
    (found,) = costs.costs(Results(languages()))

    assert {name: figure.value for name, figure in found.peers} == {
        "PyMongo": 180,
        "C, structs": 60,
        "Rust, structs": 120,
        "Go, bson.D": 150,
    }
    assert costs.quote(found) == (
        "`find_one` costs the client 40.0 µs of processor time with Mangonel; "
        "C 60.0 µs, Rust 120 µs, Go 150 µs, PyMongo 180 µs"
    )
    picture = ET.fromstring(page.cost_pictures(languages())["light"])
    bars = [each.text for each in picture.iter() if each.get("class") in ("value ours", "small")]
    # The cheapest comes first, and nothing extends below the picture's edge.
    assert [text.partition(" µs")[0] for text in bars[1:]] == ["40.0", "60.0", "120", "150", "180"]
    lowest = max(float(each.get("y", 0)) for each in picture.iter())
    assert lowest < float(picture.get("viewBox", "").split()[3])


def test_the_first_operation_is_one_sentence_to_quote():
    (first, *_) = costs.costs(Results(run()))

    assert costs.quote(first) == (
        "`find_one` costs the client 13.7 µs of processor time, PyMongo 61.2 µs: 4.5 times as much"
    )


def test_the_pictures_tell_both_figures_to_those_who_do_not_see_them():
    pictures = page.cost_pictures(run())

    assert list(pictures) == ["light", "dark", "narrow-light", "narrow-dark"]
    assert {ET.fromstring(svg)[1].text for svg in pictures.values()} == {
        "find_one by _id 13.7 µs, PyMongo 61.2 µs; insert_one 20.0 µs, PyMongo 90.0 µs"
    }
    assert page.cost_pictures(content([cell("find-one", "blocking", "mangonel", 100)])) == {}


def test_the_front_page_takes_the_sentence_and_counts_what_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = load_program(ROOT / "tools/docs_benchmarks.py")
    front = tmp_path / "README.md"
    shutil.copy(ROOT / "README.md", front)
    monkeypatch.setattr(tool, "FRONTS", {front: "docs/images"})
    monkeypatch.setattr(tool, "IMAGES", tmp_path)

    assert tool.write_front(run()) == 1
    assert tool.write_front(languages()) == 0
    first = front.read_text()
    assert tool.write_front(languages()) == 0

    assert front.read_text() == first
    assert "40.0 µs of processor time with Mangonel" in first
    assert "for 1 operations" in first
    assert (tmp_path / "languages-narrow-dark.svg").exists()
