"""A connection to the shared server, and a way to call either face's methods by one name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mangonel.odm import Connection, connect
from mangonel.server import Server


@dataclass
class Face:
    """`face.call(thing, "save")` is `thing.save()` on the blocking face, `await thing.asave()` on asyncio."""

    name: str
    wait: Callable[[Any], Any]

    @property
    def is_async(self) -> bool:
        """Whether this is asyncio."""
        return self.name == "asyncio"

    def call(self, owner: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that waits."""
        return self.wait(getattr(owner, "a" + method if self.is_async else method)(*args, **kwargs))

    def save(self, *documents: Any) -> None:
        """Save documents."""
        for document in documents:
            self.call(document, "save")

    def iterate(self, query: Any) -> list[Any]:
        """Read a query by `for` or `async for`."""
        if not self.is_async:
            return list(query)

        async def gather() -> list[Any]:
            return [document async for document in query]

        return list(self.wait(gather()))


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """Each face in turn."""
    if request.param == "blocking":
        yield Face("blocking", lambda value: value)
        return
    loop = asyncio.new_event_loop()

    def wait(value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value

        async def steps() -> Any:
            return await value

        return loop.run_until_complete(steps())

    yield Face("asyncio", wait)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.fixture
def db(server: Server, database_name: str, face: Face) -> Iterator[Connection]:
    """The default connection of models, to a database that only this test uses."""
    made = connect(server.uri, database=database_name)
    yield made
    made.close()
    face.wait(made.aclose())
