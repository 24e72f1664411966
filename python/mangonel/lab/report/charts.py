"""Charts as SVG: drawn for a phone's width, with a title and a description for readers that do not see them.

Colours are classes, which the page's style gives for light and dark. Knows figures and names only, nothing of results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from mangonel.lab.statistics import Estimate

WIDTH, EDGE = 400, 8
LEFT, TOP, BOTTOM = 52, 12, 206  # of the field of a plot with two axes
LINES = 8  # more lines than that are not told apart
ROOM = 1.25  # how far a logarithmic axis goes beyond its outermost values
NAMED = 6  # values that an axis names
PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 100.0)
# Of charts by themselves: ink, this project, peers, what is muted.
COLOURS = {
    "light": ("#181c22", "#1f5fd0", "#8b97a8", "#566070"),
    "dark": ("#e8ebf0", "#7aa8ff", "#7b8798", "#a3adbb"),
}


@dataclass(frozen=True)
class Bar:
    """One row: a name, its figure, and how it is drawn: "ours", "peer", "noise", "failed".

    Attributes:
        words: what stands at the right, for a duration that is not the whole of it.
        more: a second part of the bar, such as the server's processor time.
    """

    name: str
    figure: Estimate | None
    kind: str = "peer"
    words: str = ""
    more: float | None = None


@dataclass(frozen=True)
class Series:
    """One line, one row of dots, or one dot: points of two figures."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "peer"
    hollow: Sequence[bool] = ()


@dataclass(frozen=True)
class Axis:
    """Where values lie, which of them are named, and how."""

    place: Callable[[float], float]
    ticks: Sequence[float]
    words: Callable[[float], str]


def number(value: float) -> str:
    """Return a figure with three digits and no exponent."""
    if value == 0:
        return "0"
    return f"{value:,.{min(max(0, 2 - math.floor(math.log10(abs(value)))), 4)}f}"


