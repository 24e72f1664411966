"""What two figures cost each other: throughput against latency, and against processor time, as dots with a front.

Who stands on the front is beaten by nobody in both figures at once. Limits, such as a page without a database, are
drawn as diamonds and beat nobody. Medians only; the table beside has the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from mangonel.lab import registry
from mangonel.lab.report import charts
from mangonel.lab.report.axes import scale, short, ticks
from mangonel.lab.results import Row
from mangonel.lab.statistics import median

EXPERIMENTS = ("find-one", "find-30", "insert", "tasks", "threads", "web", "websessions")
# Who does less than the others: no database, or no sessions.
LESS = ("page-nothing", "page-ready", "page-thin", "web-none")
FEWEST = 3  # dots that make a plot worth its room
LEFT, TOP, BOTTOM = 52, 12, 206
LETTERS = 44


@dataclass(frozen=True)
class Dot:
    """One contender: operations per second and the figure that should be small.

    Attributes:
        kind: "ours", "peer" or "less" for a limit.
    """

    name: str
    rate: float
    cost: float
    kind: str = "peer"


def plots(rows: Sequence[Row], title: str, is_ours: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart for each pair of figures that enough rows have."""
    if (
        rows[0].key[0] not in EXPERIMENTS
        or rows[0].judge not in ("wall", "client")
        or rows[0].unit == "process"
    ):
        return
    unit = rows[0].unit
    for name, what in (("p99", "Latency at p99"), ("cpu", f"Client CPU per {unit}")):
        dots = [dot for row in rows if (dot := _dot(row, name, is_ours)) is not None]
        if sum(dot.kind != "less" for dot in dots) < FEWEST:
            continue
        told = (
            f"{what} against {unit}s per second: lower and farther right is better. Filled: nobody beats it in both. "
            "Diamonds are limits."
        )
        yield told, draw(f"{title}: {what} against throughput", dots, f"{unit}s per second", what)


def front(dots: Sequence[Dot]) -> list[Dot]:
    """Return those that nobody beats in both figures, from the slowest to the fastest; limits are left out."""
    playing = [dot for dot in dots if dot.kind != "less"]
    best = [
        dot
        for dot in playing
        if not any(
            other.rate >= dot.rate
            and other.cost <= dot.cost
            and (other.rate, other.cost) != (dot.rate, dot.cost)
            for other in playing
        )
    ]
    return sorted(best, key=lambda dot: (dot.rate, -dot.cost))


def draw(title: str, dots: Sequence[Dot], across: str, upwards: str) -> str:
    """Draw the dots with logarithmic axes, a line through the front, and a key with the figures."""
    ordered = sorted(dots, key=lambda dot: -dot.rate)
    best = front(ordered)
    place_x = scale([dot.rate for dot in ordered], LEFT, charts.WIDTH - charts.EDGE)
    place_y = scale([dot.cost for dot in ordered], BOTTOM, TOP)
    body = []
    for value in ticks([dot.cost for dot in ordered]):
        y = place_y(value)
        body.append(
            f'<line class="grid" x1="{LEFT}" x2="{charts.WIDTH - charts.EDGE}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="small" x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{charts.duration(value)}</text>'
        )
    for value in ticks([dot.rate for dot in ordered]):
        x = place_x(value)
        anchor = "end" if x > charts.WIDTH - 30 else "middle"
        body.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{BOTTOM}"/>'
            f'<text class="small" x="{x:.1f}" y="{BOTTOM + 14}" text-anchor="{anchor}">{short(value)}</text>'
        )
    body.append(charts.small(LEFT, BOTTOM + 29, across))
    if len(best) > 1:
        # Between two of them nobody is known, so the line goes by steps.
        steps = "".join(f"H{place_x(dot.rate):.1f}V{place_y(dot.cost):.1f}" for dot in best[1:])
        body.append(
            f'<path class="front" d="M{place_x(best[0].rate):.1f} {place_y(best[0].cost):.1f}{steps}"/>'
        )
    key, told = [], []
    for number, dot in enumerate(ordered, 1):
        beaten = "" if dot in best or dot.kind == "less" else " beaten"
        body.append(
            _mark(number, place_x(dot.rate), place_y(dot.cost), f"{dot.kind}{beaten}", dot.kind == "less")
        )
        y = BOTTOM + 47 + 16 * (number - 1)
        figures = f"{short(dot.rate)}/s, {charts.duration(dot.cost)}"
        name = dot.name if len(dot.name) < LETTERS else dot.name[: LETTERS - 2] + "…"
        key.append(_mark(number, charts.EDGE + 7, y - 4, f"{dot.kind}{beaten}", dot.kind == "less"))
        key.append(f'<text class="small" x="{charts.EDGE + 20}" y="{y}">{escape(name)}</text>')
        key.append(
            f'<text class="small" x="{charts.WIDTH - charts.EDGE}" y="{y}" text-anchor="end">{figures}</text>'
        )
        where = "limit" if dot.kind == "less" else "beaten" if beaten else "on the front"
        told.append(f"{dot.name} {figures}, {where}")
    height = BOTTOM + 47 + 16 * len(ordered) - 4
    return charts.svg(title, f"{upwards} against {across}: " + "; ".join(told), height, body + key)


def _dot(row: Row, name: str, is_ours: Callable[[str], bool]) -> Dot | None:
    if row.failures or row.key[2].endswith(registry.AGAIN):
        return None
    wall = _middle(row, "wall")
    cost = (_middle(row, "tornado_us") or _middle(row, "client")) if name == "cpu" else _middle(row, name)
    if wall <= 0 or cost <= 0:
        return None
    is_less = row.floor or row.key[2] in LESS
    return Dot(row.name, 1e6 / wall, cost, "less" if is_less else "ours" if is_ours(row.key[2]) else "peer")


def _middle(row: Row, figure: str) -> float:
    values = [value for samples in row.per_round(figure).values() for value in samples]
    return median(values) if values else 0.0


def _mark(number: int, x: float, y: float, kind: str, is_limit: bool) -> str:
    shape = (
        f'<path class="mark {kind}" d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"/>'
        if is_limit
        else f'<circle class="mark {kind}" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'
    )
    return (
        f'{shape}<text class="tag {kind}" x="{x:.1f}" y="{y + 3.2:.1f}" text-anchor="middle">{number}</text>'
    )
