"""`--workers N`: the tests are collected once and played by N processes, which are forked from the one that collected.

So importing and collecting happen once, and a worker that dies is replaced. The first process plays no test: it hands
out parts (`side_by_side.py`), and gives the reports to pytest's own plugins as if it had played the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from tools.side_by_side import Parts

__all__ = ["Workers", "add_option", "asked_for"]

# Seconds for an interrupted worker to end its fixtures.
GRACE = 20.0


def add_option(group: pytest.OptionGroup) -> None:
    """Add `--workers`."""
    group.addoption(
        "--workers", type=int, default=0, help="collect once, and play the tests in this many processes"
    )
    group.addoption(
        "--until",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="with --workers: begin no file after this time, in seconds since 1970; the tests left out are counted",
    )


def asked_for(config: pytest.Config) -> int:
    """Return how many workers play the tests; 0 where this process plays them, as it does where nothing can fork."""
    return int(config.getoption("--workers")) if hasattr(os, "fork") else 0


class Workers:
    """A plugin of the process that collects: forks the workers, shares out the tests and passes on the reports."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._links: dict[Connection, _Link] = {}
        self._items: list[pytest.Item] = []
        # A worker that replaces another has folders of its own.
        self._forks = 0
        # How many tests of each folder no worker started in time.
        self._left_out: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Return how many tests there are."""
        return len(self._items)

    @property
    def running(self) -> list[str]:
        """Return the names of the tests in progress."""
        return [self._items[link.numbers[0]].nodeid for link in self._links.values() if link.numbers]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Play the tests; leave errors of collecting, and `--collect-only`, to pytest."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        self._items = session.items
        parts = Parts(session.items)
        try:
            for number in range(min(self._count, parts.count)):
                self._start(session, number)
            while self._links:
                for connection in wait(list(self._links)):
                    assert isinstance(connection, Connection)
                    self._read(session, parts, connection)
        finally:
            self._end()
        self._left_out = parts.left()
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many tests were left out because the time was up."""
        if self._left_out:
            folders = ", ".join(f"{folder} {count}" for folder, count in self._left_out.most_common())
            terminalreporter.write_line(
                f"NOT RUN: {self._left_out.total()} tests, the time of --until was up: {folders}"
            )

    def _start(self, session: pytest.Session, number: int, numbers: list[int] | None = None) -> None:
        """Fork a worker; with numbers it starts with these tests."""
        threads = threading.enumerate()
        assert len(threads) == 1, f"expected no thread beside the main one, which a fork loses, got {threads}"
        near, far = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        process = os.fork()
        if not process:
            near.close()
            for connection in self._links:
                connection.close()
            _Worker(session, far, self._forks).play_and_exit()
        far.close()
        self._forks += 1
        self._links[near] = _Link(process, number)
        if numbers:
            self._hand(near, numbers)

    def _read(self, session: pytest.Session, parts: Parts, connection: Connection) -> None:
        link = self._links[connection]
        try:
            kind, *found = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            self._bury(session, connection)
            return
        if kind == "more":
            is_late = time.time() > session.config.getoption("--until")
            self._hand(connection, [] if is_late else parts.take(link.number))
        elif kind == "played":
            item = session.items[link.numbers.popleft()]
            self._log(session, item, [_unpacked(session.config, item, told) for told in found[0]])
        elif kind == "warning":
            (category, text, *place), nodeid, location = found
            message = warnings.WarningMessage(text, type(category, (Warning,), {}), *place)
            known = {"warning_message": message, "when": "runtest", "nodeid": nodeid, "location": location}
            session.config.hook.pytest_warning_recorded.call_historic(kwargs=known)
        else:
            raise session.Interrupted(f"worker {link.number} broke:\n{found[0]}")

    def _hand(self, connection: Connection, numbers: list[int]) -> None:
        self._links[connection].numbers.extend(numbers)
        # A dead worker is noticed when its pipe is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.send(numbers)

    def _bury(self, session: pytest.Session, connection: Connection) -> None:
        """A worker has ended: if tests are left it died in the first of these, and another worker takes the others."""
        link = self._links.pop(connection)
        connection.close()
        _, status = os.waitpid(link.process, 0)
        code = os.waitstatus_to_exitcode(status)
        said = (
            f"the worker died of {signal.Signals(-code).name}" if code < 0 else f"the worker exited: {code}"
        )
        if not link.numbers:
            if code:
                raise session.Interrupted(f"{said}, between tests")
            return
        item = session.items[link.numbers.popleft()]
        self._log(session, item, [pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")])
        self._start(session, link.number, list(link.numbers))

    def _log(self, session: pytest.Session, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        hook = session.config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _end(self) -> None:
        """Interrupt the workers that still run, as after Ctrl-C, and wait for them."""
        for link in self._links.values():
            os.kill(link.process, signal.SIGINT)
        deadline = time.monotonic() + GRACE
        for connection, link in self._links.items():
            # Their last messages are not used, but must be read so that they can end.
            with contextlib.suppress(EOFError, OSError):
                while connection.poll(max(0.0, deadline - time.monotonic())):
                    connection.recv_bytes()
            if not os.waitpid(link.process, os.WNOHANG)[0]:
                os.kill(link.process, signal.SIGKILL)
                os.waitpid(link.process, 0)
        self._links.clear()


class _Link:
    """A worker as seen by the first process: `numbers` are its tests that are not yet played."""

    def __init__(self, process: int, number: int) -> None:
        self.process = process
        self.number = number
        self.numbers: deque[int] = deque()


class _Worker:
    """A forked process: plays the tests that it gets until there are no more, and exits."""

    def __init__(self, session: pytest.Session, connection: Connection, number: int) -> None:
        self._session = session
        self._connection = connection
        self._number = number
        self._reports: list[pytest.TestReport] = []

    def play_and_exit(self) -> NoReturn:
        """Play, end the fixtures, and exit without pytest's work at the end of a run, which belongs to the first
        process.
        """
        status = 1
        try:
            self._own_process()
            self._play()
            status = 0
        except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
            # The first process has ended the run.
            pass
        except BaseException:
            with contextlib.suppress(OSError):
                self._say("broke", traceback.format_exc())
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with contextlib.suppress(BaseException):
                self._session._setupstate.teardown_exact(None)
            with contextlib.suppress(BaseException):
                atexit._run_exitfuncs()
            os._exit(status)

    def _own_process(self) -> None:
        """Give this process its own captured output, temporary folders, and place for reports."""
        config = self._session.config
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
        folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
        root: Path = folders.getbasetemp()
        atexit.unregister(folders._exit_stack.close)
        # A short name: servers of tests put sockets in there, whose paths have 107 characters at most.
        folders._given_basetemp, folders._basetemp = root / f"w{self._number}", None
        config.pluginmanager.register(self)

    def _play(self) -> None:
        items = self._session.items
        for number, following in self._pairs():
            self._reports = []
            item = items[number]
            next_item = None if following is None else items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            self._say("played", [_packed(item.config, report) for report in self._reports])

    def _pairs(self) -> Iterator[tuple[int, int | None]]:
        """Yield each test with the next one, which decides the fixtures that survive."""
        waiting: deque[int] = deque()
        number: int | None = None
        while True:
            if not waiting:
                self._say("more")
                waiting.extend(self._connection.recv())
            following = waiting.popleft() if waiting else None
            if number is not None:
                yield number, following
            if following is None:
                return
            number = following

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Play a test and keep its reports: the plugins that read them are in the first process."""
        self._reports = runtestprotocol(item, log=False, nextitem=nextitem)
        return True

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Pass on a test's warning for the summary; only this process may know its class."""
        # pytest tells a new plugin about all earlier ones, which the first process knows.
        if when == "runtest":
            said = warning_message
            told = (said.category.__name__, str(said.message), said.filename, said.lineno)
            self._say("warning", told, nodeid, location)

    def _say(self, *what: Any) -> None:
        self._connection.send_bytes(pickle.dumps(what))


def _packed(config: pytest.Config, report: pytest.TestReport) -> dict[str, Any]:
    """Return the report's attributes except those that the reader already knows about the test."""
    told: dict[str, Any] = config.hook.pytest_report_to_serializable(config=config, report=report)
    for name in ("nodeid", "location", "keywords"):
        del told[name]
    return told


def _unpacked(config: pytest.Config, item: pytest.Item, told: dict[str, Any]) -> pytest.TestReport:
    known = {"nodeid": item.nodeid, "location": item.location, "keywords": {}}
    report = config.hook.pytest_report_from_serializable(config=config, data={**told, **known})
    assert isinstance(report, pytest.TestReport)
    return report
