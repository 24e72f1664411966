"""Result files as tables of text: each part, the published comparisons, failures and absences.

The report shows the same tables. Printed with rich if it is installed, otherwise as plain text or in Markdown.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mangonel.lab import originals, registry, scores
from mangonel.lab.comparisons import interval
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import TRUSTED, floor_words, is_noise, unfit
from mangonel.lab.report.charts import duration, number
from mangonel.lab.results import Results, Row, form
from mangonel.lab.sentinel import DISTURBED
from mangonel.lab.statistics import Estimate

Write = Callable[[str], None]
# The figures that may judge a part, besides the latencies of a constant rate.
CLOCKS = ("wall", "client", "user")
STYLES = {"best": "bold", "noise": "dim", "failed": "red", "": ""}


@dataclass
class Line:
    """One row as text, with its style ("", "best", "noise" or "failed") and its figures."""

    cells: list[str]
    mood: str = ""
    row: Row | None = None


class Table(NamedTuple):
    title: str
    headings: Sequence[str]
    lines: list[Line]


def show(content: dict[str, Any], write: Write = print, style: str = "") -> None:
    results = Results(content)
    _head(results, write)
    for _, _, rows in results.parts():
        found = part(results, rows)
        draw(found._replace(title=f"{rows[0].key[0]}: {found.title}{_noise(results, rows)}"), write, style)
    for title, headings, cells in scores.tables(results, registry.title):
        draw(Table(title, headings, [Line(row) for row in cells]), write, style)
    for experiment in content["plan"]["experiments"]:
        original = originals.of_experiment(experiment)
        if original is not None and any(line.today for line in originals.beside(results, experiment)):
            draw(printed(results, experiment), write, style)
            write(f"  {original.setting}; {original.tool}. What was wrong:")
            for flaw in original.flaws:
                write(f"  - {flaw}")
    for found in absent(results):
        draw(found, write, style)


def draw(table: Table, write: Write = print, style: str = "") -> None:
    """Print one table: "plain", in "markdown", or in colours if rich is installed."""
    if not style and importlib.util.find_spec("rich") is not None:
        _rich(table, write)
        return
    rows = [list(table.headings), *(line.cells for line in table.lines)]
    if style == "markdown":
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        rows.insert(1, ["---"] * len(table.headings))
        write(f"\n### {table.title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    write(f"\n{table.title}")
    for row in rows:
        write("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def part(results: Results, rows: list[Row]) -> Table:
    """Return the table of one part, the fastest first; grey rows are indistinguishable from the reference."""
    first, reference, band = rows[0], results.reference(rows), results.null(rows)
    judge, share = first.judge, band.spread() if band else 0.0
    values = {row.key: found.value if (found := row.estimate(judge)) else math.inf for row in rows}
    best = min((values[row.key] for row in rows if not row.floor), default=math.inf)
    lines = []
    for row in sorted(rows, key=lambda row: values[row.key]):
        figure, wall = row.estimate(judge), row.estimate("wall")
        name = row.name + _unclean(row)
        if wall is None or figure is None:
            lines.append(Line([name, "FAILED" if row.failures else "no samples", *[""] * 4], "failed", row))
            continue
        is_base = reference is None or row is reference
        speed = None if is_base or reference is None else results.ratio(reference.key, row.key, judge)
        is_best = figure.value == best and not row.floor
        mood = "noise" if speed is not None and is_noise(speed, share) else "best" if is_best else ""
        client, server, rss = (row.estimate(each) for each in ("client", "server", "rss"))
        cells = [
            name,
            (wall if judge in CLOCKS else figure).words(duration) + speed_words(row, wall),
            _client_words(client, figure, judge) if client else "",
            duration(server.value) if server else "",
            f"{rss.value / 1e6:.0f}" if rss else "",
            interval(speed) if speed else "",
        ]
        if judge == "user" and speed is not None and reference is not None:
            whole = results.ratio(reference.key, row.key, "client")
            cells[-1] += f"; all CPU {interval(whole)}" if whole else ""
        lines.append(Line(cells, mood, row))
    concern = f", {first.write_concern}" if first.write_concern else ""
    by = {"wall": "", "client": "CPU ", "user": "user CPU "}.get(judge, f"{judge} ")
    by += reference.name if reference else ""
    what = f"time per {first.unit}" if judge in CLOCKS else f"{judge} latency"
    headings = ("contender", f"{what} [95 %]", "client CPU", "server CPU", "peak MB", f"against {by}")
    return Table(f"{first.title}{concern}", headings, lines)


def _client_words(client: Estimate, figure: Estimate, judge: str) -> str:
    if judge == "user":
        return f"{duration(client.value)}, user {figure.words(duration)}"
    return client.words(duration) if judge == "client" else duration(client.value)


def speed_words(row: Row, wall: Estimate) -> str:
    """Return the bytes per second after a comma, for a part that reports speed too."""
    # Bytes per microsecond are megabytes per second.
    return f", {number(row.bytes_each / wall.value)} MB/s" if row.bytes_each else ""


def printed(results: Results, experiment: str) -> Table:
    """Return a published comparison's figures beside today's."""
    original = originals.of_experiment(experiment)
    lines = []
    for line in originals.beside(results, experiment):
        figure, today, words = line.figure, line.today, "not measured here"
        then, now = (", ".join(f"{k} {v:.3g}" for k, v in more.items()) for more in (figure.more, line.more))
        if today is not None:
            words = f"{today.words()} {figure.unit}"
        cells = [figure.what, figure.stack, f"{figure.value:g} {figure.unit}", then, words, now]
        lines.append(Line(cells))
    title = f"{experiment}, as printed: {original.title if original else ''}"
    return Table(title, ("what", "stack", "printed", "also printed", "today [95 %]", "also today"), lines)


def absent(results: Results) -> Iterator[Table]:
    """Yield tables of missing figures: failures, absent contenders, workers that ended badly."""
    content = results.content
    failed: dict[tuple[str, str, str, str], list[str]] = {}
    for row in results.rows.values():
        for text in row.failures:
            where, _, why = text.partition(": ")
            failed.setdefault((*row.key[:2], row.name, why[:300]), []).append(where)
    missing: dict[tuple[str, str], list[str]] = {}
    for entry in content["missing"]:
        name = registry.title(entry["contender"]) if entry["contender"] else "everybody"
        missing.setdefault((name, entry["reason"]), []).append(entry["experiment"])
    ended = [
        [e["experiment"], registry.title(e["contender"]), str(e["round"] + 1), _exit_words(e)]
        for e in content["exits"]
    ]
    lines = [[*key[:3], f"{key[3]} ({', '.join(rounds)})"] for key, rounds in failed.items()]
    absences = [[*key, ", ".join(where)] for key, where in missing.items()]
    unclean = f"workers that did not end cleanly, {len(ended)} of {content.get('workers', len(ended))}"
    for title, headings, rows, mood in (
        ("failed: no figure counts", ("experiment", "part", "contender", "why"), lines, "failed"),
        ("not taking part", ("contender", "reason", "experiments"), absences, ""),
        (unclean, ("experiment", "contender", "round", "how"), ended, "failed"),
    ):
        if rows:
            yield Table(title, headings, [Line(cells, mood) for cells in rows])


def method(name: str) -> str:
    """Return in words how a form takes its samples."""
    if name == "brief":
        return "each contender in one process, samples in turn with the others, in shuffled order"
    return "rounds in shuffled order, each contender and round in a process of its own"


def _exit_words(entry: dict[str, Any]) -> str:
    how = entry.get("signal") or f"exit status {entry['status']}"
    words = (entry.get("stderr") or "").strip().splitlines()
    return f"{how}: {words[0][:100]}" if words else str(how)


def _unclean(row: Row) -> str:
    """Return in words how many programs of a row exited with a status other than 0."""
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
    versions = (f"{package} {version}" for package, version in sorted(found["versions"].items()))
    write("versions: " + ", ".join(versions))
    played = {len(cell["rounds"]) for cell in content["cells"] if not cell["failures"]} or {0}
    rounds = " to ".join(map(str, sorted({min(played), max(played)})))
    write(f"{name} form, {rounds} rounds: {method(name)}; medians [95 % interval]")
    if where := placement(found):
        write(where)
    took = [entry["sentinel_ns"] for cell in content["cells"] for entry in cell["rounds"]]
    limit = DISTURBED * min(took, default=0)
    share = round(100 * sum(figure > limit for figure in took) / max(1, len(took)))
    write(f"disturbed: {share} % of the measurements began while the machine was busy with something else")
    if plan.get("plants"):
        write(f"PLANTED slowdowns, to test the lab: {plan['plants']}")
    write("fit to be quoted: " + ("NO: " + "; ".join(reasons) if (reasons := unfit(results)) else "yes"))
    for text in content.get("notes", []):
        write(f"note: {text}")


def _noise(results: Results, rows: list[Row]) -> str:
    band = results.null(rows)
    if band is None:
        return ""
    warning = "" if 1 / TRUSTED <= band.value <= TRUSTED else "; TOO NOISY to trust"
    told = floor_words(band.spread())
    return f"  (noise: the reference against itself {interval(band)}, {told}{warning})"


def _rich(table: Table, write: Write) -> None:
    import io

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Frame

    console = Console()
    if not console.is_terminal:
        # A file has no window whose width would limit it.
        console = Console(width=170, file=io.StringIO())
    frame = Frame()
    for place, heading in enumerate(table.headings):
        frame.add_column(heading, no_wrap=place == 0)
    for line in table.lines:
        frame.add_row(*map(escape, line.cells), style=STYLES[line.mood])
    console.print(f"\n[bold]{escape(table.title)}")
    console.print(frame)
    if isinstance(console.file, io.StringIO):
        write(console.file.getvalue().rstrip("\n"))
