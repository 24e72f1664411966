"""One HTML page of a result file: complete, offline, light and dark. A pure function of the file.

First come one bar and one sentence for each published comparison; everything else is folded. Differences below the
noise are grey, in charts and tables. The page is `page.html`; this module makes its contents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mangonel.lab import comparisons, noise, originals, registry, scores, table
from mangonel.lab.comparisons import is_ours
from mangonel.lab.costs import costs
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import floor_words, unfit
from mangonel.lab.report import charts
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import median
from mangonel.lab.table import Line

HERE = Path(__file__).parent
# Experiments that plot rate against cost -> their contenders that do less work: no database, or no sessions.
PLOTTED = ("find-one", "find-30", "insert", "tasks", "threads", "web", "websessions")
LESS = (
    "page-nothing",
    "page-ready",
    "page-thin",
    "page-raw",
    "web-none",
    "flask-none",
    "starlette-none",
    "django-none",
)
FEWEST = 3  # the fewest dots of a plot
PERCENTILES = (50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9)
# Experiments whose parts are rates, and the part of the name that groups them.
OFFERED: dict[str, Callable[[str], str]] = {
    "latency": lambda part: part.partition("-")[0],
    "web": lambda part: "" if part.startswith("rate-") else "none",
}
COUNTED = ("insert", "query", "update", "delete", "getmore", "command", "requests", "bytes in", "bytes out")


def render(content: dict[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader

    results, found = Results(content), content["fingerprint"]
    parts: dict[str, list[dict[str, Any]]] = {}
    for experiment, part, rows in results.parts():
        parts.setdefault(experiment, []).append(_part(results, part, rows))
    leads = list(comparisons.findings(results))
    most = max((lead.best.times.high for lead in leads if lead.best and lead.best.times), default=1.0)
    share = noise.floor(results)
    failed = sum(bool(row.failures) for row in results.rows.values())
    facts = [
        [name, _plain(value)] for name, value in found.items() if name not in ("versions", "builds") and value
    ]
    builds, plan = found.get("builds", {}), content["plan"]
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["kind"] = _kind
    environment.filters["sentence"] = _sentence
    return environment.get_template("page.html").render(
        style=(HERE / "page.css").read_text(),
        date=found["date"],
        commit=found["commit"],
        where=_where(results, share),
        leads=[(lead, _lead(lead, min(most, 12.0))) for lead in leads],
        experiments=[_experiment(results, name, of) for name, of in parts.items()],
        counters=list(COUNTED),
        unfit=unfit(results),
        floor="not measured" if share is None else floor_words(share),
        form=form(plan),
        method=table.method(form(plan)),
        notes=[*content.get("notes", []), *filter(None, [placement(found)])],
        absent=list(table.absent(results)),
        counts=f"{failed} failed, {len(content['missing'])} absent, {len(content['exits'])} unclean exits",
        plan={**plan, "order": [{"instead_of": None, **entry} for entry in plan["order"]]},
        marked=len(content["marked"]),
        conditions=facts,
        versions=[
            [name, version, builds.get(name, "")] for name, version in sorted(found["versions"].items())
        ],
    )


def pictures(content: dict[str, Any]) -> dict[str, str]:
    """Return the chart of the comparisons by suffix of its file name: light and dark, for a page and for a phone.

    A comparison whose interval touches 1 has no bar: its outcome is unknown.
    """
    rows = [
        (lead.comparison.title, lead.best.name, lead.best.times)
        for lead in comparisons.findings(Results(content))
        if lead.best is not None and lead.best.times is not None and lead.best.times.excludes(1.0)
    ]
    return _drawn(charts.picture, rows)


def cost_pictures(content: dict[str, Any]) -> dict[str, str]:
    """Return the chart of the client's processor time in the same way; nothing if the run has no such figures."""
    rows = [(each.title, each.ours, each.peers) for each in costs(Results(content))]
    return _drawn(charts.costs, rows) if rows else {}


def _drawn(draw: Callable[..., str], rows: list[Any]) -> dict[str, str]:
    return {
        f"{width}{name}": draw(rows, charts.style(name, 15), frame)
        for width, frame in charts.FRAMES.items()
        for name in charts.COLOURS
    }


def _sentence(text: str) -> Any:
    """Return words as HTML: a capital letter, a full stop, and code between backquotes."""
    from markupsafe import Markup, escape

    whole = str(escape(f"{text[:1].upper()}{text[1:].rstrip('.')}."))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", whole))


def _kind(line: Line | Sequence[str]) -> str:
    if not isinstance(line, Line):
        return ""
    return (
        line.mood
        if line.mood not in ("", "best")
        else "ours"
        if line.row and is_ours(line.row.key[2])
        else ""
    )


