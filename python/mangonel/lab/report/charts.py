"""Charts as SVG: drawn for a phone's width, with a title and a description for screen readers.

The shapes are macros of `charts.jinja`; their colours are classes that the page's style defines for light and dark.
Knows only figures and names, nothing of results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mangonel.lab.statistics import Estimate

WIDTH, EDGE = 400, 8
LEFT, TOP, BOTTOM = 52, 12, 206  # edges of the field of a plot with two axes
LINES = 8  # more lines cannot be told apart
ROOM = 1.25  # factor by which a logarithmic axis exceeds its outermost values
NAMED = 6  # labelled values of an axis
PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 100.0)
# Colours of stand-alone charts: ink, this project, peers, muted, the page.
COLOURS = {
    "light": ("#181c22", "#1f5fd0", "#8b97a8", "#566070", "#fff"),
    "dark": ("#e8ebf0", "#7aa8ff", "#7b8798", "#a3adbb", "#1e2129"),
}


@dataclass(frozen=True)
class Bar:
    """One row: a name, its figure, and its style: "ours", "peer", "noise", "failed"."""

    name: str
    figure: Estimate | None
    kind: str = "peer"
    words: str = ""  # the text at the right, for a duration that is a part
    more: float | None = None  # a second part of the bar, such as the server's processor time

    def shown(self, words: Callable[[float], str]) -> str:
        """Return the text at the right."""
        return self.words or (words(self.figure.value) if self.figure else "failed")


@dataclass(frozen=True)
class Series:
    """One line, one row of dots, or one dot: points of two figures."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "peer"
    hollow: Sequence[bool] = ()


@dataclass(frozen=True)
class Frame:
    """The layout of a stand-alone picture: its width, a row's height, and the positions of titles and bars.

    Figures follow their bar or, if there is no room, stand below the title.
    """

    width: int
    row: int
    bar: tuple[int, int]
    long: int  # the longest bar
    title: tuple[int, int]
    anchor: str = "start"
    figures: tuple[int, int] | None = None


# By the suffix of the file's name: for a page, and for a phone.
FRAMES = {
    "": Frame(860, 30, (250, 5), 310, (240, 14), "end"),
    "narrow-": Frame(400, 60, (8, 39), 384, (8, 15), figures=(8, 33)),
}


@dataclass(frozen=True)
class Axis:
    """An axis: the positions of values, and its labels."""

    place: Callable[[float], float]
    ticks: Sequence[float]
    words: Callable[[float], str]


def number(value: float) -> str:
    """Return a figure with three digits and no exponent."""
    if value == 0:
        return "0"
    return f"{value:,.{min(max(0, 2 - math.floor(math.log10(abs(value)))), 4)}f}"


