"""`mangonel lab show|report|marks|compare|guard|aa`: reads result files, and finds changes between two.

Two runs never take place at the same time. If both have the reference contender, the comparison uses ratios to it,
which a drift of the machine does not affect. A change counts if its interval excludes 1, if it exceeds both 3 % and the
reference's noise in either run, and if it survives the Benjamini-Hochberg procedure over all cells.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mangonel._command_line import EXIT_USAGE, UsageProblem, write_output
from mangonel.lab import registry, results, statistics, table
from mangonel.lab.commands.play import play, style
from mangonel.lab.fingerprint import differences
from mangonel.lab.noise import is_noise
from mangonel.lab.record import Key
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import Estimate, median


def show_command(options: argparse.Namespace) -> int:
    table.show(read(options.file), style=style(options))
    return 0


def report_command(options: argparse.Namespace) -> int:
    """Write the HTML report of a result file, or the chart of its comparisons."""
    from mangonel.lab.report import page

    content, output = read(options.file), options.output or options.file.with_suffix(".html")
    if str(output) == "-":
        write_output(page.render(content), "-")
        return 0
    texts = (
        {output: page.render(content)}
        if output.suffix != ".svg"
        else {output.with_stem(f"{output.stem}-{name}"): svg for name, svg in page.pictures(content).items()}
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        print(f"report: {path}")
    return 0


def marks_command(options: argparse.Namespace) -> int:
    """Print the marks that this driver must reach and the figures of a run. Exit status 1 if a mark was missed."""
    from mangonel.lab import marks

    judged = marks.verdicts(results.Results(read(options.file)))
    lines = []
    for each in judged:
        mood = "best" if each.met else "failed" if each.state == marks.MISSED else "noise"
        cells = [each.mark.experiment, each.mark.text, each.asked, each.words, each.state]
        lines.append(table.Line(cells, mood))
    headings = ["experiment", "what", "asked", "reached [95 %]", "state"]
    table.draw(table.Table(f"marks: {marks.counts(judged)}", headings, lines), style=style(options))
    return int(any(each.state == marks.MISSED for each in judged))


def read(path: Path) -> dict[str, Any]:
    try:
        return results.load(path)
    except OSError as error:
        raise UsageProblem(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zlib.error) as error:
        raise UsageProblem(f"cannot read {path}: {error}") from None


ENOUGH = 0.95
RATIO = "{:.3f}".format
MOODS = {"slower": "failed", "faster": "best", "same": "noise"}


def compare_command(options: argparse.Namespace) -> int:
    """Print the changes. Exit status 2 if the runs are not comparable, 1 for a loss beyond `--fail-on`."""
    found = _compared(options, read(options.before), read(options.after))
    if found is None:
        return EXIT_USAGE
    _print(options, found)
    return int(options.fail_on is not None and bool(_losses(found, options.fail_on)))


def guard_command(options: argparse.Namespace) -> int:
    """Fail if this driver lost more than allowed, beyond the noise; if asked, play the baseline's experiments first."""
    before = read(options.baseline)
    after = read(options.after) if options.after else _play_again(options, before)
    found = _compared(options, before, after) if after is not None else None
    if found is None:
        return EXIT_USAGE
    guarded = [change for change in found if change.key[2].startswith(options.contender)]
    if not guarded:
        print(f"nothing to guard: no cell of {options.contender}* is in both runs", file=sys.stderr)
        return EXIT_USAGE
    _print(options, guarded)
    losses, allowed = _losses(guarded, options.max_loss), f"{100 * options.max_loss:.0f} %"
    for change in losses:
        lost = f"{100 * (change.ratio.value - 1):.1f} % slower"
        print(f"LOST: {' '.join(change.key)}: {lost}, allowed {allowed}")
    print(f"{len(losses)} of {len(guarded)} guarded figures lost more than {allowed}")
    return int(bool(losses))


def aa_command(options: argparse.Namespace) -> int:
    """Print in how many cells the interval of a contender's ratio to itself includes 1. Exit status 1 below 95 %."""
    content = read(options.file) if options.file is not None else play(options, twice=True)[0]
    if content is None:
        return EXIT_USAGE
    held, bad = against_itself(Results(content))
    total = held + len(bad)
    for text in bad:
        print(f"    {text}")
    if not total:
        print("no contender played twice", file=sys.stderr)
        return EXIT_USAGE
    share = f"{held} of {total} cells ({100 * held / total:.1f} %)"
    print(f"in {share} the interval of a contender against itself holds 1")
    return int(held < ENOUGH * total)


def against_itself(results: Results) -> tuple[int, list[str]]:
    """Return how many null controls include 1, and a line for each that does not."""
    held, bad = 0, []
    for experiment, part, rows in results.parts():
        for row in rows:
            band = results.null(rows, row.key[2]) if not row.key[2].endswith(registry.AGAIN) else None
            if band is not None and band.excludes(1.0):
                bad.append(f"{experiment} {part} {row.name}: {band.words(RATIO)}")
            else:
                held += band is not None
    return held, bad


def _compared(
    options: argparse.Namespace, before: dict[str, Any], after: dict[str, Any]
) -> list[Change] | None:
    one, other = Results(before), Results(after)
    reasons = obstacles(one, other)
    for reason in reasons:
        print(f"{'forced over' if options.force else 'cannot compare'}: {reason}", file=sys.stderr)
    if reasons and not options.force:
        print("--force compares nevertheless", file=sys.stderr)
        return None
    return changes(one, other, options.absolute)


