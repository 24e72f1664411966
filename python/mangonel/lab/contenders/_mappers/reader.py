"""The verbs of a mapper's adapter, and the readers of dicts that mappers are compared with.

The verbs: `read` so many times a collection of one kind, `plain` an object back to a dict for checking, `decode` bytes
without a server, `prepare` the update of one changed scalar without sending it, `save` it.
"""

from __future__ import annotations

import importlib
from typing import Any

from mangonel.lab.contender import Target

USERS, POSTS = "users", "posts"


class Reader:
    """The verbs. `kind` is one of USERS and POSTS, whose collections `names` has."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.names = {kind: f"{target.collection}_{kind}" for kind in (USERS, POSTS)}

    def read(self, kind: str, times: int) -> list[Any]:
        """Read the collection so many times; return the objects of the last time."""
        raise NotImplementedError

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return an object as the document it came from."""
        raise NotImplementedError

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Make the objects of documents that stand one after the other."""
        raise NotImplementedError

    def load_post(self) -> None:
        """Load one post for `prepare` and `save`."""
        raise NotImplementedError

    def prepare(self, value: int) -> Any:
        """Set `views` and make the update of it, but send nothing."""
        raise NotImplementedError

    def save(self, value: int) -> None:
        """Set `views` and save."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open."""


class DictReader(Reader):
    """The dicts of a driver with PyMongo's names."""

    driver: str
    codec: str

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.client: Any = importlib.import_module(self.driver).MongoClient(target.uri)
        self.database = self.client[target.database]

    def read(self, kind: str, times: int) -> list[Any]:
        """Read dicts."""
        collection = self.database[self.names[kind]]
        found: list[Any] = []
        for _ in range(times):
            found = collection.find().to_list()
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return the dict."""
        return dict(found)

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Decode dicts."""
        return list(importlib.import_module(self.codec).decode_all(data))

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class PyMongoReader(DictReader):
    """PyMongo's dicts."""

    driver, codec = "pymongo", "bson"


class MangonelReader(DictReader):
    """This driver's dicts."""

    driver, codec = "mangonel", "mangonel.bson"


class DrainReader(PyMongoReader):
    """The floor: the same reads by a socket that only counts bytes."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        from mangonel.lab.contenders import raw_socket

        self._sockets = {
            kind: raw_socket.RawSocket(
                Target(target.uri, target.database, name, target.write_concern, target.connections)
            )
            for kind, name in self.names.items()
        }
        self._checked: set[str] = set()

    def read(self, kind: str, times: int) -> list[Any]:
        """Drain the replies; the documents of a first, checked reading are returned."""
        from mangonel.lab.contender import Batching

        floor = self._sockets[kind]
        if kind not in self._checked:
            self._checked.add(kind)
            return list(floor.documents(Batching()))
        for _ in range(times):
            floor.iterate(Batching())
        return []

    def close(self) -> None:
        """Close the sockets and the client."""
        for floor in self._sockets.values():
            floor.close()
        super().close()
