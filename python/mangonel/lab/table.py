"""Prints a result file: one table per experiment, the noise, the absent, the unclean exits.

Uses rich where it is installed and plain text elsewhere; both show the same words, and so does the report.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mangonel.lab import originals, registry, scores
from mangonel.lab.comparisons import interval
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import TRUSTED, unfit
from mangonel.lab.report.charts import duration, number
from mangonel.lab.results import Results, Row, form
from mangonel.lab.sentinel import DISTURBED
from mangonel.lab.statistics import Estimate, median

WILD = 3.0  # a noise floor beyond which its figure means nothing
PERCENTILES = (50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9)
Write = Callable[[str], None]


@dataclass
class Line:
    """One row as text, with how it is drawn: "", "best", "noise" or "failed"."""

    cells: list[str]
    mood: str = ""


def show(content: dict[str, Any], write: Write = print, style: str = "") -> None:
    """Print everything a result file says."""
    results = Results(content)
    _head(results, write)
    for experiment, _, rows in results.parts():
        reference, judge = results.reference(rows), rows[0].judge
        concern = f", {rows[0].write_concern}" if rows[0].write_concern else ""
        by = {"wall": "", "client": "CPU "}.get(judge, f"{judge} ") + (reference.name if reference else "")
        timed = f"time per {rows[0].unit}" if judge in ("wall", "client") else f"{judge} latency"
        headings = ["contender", f"{timed} [95 %]", "client CPU", "server CPU", "peak MB", f"against {by}"]
        title = f"{experiment}: {rows[0].title}{concern}{_noise(results, rows)}"
        draw(title, headings, _lines(results, rows, reference), write, style)
    for title, headings, cells in scores.tables(results, registry.title):
        draw(title, headings, [Line(row) for row in cells], write, style)
    for experiment in content["plan"]["experiments"]:
        _beside(results, experiment, write, style)
    failures = [line for row in results.rows.values() for line in _failures(row)]
    exits = [
        Line([e["experiment"], registry.title(e["contender"]), str(e["round"] + 1), exit_words(e)], "failed")
        for e in content["exits"]
    ]
    absent = [Line(cells) for cells in absences(content)]
    for title, headings, lines in (
        ("failed: no figure counts", ["experiment", "part", "contender", "why"], failures),
        ("not taking part", ["contender", "reason", "experiments"], absent),
        ("workers that did not end cleanly", ["experiment", "contender", "round", "how"], exits),
    ):
        if lines:
            draw(title, headings, lines, write, style)


def draw(
    title: str, headings: Sequence[str], lines: list[Line], write: Write = print, style: str = ""
) -> None:
    """Print one table: "plain", in "markdown", or in colours where rich is installed."""
    if not style and importlib.util.find_spec("rich") is not None:
        _rich(title, headings, lines, write)
        return
    table = [list(headings), *(line.cells for line in lines)]
    if style == "markdown":
        rows = [[cell.replace("|", "\\|") for cell in row] for row in table]
        rows.insert(1, ["---"] * len(headings))
        write(f"\n### {title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
        return
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    write(f"\n{title}")
    for row in table:
        write("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def is_noise(speed: Estimate, band: Estimate | None) -> bool:
    """Return whether a ratio cannot be told from 1: by its own interval, or by what the reference shows alone."""
    small = band is not None and 1 / (1 + band.spread()) <= speed.value <= 1 + band.spread()
    return small or not speed.excludes(1.0)


def floor_words(band: Estimate) -> str:
    """Return in words what a table cannot tell from nothing."""
    spread = band.spread()
    return (
        f"differences below {100 * spread:.0f} % are grey" if spread < WILD else "no difference can be told"
    )


def method(name: str) -> str:
    """Return in words how a form takes its samples."""
    if name == "brief":
        return "each contender in one process, samples in turn with the others, in shuffled order"
    return "rounds in shuffled order, each contender and round in a process of its own"


def by_percentile(row: Row) -> list[tuple[float, float]]:
    """Return latencies in µs by percentile, as medians of the samples; the last one is the worst of all."""
    points = []
    for percentile in PERCENTILES:
        values = [v for samples in row.per_round(f"p{percentile:g}").values() for v in samples]
        if values:
            points.append((percentile, median(values)))
    worst = [v for samples in row.per_round("max").values() for v in samples]
    return [*points, (100.0, max(worst))] if points and worst else points


def absences(content: dict[str, Any]) -> list[list[str]]:
    """Return who did not take part, why, and in which experiments."""
    told: dict[tuple[str, str], list[str]] = {}
    for entry in content["missing"]:
        told.setdefault((entry["contender"], entry["reason"]), []).append(entry["experiment"])
    return [
        [registry.title(name) if name else "everybody", why, ", ".join(where)]
        for (name, why), where in told.items()
    ]


def exit_words(entry: dict[str, Any]) -> str:
    """Return how a worker ended."""
    how = entry.get("signal") or f"exit status {entry['status']}"
    words = (entry.get("stderr") or "").strip().splitlines()
    return f"{how}: {words[0][:100]}" if words else str(how)


def unclean(row: Row) -> str:
    """Return how many of the programs a row ran ended otherwise than with status 0, as words."""
    bad = total = 0
    for extras in (sample["extras"] for entry in row.rounds for sample in entry["samples"]):
        if "exits" in extras:
            bad, total = bad + int(extras["unclean"]), total + int(extras["exits"])
        elif "exit_status" in extras:
            bad, total = bad + (extras["exit_status"] != 0), total + 1
    return f" ({bad} of {total} exits unclean)" if bad else ""


def _head(results: Results, write: Write) -> None:
    content = results.content
    found, plan = content["fingerprint"], content["plan"]
    server, name = found["server"], form(plan)
    write(f"{found['date']}  {machine(found)}")
    write(
        f"mongod {server.get('version')} ({server.get('topology')}, ping {server.get('ping_us')} µs); "
        f"seed {plan['seed']}, load {found['load'][0]}, commit {found['commit']}"
    )
    write(
        "versions: "
        + ", ".join(f"{package} {version}" for package, version in sorted(found["versions"].items()))
    )
    played = {len(cell["rounds"]) for cell in content["cells"] if not cell["failures"]} or {0}
    rounds = f"{min(played)}" if len(played) == 1 else f"{min(played)} to {max(played)}"
    write(f"{name} form, {rounds} rounds: {method(name)}; medians [95 % interval]")
    if where := placement(found):
        write(where)
    took = [entry["sentinel_ns"] for cell in content["cells"] for entry in cell["rounds"]]
    busy = sum(figure > DISTURBED * min(took) for figure in took)
    share = round(100 * busy / len(took)) if took else 0
    write(f"disturbed: {share} % of the measurements began while the machine was busy with something else")
    if plan.get("plants"):
        write(f"PLANTED slowdowns, to test the lab: {plan['plants']}")
    reasons = unfit(results)
    write("fit to be quoted: " + ("yes" if not reasons else "NO: " + "; ".join(reasons)))
    for text in content.get("notes", []):
        write(f"note: {text}")


def _beside(results: Results, experiment: str, write: Write, style: str) -> None:
    """Draw what was printed years ago beside what its repetition gave today, and say what was wrong with it."""
    original = originals.of_experiment(experiment)
    lines = []
    for line in originals.beside(results, experiment):
        figure, today = line.figure, line.today
        if today is not None:
            then, now = (
                ", ".join(f"{k} {v:.3g}" for k, v in more.items()) for more in (figure.more, line.more)
            )
            words = f"{today.value:.3g} [{today.low:.3g}, {today.high:.3g}] {figure.unit}"
            lines.append(
                Line([figure.what, figure.stack, f"{figure.value:g} {figure.unit}", then, words, now])
            )
    if original is None or not lines:
        return
    headings = ["what", "stack", "printed", "", "today [95 %]", ""]
    draw(f"{experiment}, as printed: {original.title}", headings, lines, write, style)
    write(f"  {original.setting}; {original.tool}. What was wrong:")
    for flaw in original.flaws:
        write(f"  - {flaw}")


def _failures(row: Row) -> list[Line]:
    told: dict[str, list[str]] = {}
    for text in row.failures:
        where, _, why = text.partition(": ")
        told.setdefault(why, []).append(where)
    return [
        Line([*row.key[:2], row.name, f"{why[:300]} ({', '.join(rounds)})"], "failed")
        for why, rounds in told.items()
    ]


def _lines(results: Results, rows: list[Row], reference: Row | None) -> list[Line]:
    judge = rows[0].judge
    timed = {row.key: row.estimate(judge) for row in rows}
    best = min((found.value for row in rows if not row.floor and (found := timed[row.key])), default=None)
    band = results.null(rows)
    lines = []
    for row in sorted(rows, key=lambda row: e.value if (e := timed[row.key]) else float("inf")):
        figure, wall = timed[row.key], row.estimate("wall")
        name = row.name + unclean(row)
        if wall is None or figure is None:
            lines.append(Line([name, "FAILED" if row.failures else "no samples", "", "", "", ""], "failed"))
            continue
        against, mood = "", ""
        speed = None
        if reference is not None and row is not reference:
            speed = results.ratio(reference.key, row.key, judge)
        if speed is not None:
            against, mood = interval(speed), "noise" if is_noise(speed, band) else ""
        if figure.value == best and not row.floor:
            mood = "best"
        # Bytes per microsecond are megabytes per second.
        bytes_too = f", {number(row.bytes_each / wall.value)} MB/s" if row.bytes_each else ""
        client, server, rss = (row.estimate(each) for each in ("client", "server", "rss"))
        cells = [
            name,
            _time(wall if judge in ("wall", "client") else figure) + bytes_too,
            (_time(client) if judge == "client" else duration(client.value)) if client else "",
            duration(server.value) if server else "",
            f"{rss.value / 1e6:.0f}" if rss else "",
            against,
        ]
        lines.append(Line(cells, mood))
    return lines


def _noise(results: Results, rows: list[Row]) -> str:
    band = results.null(rows)
    if band is None:
        return ""
    warning = "" if 1 / TRUSTED <= band.value <= TRUSTED else "; TOO NOISY to trust"
    return f"  (noise: the reference against itself {interval(band)}, {floor_words(band)}{warning})"


def _time(found: Estimate) -> str:
    return f"{duration(found.value)} [{duration(found.low)}, {duration(found.high)}]"


def _rich(title: str, headings: Sequence[str], lines: list[Line], write: Write) -> None:
    import io

    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        # Nobody's window limits the width of a file.
        console = Console(width=170, file=io.StringIO())
    styles = {"best": "bold", "noise": "dim", "failed": "red", "": ""}
    table = Table()
    for place, heading in enumerate(headings):
        table.add_column(heading, no_wrap=place == 0)
    for line in lines:
        table.add_row(*(cell.replace("[", "\\[") for cell in line.cells), style=styles[line.mood])
    console.print(f"\n[bold]{title.replace('[', chr(92) + '[')}[/bold]")
    console.print(table)
    if isinstance(console.file, io.StringIO):
        write(console.file.getvalue().rstrip("\n"))
