"""Count the instructions of the usual work of codec, protocol and driver, and compare with the counts that are kept.

    python tools/instructions.py             compare; exit status 1 if a row takes over 2 % more than stored
    python tools/instructions.py --update    store the new counts in tools/instructions.toml
    python tools/instructions.py --peer      count the everyday operations of PyMongo too, and print the ratios
    python tools/instructions.py --page      count a page of JSON on Tornado and one of ready bytes, and print the ratio

A count does not depend on how busy the machine is. It does depend on the compiler, the C library and the vector
instructions at hand, so counts are kept for each such environment and compared with those of the same one only.
Runs `tools/instructions` (a release build) below valgrind's callgrind, and its `codec.py`, `mapper.py` and
`everyday.py` with the extension as it is built, each in its own process; those files describe the rows.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tools" / "instructions.toml"
PROGRAM = "mangonel-instructions"
# The programs that count the extension's work.
SCRIPTS = ("codec.py", "mapper.py", "everyday.py")
# Each runs in this many processes, and the smallest count is kept: irrelevant environment variables shift memory
# addresses, and so change which attributes share an entry of the interpreter's cache.
LAYOUTS = 3
TOLERANCE = 0.02
HEAD = """\
# Instructions of each row of tools/instructions, by compiler, C library and vector instructions.
# Written by `make instructions UPDATE=1`; a change here is a change of speed, and its commit says why.
"""
# Otherwise the C library copies large blocks with one instruction on some processors, and counts differ.
TUNABLES = (
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"
    ":glibc.cpu.x86_non_temporal_threshold=1000000000"
)


@dataclass(frozen=True)
class Change:
    """One row with its stored count."""

    name: str
    kept: int | None
    found: int

    @property
    def is_slower(self) -> bool:
        """Whether it exceeds the stored count by more than the tolerance."""
        return self.kept is not None and self.found > self.kept * (1 + TOLERANCE)

    @property
    def is_faster(self) -> bool:
        """Whether the stored count is too high to guard it."""
        return self.kept is not None and self.found < self.kept * (1 - TOLERANCE)

    def __str__(self) -> str:
        if self.kept is None:
            return f"{self.name:<26} {'':>10} {self.found:>10}  new"
        word = "  SLOWER" if self.is_slower else "  faster" if self.is_faster else ""
        return f"{self.name:<26} {self.kept:>10} {self.found:>10}  {self.found / self.kept - 1:+.2%}{word}"


def environment() -> str:
    """Return the environment that counts depend on, as one line."""
    told = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    version, host = told.splitlines()[0], told.partition("host: ")[2].splitlines()[0]
    libc = " ".join(platform.libc_ver())
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    vectors = "AVX2" if " avx2 " in flags else "no AVX2"
    return f"{version}, {host}, {libc}, {vectors}"


def of_extension(where: str) -> str:
    """Return the environment of the extension's rows, whose counts include the interpreter's work."""
    return f"{where}, CPython {platform.python_version()}"


def build() -> Path:
    """Build the program like a release, ignoring the shell's profile; return its path."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_PROFILE_")}
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", PROGRAM]
    subprocess.run(command, cwd=ROOT, env=plain, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / PROGRAM


def count(program: Path, valgrind: str, slow: str = "") -> dict[str, int]:
    """Return instructions per operation by row of the pure crates; `slow` repeats a twentieth of a row's work."""
    command = [str(program), *(["--slow", slow] if slow else [])]
    return _count(valgrind, command, "*::counting_begins", "*::counting_ends", {})


def count_extension(valgrind: str, scripts: Iterable[str] = SCRIPTS) -> dict[str, int]:
    """Return instructions per operation by row of the codec and the mapper, with the extension as currently built."""
    found: dict[str, int] = {}
    for script, layout in itertools.product(scripts, range(LAYOUTS)):
        moved = {f"MANGONEL_LAYOUT_{'_' * 5 * each}": "" for each in range(9 * layout)}
        for row, figure in _count_script(valgrind, script, moved).items():
            found[row] = min(found.get(row, figure), figure)
    return found


def count_everyday(valgrind: str, driver: str) -> dict[str, int]:
    """Return instructions per everyday operation of a driver: `mangonel` or `pymongo`. One layout."""
    return _count_script(valgrind, "everyday.py", {"COUNTED_DRIVER": driver})


def count_page(valgrind: str, row: str) -> int:
    """Return instructions per request for a page on Tornado, `ready` or `to_json`: the least of several runs."""
    return min(_count_script(valgrind, "page.py", {"COUNTED_PAGE": row})[row] for _ in range(LAYOUTS))


def _count_script(valgrind: str, script: str, settings: dict[str, str]) -> dict[str, int]:
    command = [sys.executable, str(ROOT / "tools" / "instructions" / script)]
    # The order of sets, and so of imports, must be the same in every run.
    fixed = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT / "python")}
    return _count(valgrind, command, "getppid", "getsid", fixed | settings)


