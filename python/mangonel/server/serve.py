"""`mangonel serve`: a server in the foreground. Knows the command line, not how to start a server."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time
from typing import Any

from mangonel._command_line import EXIT_FAILURE, PORTS, Parser, UsageProblem, add_command, number
from mangonel.server.errors import ServerError
from mangonel.server.launch import has_record, start
from mangonel.server.server import Member, Server

__all__ = ["add_arguments", "dispatch"]

PORT = 27017
LOOK_S = 0.2
RESTART = "restart"


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Prints its URI alone on standard output. Of a replica set a member may end: the others go on, "
        "it is named, and Enter (or a line 'restart' on standard input) starts it again.",
        example="""
        mangonel serve
        mangonel serve --replica-set 3 --dbpath data
        """,
        statuses="exit status: 0 ended by Ctrl-C; 1 mongod did not start, or ended by itself; 2 wrong arguments; "
        "130 Ctrl-C before it ran",
    )
    parser.add_argument(
        "--replica-set", type=number(0, 50), default=0, metavar="N", help="members; 0 is a standalone (0)"
    )
    parser.add_argument("--dbpath", metavar="DIR", help="keep the data here (default: temporary)")
    parser.add_argument(
        "--port", type=number(*PORTS), metavar="P", help="first port; 0 takes free ones (27017)"
    )
    parser.add_argument("--auth", metavar="USER:PASSWORD", help="turn access control on, with this user")
    parser.add_argument(
        "--set-parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the server, as enableTestCommands=1; may be repeated",
    )
    parser.add_argument(
        "--mongod", metavar="PATH", help="the program (default: MANGONEL_MONGOD, PATH, wheel)"
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Start the server, print only its URI to standard output, and wait for Ctrl-C.

    If a standalone exits by itself, so does the command. If a member of a replica set exits, the others continue: the
    command names the member, and a line "restart" on standard input, or Enter on a terminal, starts it again.
    """
    auth, parameters = _auth(options.auth), _parameters(options.set_parameter)
    # A plain `kill` ends it as Ctrl-C does: members cleanly, temporary data removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server = start(
            options.replica_set,
            options.dbpath,
            _port(options),
            auth,
            set_parameters=parameters,
            mongod=options.mongod,
        )
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    except ServerError as error:
        advice = "; --port 0 takes a free one" if "is taken" in str(error) else ""
        print(f"mangonel serve: {error}{advice}", file=sys.stderr)
        return EXIT_FAILURE
    with server:
        print(server.uri, flush=True)
        version = ".".join(map(str, server.version))
        kept = f"data in {server.dbpath}" if options.dbpath else "temporary data"
        _say(f"MongoDB {version}, {kept}; Ctrl-C stops it")
        try:
            _watch(server)
        except KeyboardInterrupt:
            return 0
        for member in server.members:
            if not member.is_running:
                # Temporary data is removed now, and the log with it.
                status = member._process.exit_status()
                _say(f"mangonel serve: mongod ended by itself: {member.address}, exit status {status}")
                _say(member._process.log_tail())
        return EXIT_FAILURE


def _watch(server: Server) -> None:
    """Report members that exit, restart them on request, and return once a standalone has exited."""
    is_read, begun, known = True, "", set[Member]()
    while True:
        ended = [member for member in server.members if not member.is_running]
        if ended and len(server.members) == 1:
            return
        for member in ended:
            if member not in known:
                _say(_loss(member, len(server.members) - len(ended), len(server.members), is_read))
        known = set(ended)
        if not is_read or sys.stdin is None:
            time.sleep(LOOK_S)
            continue
        if select.select([sys.stdin], [], [], LOOK_S)[0]:
            # Not with readline, whose buffer hides later lines from select.
            read = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
            is_read = bool(read)
            *lines, begun = (begun + read).split("\n")
            for line in map(str.strip, lines):
                if line in ("", RESTART):
                    _restart([member for member in ended if not member.is_running])
                else:
                    _say(f"expected a line {RESTART!r}, or an empty one, got {line!r}")


def _loss(member: Member, left: int, total: int, is_read: bool) -> str:
    """Return a message with the member that exited, the consequence, and how to restart it."""
    told = f"{member.address} ended, {left} of {total} run"
    if 2 * left <= total:
        told += ", too few for a primary: writes wait"
    if not is_read or sys.stdin is None:
        return f"{told}; standard input is closed, so it stays down"
    how = "press Enter" if sys.stdin.isatty() else f"send a line {RESTART!r}"
    return f"{told}; {how} to start it again"


def _restart(members: list[Member]) -> None:
    for member in members:
        try:
            member.restart()
        except ServerError as error:
            _say(f"mangonel serve: {error}")
        else:
            _say(f"{member.address} runs again")


def _port(options: argparse.Namespace) -> int:
    """Return the first port: MongoDB's default, so that URIs need no editing, unless kept data has recorded ports."""
    if options.port is not None:
        return int(options.port)
    return 0 if options.dbpath and has_record(options.dbpath) else PORT


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _auth(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise UsageProblem("expected USER:PASSWORD in --auth")
    return user, password


def _parameters(texts: list[str]) -> dict[str, str]:
    parameters = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageProblem(f"expected NAME=VALUE in --set-parameter, got {text!r}")
        parameters[name] = value
    return parameters
