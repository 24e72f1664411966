"""Which distributions bring the contenders' packages, and installing those that are missing, on demand only."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

from mangonel.lab.contender import Contender
from mangonel.lab.contenders.drivers import TABLE

# What a contender may name without being installable from an index.
OURS = ("mangonel",)


def requirements(contenders: Iterable[Contender]) -> dict[str, list[str]]:
    """Return what would have to be installed, with the contenders that need it."""
    wanted: dict[str, list[str]] = {}
    for contender in contenders:
        absent = contender.missing().partition("not installed: ")[2]
        for name in filter(None, re.split(r",\s*", absent)):
            if name.partition(".")[0] not in OURS:
                wanted.setdefault(TABLE["requirements"].get(name, name), []).append(contender.id)
    return wanted


def install(contenders: Iterable[Contender]) -> None:
    """Install what is missing, one distribution at a time; one that cannot be installed is named with pip's reason."""
    for requirement, names in requirements(contenders).items():
        print(f"installing {requirement} for {', '.join(names)}", file=sys.stderr)
        told = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode:
            reason = next(iter(told.stderr.strip().splitlines()[-1:]), "no reason given")
            print(f"    cannot: {reason[:300]}", file=sys.stderr)
