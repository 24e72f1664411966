"""The report of `lab first` in headless Chromium: short on a phone, and without axe faults in any section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mangonel.lab import results
from mangonel.lab.comparisons import COMPARISONS
from mangonel.lab.report import page as report
from tools.browser import LOOKS, SIZES, faults

DOCS = Path(__file__).parents[2] / "docs"
KEPT = DOCS / "benchmarks/report.jsonl.gz"
LONGEST = 6000  # pixels on a phone

OUTSIDE = """() => {
  const { width, height } = document.documentElement.viewBox.baseVal;
  return [...document.querySelectorAll("text, rect, path, line")].filter((each) => {
    const box = each.getBBox();
    return box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height;
  }).map((each) => each.outerHTML);
}"""


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the stored results, cut to the part that `lab first` plays."""
    content = results.load(KEPT)
    played = {
        (each.experiment, part, name)
        for each in COMPARISONS
        for part in each.parts
        for name in each.contenders
    }
    content["cells"] = [
        cell
        for cell in content["cells"]
        if (cell["experiment"], cell["part"], cell["contender"].removesuffix("#2")) in played
    ]
    path = tmp_path_factory.mktemp("report") / "first.html"
    path.write_text(report.render(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_the_brief_report_is_short_and_accessible_in_every_fold(
    chromium: Any, brief: Path, size: str, theme: str
) -> None:
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    page.goto(brief.as_uri())
    problems = faults(page, f"report-{size}-{theme}")
    tall = page.evaluate("document.documentElement.scrollHeight")
    leads = page.locator(".leads svg:visible").count()
    others = page.locator("svg:visible").count() - leads
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    problems += faults(page, f"report-open-{size}-{theme}")
    context.close()
    assert problems == []
    assert tall < LONGEST
    assert (leads, others) == (len(COMPARISONS), 0)


@pytest.mark.parametrize("name", ["first-light", "first-narrow-light"])
def test_nothing_of_the_kept_picture_lies_outside_of_it(chromium: Any, name: str) -> None:
    page = chromium.new_page()
    page.goto((DOCS / f"images/{name}.svg").as_uri())
    outside = page.evaluate(OUTSIDE)
    page.context.close()
    assert outside == []
