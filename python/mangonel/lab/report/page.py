"""One HTML page of a result file: complete, offline, light and dark. A pure function of the file.

Every chart stands beside the table with the same figures; what is below the noise is grey in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from mangonel.lab import registry, scores
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import unfit
from mangonel.lab.report import background, charts, offered, pareto
from mangonel.lab.report.style import STYLE
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import Estimate, median
from mangonel.lab.table import WILD, floor_words, is_noise

OURS = ("mangonel", "odm", "objects-dicts", "web-mongodb", "page-mangonel")
TIMES = "\N{MULTIPLICATION SIGN}"
LATENCIES = (50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9)


def render(content: dict[str, Any]) -> str:
    """Return the page of what `results.load` returned."""
    results = Results(content)
    body = [_head(results), "<main>"]
    sections: dict[str, list[str]] = {}
    for experiment, part, rows in results.parts():
        sections.setdefault(experiment, []).append(_part(results, part, rows))
    body.append(_contents(list(sections)))
    for name, parts in sections.items():
        told = background.experiment(results, name)
        body.append(f'<section id="{escape(name)}"><h2>{escape(told.title)}</h2>{told.html}')
        rates = "".join(_figure(*plot) for plot in offered.plots(results, name, is_ours))
        body += [*parts, f'<div class="charts">{rates}</div>' if rates else ""]
        body += [*_scores(results, name), "</section>"]
    body += [_absent(results), _conditions(content), "</main>", _foot(content)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>mangonel lab, {escape(content['fingerprint']['date'][:10])}</title>"
        f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def is_ours(name: str) -> bool:
    """Return whether a contender is this project's."""
    return name.startswith(OURS) or name.endswith("-mangonel")


def interval(found: Estimate, words: Any) -> str:
    """Return a figure with its interval."""
    return f"{words(found.value)} [{words(found.low)}, {words(found.high)}]"


def table(headings: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], numeric: int = 99) -> str:
    """Return a table in a box that scrolls by itself; a row is its class and its cells, which are HTML already.

    Args:
        numeric: from which column on cells are figures.
    """
    head = "".join(
        f'<th scope="col"{" class=" + chr(34) + "n" + chr(34) if place >= numeric else ""}>{escape(text)}</th>'
        for place, text in enumerate(headings)
    )
    lines = []
    for kind, cells in rows:
        tds = "".join(
            f'<td class="n">{cell}</td>' if place >= numeric else f"<td>{cell}</td>"
            for place, cell in enumerate(cells)
        )
        lines.append(f'<tr class="{kind}">{tds}</tr>' if kind else f"<tr>{tds}</tr>")
    label = escape(", ".join(headings[:2]))
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="table: {label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _head(results: Results) -> str:
    content = results.content
    found, plan = content["fingerprint"], content["plan"]
    server = found["server"]
    bands = [band for _, _, rows in results.parts() if (band := results.null(rows)) is not None]
    reasons = unfit(results)
    spread = median([band.spread() for band in bands]) if bands else 0.0
    floor = (
        "not measured"
        if not bands
        else f"{100 * spread:.0f} %"
        if spread < WILD
        else "no difference can be told"
    )
    items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    verdict = (
        f'<div class="verdict unfit"><strong>✗ Not fit to be quoted.</strong><ul>{items}</ul></div>'
        if reasons
        else '<div class="verdict"><strong>✓ Fit to be quoted</strong> by the lab\'s own noise check.</div>'
    )
    name = form(plan).capitalize()
    where = (
        f"<p class='muted'>{escape(told[:1].upper() + told[1:])}.</p>" if (told := placement(found)) else ""
    )
    planted = (
        f"<p class='unmet'>Planted slowdowns: {escape(str(plan['plants']))}</p>" if plan.get("plants") else ""
    )
    notes = "".join(f"<p>Note: {escape(text)}</p>" for text in content.get("notes", []))
    return (
        f"<header><h1>mangonel lab</h1><p>{escape(machine(found))}. MongoDB {escape(str(server.get('version')))}, "
        f"{escape(str(server.get('topology')))}, ping {server.get('ping_us')} µs. {escape(found['date'])}.</p>"
        f"{verdict}{planted}{notes}"
        f"<p><strong>Noise floor: {floor}</strong> (median of the tables). In every table one contender plays twice "
        "under two names; how far that ratio's interval reaches from 1 is what this run cannot tell from nothing. "
        "Differences below it are grey.</p>"
        f"<p class='muted'>{name} form, seed {plan['seed']}: {_method(name)}; medians with 95 % intervals, "
        "ratios paired by round. A dashed line is a limit: what a raw socket, or a page without a database, takes."
        f"</p>{where}</header>"
    )


