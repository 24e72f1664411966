"""`mangonel lab show|report|marks`: what a result file says."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mangonel._command_line import UsageProblem
from mangonel.lab import results, table


def show_command(options: argparse.Namespace) -> int:
    table.show(read(options.file), style=style(options))
    return 0


def report_command(options: argparse.Namespace) -> int:
    """Write the HTML report of a result file, or the chart of its comparisons."""
    from mangonel.lab.report import page

    content, output = read(options.file), options.output or options.file.with_suffix(".html")
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
    """Print what this driver is held to and what a run reached. Exit status 1 when something was missed."""
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


def style(options: argparse.Namespace) -> str:
    return "markdown" if getattr(options, "markdown", False) else "plain" if options.plain else ""


def read(path: Path) -> dict[str, Any]:
    try:
        return results.load(path)
    except (OSError, ValueError) as error:
        raise UsageProblem(f"cannot read {path}: {error}") from None
