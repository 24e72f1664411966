"""`mangonel lab list|show|report|doctor`: what there is, what a file says, and what this machine is like."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mangonel.lab import registry, results, table
from mangonel.lab.experiment import Size


def list_command(options: argparse.Namespace) -> int:
    """Print experiments with who takes part, and who does not and why; then the contenders."""
    contenders = registry.contenders().values()
    for experiment in registry.experiments().values():
        print(f"{experiment.id}: {experiment.title}")
        parts = experiment.parts(Size())
        for part in parts:
            names = [c.id for c in contenders if not part.excludes(c)]
            concern = f", {part.write_concern}" if part.write_concern else ""
            print(f"    {part.id}: {part.title}{concern}  ({', '.join(names)})")
        reasons: dict[str, str] = {}
        for contender in contenders:
            why = [part.excludes(contender) for part in parts]
            if all(why):
                reasons[contender.id] = why[0]
        by_reason: dict[str, str] = {}
        for name, why_not in reasons.items():
            by_reason[why_not] = ", ".join(filter(None, [by_reason.get(why_not, ""), name]))
        for why_not, names_text in by_reason.items():
            print(f"    not: {names_text}: {why_not}")
    print("\ncontenders")
    for contender in contenders:
        reason = contender.missing()
        print(f"    {contender.id}: {contender.title}" + (f"  ({reason})" if reason else ""))
    if any(contender.missing() for contender in contenders):
        print("\n`mangonel lab run --install-peers` installs what is missing")
    return 0


def show_command(options: argparse.Namespace) -> int:
    """Print the tables of a result file."""
    content = read(options.file)
    if content is None:
        return 1
    table.show(content, plain=options.plain)
    return 0


def report_command(options: argparse.Namespace) -> int:
    """Write the HTML report of a result file, or print the README's table."""
    content = read(options.file)
    if content is None:
        return 1
    if options.readme:
        from mangonel.lab.report import readme

        print(readme.render(content), end="")
        return 0
    from mangonel.lab.report import page

    out: Path = options.out or options.file.with_suffix(".html")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page.render(content))
    print(f"report: {out}")
    return 0


def doctor_command(options: argparse.Namespace) -> int:
    """Print what the machine and the server are like. Exit status 1 when measuring here is unfit."""
    from mangonel.lab import doctor as examination

    return examination.run(options.uri)


def read(path: Path) -> dict[str, Any] | None:
    """Return what a result file holds, or None after saying why it cannot be read."""
    try:
        return results.load(path)
    except (OSError, ValueError) as error:
        print(f"cannot read {path}: {error}", file=sys.stderr)
        return None
