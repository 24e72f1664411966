"""A Debian unstable in a folder, for programs that this system lacks; entering it changes nothing on this system.

Mounts belong to a namespace of the entering program, so they end with it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from common import Problem, run, say

MIRROR = "http://deb.debian.org/debian"
SUITE = "unstable"
INSTALLED = ".mangonel-packages"
# Installing a package must not start its service.
POLICY = "#!/bin/sh\nexit 101\n"
# Folders of this system that programs inside share: devices with shared memory, and temporary data of tests.
SHARED = ("/dev", "/dev/shm", "/tmp")


def make(folder: Path, packages: Sequence[str], mirror: str = MIRROR) -> Path:
    """Return the root of a Debian with these packages, made once; an interrupted run starts again.

    Raises:
        Problem: this user lacks the rights, debootstrap is not installed, or Debian did not answer.
    """
    if os.geteuid():
        raise Problem("expected root, which debootstrap, chroot and mount need; run it with sudo")
    for program in ("debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            raise Problem(
                f"expected {program}, which is not installed: apt-get install debootstrap util-linux"
            )
    root = folder / f"debian-{SUITE}"
    made = root / INSTALLED
    if not made.exists():
        say(f"making a Debian {SUITE} in {root}: some minutes")
        shutil.rmtree(root, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        run(["debootstrap", "--variant=minbase", SUITE, root, mirror])
        policy = root / "usr/sbin/policy-rc.d"
        policy.write_text(POLICY)
        policy.chmod(0o755)
        made.write_text("[]")
    installed = json.loads(made.read_text())
    missing = [package for package in packages if package not in installed]
    if missing:
        say(f"installing {', '.join(missing)} in {root}: some minutes")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--quiet"]
        try:
            run(entering(root, [*quiet, "update"]))
        except Problem as problem:
            say(f"{problem}; going on with the lists that are there")
        run(entering(root, [*quiet, "install", "--yes", "--no-install-recommends", *missing]))
        made.write_text(json.dumps([*installed, *missing]))
    return root


def entering(root: Path, command: Sequence[str]) -> list[str]:
    """Return a command that runs another one inside, replacing its own process."""
    return ["unshare", "--mount", "sh", "-c", f'{script(root)} "$@"', "sh", *command]


def script(root: Path) -> str:
    """Return shell code that mounts the shared folders and ends with an `exec chroot`, to be followed by a command."""
    quoted = shlex.quote(str(root))
    lines = [f"mount -t proc proc {quoted}/proc"]
    for place in SHARED:
        lines.append(f"mkdir -p {quoted}{place} && mount --bind {place} {quoted}{place}")
    return " && ".join([*lines, f"exec chroot {quoted}"])


def check(root: Path, command: Sequence[str]) -> str:
    """Return the output of a program inside.

    Raises:
        Problem: it failed; the message ends with its output.
    """
    ran = subprocess.run(entering(root, command), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()[-500:]
        raise Problem(f"{' '.join(command)} failed in {root} with exit status {ran.returncode}: {said}")
    return ran.stdout
