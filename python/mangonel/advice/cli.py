"""`mangonel advise`: the arguments, and the report as text or JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mangonel._command_line import EXIT_FAILURE, Parser, add_command, add_uri


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Reads the profiler's entries and $indexStats; changes nothing.",
        example="""
        mangonel advise mongodb://localhost:27017
        mangonel advise --database shop --json
        """,
        failure="there is advice, or something could not be read",
    )
    add_uri(parser)
    parser.add_argument(
        "--database",
        action="append",
        default=[],
        metavar="NAME",
        help="look at this database; may be repeated (default: all but the server's own)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Examine the server, print the report and return the exit status."""
    from mangonel._opened import opened
    from mangonel.advice.report import examine

    with opened("mangonel advise", options.uri, advise=False) as client:
        report = examine(client, options.database)
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        for one in report.advice:
            print(f"{one.kind}: {one.namespace}: {one.text}")
        for note in report.notes:
            print(f"note: {note}")
        if not report.advice:
            print("nothing to advise" + (" of what could be read" if report.unread else ""))
    return EXIT_FAILURE if report.advice or report.unread else 0
