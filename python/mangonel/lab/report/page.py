"""One HTML page of a result file: complete, offline, light and dark. A pure function of the file.

First one bar and one sentence for each of the old comparisons; everything else is in folds. What is below the noise is
grey, in charts as in tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mangonel.lab import comparisons, noise, originals, registry, scores, table
from mangonel.lab.comparisons import Finding, is_ours
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import floor_words, unfit
from mangonel.lab.report import charts
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import median
from mangonel.lab.table import Line, Table

HERE = Path(__file__).parent
EVERYWHERE = (
    "Client and server share this machine's cores: ratios and processor time carry over to other machines, "
    "times less so, and nothing here tells how a deployment of several machines behaves."
)
# Where rate stands against cost, and who does less than the others there: no database, or no sessions.
PLOTTED = ("find-one", "find-30", "insert", "tasks", "threads", "web", "websessions")
LESS = ("page-nothing", "page-ready", "page-thin", "web-none")
FEWEST = 3  # dots that make a plot worth its room
PERCENTILES = (50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9)
# Whose parts are rates, and what of a part's name says which ones belong together.
OFFERED: dict[str, Callable[[str], str]] = {
    "latency": lambda part: part.partition("-")[0],
    "web": lambda part: "" if part.startswith("rate-") else "none",
}
COUNTED = ("insert", "query", "update", "delete", "getmore", "command", "requests", "bytes in", "bytes out")


def render(content: dict[str, Any]) -> str:
    """Return the page of what `results.load` returned."""
    results = Results(content)
    sections: dict[str, list[str]] = {}
    for experiment, part, rows in results.parts():
        sections.setdefault(experiment, []).append(_part(results, part, rows))
    folds = []
    for name, parts in sections.items():
        known = registry.experiments().get(name)
        rates = "".join(_figure(*plot) for plot in _offered(results, name))
        body = [_about(results, name), *parts, f'<div class="charts">{rates}</div>' if rates else ""]
        title = f"{name}: {known.title}" if known else name
        folds.append(
            _fold(title, "".join([*body, *_scores(results, name)]), name, is_open=len(sections) == 1)
        )
    folds += [_method(results), _absent(results), _conditions(content)]
    date, commit = content["fingerprint"]["date"], escape(str(content["fingerprint"]["commit"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>mangonel lab, {escape(date[:10])}</title><style>{(HERE / 'page.css').read_text()}</style></head>"
        f"<body>{_head(results)}<main>{''.join(folds)}</main>"
        "<footer>Made by <code>mangonel lab report</code> from the result file alone; "
        f"source tree {commit}.</footer></body></html>\n"
    )


def pictures(content: dict[str, Any]) -> dict[str, str]:
    """Return the chart of the comparisons as SVG by itself, "light" and "dark"."""
    rows = [
        (lead.comparison.title, lead.best.name, lead.best.times)
        for lead in comparisons.findings(Results(content))
        if lead.best is not None
    ]
    return {name: charts.picture(rows, charts.style(name, 15)) for name in charts.COLOURS}


def _table(headings: Sequence[str], rows: Iterable[Sequence[str] | Line], numeric: int = 99) -> str:
    """Return a table in a box that scrolls by itself.

    Args:
        numeric: from which column on cells are figures.
    """

    def cell(tag: str, place: int, text: str) -> str:
        kind = ' class="n"' if place >= numeric else ""
        return f"<{tag}{kind}>{escape(text)}</{tag[:2]}>"

    head = "".join(cell('th scope="col"', place, text) for place, text in enumerate(headings))
    lines = []
    for row in rows:
        line = row if isinstance(row, Line) else Line(list(row))
        kind = line.mood if line.mood != "best" else ""
        kind = kind or ("ours" if line.row is not None and is_ours(line.row.key[2]) else "")
        tds = "".join(cell("td", place, text) for place, text in enumerate(line.cells))
        lines.append(f'<tr class="{kind}">{tds}</tr>' if kind else f"<tr>{tds}</tr>")
    label = escape(", ".join(headings[:2]))
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-label="table: {label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _fold(title: str, html: str, anchor: str = "", is_open: bool = False) -> str:
    where = f' id="{escape(anchor)}"' if anchor else ""
    state = ' open=""' if is_open else ""
    return f"<details{where}{state}><summary>{escape(title)}</summary>{html}</details>"


def _figure(caption: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"


def _head(results: Results) -> str:
    found = results.content["fingerprint"]
    server, planted = found["server"], results.content["plan"].get("plants")
    share, told = noise.floor(results), ""
    if share is not None:
        told = f"{'noisy: ' if share > noise.QUIET else ''}{floor_words(share)}.".capitalize()
    if unfit(results):
        told += " Not to be quoted: see the method below."
    planted_words = f" Planted slowdowns: {planted}." if planted else ""
    leads = list(comparisons.findings(results))
    most = max((lead.best.times.high for lead in leads if lead.best and lead.best.times), default=1.0)
    articles = "".join(_lead(number, lead, most) for number, lead in enumerate(leads, 1))
    what = (
        "<p>How many times as fast as the best peer; the dashed line is the peer itself.</p>" if leads else ""
    )
    where = f"{machine(found)}, MongoDB {server.get('version')}, {found['date'][:10]}.{planted_words} {told}"
    return (
        f'<header><h1>mangonel lab</h1><p class="muted">{escape(where.strip())}</p>{what}'
        f'<div class="leads">{articles}</div></header>'
    )


def _lead(number: int, found: Finding, most: float) -> str:
    title, anchor = escape(f"{number}. {found.comparison.title}"), escape(found.comparison.experiment)
    then = f"Then: {found.comparison.then}. " if found.comparison.then else ""
    name, times = (found.best.name, found.best.times) if found.best else ("", None)
    bar = charts.lead(found.comparison.title, name, times, min(most, 12.0))
    words = escape(f"{then}Now: {found.now}")
    return f'<article><h2><a href="#{anchor}">{title}</a></h2>{bar}<p>{words}</p></article>'


def _about(results: Results, name: str) -> str:
    """Return what an experiment shows and does not; the old comparison's figures beside today's, and its flaws."""
    known = registry.experiments().get(name)
    shows = known.shows[:1].upper() + known.shows[1:].rstrip(".") if known else ""
    html = f"<p>{escape(shows)}.</p>" if shows else ""
    if (original := originals.of_experiment(name)) is None:
        return html
    flaws = "".join(f"<li>{escape(flaw)}</li>" for flaw in original.flaws)
    figures = _table(*table.printed(results, name)[1:], numeric=2)
    setting, claim = escape(f"{original.setting} {original.tool}"), escape(original.claim)
    told = f"<p>{setting}</p><p>{claim}</p>{figures}<p>What was wrong with it:</p><ul>{flaws}</ul>"
    return html + _fold(f"The original: {original.title}", f"{told}<p>{escape(original.corrected)}</p>")


def _part(results: Results, part: str, rows: list[Row]) -> str:
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
    what, title = names.get(first.judge, f"Latency at {first.judge}"), found.title
    told = "" if band is None else f" {floor_words(band.spread()).capitalize()}, and are grey."
    figures = [_figure(f"{what}, shorter is faster.{told}", charts.bars(f"{title}: {what}", drawn, limits))]
    timed_alone = first.judge in names
    caption = "Latency by percentile, from when a request was due."
    if timed_alone:
        caption = "Latency by percentile in a closed loop: it follows from the throughput."
    if lines := _latencies(ordered):
        figures.append(_figure(caption, charts.percentiles(title, lines)))
    elif timed_alone and (cpu := list(_cpu(ordered))):
        svg = charts.bars(f"{title}: processor time", cpu, told="Processor time, client plus server")
        figures.append(_figure(f"Processor time per {first.unit}: client and server.", svg))
    strip = charts.strips(f"{title}: rounds in time order", _strips(results, ordered))
    caption = "Rounds in time order, against the contender's own median. Hollow: disturbed."
    more = "".join(_figure(*plot) for plot in (*_plots(ordered, title), (caption, strip)))
    inner = f'{_figures(found, ordered)}<div class="charts">{more}</div>'
    return (
        f'<h3 id="{escape(first.key[0])}-{escape(part)}">{escape(title)}</h3>'
        f'<div class="charts">{"".join(figures)}</div>{_fold("Figures and rounds", inner)}'
    )


def _side(row: Row) -> str:
    return "ours" if is_ours(row.key[2]) else "peer"


def _cpu(rows: Sequence[Row]) -> Iterator[charts.Bar]:
    for row in rows:
        # A site behind a load generator tells its own processor time.
        client, server = row.estimate("tornado_us") or row.estimate("client"), row.estimate("server")
        if client is not None and (client.value or server):
            words = charts.duration(client.value) + (f" + {charts.duration(server.value)}" if server else "")
            yield charts.Bar(row.name, client, _side(row), words, server.value if server else 0.0)


def _latencies(rows: Sequence[Row]) -> list[charts.Series]:
    # In an order of names: a contender keeps its colour from chart to chart.
    ordered = sorted(rows, key=lambda row: (not is_ours(row.key[2]), row.key[2]))
    found = [(row, _by_percentile(row)) for row in ordered if not row.failures]
    return [charts.Series(row.name, points) for row, points in found if len(points) > 2]


def _by_percentile(row: Row) -> list[tuple[float, float]]:
    """Return latencies in µs by percentile, as medians of the samples; the last one is the worst of all."""
    points = [(each, value) for each in PERCENTILES if (value := _middle(row, f"p{each:g}"))]
    worst = [v for samples in row.per_round("max").values() for v in samples]
    return [*points, (100.0, max(worst))] if points and worst else points


def _plots(rows: Sequence[Row], title: str) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart of throughput against each cost that enough rows have."""
    first = rows[0]
    if first.key[0] not in PLOTTED or first.judge not in ("wall", "client") or first.unit == "process":
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
                "lower and farther right is better. Filled: nobody beats it in both. Diamonds are limits."
            )
            yield (
                f"{what} against {across}: {better}",
                charts.dots(f"{title}: {what} against throughput", dots, across, what),
            )


