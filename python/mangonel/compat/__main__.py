"""`python -m mangonel.compat [-m] SCRIPT [ARGUMENT ...]`: run a program written for PyMongo or Motor on this driver."""

from __future__ import annotations

import os
import runpy
import sys

from mangonel.compat import install_as_motor

USAGE = "usage: python -m mangonel.compat [-m] SCRIPT [ARGUMENT ...]"


def main(arguments: list[str]) -> int:
    """Run the program; its exit status is the process's."""
    as_module = arguments[:1] == ["-m"]
    program = arguments[1:] if as_module else arguments
    if not program or program[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if program else sys.stderr)
        return 0 if program else 2
    install_as_motor()
    sys.argv = program
    if as_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