def duration(us: float) -> str:
    """Return µs in the unit that reads best."""
    for limit, factor, unit in ((1, 1000.0, "ns"), (1000, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{number(us * factor)} {unit}"
    return f"{number(us / 1e6)} s"


def rate(value: float) -> str:
    """Return a rate in few letters."""
    return f"{value / 1000:.3g}k" if value >= 10_000 else f"{value:,.0f}" if value >= 100 else number(value)


def bars(
    title: str,
    rows: Sequence[Bar],
    limits: Sequence[tuple[str, float]] = (),
    words: Callable[[float], str] = duration,
    told: str = "Bars, shorter is faster",
) -> str:
    """Draw figures as bars with their intervals, and limits as dashed lines across them."""
    ends = [row.figure.value + (row.more or 0.0) for row in rows if row.figure]
    ends += [value for _, value in limits]
    top = max(ends, default=1.0) * 1.18 or 1.0
    step, begin, each = 32, 6 + 13 * len(limits), list[str]()
    height, scale, body = begin + step * len(rows) + 22, (WIDTH - 2 * EDGE) / top, []
    for place, (name, value) in enumerate(limits):
        x = EDGE + value * scale
        anchor, at = ("start", x + 4) if x < WIDTH * 0.6 else ("end", x - 4)
        body.append(_line("limit", x, 3 + 13 * place, x, height - 20))
        body.append(text(at, 12 + 13 * place, f"{name} {words(value)}", anchor))
    for place, row in enumerate(rows):
        y = begin + step * place
        body.append(text(EDGE, y + 12, row.name, kind=f"name {row.kind}"))
        shown = row.words or (words(row.figure.value) if row.figure else "failed")
        each.append(f"{row.name} {shown}")
        body.append(text(WIDTH - EDGE, y + 12, shown, "end", f"value {row.kind}"))
        if row.figure is None:
            continue
        length = max(1.0, row.figure.value * scale)
        body.append(_box("client" if row.more is not None else f"bar {row.kind}", EDGE, y + 16, length))
        if row.more:
            body.append(_box("server", EDGE + length + 1, y + 16, row.more * scale))
        elif row.more is None:
            low, high = (EDGE + min(end, top) * scale for end in (max(0.0, row.figure.low), row.figure.high))
            cap = f"M{high:.1f} {y + 18}v6" if row.figure.high <= top else ""
            body.append(
                f'<path class="whisker" d="M{low:.1f} {y + 21}H{high:.1f}M{low:.1f} {y + 18}v6{cap}"/>'
            )
    body.append(_scale(height - 18, top, scale, words))
    each += [f"limit {name} {words(value)}" for name, value in limits]
    return svg(title, f"{told}: " + "; ".join(each), height, body)


def lines(title: str, told: str, series: Sequence[Series], x: Axis, y: Axis, across: str = "") -> str:
    """Draw series as lines over two axes, with a legend."""
    shown = series[:LINES]
    body = _grid(x, y)
    if across:
        body.append(text(LEFT, BOTTOM + 29, across))
    for turn, line in enumerate(shown):
        path = "M" + "L".join(f"{x.place(at):.1f} {y.place(value):.1f}" for at, value in line.points)
        body.append(f'<path class="line c{turn}" d="{path}"/>')
    begin = BOTTOM + (42 if across else 28)
    for turn, line in enumerate(shown):
        at, below = EDGE + (turn % 2) * 195, begin + 16 * (turn // 2)
        body.append(_line(f"line c{turn}", at, below, at + 18, below))
        body.append(text(at + 23, below + 4, _short(line.name, 29)))
    each = [
        f"{line.name} " + ", ".join(f"{x.words(at)} {y.words(value)}" for at, value in line.points)
        for line in shown
    ]
    return svg(title, f"{told}: " + "; ".join(each), begin + 16 * math.ceil(len(shown) / 2), body)


def percentiles(title: str, series: Sequence[Series]) -> str:
    """Draw latencies over percentiles; the axis is 1/(1-p), so that each further nine takes the same room."""
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
    """Draw µs at p99 over the rate that was offered, both logarithmic."""
    x = logarithmic(
        [at for each in series for at, _ in each.points], LEFT, WIDTH - EDGE, lambda v: f"{rate(v)}/s"
    )
    y = logarithmic([value for each in series for _, value in each.points], BOTTOM, TOP, duration)
    return lines(title, "Latency at p99 by offered rate", series, x, y, "per second")


def front(dots: Sequence[Series]) -> list[Series]:
    """Return those that nobody beats in both figures, from the slowest to the fastest; limits are left out."""
    playing = [dot for dot in dots if dot.kind != "less"]

    def is_beaten(dot: Series) -> bool:
        (speed, cost), others = dot.points[0], [other.points[0] for other in playing]
        return any(a >= speed and b <= cost and (a, b) != (speed, cost) for a, b in others)

    return sorted(
        (dot for dot in playing if not is_beaten(dot)), key=lambda d: (d.points[0][0], -d.points[0][1])
    )


def dots(title: str, series: Sequence[Series], across: str, upwards: str) -> str:
    """Draw one dot each of rate and cost on logarithmic axes, a line through the front, and a key with the figures.

    Who stands on the front is beaten by nobody in both figures at once; limits are diamonds and beat nobody.
    """
    ordered = sorted(series, key=lambda dot: -dot.points[0][0])
    best = front(ordered)
    x = logarithmic([dot.points[0][0] for dot in ordered], LEFT, WIDTH - EDGE, rate)
    y = logarithmic([dot.points[0][1] for dot in ordered], BOTTOM, TOP, duration)
    body = [*_grid(x, y), text(LEFT, BOTTOM + 29, across)]
    at = [(x.place(dot.points[0][0]), y.place(dot.points[0][1])) for dot in best]
    if len(at) > 1:
        # Between two of them nobody is known, so the line goes by steps.
        steps = "".join(f"H{right:.1f}V{up:.1f}" for right, up in at[1:])
        body.append(f'<path class="front" d="M{at[0][0]:.1f} {at[0][1]:.1f}{steps}"/>')
    told = []
    for turn, dot in enumerate(ordered, 1):
        speed, cost = dot.points[0]
        where = "limit" if dot.kind == "less" else "on the front" if dot in best else "beaten"
        kind = f"{dot.kind} {where}" if where == "beaten" else dot.kind
        below = BOTTOM + 47 + 16 * (turn - 1)
        figures = f"{rate(speed)}/s, {duration(cost)}"
        body += [_mark(turn, x.place(speed), y.place(cost), kind), _mark(turn, EDGE + 7, below - 4, kind)]
        body.append(text(EDGE + 20, below, _short(dot.name, 44)) + text(WIDTH - EDGE, below, figures, "end"))
        told.append(f"{dot.name} {figures}, {where}")
    height = BOTTOM + 43 + 16 * len(ordered)
    return svg(title, f"{upwards} against {across}: " + "; ".join(told), height, body)


def lead(title: str, peer: str, times: Estimate | None, most: float) -> str:
    """Draw one bar: how many times as fast as a peer, whose own speed is a dashed line at 1; `most` ends the scale."""
    if times is None:
        return svg(title, "no peer was there", 26, [text(EDGE, 16, "no peer was there")])
    scale = (WIDTH - 2 * EDGE) / max(most, 1.2)
    words = f"{times.words(number).replace(' [', 'x [')} as fast as {peer}"
    body = [text(EDGE, 12, words, kind="name ours"), *_lead_bar(EDGE, 16, times, scale, max(most, 1.2))]
    return svg(title, words, 30, body)


def picture(rows: Sequence[tuple[str, str, Estimate | None]], style: str) -> str:
    """Return a chart by itself, for a page that has no style for it: a row each of title, peer and times as fast."""
    left, right, step = 250, 560, 30
    most = min(12.0, max((times.value for _, _, times in rows if times), default=1.0) * 1.1)
    scale = (right - left) / most
    body = [
        f"<style>{style}</style>",
        text(left, 14, "times as fast as the best peer [95 %], the dashed line"),
    ]
    for place, (title, peer, times) in enumerate(rows):
        y = 26 + step * place
        body.append(text(left - 10, y + 14, title, "end", "name"))
        if times is not None:
            words = f"{number(times.value)}x {peer} [{number(times.low)}, {number(times.high)}]"
            end = left + min(max(times.value, min(times.high, most)), most) * scale + 8
            body += [*_lead_bar(left, y + 5, times, scale, most), text(end, y + 14, words, kind="value ours")]
    told = "; ".join(f"{title} {number(times.value)} times {peer}" for title, peer, times in rows if times)
    head = 'xmlns="http://www.w3.org/2000/svg" width="860" '
    return svg("How many times as fast as the best peer", told, 34 + step * len(rows), body, 860, head) + "\n"


def style(name: str, size: int = 12) -> str:
    """Return the style of a chart that stands by itself, "light" or "dark", its texts of so many pixels."""
    ink, ours, peer, muted = COLOURS[name]
    return (
        f"text{{font:{size}px system-ui,sans-serif;fill:{ink}}}.small{{font-size:{size - 1}px;fill:{muted}}}"
        f".ours{{font-weight:600}}.bar{{fill:{peer}}}.bar.ours{{fill:{ours}}}.noise{{opacity:.45}}"
        f".whisker{{stroke:{ink};stroke-width:1.2;fill:none}}.grid{{stroke:{muted};opacity:.4}}"
        f".limit,.one{{stroke:{muted};stroke-dasharray:4 3}}"
    )


def strips(title: str, rows: Sequence[Series]) -> str:
    """Draw every round as a dot, from left to right as they were played, above or below the contender's own median.

    A point is the minute and the ratio to the median; a hollow dot is a round that was disturbed.
    """
    step, left = 24, 132
    height = 14 + step * len(rows) + 22
    minutes = [at for row in rows for at, _ in row.points]
    first, last = min(minutes, default=0.0), max(minutes, default=1.0)
    scale, body = (WIDTH - left - 14) / max(0.01, last - first), []
    for place, row in enumerate(rows):
        y = 14 + step * place + step / 2
        body += [text(EDGE, y + 4, _short(row.name, 22)), _line("grid", left, y, WIDTH - EDGE, y)]
        for turn, (at, value) in enumerate(row.points):
            up = max(-1.0, min(1.0, math.log2(max(value, 1e-6)))) * step / 2
            hollow = " hollow" if turn < len(row.hollow) and row.hollow[turn] else ""
            where = f'cx="{left + 4 + (at - first) * scale:.1f}" cy="{y - up:.1f}"'
            body.append(f'<circle class="dot {row.kind}{hollow}" {where} r="3"/>')
    body.append(text(left, height - 6, "start"))
    body.append(text(WIDTH - EDGE, height - 6, f"after {number(last - first)} min", "end"))
    worst = max((abs(math.log2(max(v, 1e-6))) for row in rows for _, v in row.points), default=0.0)
    told = (
        f"Rounds of {len(rows)} contenders in time order; the farthest is {2**worst:.2f} times off its median"
    )
    return svg(title, told, height, body)


def logarithmic(values: Sequence[float], start: float, end: float, words: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis between two ends that has room for all of these."""
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


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "small") -> str:
    """Return a text that begins, ends or has its middle at a place."""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind.strip()}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(words)}</text>'


def svg(title: str, told: str, height: float, body: Sequence[str], width: int = WIDTH, head: str = "") -> str:
    """Return a chart of these parts, with its title and its description."""
    return (
        f'<svg {head}viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(f"{title}. {told}")}">'
        f"<title>{escape(title)}</title><desc>{escape(told)}</desc>"
        f"{''.join(body)}</svg>"
    )


def _grid(x: Axis, y: Axis) -> list[str]:
    body = []
    for value in y.ticks:
        at = y.place(value)
        body += [_line("grid", LEFT, at, WIDTH - EDGE, at), text(LEFT - 4, at + 4, y.words(value), "end")]
    for value in x.ticks:
        at = x.place(value)
        anchor = "end" if at > WIDTH - 30 else "middle"
        body += [_line("grid", at, TOP, at, BOTTOM), text(at, BOTTOM + 14, x.words(value), anchor)]
    return body


def _scale(y: float, top: float, scale: float, words: Callable[[float], str]) -> str:
    power = 10 ** math.floor(math.log10(top))
    step = next((power * part for part in (0.25, 0.5, 1.0, 2.0) if top / (power * part) <= 5), power * 2.5)
    parts = [_line("grid", EDGE, y, WIDTH - EDGE, y), text(EDGE, y + 13, "0")]
    for turn in range(1, int(top / step) + 1):
        if (x := EDGE + turn * step * scale) > WIDTH - 28:
            break
        parts.append(text(x, y + 13, words(turn * step), "middle"))
    return "".join(parts)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _box(kind: str, x: float, y: float, wide: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="10" rx="2"/>'


def _mark(turn: int, x: float, y: float, kind: str) -> str:
    if kind == "less":
        shape = f'<path class="mark less" d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"/>'
    else:
        shape = f'<circle class="mark {kind}" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'
    return shape + text(x, y + 3.2, str(turn), "middle", f"tag {kind}")


def _lead_bar(x: float, y: float, times: Estimate, scale: float, most: float) -> list[str]:
    low, value, high = (x + min(each, most) * scale for each in (times.low, times.value, times.high))
    kind = "bar ours" if times.excludes(1.0) else "bar ours noise"
    whisker = (
        f'<path class="whisker" d="M{low:.1f} {y + 5}H{high:.1f}M{low:.1f} {y + 2}v6M{high:.1f} {y + 2}v6"/>'
    )
    return [_box(kind, x, y, value - x), whisker, _line("one", x + scale, y - 3, x + scale, y + 13)]


def _short(name: str, letters: int) -> str:
    return name if len(name) < letters else name[: letters - 2] + "…"


def _nines(percentile: float) -> float:
    return min(4.0, -math.log10(max(1e-4, 1 - percentile / 100)))
