"""Required programs and servers of tests: a missing one skips the test, or fails it where all must be there.

MANGONEL_REQUIRE_SERVERS=1, as in continuous integration, makes a missing one a failure.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from mangonel.engines.programs import Missing, find_program

# Packages that the sample requests. Installed one by one, each takes 4 s of processor time only to start apt-get.
OF_THE_SAMPLE = (
    "redis-server",
    "memcached",
    "mariadbd",
    "postgres",
    "nginx",
    "ab",
    "wrk",
    "strace",
    "krb5kdc",
    "kadmin.local",
)


def needed(program: str) -> str:
    """Return a program's path."""
    try:
        return find_program(program)
    except Missing as error:
        go_without(error)


def go_without(reason: Missing | str) -> NoReturn:
    """End a test that lacks something."""
    if os.environ.get("MANGONEL_REQUIRE_SERVERS"):
        pytest.fail(str(reason))
    pytest.skip(str(reason))