def _method(name: str) -> str:
    if name == "Brief":
        return "each contender in one process, which takes its samples in turn with the others, in shuffled order"
    return "rounds in shuffled order, each contender and round in a process of its own"


def _contents(names: Sequence[str]) -> str:
    links = "".join(f'<li><a href="#{escape(name)}">{escape(name)}</a></li>' for name in names)
    return (
        f'<nav aria-label="experiments"><ul>{links}<li><a href="#conditions">conditions</a></li></ul></nav>'
    )


def _part(results: Results, part: str, rows: list[Row]) -> str:
    judge, first = rows[0].judge, rows[0]
    reference, band = results.reference(rows), results.null(rows)
    timed = {row.key: row.estimate(judge) for row in rows}
    ordered = sorted(rows, key=lambda row: e.value if (e := timed[row.key]) else float("inf"))
    drawn, limits = [], []
    for row in ordered:
        figure = timed[row.key]
        if row.floor and figure is not None:
            limits.append(charts.Limit(row.name.removeprefix("floor: "), figure.value))
            continue
        words = ""
        if row.bytes_each and figure is not None and judge == "wall":
            words = f"{charts.duration(figure.value)}, {charts.number(row.bytes_each / figure.value)} MB/s"
        drawn.append(charts.Bar(row.name, figure, _kind(results, row, reference, band), words))
    concern = f", {first.write_concern}" if first.write_concern else ""
    noise = "" if band is None else f" {floor_words(band).capitalize()}."
    names = {"wall": f"Time per {first.unit}", "client": f"Client CPU per {first.unit}"}
    what = names.get(judge, f"Latency at {judge}")
    title = f"{first.title}{concern}"
    figures = [_figure(f"{what}, shorter is faster.{noise}", charts.bars(f"{title}: {what}", drawn, limits))]
    caption = "Latency by percentile, from when a request was due."
    if judge in ("wall", "client"):
        caption = "Latency by percentile in a closed loop: it follows from the throughput."
    if lines := _latency_lines(ordered):
        figures.append(_figure(caption, charts.percentiles(title, lines)))
        figures += _histograms(ordered, title)
    elif judge in ("wall", "client") and (cpu := _cpu(ordered)):
        figures.append(
            _figure(f"Processor time per {first.unit}: client and server.", charts.stacked(title, cpu))
        )
    figures += [_figure(*plot) for plot in pareto.plots(ordered, title, is_ours)]
    strip = charts.strips(f"{title}: rounds in time order", _strips(results, ordered))
    more = _figure("Rounds in time order, against the contender's own median. Hollow: disturbed.", strip)
    anchor = escape(f"{first.key[0]}-{part}")
    return (
        f'<h3 id="{anchor}">{escape(title)}</h3><div class="charts">{"".join(figures)}</div>'
        f"<details><summary>Figures and rounds</summary>{_figures(results, ordered, reference, band)}"
        f'<div class="charts">{more}</div></details>'
    )


