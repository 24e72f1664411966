"""`mangonel lab show|report|doctor`: what a result file says, and what this machine is like."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mangonel.lab import results, table


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
