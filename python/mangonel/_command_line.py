"""What every sub-command of `mangonel` shares: exit statuses, the error for wrong use.

Must stay light, since the command line loads it first; knows no sub-command.
"""

from __future__ import annotations

__all__ = ["EXIT_FAILURE", "EXIT_INTERRUPTED", "EXIT_USAGE", "UsageProblem"]

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # what a shell reports for Ctrl-C


class UsageProblem(Exception):
    """An argument that parses but cannot be meant; `main` prints it as argparse prints its own."""