def _offered(results: Results, name: str) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart of latency for each group of parts of an experiment that have a rate."""
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


def _figures(found: Table, rows: Sequence[Row]) -> str:
    """Return the table of a part, with what closing and leaving took, and what the server counted below it."""
    # What lies outside every operation, or at the end of a process, is told apart from it.
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
    told = _table(headings, lines, numeric=1)
    counts = [
        (row, [_middle(row, f"counter {each}") for each in COUNTED]) for row in rows if not row.failures
    ]
    counted = [[row.name, *map(charts.number, figures)] for row, figures in counts if any(figures)]
    if not counted:
        return told
    # Proof that all did the same.
    inner = _table(("contender", *COUNTED), counted, numeric=1)
    return told + _fold("What the server counted, per operation", inner)


def _scores(results: Results, name: str) -> Iterator[str]:
    for title, headings, cells in scores.tables(results, registry.title):
        if title.startswith(f"{name}:"):
            lines = [Line(row, "ours" if is_ours(row[0]) else "") for row in cells]
            yield f"<h3>{escape(title.partition(': ')[2])}</h3>{_table(headings, lines, numeric=1)}"


def _method(results: Results) -> str:
    content, name = results.content, form(results.content["plan"])
    share, reasons = noise.floor(results), unfit(results)
    verdict = "<strong>Fit to be quoted</strong> by the lab's own noise check."
    if reasons:
        items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
        verdict = f"<strong>Not fit to be quoted:</strong><ul>{items}</ul>"
    floor = "not measured" if share is None else floor_words(share)
    notes = [*content.get("notes", []), *filter(None, [placement(content["fingerprint"])])]
    told = "".join(f"<p>{escape(text[:1].upper() + text[1:])}.</p>" for text in notes)
    return _fold(
        "Method, noise and caveats",
        f'<div class="{"verdict unfit" if reasons else "verdict"}">{verdict}</div>'
        f"<p>Noise: {floor} (median of the tables). In every table one contender plays twice under two names; "
        "how far that ratio's interval reaches from 1 is what this run cannot tell from nothing. Differences below "
        f"it are grey.</p><p>{name.capitalize()} form, seed {content['plan']['seed']}: {table.method(name)}; "
        "medians with 95 % intervals, ratios paired by round. A dashed line in a chart is a limit: what a raw socket, "
        f"or a page without a database, takes.</p><p>{EVERYWHERE}</p>{told}",
        "method",
    )


def _absent(results: Results) -> str:
    found = list(table.absent(results))
    if not found:
        return ""
    failed = sum(bool(row.failures) for row in results.rows.values())
    content = results.content
    counts = f"{failed} failed, {len(content['missing'])} absent, {len(content['exits'])} unclean exits"
    parts = [f"<h3>{escape(each.title.capitalize())}</h3>{_table(*each[1:])}" for each in found]
    return _fold(f"Absent and failed: {counts}", "".join(parts), "absent")


def _conditions(content: dict[str, Any]) -> str:
    found = content["fingerprint"]
    rows = [
        [name, _plain(value)]
        for name, value in found.items()
        if name not in ("versions", "builds") and value not in ("", {}, [])
    ]
    builds = found.get("builds", {})
    versions = [[name, version, builds.get(name, "")] for name, version in sorted(found["versions"].items())]
    order = content["plan"]["order"]
    again = sum(entry.get("instead_of") is not None for entry in order)
    return _fold(
        "Conditions: machine, server, versions",
        f"<p>{len(order)} rounds were played, {len(content['marked'])} of them on a disturbed machine, {again} of "
        "those again at the end; both are kept in the file, the calmer one counts.</p>"
        f"{_table(('what', 'value'), rows)}<h3>Versions</h3>{_table(('package', 'version', 'files'), versions)}",
        "conditions",
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_plain(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
