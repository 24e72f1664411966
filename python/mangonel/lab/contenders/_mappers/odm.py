"""Adapter of `mangonel.odm`, eager and lazy. Imports it when one is made."""

from __future__ import annotations

import datetime as dt
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders._mappers.reader import POSTS, USERS, Reader


class OdmReader(Reader):
    """This package's mapper."""

    is_lazy = False

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        from mangonel import odm
        from mangonel.odm import Document, Embedded, Point

        names = self.names

        class User(Document):
            __collection__ = names[USERS]
            name: str
            age: int
            birthday: dt.datetime
            timestamp: dt.datetime

        class Author(Embedded):
            name: str
            email: str

        class Comment(Embedded):
            author: str
            text: str
            at: dt.datetime
            likes: int

        class Post(Document):
            __collection__ = names[POSTS]
            title: str
            slug: str
            body: str
            status: str
            lang: str
            author: Author
            tags: list[str]
            category: str
            views: int
            likes: int
            rating: float
            published: bool
            location: Point
            created: dt.datetime
            updated: dt.datetime
            comments: list[Comment]
            source: str

        self._connection = odm.connect(target.uri, database=target.database)
        self._models: dict[str, Any] = {USERS: User, POSTS: Post}
        self._post: Any = None

    def read(self, kind: str, times: int) -> list[Any]:
        """Read documents."""
        query = self._models[kind].find()
        query = query.lazy() if self.is_lazy else query.eager()
        found: list[Any] = []
        for _ in range(times):
            found = query.all()
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return the document."""
        return dict(found.to_dict(by_key=True))

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Decode documents."""
        from mangonel import _core

        return list(_core.odm_decode_all(self._models[kind].__model__, data, self.is_lazy))

    def load_post(self) -> None:
        """Load a post."""
        self._post = self._models[POSTS].find().sort("id").first()

    def prepare(self, value: int) -> Any:
        """Make the whole update command, as `save` does, and forget it."""
        from mangonel import _core

        post = self._post
        post.views = value
        collection = post._bind(False)
        operation = _core.odm_save(
            post, collection._database_name, collection._name, collection._codec, None, len
        )
        _core.odm_settle(post, True)
        return operation

    def save(self, value: int) -> None:
        """Set and save."""
        self._post.views = value
        self._post.save()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class LazyOdmReader(OdmReader):
    """The same with containers left raw, as queries do by themselves."""

    is_lazy = True
