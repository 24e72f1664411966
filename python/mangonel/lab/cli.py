"""`mangonel lab`: its sub-commands, defined in `cli.toml`. A module of `commands` is imported when one runs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mangonel._command_line import Parser, UsageProblem, add_command, add_uri, number

FAILED = "something failed, or a figure is missing"


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    import tomllib

    about = "A private mongod is started for each run, unless a deployment is named."
    example = "mangonel lab first\nmangonel lab run find-one web"
    parser = add_command(commands, name, purpose, description=about, example=example, failure=FAILED)
    actions = parser.add_subparsers(title="lab commands", metavar="LAB_COMMAND", required=True)
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    for action, row in table["commands"].items():
        each = add_command(
            actions,
            action,
            row["help"],
            description=row.get("more", ""),
            example=f"mangonel lab {action} {row.get('example', '')}",
            failure=row.get("failure", FAILED),
        )
        each.set_defaults(lab=action, module=row["module"])
        for word in row.get("words", ()):
            if word == "uri":
                add_uri(each, "an existing deployment (default: a private mongod is started)", default=None)
            else:
                _add(each, word, table["arguments"][word], is_word=True)
        for option in row.get("options", ()):
            _add(each, option, table["arguments"][option])
    return parser


def _add(parser: Parser, name: str, row: dict[str, Any], *, is_word: bool = False) -> None:
    row = dict(row)
    flag = row.pop("flag", f"--{name.replace('_', '-')}")
    names = [row.pop("word", name)] if is_word else ["-o", "--output"] if flag == "-o" else [flag]
    if row.pop("several", False):
        row |= {"action": "append", "default": []}
    elif "metavar" not in row:
        row["action"] = "store_true"
    if "type" in row:
        row["type"] = TYPES[row["type"]]
    parser.add_argument(*names, **row)


def dispatch(options: argparse.Namespace) -> int:
    import os

    from mangonel.lab.registry import PLUGINS, check_plugins

    before = os.environ.get(PLUGINS, "")
    files = [str(path.absolute()) for path in getattr(options, "plugin", [])]
    # Workers find the plugins through the same variable.
    os.environ[PLUGINS] = ",".join(filter(None, [before, *files]))
    try:
        check_plugins()
    except ValueError as error:
        os.environ[PLUGINS] = before
        raise UsageProblem(str(error)) from error
    module = importlib.import_module(f"mangonel.lab.commands.{options.module}")
    run: Callable[[argparse.Namespace], int] = getattr(module, f"{options.lab}_command")
    return run(options)


_amount = number(0, of=float)


def _seconds(text: str) -> float:
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:], 0.0)
    return _amount(text[:-1]) * factor if factor else _amount(text)


def _share(text: str) -> float:
    return _amount(text[:-1]) / 100 if text.endswith("%") else _amount(text)


def _milliseconds(text: str) -> float:
    return _amount(text.strip().removesuffix("ms"))


def _plant(text: str) -> tuple[str, float]:
    name, equals, share = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=15%, got {text!r}")
    return name, _share(share)


def _destination(text: str) -> Path:
    if text == "-":
        raise argparse.ArgumentTypeError("expected a name, got '-': this does not go to standard output")
    return Path(text)


TYPES: dict[str, Callable[[str], Any]] = {
    "path": Path,
    "destination": _destination,
    "count": number(0),
    "seconds": _seconds,
    "share": _share,
    "milliseconds": _milliseconds,
    "latencies": lambda text: tuple(map(_milliseconds, text.split(","))),
    "plant": _plant,
}
