"""Programs in processes of their own: an alias of PyMongo holds for a whole process, and PyMongo is the oracle here."""

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
    """Run source text in a fresh interpreter and return what it printed; the test fails when it fails."""

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
    """Set the server's address and a database of their own in the programs' environment."""
    monkeypatch.setenv("TEST_URI", server.uri)
    monkeypatch.setenv("TEST_DATABASE", database_name)
