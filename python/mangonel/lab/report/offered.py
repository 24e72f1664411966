"""Latency against the rate that was offered: a line for each contender over the parts with a constant rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mangonel.lab import registry
from mangonel.lab.report import charts
from mangonel.lab.report.axes import scale, short, ticks
from mangonel.lab.results import Results, Row
from mangonel.lab.statistics import median

LEFT, TOP, BOTTOM = 52, 12, 206
# Whose parts are rates, and what of a part's name says which ones belong together.
EXPERIMENTS: dict[str, Callable[[str], str]] = {
    "latency": lambda part: part.partition("-")[0],
    "web": lambda part: "" if part.startswith("rate-") else "none",
}


def plots(results: Results, name: str, is_ours: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart for each group of parts of an experiment that have a rate."""
    if name not in EXPERIMENTS:
        return
    groups: dict[str, dict[str, list[Row]]] = {}
    for experiment, part, rows in results.parts():
        group = EXPERIMENTS[name](part) if experiment == name else "none"
        for row in rows if group != "none" else ():
            if not row.failures and not row.key[2].endswith(registry.AGAIN):
                groups.setdefault(group, {}).setdefault(row.key[2], []).append(row)
    for group, found in groups.items():
        lines = []
        for contender in sorted(found, key=lambda each: (not is_ours(each), each)):
            points = sorted(point for row in found[contender] if (point := _point(row)) is not None)
            if len(points) > 1:
                lines.append(charts.Series(found[contender][0].name, points))
        if lines:
            words = f", {group}" if group else ""
            yield (
                f"Latency at p99 against the rate that was offered{words}; from when a request was due.",
                draw(f"{name}{words}: latency at p99 against the offered rate", lines),
            )


def draw(title: str, series: Sequence[charts.Series]) -> str:
    """Draw points of rate and µs as lines on logarithmic axes."""
    shown = series[: charts.LINES]
    rates = [x for line in shown for x, _ in line.points]
    times = [y for line in shown for _, y in line.points]
    place_x = scale(rates, LEFT, charts.WIDTH - charts.EDGE)
    place_y = scale(times, BOTTOM, TOP)
    body = []
    for value in ticks(times):
        y = place_y(value)
        body.append(
            f'<line class="grid" x1="{LEFT}" x2="{charts.WIDTH - charts.EDGE}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        body.append(
            f'<text class="small" x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{charts.duration(value)}</text>'
        )
    for value in ticks(rates):
        x = place_x(value)
        body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{BOTTOM}"/>')
        anchor = "end" if x > charts.WIDTH - 30 else "middle"
        body.append(
            f'<text class="small" x="{x:.1f}" y="{BOTTOM + 14}" text-anchor="{anchor}">{short(value)}</text>'
        )
    body.append(charts.small(LEFT, BOTTOM + 29, "per second"))
    for turn, line in enumerate(shown):
        path = "M" + "L".join(f"{place_x(x):.1f} {place_y(y):.1f}" for x, y in line.points)
        body.append(f'<path class="line c{turn}" d="{path}"/>')
    legend, height = charts.legend([line.name for line in shown], BOTTOM + 42)
    told = [
        f"{line.name} " + ", ".join(f"{short(x)}/s {charts.duration(y)}" for x, y in line.points)
        for line in shown
    ]
    return charts.svg(title, "Latency at p99 by offered rate: " + "; ".join(told), height, body + legend)


def _point(row: Row) -> tuple[float, float] | None:
    walls, times = ([v for vs in row.per_round(name).values() for v in vs] for name in ("wall", "p99"))
    return (1e6 / median(walls), median(times)) if walls and times and median(times) > 0 else None
