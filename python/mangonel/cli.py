"""The command `mangonel`: a table of sub-commands. Each is a module with its arguments and a `dispatch` function.

Must stay light: a sub-command's module is imported when it is named, so that `mangonel --help` is instant. To add one,
write a module with `add_arguments(commands, name, purpose)` and `dispatch(options)`, and give it a row in COMMANDS.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence

from mangonel._command_line import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    Parser,
    UsageProblem,
    explain,
    prepare_streams,
    without_login,
)
from mangonel._version import __version__

# Name -> its module, what it is for.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("mangonel.server.serve", "run a real mongod on loopback until Ctrl-C"),
    "doctor": ("mangonel.doctor.cli", "say what keeps a client from its deployment, and what to do"),
    "advise": ("mangonel.advice.cli", "say which indexes a server lacks, and which it never uses"),
    "gridfs": ("mangonel.gridfs.cli", "store, fetch, list and remove files in a database"),
    "import": ("mangonel.files._import", "insert the documents of a file: JSON lines, Parquet, Arrow, CSV"),
    "export": ("mangonel.files._export", "write a collection to a file: JSON lines, Parquet, Arrow, CSV"),
    "schema": ("mangonel.arrow._schema", "show the types in a collection, and how they drift"),
    "odm": ("mangonel.odm.cli", "look after the indexes, schemas and documents of models"),
    "admin": ("mangonel.admin.cli", "serve admin pages of a program's models"),
    "websessions": ("mangonel.websessions.cli", "look after a store of HTTP sessions"),
    "lab": ("mangonel.lab.cli", "compare this driver with its peers on this machine"),
    "demo": ("mangonel.demo.cli", "run the demo: a shop's admin pages, live"),
    "completion": ("mangonel._completion", "print what makes a shell complete these commands"),
}
EPILOG = """\
example:
  mangonel serve --replica-set 1
  mangonel doctor mongodb://localhost:27017

Every command takes its URI as the first word, writes files to -o, and explains itself with --help.
exit status: 0 done; 1 something was found or failed; 2 wrong arguments; 130 Ctrl-C; the doctor has more"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    closed = prepare_streams() if arguments is None else ()
    try:
        parser = parser_of(given[:1])
    except ImportError as error:
        return _fail(f"mangonel {given[0]}", error, given[0])
    options, unknown = parser.parse_known_args(given)
    # argparse would report the error with the usage line of the main parser, which does not help.
    chosen: Parser = options.parser
    if unknown:
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}")
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        with warnings.catch_warnings():
            warnings.showwarning = functools.partial(_warn, chosen.prog)
            _refuse_closed(options, closed)
            _check_uri(chosen, options)
            return run(options)
    except UsageProblem as problem:
        chosen.error(str(problem))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has exited, as in `mangonel … | head`: no message is needed.
        sys.stderr.close()
        return EXIT_FAILURE
    except UnicodeEncodeError:
        # An argument that the locale's encoding cannot decode has lone surrogates, which BSON cannot have.
        wrong = next((word for word in given if not _is_text(word)), None)
        if wrong is None:
            raise
        chosen.error(f"expected words in {sys.getfilesystemencoding()}, got {wrong!a}")
    except Exception as error:
        return _fail(chosen.prog, error, given[0])


def _is_text(word: str) -> bool:
    return word.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in word)


def _refuse_closed(options: argparse.Namespace, closed: Collection[str]) -> None:
    """Raise UsageProblem if an argument names a standard stream that the program was started without."""
    read = [getattr(options, "uri", None), *(getattr(options, "files", None) or ())]
    if "stdin" in closed and "-" in read:
        raise UsageProblem("expected an open standard input for -, got a closed one")
    if "stdout" in closed and getattr(options, "output", None) == "-":
        raise UsageProblem("expected an open standard output for -, got a closed one")


def _check_uri(chosen: Parser, options: argparse.Namespace) -> None:
    """Exit with a message if the URI is wrong, before the command starts."""
    given = getattr(options, "uri", None)
    if options.checks_uri and isinstance(given, str) and given.startswith(("mongodb://", "mongodb+srv://")):
        from mangonel.errors import ConfigurationError
        from mangonel.uri_parser import split_uri

        try:
            with warnings.catch_warnings():
                # The client warns of options that it ignores.
                warnings.simplefilter("ignore")
                split_uri(given, warn=True)
        except (ConfigurationError, ValueError) as error:
            chosen.error(str(error))


def _warn(prog: str, message: Warning | str, *_: object) -> None:
    print(f"{prog}: warning: {without_login(str(message))}", file=sys.stderr)


def _fail(prog: str, error: Exception, extra: str) -> int:
    """Print the error and return the exit status; raise errors that are bugs."""
    said, status = explain(error, extra)
    if not said:
        raise error
    print(f"{prog}: {said}", file=sys.stderr)
    return status


def parser_of(names: Iterable[str]) -> Parser:
    """Return the main parser with the arguments of these sub-commands, importing their modules.

    Raises:
        ImportError: a dependency of a module is not installed.
    """
    parser = Parser(prog="mangonel", description="A MongoDB stack for Python.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"mangonel {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (where, purpose) in COMMANDS.items():
        if name in names:
            module = __import__(where, fromlist=["dispatch"])
            module.add_arguments(commands, name, purpose).set_defaults(run=module.dispatch)
        else:
            # Shown in the help and in messages about mistyped commands; never run.
            commands.add_parser(name, help=purpose)
    return parser