def _count(
    valgrind: str, command: list[str], begin: str, end: str, settings: dict[str, str]
) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="mangonel-instructions-") as folder:
        out = Path(folder) / "out"
        callgrind = [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}"]
        told = subprocess.run(
            [*callgrind, f"--zero-before={begin}", f"--dump-before={end}", *command],
            env={**os.environ, **settings, "GLIBC_TUNABLES": TUNABLES},
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {told.stderr[-600:]}")
        rows = [line.split() for line in told.stdout.splitlines()]
        dumps = sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        if len(dumps) != len(rows):
            raise RuntimeError(f"expected {len(rows)} dumps, one for each row, got {len(dumps)}")
        totals = [_total(dump) for dump in dumps]
    found: dict[str, int] = {}
    for (name, times), total in zip(rows, totals, strict=True):
        figure = round(total / int(times))
        # The smallest count of a repeated row wins.
        found[name] = min(found.get(name, figure), figure)
    return found


def _total(dump: Path) -> int:
    # The "totals" also hold costs from before the counting began, as rows with ten times the work show.
    for line in dump.read_text().splitlines():
        if line.startswith("summary: "):
            return int(line.split()[1])
    raise RuntimeError(f"{dump.name} holds no summary")


def kept_counts(path: Path = KEPT) -> dict[str, dict[str, int]]:
    """Return the stored counts by environment."""
    return tomllib.loads(path.read_text()) if path.exists() else {}


def compare(kept: dict[str, int], found: dict[str, int]) -> list[Change]:
    """Return every counted row with its stored count."""
    return [Change(name, kept.get(name), figure) for name, figure in found.items()]


def keep(found: dict[str, int], where: str, path: Path = KEPT) -> None:
    """Store the counts of this environment; those of others stay."""
    everything = {**kept_counts(path), where: found}
    sections = []
    for name in sorted(everything):
        rows = "".join(f"{row} = {figure}\n" for row, figure in everything[name].items())
        sections.append(f'\n["{name}"]\n{rows}')
    path.write_text(HEAD + "".join(sections))


def verdict(changes: list[Change]) -> list[str]:
    """Return the problems in words; empty if every row is within the tolerance."""
    problems = [
        f"{change.name} takes {change.found / (change.kept or 1) - 1:.1%} more instructions than before: "
        f"{change.found}, kept {change.kept}"
        for change in changes
        if change.is_slower
    ]
    problems += [f"{change.name} is not kept yet" for change in changes if change.kept is None]
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Count, compare or store; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--update", action="store_true", help="keep what was counted")
    parser.add_argument("--peer", action="store_true", help="count PyMongo's everyday operations too")
    parser.add_argument("--page", action="store_true", help="count a page of JSON on Tornado too")
    options = parser.parse_args(arguments)

    from mangonel.engines.programs import Missing, find_program

    try:
        valgrind = find_program("valgrind")
    except Missing as error:
        print(f"instructions are not counted: {error}")
        return 0
    if options.peer:
        ours, theirs = (count_everyday(valgrind, driver) for driver in ("mangonel", "pymongo"))
        print(f"{'row':<26} {'mangonel':>10} {'PyMongo':>10}")
        for name, figure in theirs.items():
            print(f"{name:<26} {ours[name]:>10} {figure:>10} {figure / ours[name]:.1f}")
        return 0
    if options.page:
        ready, made = (count_page(valgrind, row) for row in ("ready", "to_json"))
        print(f"ready bytes {ready}, to_json {made}: {ready / made:.3f}")
        return 0
    where = environment()
    counted = {where: count(build(), valgrind), of_extension(where): count_extension(valgrind)}
    problems = []
    for name, found in counted.items():
        if options.update:
            keep(found, name)
            print(f"kept {len(found)} rows of {name}")
        else:
            problems += report(name, found)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("if that is meant: make instructions UPDATE=1, and say why in the commit", file=sys.stderr)
    return 1 if problems else 0


def report(where: str, found: dict[str, int]) -> list[str]:
    """Print every row of an environment with its stored count; return the problems."""
    kept = kept_counts().get(where)
    changes = compare(kept or {}, found)
    print(f"\n{where}\n{'row':<26} {'kept':>10} {'found':>10}")
    for change in changes:
        print(change)
    if kept is None:
        print(
            "no counts are kept of this environment: nothing was compared; make instructions UPDATE=1 keeps these"
        )
        return []
    return verdict(changes)


if __name__ == "__main__":
    sys.exit(main())