def _losses(found: list[Change], limit: float) -> list[Change]:
    return [change for change in found if change.word == "slower" and change.ratio.value > 1 + limit]


def _print(options: argparse.Namespace, found: list[Change]) -> None:
    lines = []
    for change in sorted(found, key=lambda each: -each.ratio.value):
        ratio, share = change.ratio.words(RATIO), f"{100 * change.noise:.0f} %"
        cells = [*change.key[:2], change.name, ratio, share, change.word]
        lines.append(table.Line(cells, MOODS[change.word]))
    stand = sum(change.stands for change in found)
    kind = "against the reference of the same run" if any(c.relative for c in found) else "as they are"
    title = f"{stand} of {len(found)} figures changed beyond the noise (times {kind}, after over before)"
    headings = ["experiment", "part", "contender", "time after / before [95 %]", "noise", "change"]
    table.draw(table.Table(title, headings, lines), style=style(options))


def _play_again(options: argparse.Namespace, baseline: dict[str, Any]) -> dict[str, Any] | None:
    plan, known = baseline["plan"], registry.contenders()
    playing = argparse.Namespace(
        experiments=plan["experiments"],
        quick=plan["quick"],
        brief=plan.get("form") == "brief",
        rounds=plan["rounds"],
        budget=plan["budget_s"],
        uri=options.uri,
        output=Path("results") / "guard.jsonl",
        set=[f"{name}={value}" for name, value in plan["parameters"].items()],
    )
    return play(playing, contenders=tuple(name for name in plan["contenders"] if name in known))[0]


SMALLEST = 0.03


@dataclass(frozen=True)
class Change:
    """One cell that both runs have."""

    key: Key
    title: str
    name: str
    ratio: Estimate  # time after divided by time before; more than 1 is slower
    noise: float  # how far from 1 a ratio may be by noise alone
    relative: bool  # compares ratios to the reference of the same run, not times
    stands: bool = False  # the change is beyond the noise

    @property
    def word(self) -> str:
        return "same" if not self.stands else "slower" if self.ratio.value > 1 else "faster"


def obstacles(before: Results, after: Results) -> list[str]:
    """Return why two runs are not comparable: different machines, servers or work."""
    found = differences(before.content["fingerprint"], after.content["fingerprint"])
    forms = [form(each.content["plan"]) for each in (before, after)]
    if forms[0] != forms[1]:
        found.append(f"one run has the {forms[0]} form, the other the {forms[1]} one")
    if before.content["plan"].get("parameters", {}) != after.content["plan"].get("parameters", {}):
        found.append("the runs have other parameters")
    tells: dict[str, Callable[[Row], object]] = {
        "version": lambda row: row.version,
        "equipment": lambda row: row.equipment or "not kept anywhere",
    }
    for what, tell in tells.items():
        one, other = ({row.key[0]: tell(row) for row in each.rows.values()} for each in (before, after))
        for name in sorted(one.keys() & other.keys()):
            if one[name] != other[name]:
                found.append(f"{what} of {name}: {one[name]} and {other[name]}")
    return found


def changes(before: Results, after: Results, absolute: bool = False) -> list[Change]:
    """Return a change for every cell with a figure in both runs; changes that count are marked."""
    found = list(_changes(before, after, absolute))
    significant = statistics.discoveries([statistics.p_value(change.ratio) for change in found])
    return [
        dataclasses.replace(change, stands=is_significant and not is_noise(change.ratio, change.noise))
        for change, is_significant in zip(found, significant, strict=True)
    ]


def _changes(before: Results, after: Results, absolute: bool) -> Iterator[Change]:
    others = {(experiment, part): rows for experiment, part, rows in after.parts()}
    for experiment, part, rows in before.parts():
        same = others.get((experiment, part))
        if same is None:
            continue
        reference = None if absolute else _shared_reference(before, after, rows, same)
        bands = [
            band.spread() for each, group in ((before, rows), (after, same)) if (band := each.null(group))
        ]
        noise = max([SMALLEST, *bands])
        for row in rows:
            other = after.rows.get(row.key)
            is_control = row.key[2].endswith(registry.AGAIN) or (reference and row.key[2] == reference)
            if other is None or is_control or not (_has_figure(row) and _has_figure(other)):
                continue
            old, new = _figures(before, row, reference), _figures(after, other, reference)
            if old and new:
                apart = [each.between_processes(row.key[0], row.judge) for each in (before, after)]
                ratio = statistics.change(old, new).wider(math.hypot(*apart))
                yield Change(row.key, row.title, row.name, ratio, noise, reference is not None)


def _shared_reference(before: Results, after: Results, rows: list[Row], same: list[Row]) -> str | None:
    names = [found.key[2] for found in (before.reference(rows), after.reference(same)) if found is not None]
    return names[0] if len(names) == 2 and names[0] == names[1] else None


def _has_figure(row: Row) -> bool:
    return not row.failures and bool(row.per_round(row.judge))


def _figures(results: Results, row: Row, reference: str | None) -> list[list[float]]:
    """Return the samples of a cell per round, divided by the reference's median of the same round."""
    own = row.per_round(row.judge)
    if reference is None:
        return list(own.values())
    base = results.rows[row.key[0], row.key[1], reference].per_round(row.judge)
    return [
        [sample / middle for sample in samples]
        for number, samples in own.items()
        if number in base and (middle := median(base[number])) > 0
    ]
