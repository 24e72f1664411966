"""Shared by all sub-commands of `mangonel`: the parser, the URI argument, exit statuses and usage errors.

Must stay light, since the command line loads it first; knows no sub-command.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # what a shell reports for Ctrl-C

# The largest count that a server accepts.
MOST = 2**31 - 1
PORTS = (0, 65_535)

# The most columns of an example, without its indent of two, or of six where it is folded.
_WIDEST = 74

LOCAL = "mongodb://localhost:27017"
FAILURE = "something failed"
STATUSES = "exit status: 0 done; 1 {failure}; 2 wrong arguments; 130 Ctrl-C"

# The base classes of errors to report to the user, by module. Only a module that is loaded can have raised one.
EXPECTED = {
    "mangonel.errors": "PyMongoError",
    "mangonel.server.errors": "ServerError",
    "mangonel.engines.programs": "Missing",
    "mangonel.websessions.errors": "WebSessionError",
}
WRONG_USE = {"mangonel.errors": "InvalidURI"}
UNREACHED = {"mangonel.errors": "ServerSelectionTimeoutError"}
# Optional modules; the extra named after the command installs them.
APART = ("mangonel.lab", "mangonel.demo", "mangonel.engines")
# Module -> the extra of `pip install "mangonel[…]"` that installs it, if it is not named after the command.
EXTRAS = {
    "pyarrow": "arrow",
    "dns": "srv",
    "publicsuffixlist": "srv",
    "botocore": "aws",
    "gssapi": "gssapi",
    "cryptography": "sealing",
}
# Modules of the standard library that Windows lacks.
POSIX = ("fcntl", "resource")

# The output may end up in a log, so names and passwords are removed from URIs.
_LOGIN = re.compile(r"(:/+)\S*@")


class UsageProblem(Exception):
    """An argument that parses but makes no sense; `main` prints it like argparse's own errors."""


class Help(argparse.HelpFormatter):
    """Wraps each line of a text separately and leaves indented lines, such as examples, unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            line if line.startswith(" ") else super(Help, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )
        return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """A parser that accepts options anywhere. Its first word may be a URI, which may be left out.

    If the first word does not look like a URI, it is taken for the next argument, if there is one. Words of
    `behind_uri` are accepted only after a URI: a mistyped URI must not be taken for a collection, and the collection
    for a file.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("formatter_class", Help)
        super().__init__(*arguments, **options)
        self.uri: argparse.Action | None = None
        self.behind_uri: list[argparse.Action] = []
        self._is_within = False

    def parse_known_args(  # type: ignore[override]  # the overload for namespaces of other classes has no user
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments; the class's docstring lists the differences from argparse."""
        if self._is_within or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_within = True
        try:
            found, unknown = self.parse_known_intermixed_args(args, namespace)
            if self.uri is None:
                return found, unknown
            if not self._is_misplaced(found):
                self._refuse_uri_alone(found)
                return found, unknown
            left_out = [self.uri, *self.behind_uri]
            usual = [each.nargs for each in left_out]
            try:
                for each in left_out:
                    each.nargs = argparse.SUPPRESS
                again = argparse.Namespace()
                return self.parse_known_intermixed_args(args, again)
            finally:
                for each, nargs in zip(left_out, usual, strict=True):
                    each.nargs = nargs
        finally:
            self._is_within = False

    def error(self, message: str) -> NoReturn:
        """Exit as argparse does, but remove credentials from URIs in the message."""
        super().error(without_login(message))

    def _is_misplaced(self, found: argparse.Namespace) -> bool:
        assert self.uri is not None
        given, words = getattr(found, self.uri.dest), self._get_positional_actions()
        return len(words) > 1 and given != self.uri.default and "://" not in given

    def _refuse_uri_alone(self, found: argparse.Namespace) -> None:
        """Report a missing word if argparse would take the URI for it."""
        for action in self._get_positional_actions():
            given = getattr(found, action.dest, None)
            if (
                action is not self.uri
                and isinstance(given, str)
                and given.startswith(("mongodb://", "mongodb+srv://"))
            ):
                self.error(f"expected {action.metavar or action.dest} after the URI {given}")


def add_command(
    commands: argparse._SubParsersAction[Any],
    name: str,
    help: str,
    *,
    description: str = "",
    example: str,
    failure: str = FAILURE,
    statuses: str = "",
) -> Parser:
    """Add a command with its help.

    Args:
        help: one line, without a full stop.
        description: more help, in full sentences.
        example: a command line, or several, one per line.
        failure: the meaning of exit status 1.
        statuses: every exit status in words, if they differ from the usual ones.
    """
    parser: Parser = commands.add_parser(name, help=help)
    parser.description = f"{help[0].upper()}{help[1:]}. {description}".strip()
    lines = "\n".join(f"  {_folded(line.strip())}" for line in example.strip().splitlines())
    parser.epilog = f"example:\n{lines}\n\n{statuses or STATUSES.format(failure=failure)}"
    parser.set_defaults(parser=parser, checks_uri=True)
    return parser


def _folded(line: str) -> str:
    """Return a command line for a terminal of 80 columns: broken before options, with a backslash for the shell."""
    if len(line) <= _WIDEST:
        return line
    head, option, tail = line[: _WIDEST - 1].rpartition(" -")
    return f"{head} \\\n      {_folded((option + tail + line[_WIDEST - 1 :]).strip())}" if option else line


def add_uri(parser: Parser, help: str = "the deployment", *, default: str | None = LOCAL) -> None:
    """Add the URI, the first word of every command.

    Args:
        help: what the URI addresses, and, unless `default` says it, what happens without a URI.
        default: the URI when none is given; "" makes it required.
    """
    told = f"{help} (default: {default})" if default else help
    if default == "":
        parser.add_argument("uri", metavar="URI", help=told)
    else:
        parser.uri = parser.add_argument("uri", nargs="?", default=default, metavar="URI", help=told)


def add_output(parser: argparse.ArgumentParser, help: str, **more: Any) -> None:
    """Add `-o`, which every command that writes a file has."""
    parser.add_argument("-o", "--output", metavar="FILE", help=help, **more)


def write_output(text: str, output: str | None) -> None:
    """Write a text to the file of `-o`, or to standard output if `-o` is left out or `-`."""
    if output in (None, "-"):
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        if text.encode(encoding, "replace").decode(encoding) == text:
            print(text, end="")
        else:
            # A program or JSON would be damaged by escapes, so it is written as in a file.
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())
    else:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)


