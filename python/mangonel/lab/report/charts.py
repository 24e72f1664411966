"""Charts as SVG written by hand: drawn for a phone's width, with a title and a description of their own for readers
that do not see them. Colours are classes, which the page's style gives for light and dark.

Knows figures and names only, nothing of results or experiments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mangonel.lab.statistics import Estimate

WIDTH = 400
EDGE = 8
LINES = 8  # more lines than that are not told apart
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Bar:
    """One row: a name, its figure, and how it is drawn: "ours", "peer", "noise" or "failed"."""

    name: str
    figure: Estimate | None
    kind: str = "peer"
    words: str = ""


@dataclass(frozen=True)
class Limit:
    """A vertical line: what no contender can be faster than."""

    name: str
    value: float


@dataclass(frozen=True)
class Series:
    """One line or one row of dots."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "peer"
    hollow: Sequence[bool] = ()


def number(value: float) -> str:
    """Return a figure with three digits and no exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 4)}f}"


def duration(us: float) -> str:
    """Return µs in the unit that reads best."""
    for limit, factor, unit in ((1, 1000.0, "ns"), (1000, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{number(us * factor)} {unit}"
    return f"{number(us / 1e6)} s"


def small(x: float, y: float, words: str) -> str:
    """Return a small text that begins at a place."""
    return f'<text class="small" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def bars(title: str, rows: Sequence[Bar], limits: Sequence[Limit] = ()) -> str:
    """Draw times as bars with their intervals, and limits as lines across them."""
    known = [row.figure for row in rows if row.figure is not None]
    top = max([*(figure.value for figure in known), *(limit.value for limit in limits)], default=1.0) * 1.18
    step, begin = 32, 6 + 13 * len(limits)
    height = begin + step * len(rows) + 22
    scale = (WIDTH - 2 * EDGE) / top
    body = []
    for place, limit in enumerate(limits):
        x = EDGE + limit.value * scale
        anchor, at = ("start", x + 4) if x < WIDTH * 0.6 else ("end", x - 4)
        body.append(
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{3 + 13 * place}" y2="{height - 20}"/>'
        )
        words = escape(f"{limit.name} {duration(limit.value)}")
        body.append(
            f'<text class="small" x="{at:.1f}" y="{12 + 13 * place}" text-anchor="{anchor}">{words}</text>'
        )
    for place, row in enumerate(rows):
        y = begin + step * place
        body.append(f'<text class="name {row.kind}" x="{EDGE}" y="{y + 12}">{escape(row.name)}</text>')
        if row.figure is None:
            body.append(_right(y + 12, row.words or "failed", "failed"))
            continue
        figure = row.figure
        body.append(_right(y + 12, row.words or duration(figure.value), row.kind))
        length = max(1.0, figure.value * scale)
        body.append(
            f'<rect class="bar {row.kind}" x="{EDGE}" y="{y + 16}" width="{length:.1f}" height="10" rx="2"/>'
        )
        low, high = (EDGE + min(end, top) * scale for end in (max(0.0, figure.low), figure.high))
        body.append(f'<path class="whisker" d="M{low:.1f} {y + 21}H{high:.1f}M{low:.1f} {y + 18}v6"/>')
        if figure.high <= top:
            body.append(f'<path class="whisker" d="M{high:.1f} {y + 18}v6"/>')
    body.append(_axis(height - 18, top, scale))
    told = [
        f"{row.name} {row.words or (duration(row.figure.value) if row.figure else 'failed')}" for row in rows
    ]
    told += [f"limit {limit.name} {duration(limit.value)}" for limit in limits]
    return svg(title, "Bars, shorter is faster: " + "; ".join(told), height, body)


def stacked(title: str, rows: Sequence[tuple[str, float, float | None]]) -> str:
    """Draw the processor time of each operation: the client's part, then the server's."""
    top = max((client + (server or 0.0) for _, client, server in rows), default=1.0) * 1.05 or 1.0
    step, begin = 32, 20
    height = begin + step * len(rows) + 22
    scale = (WIDTH - 2 * EDGE) / top
    body = [
        f'<rect class="client" x="{EDGE}" y="4" width="9" height="9" rx="2"/>',
        f'<text class="small" x="{EDGE + 13}" y="12">client</text>',
        f'<rect class="server" x="{EDGE + 60}" y="4" width="9" height="9" rx="2"/>',
        f'<text class="small" x="{EDGE + 73}" y="12">server</text>',
    ]
    told = []
    for place, (name, client, server) in enumerate(rows):
        y = begin + step * place
        words = duration(client) + ("" if server is None else f" + {duration(server)}")
        told.append(f"{name} {words}")
        body.append(f'<text class="name" x="{EDGE}" y="{y + 12}">{escape(name)}</text>')
        body.append(_right(y + 12, words))
        length = client * scale
        body.append(f'<rect class="client" x="{EDGE}" y="{y + 16}" width="{length:.1f}" height="10"/>')
        if server:
            body.append(
                f'<rect class="server" x="{EDGE + length + 1:.1f}" y="{y + 16}" '
                f'width="{server * scale:.1f}" height="10"/>'
            )
    body.append(_axis(height - 18, top, scale))
    return svg(title, "Processor time per operation, client plus server: " + "; ".join(told), height, body)


def percentiles(title: str, series: Sequence[Series]) -> str:
    """Draw latencies over percentiles; the axis is 1/(1-p), so that each further nine takes the same room."""
    shown = series[:LINES]
    values = [y for line in shown for _, y in line.points if y > 0]
    if not values:
        return ""
    left, bottom, top = 46, 206, 10
    ends = (math.floor(math.log10(min(values)) * 2) / 2, math.ceil(math.log10(max(values)) * 2) / 2)
    span = max(0.5, ends[1] - ends[0])
    nines = max(_nines(x) for line in shown for x, _ in line.points)

    def place(point: tuple[float, float]) -> str:
        x = left + _nines(point[0]) / nines * (WIDTH - left - EDGE)
        y = bottom - (math.log10(max(point[1], 1e-3)) - ends[0]) / span * (bottom - top)
        return f"{x:.1f} {y:.1f}"

    body = []
    for decade in range(math.ceil(ends[0]), math.floor(ends[1]) + 1):
        y = bottom - (decade - ends[0]) / span * (bottom - top)
        body.append(f'<line class="grid" x1="{left}" x2="{WIDTH - EDGE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = duration(10.0**decade)
        body.append(f'<text class="small" x="{left - 4}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for mark in (50.0, 75.0, 90.0, 99.0, 99.9, 100.0):
        if _nines(mark) <= nines:
            x = left + _nines(mark) / nines * (WIDTH - left - EDGE)
            body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
            word = "max" if mark == 100.0 else f"{mark:g}"
            anchor = "end" if mark == 100.0 else "middle"
            body.append(
                f'<text class="small" x="{x:.1f}" y="{bottom + 14}" text-anchor="{anchor}">{word}</text>'
            )
    for turn, line in enumerate(shown):
        path = "M" + "L".join(place(point) for point in line.points)
        body.append(f'<path class="line c{turn}" d="{path}"/>')
    names, height = legend([line.name for line in shown], bottom + 24)
    told = [f"{line.name} " + ", ".join(f"p{x:g} {duration(y)}" for x, y in line.points) for line in shown]
    return svg(title, "Latency by percentile: " + "; ".join(told), height, body + names)


def histogram(title: str, name: str, buckets: Sequence[tuple[float, float, int]]) -> str:
    """Draw how many answers took how long; both ends of a bucket are in µs, their scale is logarithmic."""
    if not buckets:
        return ""
    height, left, bottom = 150, 12, 118
    first, last = math.log10(buckets[0][0]), math.log10(buckets[-1][1])
    scale = (WIDTH - left - EDGE) / max(0.1, last - first)
    most = max(count for _, _, count in buckets)
    body = [f'<line class="grid" x1="{left}" x2="{WIDTH - EDGE}" y1="{bottom}" y2="{bottom}"/>']
    for low, high, count in buckets:
        x = left + (math.log10(low) - first) * scale
        tall = count / most * (bottom - 14)
        wide = max(1.0, (math.log10(high) - math.log10(low)) * scale - 1)
        body.append(
            f'<rect class="bar ours" x="{x:.1f}" y="{bottom - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'
        )
    steps = range(math.ceil(first), math.floor(last) + 1)
    for decade in steps:
        x = left + (decade - first) * scale
        label = duration(10.0**decade)
        anchor = "start" if x < 30 else "end" if x > WIDTH - 30 else "middle"
        body.append(
            f'<text class="small" x="{x:.1f}" y="{bottom + 14}" text-anchor="{anchor}">{label}</text>'
        )
    if not steps:
        body.append(f'<text class="small" x="{left}" y="{bottom + 14}">{duration(buckets[0][0])}</text>')
        body.append(_right(bottom + 14, duration(buckets[-1][1]), "small"))
    total = sum(count for _, _, count in buckets)
    told = f"{total} latencies of {name} between {duration(buckets[0][0])} and {duration(buckets[-1][1])}"
    return svg(title, told, height, body)


def strips(title: str, rows: Sequence[Series]) -> str:
    """Draw every round as a dot, from left to right as they were played, above or below the contender's own median.

    A point is the minute and the ratio to the median; a hollow dot is a round that was disturbed.
    """
    step = 24
    height = 14 + step * len(rows) + 22
    left = 132
    minutes = [x for row in rows for x, _ in row.points]
    first, last = min(minutes, default=0.0), max(minutes, default=1.0)
    scale = (WIDTH - left - 14) / max(0.01, last - first)
    body = []
    for place, row in enumerate(rows):
        y = 14 + step * place + step / 2
        name = row.name if len(row.name) < 22 else row.name[:20] + "…"
        body.append(f'<text class="small" x="{EDGE}" y="{y + 4}">{escape(name)}</text>')
        body.append(f'<line class="grid" x1="{left}" x2="{WIDTH - EDGE}" y1="{y}" y2="{y}"/>')
        for turn, (x, value) in enumerate(row.points):
            up = max(-1.0, min(1.0, math.log2(max(value, 1e-6)))) * step / 2
            hollow = " hollow" if turn < len(row.hollow) and row.hollow[turn] else ""
            at = left + 4 + (x - first) * scale
            body.append(f'<circle class="dot {row.kind}{hollow}" cx="{at:.1f}" cy="{y - up:.1f}" r="3"/>')
    body.append(f'<text class="small" x="{left}" y="{height - 6}">start</text>')
    body.append(_right(height - 6, f"after {number(last - first)} min", "small"))
    worst = max((abs(math.log2(max(v, 1e-6))) for row in rows for _, v in row.points), default=0.0)
    told = (
        f"Rounds of {len(rows)} contenders in time order; the farthest is {2**worst:.2f} times off its median"
    )
    return svg(title, told, height, body)


def _nines(percentile: float) -> float:
    return min(4.0, -math.log10(max(1e-4, 1 - percentile / 100)))


def _right(y: float, words: str, kind: str = "") -> str:
    return f'<text class="value {kind}" x="{WIDTH - EDGE}" y="{y}" text-anchor="end">{escape(words)}</text>'


def _axis(y: float, top: float, scale: float) -> str:
    power = 10 ** math.floor(math.log10(top))
    step = next((power * part for part in (0.25, 0.5, 1.0, 2.0) if top / (power * part) <= 5), power * 2.5)
    parts = [f'<line class="grid" x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{y}" y2="{y}"/>']
    for turn in range(int(top / step) + 1):
        x = EDGE + turn * step * scale
        if x > WIDTH - 28:
            break
        anchor = "start" if turn == 0 else "middle"
        word = "0" if turn == 0 else duration(turn * step)
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 13}" text-anchor="{anchor}">{word}</text>')
    return "".join(parts)


def legend(names: Sequence[str], y: float) -> tuple[list[str], float]:
    """Return the names of lines in two columns, and where they end."""
    body, rows = [], math.ceil(len(names) / 2)
    for turn, name in enumerate(names):
        x, line = EDGE + (turn % 2) * 195, y + 16 * (turn // 2)
        short = name if len(name) < 29 else name[:27] + "…"
        body.append(f'<line class="line c{turn}" x1="{x}" x2="{x + 18}" y1="{line}" y2="{line}"/>')
        body.append(f'<text class="small" x="{x + 23}" y="{line + 4}">{escape(short)}</text>')
    return body, y + 16 * rows


def svg(title: str, told: str, height: float, body: Sequence[str]) -> str:
    """Return a chart of these parts, with its title and its description."""
    name = f"chart{next(_numbers)}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-labelledby="{name}t {name}d">'
        f'<title id="{name}t">{escape(title)}</title><desc id="{name}d">{escape(told)}</desc>'
        f"{''.join(body)}</svg>"
    )
