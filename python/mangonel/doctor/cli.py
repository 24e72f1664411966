"""`mangonel doctor`: the arguments, and the report as text or JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from mangonel._command_line import Parser, add_command, add_uri, number
from mangonel.doctor.report import STEPS, Finding

STATUSES = (
    "exit status: 0 the deployment can be used; 1 something else failed; 2 wrong arguments; "
    "10 a warning, with --strict; 130 Ctrl-C. Else which step failed first: "
    + ", ".join(f"{status} {title}" for title, status in STEPS.values())
)


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Goes step by step: DNS, TCP, TLS, login, replica set. Passwords are never printed.",
        example="""
        mangonel doctor mongodb://db.example.org/?replicaSet=rs1
        mangonel doctor - --json < uri.txt
        """,
        statuses=STATUSES,
    )
    add_uri(
        parser,
        "connection string or host:port; - reads it from standard input, so that no list of processes shows it",
    )
    # A URI that cannot be parsed is a finding with its own exit status.
    parser.set_defaults(checks_uri=False)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--strict", action="store_true", help="exit with 10 when there are warnings")
    parser.add_argument(
        "--timeout",
        type=number(0.001, 86_400, of=float),
        default=5.0,
        metavar="S",
        help="seconds for each connection (default: 5)",
    )
    parser.add_argument(
        "--pings", type=number(1), default=10, metavar="N", help="for the latency (default: 10)"
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Run the check-up, print it and return its exit status."""
    from mangonel.doctor.checkup import examine

    uri = sys.stdin.readline().strip() if options.uri == "-" else options.uri
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def show(finding: Finding) -> None:
        print(_printable(finding.lines(colour=colour)), flush=True)

    report = examine(
        uri, timeout=options.timeout, pings=options.pings, listener=None if options.json else show
    )
    if options.json:
        print(json.dumps(report.as_dict(), indent=2, default=str))
    else:
        print(f"\n{report.verdict()}")
    return report.exit_status(strict=options.strict)


def _printable(text: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
