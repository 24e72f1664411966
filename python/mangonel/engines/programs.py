"""Finds Debian's programs in the system or in this environment.

If MANGONEL_INSTALL_SERVERS is set and this user has the rights, missing programs are installed.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# The Debian package of each program.
PACKAGES = {
    "redis-server": "redis-server",
    "memcached": "memcached",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "postgres": "postgresql",
    "initdb": "postgresql",
    "nginx": "nginx",
    "ab": "apache2-utils",
    "chromium": "chromium",
    "strace": "strace",
    "valgrind": "valgrind",
    "krb5kdc": "krb5-kdc",
    "kdb5_util": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "wrk": "wrk",
}

# The environment variable that allows installing missing programs.
WISH = "MANGONEL_INSTALL_SERVERS"

# Equivalent programs to use if the first is missing.
STAND_INS = {"redis-server": ("valkey-server",)}

# Debian's folders of programs that are not on every user's PATH.
FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/lib/postgresql/*/bin", "/usr/libexec")

INSTALL_TIMEOUT = 600.0


class Missing(Exception):
    """A program is not available; the message says why, with the remedy."""


def find_program(name: str) -> str:
    """Return the path of a program, after installing its package if that is allowed.

    Raises:
        Missing: the program was not found.
    """
    found = _look_for_any(name)
    if found is None and os.environ.get(WISH):
        problem = _install(PACKAGES[name])
        found = _look_for(name)
        if found is None:
            raise Missing(f"{name} is not installed, and installing {PACKAGES[name]} failed: {problem}")
    if found is None:
        raise Missing(f"{name} is not installed; Debian's package is {PACKAGES[name]}")
    return found


def install_together(names: Iterable[str]) -> None:
    """Install the packages of all missing programs at once, if that is allowed; `find_program` reports failures."""
    missing = sorted({PACKAGES[name] for name in names if _look_for_any(name) is None})
    if missing and os.environ.get(WISH):
        _install(*missing)


def has_program(name: str) -> bool:
    """Return whether `find_program` finds it."""
    try:
        find_program(name)
    except Missing:
        return False
    return True


@contextmanager
def installing_nothing() -> Iterator[None]:
    """Within this block, `find_program` searches but installs nothing."""
    wish = os.environ.pop(WISH, None)
    try:
        yield
    finally:
        if wish is not None:
            os.environ[WISH] = wish


@contextmanager
def installing_alone() -> Iterator[None]:
    """Keep other processes of this machine from installing during this block: apt-get fails while another one runs."""
    import fcntl  # missing on Windows, which has no apt-get either

    with open(os.path.join(tempfile.gettempdir(), "mangonel-install.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _look_for_any(name: str) -> str | None:
    names = (name, *STAND_INS.get(name, ()))
    return next((path for each in names if (path := _look_for(each)) is not None), None)


def _look_for(name: str) -> str | None:
    found = shutil.which(name)
    if found is None:
        # The environment's own folder comes last; tools/unpacked.py puts programs there without installing them.
        for folder in (*FOLDERS, os.path.join(sys.prefix, "bin")):
            for candidate in sorted(glob.glob(os.path.join(folder, name)), reverse=True):
                if os.access(candidate, os.X_OK):
                    return candidate
    return found


def _install(*packages: str) -> str:
    """Install Debian packages; return the error message, "" on success."""
    apt = shutil.which("apt-get")
    if apt is None:
        return "this system has no apt-get"
    prefix: list[str] = []
    if os.geteuid() != 0:
        sudo = shutil.which("sudo")
        if sudo is None or subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode:
            return "this user is not root and may not sudo without a password"
        prefix = [sudo, "-n", "-E"]
    # RUNLEVEL=1 keeps the package's own service, on its usual port, from starting.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = [*prefix, apt, "install", "-y", "-qq", "--no-install-recommends", *packages]
    with installing_alone():
        for command in (install, [*prefix, apt, "update", "-qq"], install):
            try:
                result = subprocess.run(
                    command, env=environment, capture_output=True, timeout=INSTALL_TIMEOUT, check=False
                )
            except subprocess.TimeoutExpired:
                return f"{' '.join(command)} took more than {INSTALL_TIMEOUT} s"
            if result.returncode == 0 and command is install:
                return ""
    return result.stderr[-300:].decode(errors="replace").strip()
