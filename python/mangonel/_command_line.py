"""What every sub-command of `mangonel` shares: exit statuses, the error for wrong use, how a command is added.

Must stay light, since the command line loads it first; knows no sub-command.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

__all__ = ["EXIT_FAILURE", "EXIT_INTERRUPTED", "EXIT_USAGE", "UsageProblem", "add_command"]

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # what a shell reports for Ctrl-C


class UsageProblem(Exception):
    """An argument that parses but cannot be meant; `main` prints it as argparse prints its own."""


def add_command(commands: Commands, name: str, help: str) -> argparse.ArgumentParser:
    """Add a sub-command; the caller adds its arguments and `set_defaults(run=…)`."""
    parser = commands.add_parser(name, help=help, description=help)
    parser.set_defaults(parser=parser)
    return parser
