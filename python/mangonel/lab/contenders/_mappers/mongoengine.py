"""Adapter of MongoEngine. Imports it when one is made."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders._mappers.reader import POSTS, USERS, Reader


class MongoEngineReader(Reader):
    """MongoEngine."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)

        names = self.names
        engine: Any = importlib.import_module("mongoengine")
        engine.connect(host=target.uri, db=target.database, uuidRepresentation="standard")

        class User(engine.Document):  # type: ignore[misc]
            meta = {"collection": names[USERS]}  # noqa: RUF012
            name = engine.StringField()
            age = engine.IntField()
            birthday = engine.DateTimeField()
            timestamp = engine.DateTimeField()

        class Author(engine.EmbeddedDocument):  # type: ignore[misc]
            name = engine.StringField()
            email = engine.StringField()

        class Comment(engine.EmbeddedDocument):  # type: ignore[misc]
            author = engine.StringField()
            text = engine.StringField()
            at = engine.DateTimeField()
            likes = engine.IntField()

        class Post(engine.Document):  # type: ignore[misc]
            meta = {"collection": names[POSTS], "auto_create_index": False}  # noqa: RUF012
            title = engine.StringField()
            slug = engine.StringField()
            body = engine.StringField()
            status = engine.StringField()
            lang = engine.StringField()
            author = engine.EmbeddedDocumentField(Author)
            tags = engine.ListField(engine.StringField())
            category = engine.StringField()
            views = engine.IntField()
            likes = engine.IntField()
            rating = engine.FloatField()
            published = engine.BooleanField()
            location = engine.PointField(auto_index=False)
            created = engine.DateTimeField()
            updated = engine.DateTimeField()
            comments = engine.EmbeddedDocumentListField(Comment)
            source = engine.StringField()

        self._engine = engine
        self._models: dict[str, Any] = {USERS: User, POSTS: Post}
        self._post: Any = None

    def read(self, kind: str, times: int) -> list[Any]:
        """Read documents."""
        found: list[Any] = []
        for _ in range(times):
            found = list(self._models[kind].objects)
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return the document."""
        return dict(found.to_mongo().to_dict())

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Decode dicts, and documents of them."""
        import bson

        make: Callable[[Any], Any] = self._models[kind]._from_son
        return [make(document) for document in bson.decode_all(data)]

    def load_post(self) -> None:
        """Load a post."""
        self._post = self._models[POSTS].objects.order_by("_id").first()

    def prepare(self, value: int) -> Any:
        """Find out what changed and encode the update."""
        import bson

        post = self._post
        post.views = value
        updates, removals = post._delta()
        post._clear_changed_fields()
        return bson.encode({"$set": updates, "$unset": removals} if removals else {"$set": updates})

    def save(self, value: int) -> None:
        """Set and save."""
        self._post.views = value
        self._post.save()

    def close(self) -> None:
        """Close the client."""
        self._engine.disconnect()
