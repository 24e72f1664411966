"""The command `mangonel`: one small function per sub-command, which names its arguments and who runs it.

Must stay light: whatever a sub-command needs is imported when it runs, so that `mangonel --help` is instant, and the
arguments of one are made when it is asked for. To add one, write `_name(commands)` below and put it into COMMANDS.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mangonel._command_line import EXIT_FAILURE, EXIT_INTERRUPTED, UsageProblem, add_command
from mangonel._version import __version__

__all__ = ["main"]

if TYPE_CHECKING:
    from mangonel._command_line import Commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit status.

    Each sub-command sets `run`, a function of the parsed arguments that returns an exit status.
    """
    parser = argparse.ArgumentParser(prog="mangonel", description="A MongoDB stack for Python.")
    parser.add_argument("--version", action="version", version=f"mangonel {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for register in _asked_for(sys.argv[1:] if arguments is None else arguments):
        register(commands)
    options, unknown = parser.parse_known_args(arguments)
    # argparse would blame the main parser, whose usage line does not help.
    chosen: argparse.ArgumentParser = options.parser
    if unknown:
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}")
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except UsageProblem as problem:
        chosen.error(str(problem))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as in `mangonel … | head`; it knows.
        sys.stderr.close()
        return EXIT_FAILURE


def _asked_for(arguments: Sequence[str]) -> Sequence[Callable[[Commands], None]]:
    """Return the one sub-command that is named first; none for the version; all for the help and for a slip."""
    first = next(iter(arguments), "")
    if first == "--version":
        return ()
    return [register for register in COMMANDS if register.__name__ == f"_{first}"] or COMMANDS


def _serve(commands: Commands) -> None:
    parser = add_command(commands, "serve", "run a real mongod on loopback until Ctrl-C")
    parser.add_argument("--replica-set", type=int, default=0, metavar="N", help="members; 0 is a standalone")
    parser.add_argument("--dbpath", metavar="DIR", help="keep the data here (default: temporary)")
    parser.add_argument("--port", type=int, metavar="P", help="first port; 0 takes free ones (27017)")
    parser.add_argument("--auth", metavar="USER:PASSWORD", help="turn access control on, with this user")
    parser.add_argument("--set-parameter", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--mongod", metavar="PATH", help="the program (default: MANGONEL_MONGOD, PATH, wheel)"
    )

    def run(options: argparse.Namespace) -> int:
        from mangonel.server.serve import serve

        return serve(options)

    parser.set_defaults(run=run)


def _lab(commands: Commands) -> None:
    from mangonel.lab.cli import add_arguments, dispatch

    parser = add_command(commands, "lab", "compare this driver with its peers on this machine")
    add_arguments(parser)
    parser.set_defaults(run=dispatch)


def _odm(commands: Commands) -> None:
    from mangonel.odm.cli import add_arguments, dispatch

    parser = add_command(commands, "odm", "look after the indexes, schemas and documents of models")
    add_arguments(parser)
    parser.set_defaults(run=dispatch)


def _websessions(commands: Commands) -> None:
    from mangonel.websessions.cli import add_arguments, dispatch

    parser = add_command(commands, "websessions", "look after a store of HTTP sessions")
    add_arguments(parser)
    parser.set_defaults(run=dispatch)


def _gridfs(commands: Commands) -> None:
    from mangonel.gridfs.cli import add_arguments, dispatch

    parser = add_command(commands, "gridfs", "store, fetch, list and remove files in a database")
    add_arguments(parser)
    parser.set_defaults(run=dispatch)


def _demo(commands: Commands) -> None:
    from mangonel.demo.cli import add_arguments

    add_arguments(add_command(commands, "demo", "run the demo: a shop's admin pages, live"))


def _doctor(commands: Commands) -> None:
    from mangonel.doctor.cli import add_arguments, dispatch

    parser = add_command(commands, "doctor", "say what keeps a client from its deployment, and what to do")
    add_arguments(parser)
    parser.set_defaults(run=dispatch)


COMMANDS: tuple[Callable[[Commands], None], ...] = (_serve, _doctor, _lab, _gridfs, _odm, _websessions, _demo)
