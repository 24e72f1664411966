"""Fixtures for every test: real servers, started when the first test asks, and the tools' import path."""

from __future__ import annotations

import asyncio
import atexit
import gc
import inspect
import math
import os
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import mangonel.server
from mangonel import _core
from mangonel.bson import ObjectId
from mangonel.engines.programs import install_together
from mangonel.gridfs import _opening
from mangonel.server import Server, start

sys.path.insert(0, str(Path(__file__).parent))

from tools import browser, needed, sampling, side_by_side, target, workers
from tools.closing import ClosingLines, Progress
from tools.scripted_server import ScriptedServer
from tools.spec_table import SpecTable

# A background run of a shell inherits an ignored Ctrl-C, which the tests send to themselves and to programs.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Only the tests of OCSP use the other TLS engine.
os.environ["MANGONEL_OCSP"] = "0"

HERE = Path(__file__).parent
TEST_COMMANDS = {"enableTestCommands": 1}

if not os.access(HERE.parent, os.W_OK):
    # For a read-only checkout: mypy's cache is kept elsewhere.
    os.environ.setdefault(
        "MYPY_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"mangonel-mypy-{os.getuid()}")
    )

if target.URI:
    # Before any test imports it.
    mangonel.server.start = target.refuse_to_start


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test` plays a sample, `make test-all` the sample and then the rest."""
    group = parser.getgroup("mangonel")
    group.addoption("--sample", action="store_true", help="play each test on some faces, loops and paths")
    group.addoption("--rest", action="store_true", help="play what --sample leaves out")
    workers.add_option(group)


def pytest_configure(config: pytest.Config) -> None:
    """Try few examples of each property in a sample, many in the rest; collect tests with the garbage collector off."""
    gc.disable()
    config.pluginmanager.register(SpecTable())
    if count := workers.asked_for(config):
        config.pluginmanager.register(plays := workers.Workers(count))
    if config.getoption("--sample") or config.getoption("--rest"):
        config.pluginmanager.register(ClosingLines(config.rootpath))
        if count:
            config.pluginmanager.register(Progress(config, plays))
    settings.register_profile("sample", max_examples=12, deadline=None)
    settings.register_profile("usual", max_examples=100, deadline=None)
    settings.register_profile("rest", max_examples=60, deadline=None)
    settings.load_profile(
        next((name for name in ("sample", "rest") if config.getoption(f"--{name}")), "usual")
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Select the sample before other plugins see the tests; after them, put the longest tests first."""
    target.mark(config, items)
    sampling.deselect(config, items)
    yield
    if workers.asked_for(config):
        side_by_side.in_order(items, lambda item: item.path.relative_to(HERE).as_posix())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze the collected tests, so that the many tests that collect garbage do not visit them."""
    if session.config.getoption("--sample") and workers.asked_for(session.config):
        install_together(needed.OF_THE_SAMPLE)
    gc.freeze()
    gc.enable()
    # The end of the interpreter frees everything: extension modules report remaining objects as leaks.
    atexit.register(gc.unfreeze)


@pytest.fixture(scope="session", autouse=True)
def near() -> None:
    """Make GridFS treat every server as near: on a busy machine, a local round trip takes milliseconds too."""
    _opening.LEAST_DISTANCE = math.inf


@pytest.fixture(scope="session", autouse=True)
def ids_in_order() -> None:
    """Keep the counter of ObjectIds far from its end: after a wrap, ids of the same second sort before earlier ones."""
    while ObjectId().binary[9] >= 0x80:
        _core.reseed_object_ids()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A replica set of one, with fail points; shared, so leave it unchanged."""
    if target.URI:
        yield target.shared()
        return
    with start(replica_set=1, set_parameters=TEST_COMMANDS) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def standalone() -> Iterator[Server]:
    """A standalone mongod, with fail points; shared, so leave it unchanged."""
    if target.URI:
        yield target.standalone()
        return
    with start(set_parameters=TEST_COMMANDS) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def kept_clients() -> Iterator[dict[tuple[str, str], Any]]:
    """The clients that the tests of a file share, by face and URI: making one takes 7 ms of both processes."""
    clients: dict[tuple[str, str], Any] = {}
    yield clients

    async def close() -> None:
        for client in clients.values():
            closed = client.close()
            if inspect.isawaitable(closed):
                await closed

    asyncio.run(close())


@pytest.fixture(scope="module")
def chromium_to_lend() -> Iterator[browser.Lend]:
    """A headless browser for the tests of a module: it takes half a second to start."""
    with browser.chromium() as lend:
        yield lend


@pytest.fixture
def chromium(chromium_to_lend: browser.Lend) -> Iterator[Any]:
    """A headless browser; no other event loop can run beside it, until the test has ended."""
    with chromium_to_lend() as lent:
        yield lent


@pytest.fixture
def database_name(server: Server) -> str:
    """The name of a database of `server` that only this test uses; it is removed with the server."""
    return f"test_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def nowhere() -> Iterator[str]:
    """The URI of a port on which nothing listens; the test holds the port, so that no other program takes it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"mongodb://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def scripted_server() -> Iterator[ScriptedServer]:
    """A server with scripted replies; the test fails when a client breaks the wire protocol."""
    with ScriptedServer() as scripted:
        yield scripted
