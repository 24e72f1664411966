"""Prints a result file: one table per experiment, the noise, the absent, the unclean exits.

Uses rich where it is installed and plain text elsewhere; both show the same words.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangonel.lab import originals, registry, scores
from mangonel.lab.fingerprint import machine, placement
from mangonel.lab.noise import TRUSTED, unfit
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import Estimate

DISTURBED = 1.25  # a part whose sentinel took so many times the run's best began on a busy machine

WILD = 3.0  # a noise floor beyond which its figure means nothing

Write = Callable[[str], None]
HEADINGS = (
    "contender",
    "time per {unit} [95 %]",
    "client CPU",
    "server CPU",
    "peak MB",
    "against {reference}",
)


@dataclass
class Line:
    """One row as text, with how it is drawn: "", "best", "noise" or "failed"."""

    cells: list[str]
    mood: str = ""


def show(content: dict[str, Any], write: Write = print, plain: bool = False) -> None:
    """Print everything a result file says."""
    results = Results(content)
    draw = _drawer(plain)
    _head(results, write)
    failures = []
    for experiment, _, rows in results.parts():
        reference = results.reference(rows)
        concern = f", {rows[0].write_concern}" if rows[0].write_concern else ""
        title = f"{experiment}: {rows[0].title}{concern}{_noise(results, rows)}"
        name = reference.name if reference else "the reference"
        judge = rows[0].judge
        by = {"wall": "", "client": "CPU "}.get(judge, f"{judge} ")
        headings = [text.format(unit=rows[0].unit, reference=by + name) for text in HEADINGS]
        if judge not in ("wall", "client"):
            headings[1] = f"{judge} latency [95 %]"
        draw(title, headings, _lines(results, rows, reference), write)
        failures += [line for row in rows for line in _failures(row)]
    for title, headings, cells in scores.tables(results, registry.title):
        draw(title, headings, [Line(row) for row in cells], write)
    for experiment in content["plan"]["experiments"]:
        _beside(results, experiment, draw, write)
    tables = (
        ("failed: no figure counts", ["experiment", "part", "contender", "why"], failures),
        ("not taking part", ["contender", "reason", "experiments"], _missing(content)),
        ("workers that did not end cleanly", ["experiment", "contender", "round", "how"], _exits(content)),
    )
    for title, headings, lines in tables:
        if lines:
            draw(title, headings, lines, write)


def _beside(results: Results, experiment: str, draw: Callable[..., None], write: Write) -> None:
    """Draw what was printed years ago beside what its repetition gave today, and say what was wrong with it."""
    original = originals.of_experiment(experiment)
    measured = [line for line in originals.beside(results, experiment) if line.today is not None]
    if original is None or not measured:
        return
    lines = [
        Line(
            [
                line.figure.what,
                line.figure.stack,
                f"{line.figure.value:g} {line.figure.unit}",
                _columns(line.figure.more),
                _figure(line.today, line.figure.unit) if line.today else "",
                _columns(line.more),
            ]
        )
        for line in measured
    ]
    draw(
        f"{experiment}, as printed: {original.title}",
        ["what", "stack", "printed", "", "today [95 %]", ""],
        lines,
        write,
    )
    write(f"  {original.setting}; {original.tool}. What was wrong:")
    for flaw in original.flaws:
        write(f"  - {flaw}")


def draw(
    title: str, headings: list[str], lines: list[Line], write: Write = print, plain: bool = False
) -> None:
    """Print one table."""
    _drawer(plain)(title, headings, lines, write)


def _drawer(plain: bool) -> Callable[[str, list[str], list[Line], Write], None]:
    return _plain if plain or importlib.util.find_spec("rich") is None else _rich


def _columns(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in figures.items())


def _head(results: Results, write: Write) -> None:
    content = results.content
    found, plan = content["fingerprint"], content["plan"]
    server = found["server"]
    write(f"{found['date']}  {machine(found)}")
    write(
        f"mongod {server.get('version')} ({server.get('topology')}, ping {server.get('ping_us')} µs); "
        f"seed {plan['seed']}, load {found['load'][0]}, commit {found['commit']}"
    )
    versions = sorted(found["versions"].items())
    write("versions: " + ", ".join(f"{name} {version}" for name, version in versions))
    played = {len(cell["rounds"]) for cell in content["cells"] if not cell["failures"]} or {0}
    rounds = f"{min(played)}" if len(played) == 1 else f"{min(played)} to {max(played)}"
    how = (
        "samples in turn, in shuffled order"
        if form(plan) == "brief"
        else "rounds in shuffled order, in new processes"
    )
    write(f"{form(plan)} form, {rounds} {how}; medians [95 % interval]")
    if where := placement(found):
        write(where)
    write(_disturbance(content))
    if plan.get("plants"):
        write(f"PLANTED slowdowns, to test the lab: {plan['plants']}")
    reasons = unfit(results)
    write("fit to be quoted: " + ("yes" if not reasons else "NO: " + "; ".join(reasons)))
    for text in content.get("notes", []):
        write(f"note: {text}")


def _disturbance(content: dict[str, Any]) -> str:
    took = [entry["sentinel_ns"] for cell in content["cells"] for entry in cell["rounds"]]
    busy = sum(figure > DISTURBED * min(took) for figure in took)
    share = round(100 * busy / len(took)) if took else 0
    return f"disturbed: {share} % of the measurements began while the machine was busy with something else"


def _missing(content: dict[str, Any]) -> list[Line]:
    told: dict[tuple[str, str], list[str]] = {}
    for entry in content["missing"]:
        told.setdefault((entry["contender"], entry["reason"]), []).append(entry["experiment"])
    return [
        Line([registry.title(name) if name else "everybody", reason, ", ".join(names)])
        for (name, reason), names in told.items()
    ]


def _failures(row: Row) -> list[Line]:
    told: dict[str, list[str]] = {}
    for text in row.failures:
        where, colon, why = text.partition(": ")
        told.setdefault(why if colon else text, []).append(where if colon else "")
    experiment, part, _ = row.key
    return [
        Line(
            [experiment, part, row.name, f"{why[:300]} ({', '.join(filter(None, rounds))})"],
            "failed",
        )
        for why, rounds in told.items()
    ]


def _exits(content: dict[str, Any]) -> list[Line]:
    return [
        Line([e["experiment"], registry.title(e["contender"]), str(e["round"] + 1), _exit(e)], "failed")
        for e in content["exits"]
    ]


def _unclean(row: Row) -> str:
    """Return how many of the programs a row ran ended otherwise than with status 0, as words."""
    bad = total = 0
    for entry in row.rounds:
        for sample in entry["samples"]:
            extras = sample["extras"]
            if "exits" in extras:
                bad, total = bad + int(extras["unclean"]), total + int(extras["exits"])
            elif "exit_status" in extras:
                bad, total = bad + (extras["exit_status"] != 0), total + 1
    return f" ({bad} of {total} exits unclean)" if bad else ""


def _lines(results: Results, rows: list[Row], reference: Row | None) -> list[Line]:
    judge = rows[0].judge
    timed = {row.key: row.estimate(judge) for row in rows}
    contending = [row for row in rows if not row.floor]
    known = {row.key: timed[row.key] for row in contending}
    best = min((e.value for e in known.values() if e is not None), default=None)
    band = results.null(rows)
    lines = []
    for row in sorted(rows, key=lambda row: e.value if (e := timed[row.key]) else float("inf")):
        figure, wall = timed[row.key], row.estimate("wall")
        name = row.name + _unclean(row)
        if wall is None or figure is None:
            lines.append(Line([name, "FAILED" if row.failures else "no samples", "", "", "", ""], "failed"))
            continue
        against, mood = "", ""
        if reference is not None and row is not reference:
            speed = results.ratio(reference.key, row.key, judge)
            if speed is not None:
                against = f"{speed.value:.2f}x [{speed.low:.2f}, {speed.high:.2f}]"
                mood = "noise" if is_noise(speed, band) else ""
        if best is not None and row in contending and figure.value == best:
            mood = "best"
        client, rss = row.estimate("client"), row.estimate("rss")
        lines.append(
            Line(
                [
                    name,
                    _time(wall if judge in ("wall", "client") else figure) + _speed(row, wall),
                    _time(client) if judge == "client" and client else _short(client),
                    _short(row.estimate("server")),
                    f"{rss.value / 1e6:.0f}" if rss else "",
                    against,
                ],
                mood,
            )
        )
    return lines


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


def _noise(results: Results, rows: list[Row]) -> str:
    band = results.null(rows)
    if band is None:
        return ""
    warning = "" if 1 / TRUSTED <= band.value <= TRUSTED else "; TOO NOISY to trust"
    return (
        f"  (noise: the reference against itself {band.value:.2f} [{band.low:.2f}, {band.high:.2f}], "
        f"{floor_words(band)}{warning})"
    )


def _exit(entry: dict[str, Any]) -> str:
    how = entry.get("signal") or f"exit status {entry['status']}"
    words = (entry.get("stderr") or "").strip().splitlines()
    return f"{how}: {words[0][:100]}" if words else str(how)


def _unit(value: float) -> tuple[float, str]:
    if value < 1:
        return 1000.0, "ns"
    return (1.0, "µs") if value < 10_000 else (0.001, "ms")


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _time(found: Estimate) -> str:
    factor, unit = _unit(found.value)
    value, low, high = (_number(figure * factor) for figure in (found.value, found.low, found.high))
    return f"{value} {unit} [{low}, {high}]"


def _speed(row: Row, wall: Estimate) -> str:
    # Bytes per microsecond are megabytes per second.
    return f", {_number(row.bytes_each / wall.value)} MB/s" if row.bytes_each else ""


def _short(found: Estimate | None) -> str:
    if found is None:
        return ""
    factor, unit = _unit(found.value)
    return f"{_number(found.value * factor)} {unit}"


def _figure(found: Estimate, unit: str) -> str:
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}] {unit}".strip()


def _plain(title: str, headings: list[str], lines: list[Line], write: Write) -> None:
    table = [headings, *(line.cells for line in lines)]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    write(f"\n{title}")
    for row in table:
        write("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich(title: str, headings: list[str], lines: list[Line], write: Write) -> None:
    import io

    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        # Nobody's window limits the width of a file.
        console = Console(width=170, file=io.StringIO())
    styles = {"best": "bold", "noise": "dim", "failed": "red", "": ""}
    table = Table()
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0)
    for line in lines:
        table.add_row(*(cell.replace("[", "\\[") for cell in line.cells), style=styles[line.mood])
    console.print(f"\n[bold]{title.replace('[', chr(92) + '[')}[/bold]")
    console.print(table)
    if isinstance(console.file, io.StringIO):
        write(console.file.getvalue().rstrip("\n"))