def prepare_streams() -> list[str]:
    """Make standard output and standard error fit for `print`, and return the names of closed streams.

    Characters that the locale's encoding lacks are shown as escapes.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        if name != "stdin":
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for the whole program
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return closed


def on_one_line(text: str) -> str:
    """Return a text of unknown origin, with the characters escaped that end a line or control a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def number(least: float, most: float = MOST, *, of: Callable[[str], float] = int) -> Callable[[str], float]:
    """Return the `type` of an argument that is a number.

    Args:
        least: the smallest valid number.
        most: the largest valid number.
        of: the class that parses it: int, or float to allow fractions.
    """

    def read(text: str) -> float:
        try:
            found = of(text)
        except ValueError:
            found = math.nan
        # The comparison is false for nan too.
        if not least <= found <= most:
            kind = "a whole number" if of is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {kind} from {least} to {most}, got {text!r}")
        return found

    return read


def program_module(name: str) -> Any:
    """Return a module of the user's program; the current folder is searched first.

    Args:
        name: its name, such as `shop.models`.

    Raises:
        UsageProblem: there is no such module.
    """
    import importlib

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageProblem(f"expected a module with models, got none called {error.name!r}") from error


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's sub-commands, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and all parsers below it; `prog` is the command line that leads to each."""
    yield parser
    for child in children(parser).values():
        yield from parsers(child)


def without_login(text: str) -> str:
    """Return the message with names and passwords removed from its URIs."""
    return _LOGIN.sub(r"\1…@", text)


def explain(error: Exception, extra: str) -> tuple[str, int]:
    """Return the message, with its remedy, and the exit status for an error; "" for a bug in this package.

    Args:
        extra: the extra of `pip install "mangonel[…]"` that installs the modules the command needs.
    """
    if isinstance(error, ModuleNotFoundError) and error.name in APART:
        return f'the command {extra} is not installed; pip install "mangonel[{extra}]"', EXIT_FAILURE
    if isinstance(error, ModuleNotFoundError) and error.name in POSIX:
        return f"expected Linux or macOS: Python has {error.name} there alone", EXIT_FAILURE
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("mangonel"):
        extra = EXTRAS.get(error.name.partition(".")[0], extra)
        return f'{error.name} is not installed; pip install "mangonel[{extra}]"', EXIT_FAILURE
    said = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        # A file, or its folder, that an argument names.
        return without_login(f"{error.strerror}: {error.filename}"), EXIT_USAGE
    if any(_is_one_of(each, UNREACHED) for each in (error, error.__cause__)):
        said += "; `mangonel doctor URI` says what is in the way"
    said = without_login(said)
    if any(_is_one_of(each, WRONG_USE) for each in (error, error.__cause__)):
        return said, EXIT_USAGE
    # An import error with a cause already has an explanation; one without a cause is a bug in this package.
    is_told = isinstance(error, ImportError) and isinstance(error.__cause__, ImportError)
    is_expected = is_told or isinstance(error, OSError) or _is_one_of(error, EXPECTED)
    return said if is_expected else "", EXIT_FAILURE


def _is_one_of(error: BaseException | None, kinds: dict[str, str]) -> bool:
    found = [getattr(sys.modules.get(where), name, None) for where, name in kinds.items()]
    return isinstance(error, tuple(kind for kind in found if kind is not None))
