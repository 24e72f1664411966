"""Fixtures of the websession tests: real servers of every engine, started when the first test asks.

The folder is importable for its helpers, and coroutine tests run on a loop of their own. Tests of a server that is not
available are skipped with the reason; MANGONEL_REQUIRE_SERVERS=1, as in continuous integration, makes that a failure.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mangonel.engines.engine import Engine
from mangonel.engines.programs import Missing
from mangonel.engines.stores import running
from tools.faces import TIMEOUT
from tools.needed import go_without

sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def engine() -> Iterator[Callable[[str], Engine]]:
    """Return a function that runs an engine once for all tests; each test leaves it unchanged except for records."""
    started: dict[str, Engine | str] = {}
    with ExitStack() as stack:

        def start(name: str) -> Engine:
            if name not in started:
                try:
                    started[name] = stack.enter_context(running(name))
                except Missing as error:
                    started[name] = f"no {name} server: {error}"
            found = started[name]
            if isinstance(found, str):
                go_without(found)
            return found

        yield start


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Return a function from a store's name to the URL of an empty one; only a bug reaches its time limit."""
    limit = f"timeout={TIMEOUT:.0f}"

    def url_of(name: str) -> str:
        unique = uuid.uuid4().hex[:12]
        if name == "memory":
            return f"memory:{unique}"
        if name == "mongodb":
            uri: str = request.getfixturevalue("server").uri
            return uri.replace("/?", f"/{request.getfixturevalue('database_name')}?collection=c{unique}&")
        if name == "sqlite":
            return f"sqlite:///{tmp_path}/{unique}.db?{limit}"
        if name == "directory":
            return f"files://{tmp_path}/{unique}?{limit}"
        if name == "single_file":
            return f"file://{tmp_path}/{unique}?{limit}"
        running_engine: Engine = request.getfixturevalue("engine")(name)
        own = "table=t" if name in ("mysql", "postgresql") else "prefix="
        return f"{running_engine.url}?{limit}&{own}{unique}"

    return url_of
