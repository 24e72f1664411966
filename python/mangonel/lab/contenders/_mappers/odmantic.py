"""Adapter of ODMantic. Imports it when one is made."""

from __future__ import annotations

import datetime as dt
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders._mappers.reader import USERS, Reader


class OdmanticReader(Reader):
    """ODMantic's blocking engine."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import odmantic
        import pymongo

        names = self.names
        model: Any = odmantic.Model
        embedded: Any = odmantic.EmbeddedModel

        class User(model):  # type: ignore[misc]
            model_config = {"collection": names[USERS]}  # noqa: RUF012
            name: str
            age: int
            birthday: dt.datetime
            timestamp: dt.datetime

        self._client: Any = pymongo.MongoClient(target.uri)
        self._engine: Any = odmantic.SyncEngine(client=self._client, database=target.database)
        del embedded
        self._models: dict[str, Any] = {USERS: User}

    def read(self, kind: str, times: int) -> list[Any]:
        """Read documents."""
        found: list[Any] = []
        for _ in range(times):
            found = list(self._engine.find(self._models[kind]))
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return the document."""
        return dict(found.model_dump_doc())

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Decode dicts, and documents of them."""
        import bson

        model = self._models[kind]
        return [model.model_validate_doc(document) for document in bson.decode_all(data)]

    def close(self) -> None:
        """Close the client."""
        self._client.close()
