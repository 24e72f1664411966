"""`mangonel lab first`: plays the five published comparisons and find_one in 90 seconds and prints one screen."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from mangonel.engines.programs import Missing, find_program
from mangonel.lab import comparisons, noise
from mangonel.lab.commands.play import play
from mangonel.lab.comparisons import COMPARISONS, Bar, Finding
from mangonel.lab.experiment import Size
from mangonel.lab.report import charts, page
from mangonel.lab.results import Results

WIDTH = 100
NAME, LENGTH = 31, 36  # columns of names and of bars
EIGHTHS = " ▏▎▍▌▋▊▉"


def first_command(options: argparse.Namespace) -> int:
    """Play, print one screen, write the report. Exit status 1 if a comparison has no result for Mangonel."""
    with contextlib.suppress(Missing):  # installed now, if at all, and not during a measurement
        find_program("redis-server")
    begun = time.monotonic()
    options.experiments = [each.experiment for each in COMPARISONS]
    options.output, options.rounds = options.output / "first.jsonl", 1
    content, status = play(
        options,
        contenders=tuple(dict.fromkeys(name for each in COMPARISONS for name in each.contenders)),
        cast={each.experiment: each.contenders for each in COMPARISONS},
        only={each.experiment: set(each.parts) for each in COMPARISONS},
        # The work is that of the brief form, but parts that only the full form has are included.
        size=Size(brief=True),
        all_of_them=True,
    )
    if content is None:
        return status
    results = Results(content)
    report = options.output.with_suffix(".html")
    report.write_text(page.render(content), encoding="utf-8")
    found = list(comparisons.findings(results))
    for line in screen(results, found, time.monotonic() - begun, report):
        print(line)
    return 0 if len(found) == len(COMPARISONS) else 1


def screen(results: Results, found: list[Finding], seconds: float, report: Path) -> Iterator[str]:
    """Yield the lines of the summary: at most 45 lines of at most 100 characters."""
    told = results.content["fingerprint"]
    where = f"{told['cores']} cores, CPython {told['python']}, MongoDB {told['server'].get('version')}"
    yield f"{told['cpu'][: WIDTH - len(where) - 2]}, {where}"
    build = str(told.get("build", "release")).capitalize()
    yield f"{build} build, {seconds:.0f} s. Bars: time, shorter is faster; behind them, how many times ours [95 %]."
    share = noise.floor(results)
    if share is not None and share > noise.QUIET:
        yield f"noisy: {noise.floor_words(share)}"
    for number, each in enumerate(found, 1):
        yield from _block(number, each)
    for absent in COMPARISONS:
        if absent not in [each.comparison for each in found]:
            yield _cut(f"{absent.title}: no figure of ours; {results.absence(absent.bars[0])[1]}")
    yield f"Report: {os.path.relpath(report)}    all charts, the method, what was wrong with the old figures"
    program = _program()
    yield _cut(f"Next:   {f'{program} lab list, lab run web':<43}  what else there is, and one of it in full")
    yield _cut(
        f"        {f'{program} lab doctor, make bench':<43}  is this machine fit; everything, for hours"
    )


def _program() -> str:
    """Return the words that start this command here: its name, or its path if PATH has another one or none."""
    own = sys.argv[0]
    if os.path.basename(own) != "mangonel" or not os.path.exists(own):
        return "mangonel"
    found = shutil.which("mangonel")
    return "mangonel" if found is not None and os.path.samefile(found, own) else os.path.relpath(own)


def _block(number: int, finding: Finding) -> Iterator[str]:
    comparison = finding.comparison
    then = f" Then: {comparison.then}" if comparison.then else ""
    yield _cut(_bold(f"{number} {comparison.title}."), then)
    most = max((bar.figure.value for bar in finding.bars if bar.figure), default=1.0)
    for bar in finding.bars:
        yield _row(bar, most)
    yield f"  Now: {textwrap.shorten(finding.now, WIDTH - 7, placeholder='…')}"


def _row(bar: Bar, most: float) -> str:
    name = f"  {bar.name[:NAME]:<{NAME}} "
    if bar.figure is None:
        return _cut(f"{name}{bar.reason}")
    eighths = max(1, round(8 * LENGTH * bar.figure.value / most))
    drawn = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    times = comparisons.interval(bar.times) if bar.times else ""
    return f"{name}{drawn:<{LENGTH}} {charts.duration(bar.figure.value):>8} {times}".rstrip()


def _cut(words: str, more: str = "") -> str:
    plain = len(words.replace("\033[1m", "").replace("\033[0m", ""))
    room = WIDTH - plain
    return words[:WIDTH] if plain > WIDTH else words + (more if len(more) <= room else more[: room - 1] + "…")


def _bold(words: str) -> str:
    return f"\033[1m{words}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else words
