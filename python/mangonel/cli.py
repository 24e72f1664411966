"""The command `mangonel`: a table of sub-commands, each a module with its arguments and who runs it.

Must stay light: a sub-command's module is imported when it is named, so that `mangonel --help` is instant. To add one,
write a module with `add_arguments(parser)` and `dispatch(options)`, and give it a row in COMMANDS.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from mangonel._command_line import EXIT_FAILURE, EXIT_INTERRUPTED, UsageProblem
from mangonel._version import __version__

__all__ = ["COMMANDS", "add_command", "main"]

# Name -> its module, what it is for.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("mangonel.server.serve", "run a real mongod on loopback until Ctrl-C"),
    "doctor": ("mangonel.doctor.cli", "say what keeps a client from its deployment, and what to do"),
    "lab": ("mangonel.lab.cli", "compare this driver with its peers on this machine"),
    "gridfs": ("mangonel.gridfs.cli", "store, fetch, list and remove files in a database"),
    "odm": ("mangonel.odm.cli", "look after the indexes, schemas and documents of models"),
    "websessions": ("mangonel.websessions.cli", "look after a store of HTTP sessions"),
    "demo": ("mangonel.demo.cli", "run the demo: a shop's admin pages, live"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="mangonel", description="A MongoDB stack for Python.")
    parser.add_argument("--version", action="version", version=f"mangonel {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        if given[:1] == [name]:
            add_command(commands, name)
        else:
            # Seen in the help and in the message for a slip, and never run.
            commands.add_parser(name, help=COMMANDS[name][1])
    options, unknown = parser.parse_known_args(given)
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


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str) -> None:
    """Add a sub-command with its arguments, which imports its module."""
    where, purpose = COMMANDS[name]
    module = __import__(where, fromlist=["dispatch"])
    parser = commands.add_parser(name, help=purpose, description=purpose)
    parser.set_defaults(parser=parser, run=module.dispatch)
    module.add_arguments(parser)
