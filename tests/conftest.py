"""Fixtures for every test: real servers, started when the first test asks, and the tools' import path."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangonel.server import Server, start

sys.path.insert(0, str(Path(__file__).parent))

from tools.scripted_server import ScriptedServer

# A run in the background of a shell inherits an ignored Ctrl-C, which the tests send to themselves and to programs.
signal.signal(signal.SIGINT, signal.default_int_handler)

TEST_COMMANDS = {"enableTestCommands": 1}

# Folders whose tests wait for nothing but this process: there a failure is a failure.
WITHOUT_CLOCKS = {"unit", "typing", "tools_tests", "docs", "packaging"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests with real servers, sockets and clocks a second try; the run's summary names each that took it.

    Some 20 000 of them run one after another on a shared machine, where one pause of a server fails the whole run.
    What is named there in a second run is a defect of the test or of the driver, to be looked at.
    """
    tests = Path(__file__).parent
    for item in items:
        if item.path.relative_to(tests).parts[0] not in WITHOUT_CLOCKS:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why each test that took a second try failed at first."""
    for report in terminalreporter.getreports("rerun"):
        reason = [line for line in report.longreprtext.splitlines() if line.startswith("E ")] or [
            "E  no reason"
        ]
        terminalreporter.write_line(f"RERUN {report.nodeid}: {reason[0][1:].strip()}")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A replica set of one, with fail points; shared, so leave it as it was found."""
    with start(replica_set=1, set_parameters=TEST_COMMANDS) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def standalone() -> Iterator[Server]:
    """A standalone mongod, with fail points; shared, so leave it as it was found."""
    with start(set_parameters=TEST_COMMANDS) as deployment:
        yield deployment


@pytest.fixture
def database_name(server: Server) -> Iterator[str]:
    """The name of a database of `server` that only this test uses; dropped afterwards."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield name
    server.members[0].run_command({"dropDatabase": 1, "$db": name}, timeout=30.0)


@pytest.fixture
def scripted_server() -> Iterator[ScriptedServer]:
    """A server that answers as the test says; fails the test when a client breaks the wire protocol."""
    with ScriptedServer() as scripted:
        yield scripted
