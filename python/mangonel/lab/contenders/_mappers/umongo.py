"""Adapter of umongo. Imports it when one is made."""

from __future__ import annotations

import importlib
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders._mappers.reader import USERS, Reader


class UmongoReader(Reader):
    """umongo on PyMongo."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import pymongo

        umongo: Any = importlib.import_module("umongo")
        framework: Any = importlib.import_module("umongo.frameworks")

        names = self.names
        document: Any = umongo.Document
        fields: Any = umongo.fields
        self._client: Any = pymongo.MongoClient(target.uri)
        instance: Any = framework.PyMongoInstance(self._client[target.database])

        @instance.register
        class User(document):  # type: ignore[misc]
            name = fields.StringField()
            age = fields.IntegerField()
            birthday = fields.NaiveDateTimeField()
            timestamp = fields.NaiveDateTimeField()

            class Meta:
                collection_name = names[USERS]

        self._models: dict[str, Any] = {USERS: User}

    def read(self, kind: str, times: int) -> list[Any]:
        """Read documents."""
        found: list[Any] = []
        for _ in range(times):
            found = list(self._models[kind].find())
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return the document."""
        return dict(found.to_mongo())

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Decode dicts, and documents of them."""
        import bson

        model = self._models[kind]
        return [model.build_from_mongo(document, use_cls=False) for document in bson.decode_all(data)]

    def close(self) -> None:
        """Close the client."""
        self._client.close()