def _figure(caption: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"


def _kind(results: Results, row: Row, reference: Row | None, band: Estimate | None) -> str:
    if row.failures or not row.rounds:
        return "failed"
    kind = "ours" if is_ours(row.key[2]) else "peer"
    if reference is not None and row is not reference:
        speed = results.ratio(reference.key, row.key, row.judge)
        if speed is not None and is_noise(speed, band):
            return f"{kind} noise"
    return kind


def _cpu(rows: Sequence[Row]) -> list[tuple[str, float, float | None]]:
    found = []
    for row in rows:
        # A site behind a load generator tells its own processor time.
        client, server = row.estimate("tornado_us") or row.estimate("client"), row.estimate("server")
        if client is not None and (client.value or server):
            found.append((row.name, client.value, server.value if server else None))
    return found


def _latency_lines(rows: Sequence[Row]) -> list[charts.Series]:
    lines = []
    # In an order of names: a contender keeps its colour from chart to chart.
    for row in sorted(rows, key=lambda row: (not is_ours(row.key[2]), row.key[2])):
        if row.failures:
            continue
        points = []
        for percentile in LATENCIES:
            values = [v for samples in row.per_round(f"p{percentile:g}").values() for v in samples]
            if values:
                points.append((percentile, median(values)))
        worst = [v for samples in row.per_round("max").values() for v in samples]
        if points and worst:
            points.append((100.0, max(worst)))
        if len(points) > 2:
            lines.append(charts.Series(row.name, points))
    return lines


def _histograms(rows: Sequence[Row], title: str) -> list[str]:
    """Draw this driver's latencies, or the fastest contender's where it is not there, from all rounds together."""
    chosen = next((row for row in rows if is_ours(row.key[2]) and not row.floor), rows[0] if rows else None)
    if chosen is None:
        return []
    encoded = [
        text
        for entry in chosen.rounds
        for sample in entry["samples"]
        if (text := sample.get("histograms", {}).get("response"))
    ]
    if not encoded:
        return []
    from mangonel.lab.latency import Latencies

    merged = Latencies(encoded)
    caption = f"All {len(merged)} latencies of {chosen.name}."
    return [_figure(caption, charts.histogram(f"{title}: latencies", chosen.name, merged.buckets()))]


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
    name = reference.name if reference else "the reference"
    headings = [
        "contender",
        f"{judge} [95 %]",
        "client CPU",
        "server CPU",
        "peak MB",
        f"against {name} [95 %]",
    ]
    # What lies outside every operation, or at the end of a process, is told apart from it.
    apart = {"close()": _closing(rows), "of it at exit": _leaving(rows)}
    apart = {heading: cells for heading, cells in apart.items() if any(cells.values())}
    lines = []
    for row in rows:
        figure = row.estimate(judge)
        if figure is None:
            why = row.failures[0][:160] if row.failures else "no samples"
            lines.append(("failed", [escape(row.name), escape(why), "", "", "", "", *("" for _ in apart)]))
            continue
        client, server, rss = (row.estimate(each) for each in ("client", "server", "rss"))
        speed = None
        if reference is not None and row is not reference:
            speed = results.ratio(reference.key, row.key, judge)
        grey = speed is not None and is_noise(speed, band)
        lines.append(
            (
                "noise" if grey else "ours" if is_ours(row.key[2]) else "",
                [
                    escape(row.name),
                    interval(figure, charts.duration),
                    charts.duration(client.value) if client else "",
                    charts.duration(server.value) if server else "",
                    f"{rss.value / 1e6:.0f}" if rss else "",
                    interval(speed, lambda v: f"{v:.2f}") + TIMES if speed else "",
                    *(cells[row.key[2]] for cells in apart.values()),
                ],
            )
        )
    return table([*headings, *apart], lines, numeric=1) + _counters(rows)


def _closing(rows: Sequence[Row]) -> dict[str, str]:
    """Return how long each client took to close, which no other figure contains."""
    return {
        row.key[2]: charts.duration(median([float(ns) for ns in row.closed_ns]) / 1000)
        if row.closed_ns
        else ""
        for row in rows
    }


def _leaving(rows: Sequence[Row]) -> dict[str, str]:
    """Return how much of each process came after its program's last line."""
    found = {row.key[2]: [v for vs in row.per_round("exit_us").values() for v in vs] for row in rows}
    return {name: charts.duration(median(values)) if values else "" for name, values in found.items()}


def _counters(rows: Sequence[Row]) -> str:
    """Return what the server counted for each operation: proof that all did the same."""
    names = ("insert", "query", "update", "delete", "getmore", "command", "requests", "bytes in", "bytes out")
    lines = []
    for row in rows:
        found = [row.per_round(f"counter {name}") for name in names]
        if row.failures or not any(found):
            continue
        figures = [
            median([v for samples in each.values() for v in samples]) if each else 0.0 for each in found
        ]
        lines.append(("", [escape(row.name), *(charts.number(figure) for figure in figures)]))
    if not lines:
        return ""
    return (
        "<details><summary>What the server counted, per operation</summary>"
        f"{table(('contender', *names), lines, numeric=1)}</details>"
    )


def _scores(results: Results, name: str) -> Iterable[str]:
    for title, headings, cells in scores.tables(results, registry.title):
        if title.startswith(f"{name}:"):
            rows = [
                ("ours" if row[0].startswith(OURS) else "", [escape(text) for text in row]) for row in cells
            ]
            yield f"<h3>{escape(title.partition(': ')[2])}</h3>{table(headings, rows, numeric=1)}"


def _absent(results: Results) -> str:
    content = results.content
    told: dict[tuple[str, str], list[str]] = {}
    for entry in content["missing"]:
        told.setdefault((entry["contender"] or "everybody", entry["reason"]), []).append(entry["experiment"])
    missing = [
        ("", [escape(name), escape(why), escape(", ".join(where))]) for (name, why), where in told.items()
    ]
    failed = [
        ("failed", [escape(row.key[0]), escape(row.key[1]), escape(row.name), escape(row.failures[0][:300])])
        for row in results.rows.values()
        if row.failures
    ]
    exits = [
        (
            "",
            [
                escape(e["experiment"]),
                escape(e["contender"]),
                str(e["round"] + 1),
                escape(str(e.get("signal") or e["status"])),
            ],
        )
        for e in content["exits"]
    ]
    parts = []
    if failed:
        parts.append(
            "<h3>Failed: no figure counts</h3>" + table(("experiment", "part", "contender", "why"), failed)
        )
    if missing:
        parts.append("<h3>Not taking part</h3>" + table(("contender", "reason", "experiments"), missing))
    if exits:
        heading = (
            f"<h3>Workers that did not end cleanly, {len(exits)} of {content.get('workers', len(exits))}</h3>"
        )
        parts.append(heading + table(("experiment", "contender", "round", "how"), exits))
    return f'<section id="absent"><h2>Absent and failed</h2>{"".join(parts)}</section>' if parts else ""


def _conditions(content: dict[str, Any]) -> str:
    found = {
        name: value for name, value in content["fingerprint"].items() if name not in ("versions", "builds")
    }
    rows = [
        ("", [escape(name), escape(_plain(value))])
        for name, value in found.items()
        if value not in ("", {}, [])
    ]
    builds = content["fingerprint"].get("builds", {})
    versions = [
        ("", [escape(name), escape(version), escape(builds.get(name, ""))])
        for name, version in sorted(content["fingerprint"]["versions"].items())
    ]
    order = content["plan"]["order"]
    marked = len(content["marked"])
    again = sum(entry.get("instead_of") is not None for entry in order)
    return (
        f'<section id="conditions"><h2>Conditions</h2><p>{len(order)} rounds were played, {marked} of them on a '
        f"disturbed machine, {again} of those again at the end; both are kept in the file, the calmer one counts.</p>"
        f"{table(('what', 'value'), rows)}<h3>Versions</h3>{table(('package', 'version', 'files'), versions)}</section>"
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_plain(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _foot(content: dict[str, Any]) -> str:
    commit = escape(str(content["fingerprint"]["commit"]))
    made = "Made by <code>mangonel lab report</code> from the result file alone"
    return f"<footer>{made}; source tree {commit}.</footer>"
