"""`mangonel serve`: a server in the foreground. Knows the command line, not how a server starts."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType

from mangonel._command_line import EXIT_FAILURE, UsageProblem
from mangonel.server.errors import ServerError
from mangonel.server.launch import start

__all__ = ["serve"]


def serve(options: argparse.Namespace) -> int:
    """Start it, print its URI alone on standard output, and wait for Ctrl-C or the end of a member."""
    auth, parameters = _auth(options.auth), _parameters(options.set_parameter)
    # A plain `kill` should end it as Ctrl-C does: members cleanly, temporary data removed.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        server = start(
            options.replica_set,
            options.dbpath,
            options.port,
            auth,
            set_parameters=parameters,
            mongod=options.mongod,
        )
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    except (ServerError, OSError) as error:
        print(f"mangonel serve: {error}", file=sys.stderr)
        return EXIT_FAILURE
    with server:
        print(server.uri, flush=True)
        version = ".".join(map(str, server.version))
        kept = f"data in {server.dbpath}" if options.dbpath else "temporary data"
        print(f"MongoDB {version}, {kept}; Ctrl-C stops it", file=sys.stderr, flush=True)
        try:
            while all(member.is_running for member in server.members):
                time.sleep(0.2)
        except KeyboardInterrupt:
            return 0
        ended = ", ".join(member.address for member in server.members if not member.is_running)
        print(f"mangonel serve: mongod ended by itself: {ended}", file=sys.stderr)
        return EXIT_FAILURE


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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
