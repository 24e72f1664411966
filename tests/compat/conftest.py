"""Programs in processes of their own: an alias of PyMongo affects a whole process, and PyMongo is the oracle here."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from mangonel.server import Server

Program = Callable[..., str]


@pytest.fixture
def program() -> Program:
    """Run source text in a fresh interpreter and return its output; the test fails when the program fails."""

    def run(source: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)],
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert finished.returncode == 0, finished.stderr[-4000:]
        return finished.stdout.strip()

    return run


@pytest.fixture
def place(server: Server, database_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the server's address and a database of this test into the programs' environment."""
    monkeypatch.setenv("TEST_URI", server.uri)
    monkeypatch.setenv("TEST_DATABASE", database_name)
