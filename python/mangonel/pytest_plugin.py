"""The pytest plugin: fixtures for a real server, clients and a clean database, and the commands of a failed test.

pytest finds it by its entry point. It loads no part of the driver until a test uses a fixture.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from mangonel.testing import Commands, TooManyCommands, check_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from mangonel import AsyncMongoClient, MongoClient
    from mangonel._emptied import Emptier
    from mangonel.api import Database
    from mangonel.server import Server

_MARK = "mangonel"
# How many seconds the end of a run waits for a server that was running before it.
_DROP_TIMEOUT_S = 5.0
# Servers and clients that one process keeps from test to test, by the options of the mark.
_kept = ExitStack()
_servers: dict[str, Server | _Running] = {}
_clients: dict[str, MongoClient[Any]] = {}
_emptiers: dict[str, Emptier] = {}


class _Running:
    """A server that is already running, known by its URI."""

    def __init__(self, uri: str) -> None:
        self.uri = uri


_recorder = Commands()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--mangonel-uri`."""
    group = parser.getgroup("mangonel-server", "MongoDB servers (mangonel)")
    group.addoption(
        "--mangonel-uri",
        default=os.environ.get("MANGONEL_PYTEST_URI"),
        help="use this running server for tests without a mark; its test databases are emptied",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        "mangonel(replica_set=0, tls=False, **options): which server the fixtures of a test start; "
        "options as for mangonel.server.start",
    )


def pytest_unconfigure() -> None:
    """Close the clients, then the servers."""
    _emptiers.clear()
    _clients.clear()
    _servers.clear()
    _kept.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the commands of the previous test."""
    _recorder.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Add the commands that were sent to the report of a failed test."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "setup":
        # Commands that fixtures send during setup belong to the test too.
        return
    if report.failed and _recorder.commands and "mangonel_server" in getattr(item, "fixturenames", ()):
        report.sections.append(("MongoDB commands sent", _recorder.listing()))


@pytest.fixture
def mangonel_server(request: pytest.FixtureRequest) -> Server | _Running:
    """A server, started once in each process for all tests with the same mark; it has at least `uri`."""
    return _server_of(request)[1]


@pytest.fixture
def mangonel_client(request: pytest.FixtureRequest, mangonel_server: Server) -> MongoClient[Any]:
    """A blocking client of `mangonel_server`, shared by the tests of a process; do not close it."""
    return _client_of(request)


@pytest.fixture
def mangonel_async_client(mangonel_server: Server) -> Iterator[AsyncMongoClient[Any]]:
    """An asyncio client of `mangonel_server`, for one test; it works on the event loop of the test."""
    import asyncio
    from threading import Thread

    from mangonel import AsyncMongoClient

    client = AsyncMongoClient(mangonel_server.uri, event_listeners=[_recorder])
    yield client

    async def close() -> None:
        await client.close()

    # In its own thread: `asyncio.run` would take this thread's loop away, and fails beside one that is running.
    closing = Thread(target=lambda: asyncio.run(close()))
    closing.start()
    closing.join()


@pytest.fixture
def mangonel_database(request: pytest.FixtureRequest, mangonel_client: MongoClient[Any]) -> Database[Any]:
    """A database without documents: collections of earlier tests still exist, with their indexes, but are empty.

    Each process of pytest-xdist has its own database.
    """
    from mangonel._emptied import Emptier

    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")[:8]
    database = mangonel_client[f"test_{worker}_{run}".rstrip("_")]
    name = _server_of(request)[0]
    if name not in _emptiers:
        _emptiers[name] = Emptier(database)
        if run and isinstance(_servers[name], _Running):
            # The next run has another number and so uses other databases.
            _kept.callback(_drop, database)
    _emptiers[name].empty()
    _recorder.clear()
    return database


@pytest.fixture
def count_commands(mangonel_server: Server) -> Callable[..., AbstractContextManager[Commands]]:
    """A context manager that fails the test when the fixtures' clients send more commands inside than `at_most`.

    Example:
        >>> def test_a_page_takes_one_query(mangonel_database, count_commands):
        ...     with count_commands(at_most=1):
        ...         render(mangonel_database)
    """

    @contextmanager
    def counting(*, at_most: int) -> Iterator[Commands]:
        check_at_most(at_most)
        before = len(_recorder)
        own = Commands()
        yield own
        own.sent, own.commands = _recorder.sent[before:], _recorder.commands[before:]
        try:
            own.check(at_most)
        except TooManyCommands as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None

    return counting


def _drop(database: Database[Any]) -> None:
    from mangonel import timeout
    from mangonel.errors import PyMongoError

    # The run has ended; its server may have ended too.
    with suppress(PyMongoError), timeout(_DROP_TIMEOUT_S):
        database.client.drop_database(database.name)


def _server_of(request: pytest.FixtureRequest) -> tuple[str, Server | _Running]:
    """Return the server for a test's marks, and its name among the running ones. The nearest mark wins."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(_MARK))):
        if mark.args:
            raise pytest.UsageError(f"expected keyword arguments in the mark {_MARK}, got {mark.args[0]!r}")
        options.update(mark.kwargs)
    is_marked = bool(options)
    if options.get("tls") is False:
        # A mark nearer to the test switched TLS off again.
        del options["tls"]
    name = repr((is_marked, sorted(options.items())))
    if name not in _servers:
        uri = request.config.getoption("--mangonel-uri")
        _servers[name] = _Running(uri) if uri and not is_marked else _start(options)
    return name, _servers[name]


def _start(options: dict[str, Any]) -> Server:
    from mangonel.server import start

    if options.get("tls") is True:
        options = {**options, "tls": _certificates()}
    try:
        return _kept.enter_context(start(**options))
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(
            f"expected options of mangonel.server.start in the mark {_MARK}, got {options}: {error}"
        ) from error


def _certificates() -> dict[str, str]:
    """Return the files of an authority made for this run, and of a certificate for loopback."""
    import tempfile

    try:
        import trustme
    except ModuleNotFoundError as error:
        raise pytest.UsageError("tls=True needs trustme; install mangonel[pytest], or name files") from error
    folder = _kept.enter_context(tempfile.TemporaryDirectory())
    authority = trustme.CA()
    files = {"certificateKeyFile": f"{folder}/server.pem", "CAFile": f"{folder}/ca.pem"}
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(
        files["certificateKeyFile"]
    )
    authority.cert_pem.write_to_path(files["CAFile"])
    return {**files, "allowConnectionsWithoutCertificates": True}  # type: ignore[dict-item]  # mongod takes both


def _client_of(request: pytest.FixtureRequest) -> MongoClient[Any]:
    from mangonel import MongoClient

    name, server = _server_of(request)
    if name not in _clients:
        client = MongoClient(server.uri, event_listeners=[_recorder])
        _clients[name] = _kept.enter_context(client)
    return _clients[name]
