"""The built site in headless Chromium: no fault for axe, nothing cut, on a desk and on a phone, light and dark.

`make docs` builds it, in an environment of its own; `make test-site` builds it and runs this. MANGONEL_SITE names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.browser import SIZES, THEMES, faults

SITE = os.environ.get("MANGONEL_SITE")
# Each of another kind: charts, tables, prose, pictures, code with its output, pages made from docstrings.
PAGES = (
    "index.html",
    "benchmarks/index.html",
    "command-line.html",
    "compatibility.html",
    "demo.html",
    "howto/testing.html",
    "odm/tutorial.html",
    "reference/doctor.html",
)

pytestmark = [
    pytest.mark.no_sample,
    pytest.mark.skipif(not SITE, reason="MANGONEL_SITE names no built site: make test-site"),
]


@pytest.fixture
def page(chromium: Any, size: str, theme: str) -> Iterator[Any]:
    """A page as large as a screen of that size."""
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    yield context.new_page()
    context.close()


def visit(page: Any, path: str) -> None:
    assert SITE
    page.goto((Path(SITE).absolute() / path).as_uri())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible_and_as_wide_as_the_screen(page: Any, path: str, size: str, theme: str) -> None:
    visit(page, path)
    name = path.removesuffix(".html").replace("/", "-")
    assert faults(page, f"docs-{name}-{size}-{theme}") == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("path", PAGES[:2])
def test_the_chart_is_the_one_that_was_drawn_for_the_width_and_the_theme(
    page: Any, path: str, size: str, theme: str
) -> None:
    visit(page, path)
    shown = page.locator("img[src*='first-']:visible")
    [[source, drawn, natural]] = shown.evaluate_all(
        "found => found.map(each => [each.currentSrc, each.clientWidth, each.naturalWidth])"
    )
    assert source.partition("#")[0].endswith(
        f"images/first-{'narrow-' if size == 'phone' else ''}{theme}.svg"
    )
    # Its text has the intended size.
    assert 0.8 <= drawn / natural <= 1.2
