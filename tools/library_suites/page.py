"""The table of the suites in docs/compatibility.md. Rows of suites that were not run again stay, with their dates."""

from __future__ import annotations

from pathlib import Path

START, END = "<!-- written by tools/library_suites -->\n", "<!-- end -->"
HEAD = "| library | tests | pass on PyMongo 4.20.0 | pass here | run on |\n|---|---|---|---|---|\n"


def row(name: str, version: str, counts: tuple[int, int, int], day: str) -> str:
    """Return a row of the table.

    Args:
        counts: tests, passed on PyMongo, passed on this driver.
        day: when they ran, as "2026-11-29".
    """
    tests, peer, own = counts
    return f"| {name} {version} | {tests} | {peer} | {own} | {day} |\n"


def merged(page: str, rows: list[str], known: set[str]) -> str:
    """Return the page with these rows in its table, sorted by library.

    A row replaces the one of the same library. Rows of libraries that are not `known` any more are left out.

    Raises:
        ValueError: the page has no table of the suites.
    """
    before, start, rest = page.partition(START)
    table, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"expected {START.strip()!r} and {END!r} around the table, got a page without them")
    kept = {_library(line): f"{line}\n" for line in table.splitlines() if line.startswith("| ")}
    kept |= {_library(line): line for line in rows}
    text = "".join(kept[library] for library in sorted(kept) if library in known)
    return f"{before}{START}\n{HEAD}{text}\n{END}{after}"


def write(path: Path, rows: list[str], known: set[str]) -> None:
    """Put the rows into the table of a page."""
    path.write_text(merged(path.read_text(encoding="utf-8"), rows, known), encoding="utf-8")


def _library(line: str) -> str:
    return line.removeprefix("| ").partition(" ")[0]
