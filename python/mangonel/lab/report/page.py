"""One HTML page of a result file: complete, offline, light and dark. A pure function of the file.

First one bar and one sentence for each of the old comparisons; everything else is in folds. What is below the noise is
grey, in charts as in tables.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mangonel.lab import comparisons, originals, registry, scores
from mangonel.lab.comparisons import Finding, is_ours
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import unfit
from mangonel.lab.report import charts
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import Estimate, median
from mangonel.lab.table import absences, by_percentile, exit_words, floor_words, is_noise, method, unclean

HERE = Path(__file__).parent
EVERYWHERE = (
    "Client and server share this machine's cores: ratios and processor time carry over to other machines, "
    "times less so, and nothing here tells how a deployment of several machines behaves."
)
# Where rate stands against cost, and who does less than the others there: no database, or no sessions.
PLOTTED = ("find-one", "find-30", "insert", "tasks", "threads", "web", "websessions")
LESS = ("page-nothing", "page-ready", "page-thin", "web-none")
FEWEST = 3  # dots that make a plot worth its room
# Whose parts are rates, and what of a part's name says which ones belong together.
OFFERED: dict[str, Callable[[str], str]] = {
    "latency": lambda part: part.partition("-")[0],
    "web": lambda part: "" if part.startswith("rate-") else "none",
}
COUNTED = ("insert", "query", "update", "delete", "getmore", "command", "requests", "bytes in", "bytes out")

Cells = tuple[str, Sequence[str]]


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
    found = {}
    for name, ink, ours, muted in (
        ("light", "#181c22", "#1f5fd0", "#566070"),
        ("dark", "#e8ebf0", "#7aa8ff", "#a3adbb"),
    ):
        style = (
            f"text{{font:15px system-ui,sans-serif;fill:{ink}}}.small{{font-size:12px;fill:{muted}}}"
            f".bar{{fill:{ours}}}.noise{{opacity:.45}}.whisker{{stroke:{ink};fill:none}}"
            f".one{{stroke:{muted};stroke-dasharray:3 3}}"
        )
        found[name] = charts.picture(rows, style)
    return found


def table(headings: Sequence[str], rows: Iterable[Cells], numeric: int = 99) -> str:
    """Return a table in a box that scrolls by itself; a row is its class and its cells, as text.

    Args:
        numeric: from which column on cells are figures.
    """

    def cell(tag: str, place: int, text: str) -> str:
        kind = ' class="n"' if place >= numeric else ""
        return f"<{tag}{kind}>{escape(text)}</{tag[:2]}>"

    head = "".join(cell('th scope="col"', place, text) for place, text in enumerate(headings))
    lines = []
    for kind, cells in rows:
        tds = "".join(cell("td", place, text) for place, text in enumerate(cells))
        lines.append(f'<tr class="{kind}">{tds}</tr>' if kind else f"<tr>{tds}</tr>")
    label = escape(", ".join(headings[:2]))
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-label="table: {label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _fold(title: str, html: str, anchor: str = "", is_open: bool = False) -> str:
    where = f' id="{escape(anchor)}"' if anchor else ""
    return f"<details{where}{' open' if is_open else ''}><summary>{escape(title)}</summary>{html}</details>"


def _figure(caption: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"


def _head(results: Results) -> str:
    found = results.content["fingerprint"]
    server, planted = found["server"], results.content["plan"].get("plants")
    noise, reasons = comparisons.noise(results), unfit(results)
    told = "" if noise is None else f"{comparisons.floor_words(noise)}.".capitalize()
    if noise is not None and noise > comparisons.QUIET:
        told = f"Noisy: {comparisons.floor_words(noise)}."
    if reasons:
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
    shows = (known.shows if known else "") or tomllib.loads((HERE / "shows.toml").read_text()).get(name, "")
    shows = shows[:1].upper() + shows[1:].rstrip(".")
    html = f"<p>{escape(shows)}.</p>" if shows else ""
    if (original := originals.of_experiment(name)) is None:
        return html
    rows = []
    for line in originals.beside(results, name):
        figure, today = line.figure, line.today
        now = (
            f"{today.value:.3g} [{today.low:.3g}, {today.high:.3g}] {figure.unit}"
            if today
            else "not measured here"
        )
        rows.append(("", [figure.stack, figure.what, f"{figure.value:g} {figure.unit}", now]))
    flaws = "".join(f"<li>{escape(flaw)}</li>" for flaw in original.flaws)
    figures = table(("stack", "what", "printed then", "its form today [95 %]"), rows, numeric=2)
    setting, claim = escape(f"{original.setting} {original.tool}"), escape(original.claim)
    told = f"<p>{setting}</p><p>{claim}</p>{figures}<p>What was wrong with it:</p><ul>{flaws}</ul>"
    return html + _fold(f"The original: {original.title}", f"{told}<p>{escape(original.corrected)}</p>")


def _part(results: Results, part: str, rows: list[Row]) -> str:
    judge, first = rows[0].judge, rows[0]
    reference, band = results.reference(rows), results.null(rows)
    timed = {row.key: row.estimate(judge) for row in rows}
    ordered = sorted(rows, key=lambda row: e.value if (e := timed[row.key]) else float("inf"))
    drawn, limits = [], []
    for row in ordered:
        figure = timed[row.key]
        if row.floor and figure is not None:
            limits.append((row.name.removeprefix("floor: "), figure.value))
            continue
        words = ""
        if row.bytes_each and figure is not None and judge == "wall":
            words = f"{charts.duration(figure.value)}, {charts.number(row.bytes_each / figure.value)} MB/s"
        drawn.append(charts.Bar(row.name, figure, _kind(results, row, reference, band), words))
    concern = f", {first.write_concern}" if first.write_concern else ""
    title = f"{first.title}{concern}"
    names = {"wall": f"Time per {first.unit}", "client": f"Client CPU per {first.unit}"}
    what = names.get(judge, f"Latency at {judge}")
    noise = "" if band is None else f" {floor_words(band).capitalize()}."
    figures = [_figure(f"{what}, shorter is faster.{noise}", charts.bars(f"{title}: {what}", drawn, limits))]
    timed_alone = judge in ("wall", "client")
    caption = "Latency by percentile, from when a request was due."
    if timed_alone:
        caption = "Latency by percentile in a closed loop: it follows from the throughput."
    if lines := _latencies(ordered):
        figures.append(_figure(caption, charts.percentiles(title, lines)))
    elif timed_alone and (cpu := list(_cpu(ordered))):
        svg = charts.bars(f"{title}: processor time", cpu, told="Processor time, client plus server")
        figures.append(_figure(f"Processor time per {first.unit}: client and server.", svg))
    more = [_figure(*plot) for plot in _plots(ordered, title)]
    strip = charts.strips(f"{title}: rounds in time order", _strips(results, ordered))
    more.append(
        _figure("Rounds in time order, against the contender's own median. Hollow: disturbed.", strip)
    )
    told = _figures(results, ordered, reference, band) + f'<div class="charts">{"".join(more)}</div>'
    return (
        f'<h3 id="{escape(first.key[0])}-{escape(part)}">{escape(title)}</h3>'
        f'<div class="charts">{"".join(figures)}</div>{_fold("Figures and rounds", told)}'
    )


def _kind(results: Results, row: Row, reference: Row | None, band: Estimate | None) -> str:
    if row.failures or not row.rounds:
        return "failed"
    kind = "ours" if is_ours(row.key[2]) else "peer"
    if reference is not None and row is not reference:
        speed = results.ratio(reference.key, row.key, row.judge)
        if speed is not None and is_noise(speed, band):
            return f"{kind} noise"
    return kind


def _cpu(rows: Sequence[Row]) -> Iterator[charts.Bar]:
    for row in rows:
        # A site behind a load generator tells its own processor time.
        client, server = row.estimate("tornado_us") or row.estimate("client"), row.estimate("server")
        if client is not None and (client.value or server):
            words = charts.duration(client.value) + (f" + {charts.duration(server.value)}" if server else "")
            kind = "ours" if is_ours(row.key[2]) else "peer"
            yield charts.Bar(row.name, client, kind, words, server.value if server else 0.0)


def _latencies(rows: Sequence[Row]) -> list[charts.Series]:
    # In an order of names: a contender keeps its colour from chart to chart.
    ordered = sorted(rows, key=lambda row: (not is_ours(row.key[2]), row.key[2]))
    found = [(row, by_percentile(row)) for row in ordered if not row.failures]
    return [charts.Series(row.name, points) for row, points in found if len(points) > 2]


def _plots(rows: Sequence[Row], title: str) -> Iterator[tuple[str, str]]:
    """Yield a caption and a chart of throughput against each cost that enough rows have."""
    first = rows[0]
    if first.key[0] not in PLOTTED or first.judge not in ("wall", "client") or first.unit == "process":
        return
    for name, what in (("p99", "Latency at p99"), ("cpu", f"Client CPU per {first.unit}")):
        dots = []
        for row in rows:
            wall = _middle(row, "wall")
            cost = (
                (_middle(row, "tornado_us") or _middle(row, "client"))
                if name == "cpu"
                else _middle(row, name)
            )
            if not row.failures and not row.key[2].endswith(registry.AGAIN) and wall > 0 and cost > 0:
                is_less = row.floor or row.key[2] in LESS
                kind = "less" if is_less else "ours" if is_ours(row.key[2]) else "peer"
                dots.append(charts.Series(row.name, [(1e6 / wall, cost)], kind))
        if sum(dot.kind != "less" for dot in dots) >= FEWEST:
            caption = (
                f"{what} against {first.unit}s per second: lower and farther right is better. Filled: nobody "
            )
            caption += "beats it in both. Diamonds are limits."
            across = f"{first.unit}s per second"
            yield caption, charts.dots(f"{title}: {what} against throughput", dots, across, what)


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
        found.append(charts.Series(row.name, points, "ours" if is_ours(row.key[2]) else "peer", hollow))
    return found


def _figures(results: Results, rows: Sequence[Row], reference: Row | None, band: Estimate | None) -> str:
    judge = rows[0].judge
    # What lies outside every operation, or at the end of a process, is told apart from it.
    closing = {row.key[2]: [ns / 1000 for ns in row.closed_ns] for row in rows}
    leaving = {row.key[2]: [v for vs in row.per_round("exit_us").values() for v in vs] for row in rows}
    apart = {"close()": closing, "of it at exit": leaving}
    apart = {heading: cells for heading, cells in apart.items() if any(cells.values())}
    name = reference.name if reference else "the reference"
    headings = [
        "contender",
        f"{judge} [95 %]",
        "client CPU",
        "server CPU",
        "peak MB",
        f"against {name} [95 %]",
        *apart,
    ]
    lines: list[Cells] = []
    counted: list[Cells] = []
    for row in rows:
        figure = row.estimate(judge)
        if figure is None:
            why = row.failures[0][:160] if row.failures else "no samples"
            lines.append(("failed", [row.name, why, "", "", "", "", *("" for _ in apart)]))
            continue
        client, server, rss = (row.estimate(each) for each in ("client", "server", "rss"))
        speed = None
        if reference is not None and row is not reference:
            speed = results.ratio(reference.key, row.key, judge)
        grey = speed is not None and is_noise(speed, band)
        value, low, high = (charts.duration(each) for each in (figure.value, figure.low, figure.high))
        cells = [
            row.name + unclean(row),
            f"{value} [{low}, {high}]",
            charts.duration(client.value) if client else "",
            charts.duration(server.value) if server else "",
            f"{rss.value / 1e6:.0f}" if rss else "",
            comparisons.interval(speed) if speed else "",
            *(
                charts.duration(median(each[row.key[2]])) if each[row.key[2]] else ""
                for each in apart.values()
            ),
        ]
        lines.append(("noise" if grey else "ours" if is_ours(row.key[2]) else "", cells))
        figures = [_middle(row, f"counter {each}") for each in COUNTED]
        if any(figures):
            counted.append(("", [row.name, *map(charts.number, figures)]))
    told = table(headings, lines, numeric=1)
    if not counted:
        return told
    # Proof that all did the same.
    return told + _fold(
        "What the server counted, per operation", table(("contender", *COUNTED), counted, numeric=1)
    )


def _scores(results: Results, name: str) -> Iterator[str]:
    for title, headings, cells in scores.tables(results, registry.title):
        if title.startswith(f"{name}:"):
            rows: list[Cells] = [("ours" if is_ours(row[0]) else "", row) for row in cells]
            yield f"<h3>{escape(title.partition(': ')[2])}</h3>{table(headings, rows, numeric=1)}"


def _method(results: Results) -> str:
    content, name = results.content, form(results.content["plan"])
    noise, reasons = comparisons.noise(results), unfit(results)
    verdict = "<strong>Fit to be quoted</strong> by the lab's own noise check."
    if reasons:
        items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
        verdict = f"<strong>Not fit to be quoted:</strong><ul>{items}</ul>"
    floor = "not measured" if noise is None else comparisons.floor_words(noise)
    notes = [*content.get("notes", []), *filter(None, [placement(content["fingerprint"])])]
    told = "".join(f"<p>{escape(text[:1].upper() + text[1:])}.</p>" for text in notes)
    return _fold(
        "Method, noise and caveats",
        f'<div class="{"verdict unfit" if reasons else "verdict"}">{verdict}</div>'
        f"<p>Noise: {floor} (median of the tables). In every table one contender plays twice under two names; how far "
        "that ratio's interval reaches from 1 is what this run cannot tell from nothing. Differences below it are "
        f"grey.</p><p>{name.capitalize()} form, seed {content['plan']['seed']}: {method(name)}; medians with 95 % "
        "intervals, ratios paired by round. A dashed line in a chart is a limit: what a raw socket, or a page without "
        f"a database, takes.</p><p>{EVERYWHERE}</p>{told}",
        "method",
    )


def _absent(results: Results) -> str:
    content = results.content
    failed: list[Cells] = [
        ("failed", [*row.key[:2], row.name, row.failures[0][:300]])
        for row in results.rows.values()
        if row.failures
    ]
    missing: list[Cells] = [("", cells) for cells in absences(content)]
    exits: list[Cells] = [
        ("", [e["experiment"], e["contender"], str(e["round"] + 1), exit_words(e)]) for e in content["exits"]
    ]
    ended = f"Workers that did not end cleanly, {len(exits)} of {content.get('workers', len(exits))}"
    parts = [
        f"<h3>{title}</h3>{table(headings, rows)}"
        for title, headings, rows in (
            ("Failed: no figure counts", ("experiment", "part", "contender", "why"), failed),
            ("Not taking part", ("contender", "reason", "experiments"), missing),
            (ended, ("experiment", "contender", "round", "how"), exits),
        )
        if rows
    ]
    counts = f"{len(failed)} failed, {len(missing)} absent, {len(exits)} unclean exits"
    return _fold(f"Absent and failed: {counts}", "".join(parts), "absent") if parts else ""


def _conditions(content: dict[str, Any]) -> str:
    found = content["fingerprint"]
    rows: list[Cells] = [
        ("", [name, _plain(value)])
        for name, value in found.items()
        if name not in ("versions", "builds") and value not in ("", {}, [])
    ]
    versions: list[Cells] = [
        ("", [name, version, found.get("builds", {}).get(name, "")])
        for name, version in sorted(found["versions"].items())
    ]
    order = content["plan"]["order"]
    again = sum(entry.get("instead_of") is not None for entry in order)
    return _fold(
        "Conditions: machine, server, versions",
        f"<p>{len(order)} rounds were played, {len(content['marked'])} of them on a disturbed machine, {again} of "
        "those again at the end; both are kept in the file, the calmer one counts.</p>"
        f"{table(('what', 'value'), rows)}<h3>Versions</h3>{table(('package', 'version', 'files'), versions)}",
        "conditions",
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_plain(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