def duration(us: float) -> str:
    """Return µs in the most readable unit."""
    for limit, factor, unit in ((1, 1000.0, "ns"), (1000, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{number(us * factor)} {unit}"
    return f"{number(us / 1e6)} s"


def rate(value: float) -> str:
    """Return a rate in few letters."""
    return f"{value / 1000:.3g}k" if value >= 10_000 else f"{value:,.0f}" if value >= 100 else number(value)


@functools.cache
def _macros() -> Any:
    # Defined here, since tables use these functions and need no template.
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    environment.globals.update(short=_short, number=number)
    return environment.get_template("charts.jinja").module


def _draw(macro: str, *values: Any) -> str:
    return getattr(_macros(), macro)(*values)


def bars(
    title: str,
    rows: Sequence[Bar],
    limits: Sequence[tuple[str, float]] = (),
    words: Callable[[float], str] = duration,
    told: str = "Bars, shorter is faster",
) -> str:
    """Draw figures as bars with intervals, and limits as dashed lines across them."""
    ends = [row.figure.value + (row.more or 0.0) for row in rows if row.figure]
    top = max([*ends, *(value for _, value in limits)], default=1.0) * 1.18 or 1.0
    power = 10 ** math.floor(math.log10(top))
    step = next((power * part for part in (0.25, 0.5, 1.0, 2.0) if top / (power * part) <= 5), power * 2.5)
    ticks = [turn * step for turn in range(1, int(top / step) + 1)]
    each = [f"{row.name} {row.shown(words)}" for row in rows]
    each += [f"limit {name} {words(value)}" for name, value in limits]
    return _draw("bars", title, f"{told}: {'; '.join(each)}", rows, limits, top, ticks, words)


def lines(title: str, told: str, series: Sequence[Series], x: Axis, y: Axis, across: str = "") -> str:
    each = [
        f"{line.name} " + ", ".join(f"{x.words(at)} {y.words(value)}" for at, value in line.points)
        for line in series[:LINES]
    ]
    return _draw("lines", title, f"{told}: {'; '.join(each)}", series[:LINES], x, y, across)


def percentiles(title: str, series: Sequence[Series]) -> str:
    """Draw latencies over percentiles; the axis is 1/(1-p), so each further nine takes the same space."""
    values = [value for line in series for _, value in line.points if value > 0]
    if not values:
        return ""
    most = max(_nines(at) for line in series for at, _ in line.points)

    def place(at: float) -> float:
        return LEFT + _nines(at) / most * (WIDTH - LEFT - EDGE)

    def words(at: float) -> str:
        return "max" if at == 100.0 else f"p{at:g}"

    axis = Axis(place, [mark for mark in PERCENTILES if _nines(mark) <= most], words)
    return lines(title, "Latency by percentile", series, axis, logarithmic(values, BOTTOM, TOP, duration))


def rates(title: str, series: Sequence[Series]) -> str:
    """Draw µs at p99 over the offered rate, both logarithmic."""
    x = logarithmic(
        [at for each in series for at, _ in each.points], LEFT, WIDTH - EDGE, lambda v: f"{rate(v)}/s"
    )
    y = logarithmic([value for each in series for _, value in each.points], BOTTOM, TOP, duration)
    return lines(title, "Latency at p99 by offered rate", series, x, y, "per second")


def front(dots: Sequence[Series]) -> list[Series]:
    """Return the series that no other beats in both figures, from the slowest to the fastest; limits are left out."""
    playing = [dot for dot in dots if dot.kind != "less"]

    def is_beaten(dot: Series) -> bool:
        (speed, cost), others = dot.points[0], [other.points[0] for other in playing]
        return any(a >= speed and b <= cost and (a, b) != (speed, cost) for a, b in others)

    return sorted(
        (dot for dot in playing if not is_beaten(dot)), key=lambda d: (d.points[0][0], -d.points[0][1])
    )


def dots(title: str, series: Sequence[Series], across: str, upwards: str) -> str:
    """Draw one dot of rate and cost each, on logarithmic axes, with a line through the front and a key.

    A series on the front is not beaten in both figures by any other; limits are diamonds and do not count. The line
    has steps, since nothing is known between two points of the front.
    """
    ordered = sorted(series, key=lambda dot: -dot.points[0][0])
    best, rows, told = front(ordered), [], []
    x = logarithmic([dot.points[0][0] for dot in ordered], LEFT, WIDTH - EDGE, rate)
    y = logarithmic([dot.points[0][1] for dot in ordered], BOTTOM, TOP, duration)
    for dot in ordered:
        speed, cost = dot.points[0]
        where = "limit" if dot.kind == "less" else "on the front" if dot in best else "beaten"
        figures = f"{rate(speed)}/s, {duration(cost)}"
        rows.append((dot.name, speed, cost, f"{dot.kind} beaten" if where == "beaten" else dot.kind, figures))
        told.append(f"{dot.name} {figures}, {where}")
    words = f"{upwards} against {across}: {'; '.join(told)}"
    return _draw("dots", title, words, rows, [dot.points[0] for dot in best], x, y, across)


def lead(title: str, peer: str, times: Estimate | None, most: float) -> str:
    """Draw one bar: how many times as fast as a peer; the peer's speed is a dashed line at 1, `most` ends the scale."""
    words = f"{times.words(number).replace(' [', 'x [')} as fast as {peer}" if times else "no peer was there"
    return _draw("lead", title, words, times, max(most, 1.2))


def picture(rows: Sequence[tuple[str, str, Estimate | None]], style: str, frame: Frame) -> str:
    """Return a stand-alone chart, for a page without a style for it: a row each of title, peer and factor."""
    most = min(12.0, max((times.value for _, _, times in rows if times), default=1.0) * 1.1)
    told = "; ".join(f"{title} {number(times.value)} times {peer}" for title, peer, times in rows if times)
    return f"{_draw('picture', told, rows, style, most, frame)}\n"


def costs(
    rows: Sequence[tuple[str, Estimate, Sequence[tuple[str, Estimate]]]], style: str, frame: Frame
) -> str:
    """Return a stand-alone chart of µs: a row each of title, this project's figure, and names and figures of peers."""
    told = "; ".join(
        ", ".join([f"{title} {duration(ours.value)}", *(f"{n} {duration(f.value)}" for n, f in peers)])
        for title, ours, peers in rows
    )
    # Words follow the bars, so the longest bar leaves room for them.
    whole = replace(frame, long=frame.width - frame.bar[0] - EDGE)
    if frame.anchor == "start":
        # A title is nearer to its own bars below it than to the bars above it.
        whole = replace(whole, title=(frame.title[0], frame.bar[1] - 9))
    longest = max((f.value for _, ours, peers in rows for f in (ours, *dict(peers).values())), default=1.0)
    most = longest * whole.long / (whole.long - 170)
    drawn, y = [], 26
    for title, ours, peers in rows:
        bars = [(f"{duration(ours.value)} Mangonel", ours.value, "ours")]
        for name, figure in sorted(peers, key=lambda peer: peer[1].value):
            bars.append((f"{duration(figure.value)} {name}", figure.value, "peer"))
        drawn.append((y, title, bars))
        y += frame.row - 22 + 21 * len(bars)
    return f"{_draw('costs', told, drawn, style, most, whole, y + 8)}\n"


def style(name: str, size: int = 12) -> str:
    """Return the style of a stand-alone chart, "light" or "dark", with texts of `size` pixels."""
    ink, ours, peer, muted, paper = COLOURS[name]
    return (
        f"text{{font:{size}px system-ui,sans-serif;fill:{ink}}}.small{{font-size:{size - 1}px;fill:{muted}}}"
        f".ours{{font-weight:600}}.bar{{fill:{peer}}}.bar.ours{{fill:{ours}}}.noise{{opacity:.45}}"
        f".whisker{{stroke:{ink};stroke-width:1.2;fill:none}}.grid{{stroke:{muted};opacity:.4}}"
        f".name{{paint-order:stroke;stroke:{paper};stroke-width:4px}}"
        f".limit{{stroke:{muted};stroke-dasharray:4 3}}.one{{stroke:{ink};stroke-dasharray:3 2;stroke-width:1.4}}"
    )


def strips(title: str, rows: Sequence[Series]) -> str:
    """Draw every round as a dot, in the order of play, relative to the contender's own median.

    A point is the minute and the ratio to the median; a hollow dot is a disturbed round.
    """
    minutes = [at for row in rows for at, _ in row.points]
    first, last = min(minutes, default=0.0), max(minutes, default=1.0)
    worst = max((abs(_doublings(value)) for row in rows for _, value in row.points), default=0.0)
    told = (
        f"Rounds of {len(rows)} contenders in time order; the farthest is {2**worst:.2f} times off its median"
    )
    drawn = [
        replace(row, points=[(at, max(-1.0, min(1.0, _doublings(value)))) for at, value in row.points])
        for row in rows
    ]
    return _draw("strips", title, told, drawn, first, last, f"after {number(last - first)} min")


def logarithmic(values: Sequence[float], start: float, end: float, words: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis between two ends that covers all of these values."""
    low, high = min(values) / ROOM, max(values) * ROOM

    def place(value: float) -> float:
        return start + math.log(max(value, 1e-9) / low) / math.log(high / low) * (end - start)

    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [
        step * 10.0**power
        for power in powers
        for step in (1.0, 2.0, 5.0)
        if low <= step * 10.0**power <= high
    ]
    if len(found) > NAMED:
        found = [value for value in found if round(math.log10(value), 9).is_integer()] or found[::2]
    return Axis(place, found or [values[0]], words)


def _doublings(ratio: float) -> float:
    return math.log2(max(ratio, 1e-6))


def _short(name: str, letters: int) -> str:
    return name if len(name) < letters else name[: letters - 2] + "…"


def _nines(percentile: float) -> float:
    return min(4.0, -math.log10(max(1e-4, 1 - percentile / 100)))
