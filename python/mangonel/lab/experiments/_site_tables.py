"""What one figure for a row cannot say of the experiment `websessions`: worst and best, latencies, stalls, merges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mangonel.lab.results import Results
from mangonel.lab.statistics import median

__all__ = ["site_tables"]

Table = tuple[str, list[str], list[list[str]]]
# Title, then by heading: the extra, its factor, and the digits behind the point.
Columns = dict[str, tuple[str, float, int]]

LATENCY: Columns = {
    "p50": ("p50", 0.001, 2),
    "p99": ("p99", 0.001, 2),
    "p99.9": ("p99.9", 0.001, 2),
    "slowest": ("max", 0.001, 1),
}
STALL: Columns = {
    "bystanders' p50": ("p50", 0.001, 2),
    "p99": ("p99", 0.001, 2),
    "slowest": ("max", 0.001, 1),
    "waited for the store, requests": ("waited", 1, 0),
    "answered 503": ("refused", 1, 0),
    "recovery after the stall": ("recovery_ms", 1, 1),
    "after a restart": ("restart_ms", 1, 1),
}
TABLES: dict[str, tuple[str, Columns]] = {
    "anonymous-counted": (
        "E Tornado's instructions for an anonymous reader; twice without sessions is the null control",
        {"instructions": ("instructions", 1, 0)},
    ),
    "mixed-steady": ("D at 70 % of the fastest rate, ms", LATENCY),
    "parallel-writers": (
        "F conflicts of twenty writers",
        {"conflicts for each write, all merged": ("conflicts", 1, 2)},
    ),
    "stall": ("H while the store stalled, ms", STALL),
}
ORIGINALS = {"seed": "cache class", "seed-durable": "durable class"}


def site_tables(results: Results, title: Callable[[str], str]) -> Iterator[Table]:
    """Yield title, headings and rows of each table that this run has figures for."""
    for part, (name, columns) in TABLES.items():
        rows = []
        for contender in _contenders(results, part):
            values = [_extra(results, part, contender, extra) for extra, _, _ in columns.values()]
            if any(values):
                rows.append([title(contender), *map(_cell, values, columns.values())])
        if rows:
            yield f"websessions: {name}", ["contender", *columns], rows
    for part, name in ORIGINALS.items():
        rates = {who: _extra(results, part, who, "requests_per_second") for who in _contenders(results, part)}
        found = sorted(((max(each), min(each), who) for who, each in rates.items() if each), reverse=True)
        none = max(rates.get("web-none", ()), default=0.0)
        rows = [
            [title(who), f"{best:.0f}", f"{worst:.0f}", f"{100 * best / none:.1f} %" if none else ""]
            for best, worst, who in found
        ]
        if rows:
            heading = f"websessions: the original layout, requests per second; {name}"
            yield heading, ["contender", "best", "worst", "best against no sessions"], rows


def _contenders(results: Results, part: str) -> list[str]:
    played = [key[2] for key in results.rows if key[:2] == ("websessions", part)]
    return [who for who in played if not results.rows["websessions", part, who].failures]


def _extra(results: Results, part: str, contender: str, extra: str) -> list[float]:
    per_round = results.rows["websessions", part, contender].per_round(extra)
    return [value for values in per_round.values() for value in values]


def _cell(values: list[float], column: tuple[str, float, int]) -> str:
    return f"{median(values) * column[1]:.{column[2]}f}" if values else ""
