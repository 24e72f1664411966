"""`mangonel lab list`: experiments, their parts and contenders; who cannot play, and why. Imports no driver."""

from __future__ import annotations

import argparse
import shutil
import textwrap

from mangonel.engines.programs import installing_nothing
from mangonel.lab import registry
from mangonel.lab.commands.play import check
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size

# The URI for checking whether a contender could play: a server like the lab's own.
LOCAL = "mongodb://127.0.0.1:27017/?replicaSet=rs0"
USUAL_WIDTH = 100
NARROW = 70  # a terminal of this many columns has no room for a column of names
NAMES_AT_MOST = 26  # width in columns of the names of parts and contenders


def list_command(options: argparse.Namespace) -> int:
    """Print experiments, parts and contenders; for chosen ones, or with `--why`, also why contenders are absent."""
    check("experiment", options.experiments, registry.experiments())
    with installing_nothing():
        _list(options)
    return 0


def _list(options: argparse.Namespace) -> None:
    known, contenders = registry.experiments(), list(registry.contenders().values())
    absent = {each.id: reason for each in contenders if (reason := _absence(each))}
    for name in options.experiments or known:
        _experiment(known[name], contenders, absent, why=options.why or bool(options.experiments))
    if not options.experiments:
        print("contenders")
        for contender in contenders:
            reason = f"  (missing: {absent[contender.id]})" if contender.id in absent else ""
            _entry(contender.id, contender.title + reason)
        print()
        if not options.why:
            print("`mangonel lab list EXPERIMENT`, or --why, tells who cannot play what and why")
    if any(contender.missing() for contender in contenders):
        print("`mangonel lab run --install-peers` installs what is missing")


def _experiment(
    experiment: Experiment, contenders: list[Contender], absent: dict[str, str], *, why: bool
) -> None:
    _print(f"{experiment.id}: {experiment.title}")
    parts = experiment.parts(Size())
    groups: list[tuple[tuple[str, ...], list[Part]]] = []
    for part in parts:
        names = tuple(each.id for each in contenders if not part.excludes(each))
        if groups and groups[-1][0] == names:
            groups[-1][1].append(part)
        else:
            groups.append((names, [part]))
    for names, members in groups:
        for part in members:
            concern = f", {part.write_concern}" if part.write_concern else ""
            _entry(part.id, f"{part.title}{concern}")
        _print(", ".join(names), 8)
    playing = {name for names, _ in groups for name in names}
    told = {name: reason for name, reason in absent.items() if name in playing}
    _reasons("missing", told)
    if why:
        excluded = [each for each in contenders if each.id not in playing]
        _reasons("not here", {each.id: parts[0].excludes(each) for each in excluded})
    print()


def _reasons(word: str, told: dict[str, str]) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in told.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        _print(f"{word}, {reason}: {', '.join(names)}", 4, 6)


def _absence(contender: Contender) -> str:
    """Return why a contender cannot play on this machine at all, or ""."""
    return contender.missing() or (contender.unsuited(LOCAL) if contender.unsuited else "")


def _entry(name: str, text: str) -> None:
    label = f"    {name}:"
    _print(f"{label.ljust(NAMES_AT_MOST)} {text}", 0, NAMES_AT_MOST + 1 if _width() > NARROW else 6)


def _print(text: str, indent: int = 0, more: int | None = None) -> None:
    """Print a text wrapped to the terminal's width."""
    for line in textwrap.wrap(
        text,
        max(_width(), 30),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if more is None else more),
        break_long_words=False,
        break_on_hyphens=False,
    ):
        print(line)


def _width() -> int:
    return shutil.get_terminal_size((USUAL_WIDTH, 24)).columns - 1
