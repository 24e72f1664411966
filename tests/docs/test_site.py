"""Links and anchors have targets, and the navigation has every page. `make docs` checks the rest."""

from __future__ import annotations

import itertools
import re

import pytest

from docs.pages import FENCE, ROOT, name_of

PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Pages that are made when the site is built.
MADE = ("docs/reference/", "docs/changelog.md", "docs/contributing.md", "docs/explanation/architecture.md")


def prose(page):
    """The page without its blocks."""
    is_code, kept = False, []
    for line in page.read_text().splitlines():
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            kept.append(line)
    return "\n".join(kept)


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[ -]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = prose(page)
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'\b(?:src|srcset)="([^"]+)"', text)]:
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if found.is_relative_to(ROOT) and name_of(found).startswith(MADE):
            continue
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_column_of_a_table_has_a_heading(page):
    # Screen readers announce the heading with each cell.
    lines = prose(page).splitlines()
    headings = [
        line for line, next_line in itertools.pairwise(lines) if re.fullmatch(r"\|[-:| ]+\|", next_line)
    ]
    assert [line for line in headings if re.search(r"^\| *\||\| *\|$|\| +\|", line.strip())] == []


def test_every_page_stands_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"[\w/-]+\.md", navigation))
    written = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}

    # Notes for developers are not part of the site; reports of the lab are added to it over time.
    missing = {page for page in written - named if not page.startswith(("dev/", "benchmarks/"))}
    assert missing == set()
    assert {f"docs/{page}" for page in named - written} <= {
        "docs/changelog.md",
        "docs/contributing.md",
        "docs/explanation/architecture.md",
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mangonel.bson.json_util.dumps", "json_util"),
        ("from bson.json_util import dumps", "json_util"),
        ("orders.find_one({'_id': 1})", "find_one"),
        ('"retryWrites=false"', "retryWrites"),
    ],
)
def test_search_finds_a_name_inside_of_code(text, name):
    separator = re.search(r"^ +separator: '(.*)'$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)

    assert name in re.split(separator[1].replace("''", "'"), text)
