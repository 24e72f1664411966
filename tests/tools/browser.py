"""Pages in the system's headless Chromium: the faults that axe finds, and content that is too wide.

Chromium is Debian's package, found or installed as the servers of other tests are. MANGONEL_PICTURES names a folder for
a picture of each page.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tools.needed import needed

SIZES = {"desk": (1280, 800), "phone": (390, 844)}
THEMES = ("light", "dark")
LOOKS = tuple((size, theme) for size in SIZES for theme in THEMES)
TIMEOUT_MS = 60_000

# Elements that stick out of the page and are not inside an element that scrolls by itself, innermost last.
TOO_WIDE = """() => {
  const inside = (node) => node !== document.body && node !== null
    && (getComputedStyle(node).overflowX !== "visible" || inside(node.parentElement));
  const wide = [...document.body.querySelectorAll("*")].filter((node) =>
    node.getBoundingClientRect().right > innerWidth + 1 && !inside(node.parentElement));
  return document.documentElement.scrollWidth > innerWidth ? wide.at(-1)?.outerHTML.slice(0, 120) ?? "?" : "";
}"""


Lend = Callable[[], AbstractContextManager[Any]]


@contextmanager
def chromium() -> Iterator[Lend]:
    """Start a headless browser; return a function that lends it to one test after another.

    Playwright's event loop runs in a greenlet, but asyncio sees it as running in the whole thread. So it is marked as
    running only while the browser is lent, and other tests may run loops of their own.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    program = needed("chromium")
    with playwright.sync_playwright() as tools:
        # Its sandbox needs rights that containers seldom have; it shows only our own pages here.
        browser = tools.chromium.launch(executable_path=program, args=["--no-sandbox"])
        loop = asyncio._get_running_loop()

        @contextmanager
        def lend() -> Iterator[Any]:
            asyncio._set_running_loop(loop)
            try:
                yield browser
            finally:
                asyncio._set_running_loop(None)

        asyncio._set_running_loop(None)
        yield lend
        asyncio._set_running_loop(loop)
        browser.close()


def faults_in(page: Any, name: str, looks: Iterable[tuple[str, str]] = LOOKS) -> list[str]:
    """Return the faults of a page in each pair of size and theme. It is loaded once, because loading is half of the
    work.
    """
    found: list[str] = []
    for size, theme in looks:
        width, height = SIZES[size]
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        found += faults(page, f"{name}-{size}-{theme}")
    return found


def faults(page: Any, name: str) -> list[str]:
    """Return the faults that axe finds on a page at rest, and the elements that make it scroll sideways."""
    from axe_playwright_python.sync_playwright import Axe

    # A fading colour is judged after its transition.
    page.wait_for_function("() => document.getAnimations().length === 0")
    if folder := os.environ.get("MANGONEL_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
    # Reading its 500 KB takes longer than most of its runs, so a document does it once.
    axe = Axe("0") if page.evaluate("() => 'axe' in window") else Axe()
    found = axe.run(page).response["violations"]
    problems = [
        f"{name}: {rule['id']} at {node['html'][:120]}" for rule in found for node in rule["nodes"][:3]
    ]
    if wide := page.evaluate(TOO_WIDE):
        problems.append(f"{name} is wider than the screen: {wide}")
    return problems
