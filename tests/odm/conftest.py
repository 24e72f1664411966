"""A connection to the shared server, and a way to call either face's methods by one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tools.faces
from mangonel.odm import Connection, connect
from mangonel.server import Server


class Face(tools.faces.Face):
    """`face.call(thing, "save")` is `thing.save()` on the blocking face, `await thing.asave()` on asyncio."""

    def call(self, owner: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that waits."""
        return self.run(lambda: getattr(owner, "a" + method if self.is_async else method)(*args, **kwargs))

    def save(self, *documents: Any) -> None:
        """Save documents."""
        for document in documents:
            self.call(document, "save")


face = tools.faces.faces("blocking", "asyncio", kind=Face)


@pytest.fixture
def db(
    server: Server, database_name: str, face: Face, kept_clients: dict[tuple[str, str], Any]
) -> Iterator[Connection]:
    """The default connection of models, to a database that only this test uses; its client is that of the file."""
    made = connect(server.uri, database=database_name)
    lent = face.kept_client(kept_clients, server.uri)
    made.clients._made[face.is_async][None] = lent
    yield made
    if made.clients._made[face.is_async].get(None) is lent:
        del made.clients._made[face.is_async][None]
    made.close()
    face.wait(made.aclose())
