"""`python -m mangonel.compat SCRIPT [ARGUMENT ...]`: run a program written for PyMongo or Motor on this driver."""

from __future__ import annotations

import os
import runpy
import sys

from mangonel.compat import install_as_motor

USAGE = """\
usage: python -m mangonel.compat SCRIPT [ARGUMENT ...]
       python -m mangonel.compat -m MODULE [ARGUMENT ...]
       python -m mangonel.compat -c CODE [ARGUMENT ...]
       python -m mangonel.compat --rewrite PATH

Runs a program that imports PyMongo, bson, gridfs or Motor; these imports find mangonel.
`--rewrite` changes the imports of a file, or of all below a folder, instead, and says which it had to leave."""


def main(arguments: list[str]) -> int:
    """Run the program; its exit status becomes the process's."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments[:1] == ["--rewrite"]:
        return _rewrite(arguments[1:])
    option = arguments[0] if arguments and arguments[0].startswith("-") else ""
    program = arguments[1:] if option else arguments
    if not program or option not in ("", "-m", "-c"):
        return _refuse(f"unknown option {option}" if program else "expected a program, got none")
    if not option and not os.path.exists(program[0]):
        return _refuse(f"no such file: {program[0]}")
    if option == "-m":
        sys.path[0] = os.getcwd()
        if not _is_module(program[0]):
            return _refuse(f"no module named {program[0]}")
    install_as_motor()
    sys.argv = program
    if option == "-m":
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.path[0], sys.argv = "", ["-c", *program[1:]]
        exec(compile(program[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")
    return 0


def _rewrite(arguments: list[str]) -> int:
    """Change the imports of a file or folder; the exit status is 1 if any statement could not be changed."""
    from pathlib import Path

    if len(arguments) != 1:
        return _refuse(f"expected one path to rewrite, got {len(arguments)}")
    if not os.path.exists(arguments[0]):
        return _refuse(f"no such file or folder: {arguments[0]}")
    try:
        from mangonel.compat._rewrite import rewrite
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        return _refuse("rewriting needs LibCST; install mangonel[rewrite]")
    left = rewrite(Path(arguments[0]))
    print("\n".join(left), end="\n" if left else "")
    return 1 if left else 0


def _is_module(name: str) -> bool:
    """Return whether the first part of a module name exists; a search for the rest would import that part too early."""
    from importlib.util import find_spec

    try:
        return find_spec(name.partition(".")[0]) is not None
    except ValueError:
        return False


def _refuse(reason: str) -> int:
    print(f"mangonel.compat: {reason}\n{USAGE}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
