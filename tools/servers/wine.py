"""Wine, in the Debian of `debian.py`, which runs programs for Windows."""

from __future__ import annotations

import shutil
from pathlib import Path

import debian
from common import say

PROGRAM = "/usr/lib/x86_64-linux-gnu/wine/wine"
_PREFIX = "/root/.wine"
_MADE = "mangonel-made"
# Wine must use no display, and must not download its optional parts.
_ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "WINEDEBUG": "-all",
    "WINEDLLOVERRIDES": "mscoree,mshtml=",
    "WINEPREFIX": _PREFIX,
    "XDG_RUNTIME_DIR": "/tmp",
}


def environment(**more: str) -> list[str]:
    """Return a program's complete environment, in the form of `env -i`."""
    return [f"{name}={value}" for name, value in {**_ENVIRONMENT, **more}.items()]


def make(folder: Path, mirror: str = debian.MIRROR) -> Path:
    """Return the root of a Debian with Wine, made once.

    Raises:
        Problem: as for `debian.make`.
    """
    root = debian.make(folder, ["wine64"], mirror)
    prefix = root / _PREFIX.lstrip("/")
    if not (prefix / _MADE).exists():
        say("making Wine's folder: a minute")
        shutil.rmtree(prefix, ignore_errors=True)  # a run that a signal interrupted would hang
        debian.check(root, ["env", "-i", *environment(), PROGRAM, "wineboot", "--init"])
        (prefix / _MADE).touch()
    return root