def _where(results: Results, share: float | None) -> str:
    found, planted = results.content["fingerprint"], results.content["plan"].get("plants")
    told = ""
    if share is not None:
        told = f"{'noisy: ' if share > noise.QUIET else ''}{floor_words(share)}.".capitalize()
    if unfit(results):
        told += " Not to be quoted: see the method below."
    slowed = f" Planted slowdowns: {planted}." if planted else ""
    server = found["server"].get("version")
    return f"{machine(found)}, MongoDB {server}, {found['date'][:10]}.{slowed} {told}".strip()


def _lead(found: comparisons.Finding, most: float) -> str:
    name, times = (found.best.name, found.best.times) if found.best else ("", None)
    return charts.lead(found.comparison.title, name, times, most)


def _experiment(results: Results, name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an experiment's content, with the published figures beside today's, and their flaws."""
    known, original = registry.experiments().get(name), originals.of_experiment(name)
    return {
        "name": name,
        "title": f"{name}: {known.title}" if known else name,
        "shows": known.shows if known else "",
        "original": original,
        "printed": table.printed(results, name) if original else None,
        "parts": parts,
        "offered": list(_offered(results, name)),
        "scores": [
            (
                title.partition(": ")[2],
                headings,
                [Line(row, "ours" if is_ours(row[0]) else "") for row in cells],
            )
            for title, headings, cells in scores.tables(results, registry.title)
            if title.startswith(f"{name}:")
        ],
    }


def _part(results: Results, part: str, rows: list[Row]) -> dict[str, Any]:
    first, band = rows[0], results.null(rows)
    found = table.part(results, rows)
    ordered = [line.row for line in found.lines if line.row is not None]
    drawn, limits = [], []
    for line, row in zip(found.lines, ordered, strict=True):
        figure = row.estimate(first.judge)
        if row.floor and figure is not None:
            limits.append((row.name.removeprefix("floor: "), figure.value))
            continue
        words = ""
        if row.bytes_each and figure is not None and first.judge == "wall":
            words = charts.duration(figure.value) + table.speed_words(row, figure)
        kind = line.mood if line.mood == "failed" else f"{_side(row)} {line.mood}".removesuffix(" best")
        drawn.append(charts.Bar(row.name, figure, kind.strip(), words))
    names = {"wall": f"Time per {first.unit}", "client": f"Client CPU per {first.unit}"}
    names["user"] = f"Client CPU without the system's share per {first.unit}"
    what, title = names.get(first.judge, f"Latency at {first.judge}"), found.title
    told = "" if band is None else f" {floor_words(band.spread()).capitalize()}, and are grey."
    figures = [(f"{what}, shorter is faster.{told}", charts.bars(f"{title}: {what}", drawn, limits))]
    timed_alone = first.judge in names
    caption = "Latency by percentile, from when a request was due."
    if timed_alone:
        caption = "Latency by percentile in a closed loop: it follows from the throughput."
    if lines := _latencies(ordered):
        figures.append((caption, charts.percentiles(title, lines)))
    elif timed_alone and (cpu := list(_cpu(ordered))):
        svg = charts.bars(f"{title}: processor time", cpu, told="Processor time, client plus server")
        figures.append((f"Processor time per {first.unit}: client and server.", svg))
    strip = charts.strips(f"{title}: rounds in time order", _strips(results, ordered))
    caption = "Rounds in time order, against the contender's own median. Hollow: disturbed."
    headings, told_lines = _apart(found, ordered)
    counts = [
        (row, [_middle(row, f"counter {each}") for each in COUNTED]) for row in ordered if not row.failures
    ]
    return {
        "id": part,
        "title": title,
        "figures": figures,
        "more": [*_plots(ordered, title), (caption, strip)],
        "headings": headings,
        "lines": told_lines,
        # Proof that all contenders did the same work.
        "counted": [[row.name, *map(charts.number, each)] for row, each in counts if any(each)],
    }


def _side(row: Row) -> str:
    return "ours" if is_ours(row.key[2]) else "peer"


def _cpu(rows: Sequence[Row]) -> Iterator[charts.Bar]:
    for row in rows:
        # A site behind a load generator reports its own processor time.
        client, server = row.estimate("tornado_us") or row.estimate("client"), row.estimate("server")
        if client is not None and (client.value or server):
            words = charts.duration(client.value) + (f" + {charts.duration(server.value)}" if server else "")
            yield charts.Bar(row.name, client, _side(row), words, server.value if server else 0.0)


def _latencies(rows: Sequence[Row]) -> list[charts.Series]:
    # Sorted by name: a contender keeps its colour from chart to chart.
    ordered = sorted(rows, key=lambda row: (not is_ours(row.key[2]), row.key[2]))
    found = [(row, _by_percentile(row)) for row in ordered if not row.failures]
    return [charts.Series(row.name, points) for row, points in found if len(points) > 2]


def _by_percentile(row: Row) -> list[tuple[float, float]]:
    """Return latencies in µs by percentile, as medians of the samples; the last is the maximum of all."""
    points = [(each, value) for each in PERCENTILES if (value := _middle(row, f"p{each:g}"))]
    worst = [v for samples in row.per_round("max").values() for v in samples]
    return [*points, (100.0, max(worst))] if points and worst else points


def _plots(rows: Sequence[Row], title: str) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart of throughput against each cost that enough rows have."""
    first = rows[0]
    if first.key[0] not in PLOTTED or first.judge not in table.CLOCKS or first.unit == "process":
        return
    for name, what in (("p99", "Latency at p99"), ("cpu", f"Client CPU per {first.unit}")):
        dots = []
        for row in rows:
            wall, cost = _middle(row, "wall"), _middle(row, name)
            if name == "cpu":
                cost = _middle(row, "tornado_us") or _middle(row, "client")
            if not row.failures and not row.key[2].endswith(registry.AGAIN) and wall > 0 and cost > 0:
                kind = "less" if row.floor or row.key[2] in LESS else _side(row)
                dots.append(charts.Series(row.name, [(1e6 / wall, cost)], kind))
        if sum(dot.kind != "less" for dot in dots) >= FEWEST:
            across = f"{first.unit}s per second"
            better = (
                "lower and farther right is better. Filled: no other is better in both. Diamonds are limits."
            )
            yield (
                f"{what} against {across}: {better}",
                charts.dots(f"{title}: {what} against throughput", dots, across, what),
            )


def _offered(results: Results, name: str) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart of latency for each group of an experiment's parts that have a rate."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for experiment, part, rows in results.parts() if name in OFFERED else ():
        group = OFFERED[name](part) if experiment == name else "none"
        for row in rows if group != "none" else ():
            if not row.failures and not row.key[2].endswith(registry.AGAIN):
                groups.setdefault(group, {}).setdefault(row.key[2], []).append(row)
    for group, found in groups.items():
        lines = []
        for contender in sorted(found, key=lambda each: (not is_ours(each), each)):
            pairs = [(_middle(row, "wall"), _middle(row, "p99")) for row in found[contender]]
            points = sorted((1e6 / wall, p99) for wall, p99 in pairs if wall > 0 and p99 > 0)
            if len(points) > 1:
                lines.append(charts.Series(found[contender][0].name, points))
        if lines:
            words = f", {group}" if group else ""
            caption = f"Latency at p99 against the rate that was offered{words}; from when a request was due."
            yield caption, charts.rates(f"{name}{words}: latency at p99 against the offered rate", lines)


def _middle(row: Row, figure: str) -> float:
    values = [value for samples in row.per_round(figure).values() for value in samples]
    return median(values) if values else 0.0


def _strips(results: Results, rows: Sequence[Row]) -> list[charts.Series]:
    marked = {(name, number) for name, number in results.content["marked"]}
    begun = min((entry.get("at", 0.0) for row in rows for entry in row.rounds), default=0.0)
    found = []
    for row in rows:
        per_round = row.per_round(row.judge)
        if row.failures or not per_round:
            continue
        middle = median([median(samples) for samples in per_round.values()]) or 1.0
        at = {entry["round"]: (entry.get("at", 0.0) - begun) / 60 for entry in row.rounds}
        points = [(at[number], median(samples) / middle) for number, samples in per_round.items()]
        hollow = [(row.key[0], number) in marked for number in per_round]
        found.append(charts.Series(row.name, points, _side(row), hollow))
    return found


def _apart(found: table.Table, rows: Sequence[Row]) -> tuple[list[str], list[Line]]:
    """Return a table of the closing and exit times of a part."""
    # Time outside of every operation, or at the end of a process, is reported separately.
    apart = {
        "close()": [[ns / 1000 for ns in row.closed_ns] for row in rows],
        "of it at exit": [[v for vs in row.per_round("exit_us").values() for v in vs] for row in rows],
    }
    lines, headings = found.lines, list(found.headings)
    for heading, taken in apart.items():
        if any(taken):
            headings.append(heading)
            words = [charts.duration(median(each)) if each else "" for each in taken]
            lines = [
                Line([*line.cells, more], line.mood, line.row)
                for line, more in zip(lines, words, strict=True)
            ]
    return headings, lines


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_plain(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
