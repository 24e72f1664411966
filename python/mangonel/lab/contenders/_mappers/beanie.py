"""Adapter of Beanie. Imports it when one is made."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders._mappers.reader import POSTS, USERS, Reader


class BeanieReader(Reader):
    """Beanie, with state management, on its own event loop."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import beanie
        import pydantic
        import pymongo

        names = self.names
        document: Any = beanie.Document
        base: Any = pydantic.BaseModel

        class User(document):  # type: ignore[misc]
            name: str
            age: int
            birthday: dt.datetime
            timestamp: dt.datetime

            class Settings:
                name = names[USERS]

        class Author(base):  # type: ignore[misc]
            name: str
            email: str

        class Location(base):  # type: ignore[misc]
            type: str
            coordinates: list[float]

        class Comment(base):  # type: ignore[misc]
            author: str
            text: str
            at: dt.datetime
            likes: int

        class Plain(document):  # type: ignore[misc]
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
            location: Location
            created: dt.datetime
            updated: dt.datetime
            comments: list[Comment]
            source: str

            class Settings:
                name = names[POSTS]

        class Tracked(Plain):
            class Settings:
                name = names[POSTS]
                use_state_management = True

        for model in (User, Plain, Tracked):
            model.model_rebuild(_types_namespace={**globals(), **locals()})
        self._runner = asyncio.Runner()
        client: Any = pymongo.AsyncMongoClient
        self._client: Any = None

        async def open_client() -> None:
            self._client = client(target.uri)
            await beanie.init_beanie(
                database=self._client[target.database], document_models=[User, Plain, Tracked]
            )

        self._runner.run(open_client())
        self._models: dict[str, Any] = {USERS: User, POSTS: Plain}
        self._tracked: Any = Tracked
        self._post: Any = None

    def read(self, kind: str, times: int) -> list[Any]:
        """Read documents."""
        model = self._models[kind]

        async def steps() -> list[Any]:
            found: list[Any] = []
            for _ in range(times):
                found = await model.find().to_list()
            return found

        return self._runner.run(steps())

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return the document."""
        values: dict[str, Any] = found.model_dump()
        return {
            "_id": found.id,
            **{key: value for key, value in values.items() if key not in ("id", "revision_id")},
        }

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Decode dicts, and documents of them."""
        import bson
        from beanie.odm.utils.parsing import parse_obj

        model = self._models[kind]
        return [parse_obj(model, document) for document in bson.decode_all(data)]

    def load_post(self) -> None:
        """Load a post with its state."""

        async def steps() -> Any:
            return await self._tracked.find().sort("_id").first_or_none()

        self._post = self._runner.run(steps())

    def prepare(self, value: int) -> Any:
        """Find out what changed and encode the update."""
        import bson

        post = self._post
        post.views = value
        return bson.encode({"$set": post.get_changes()})

    def save(self, value: int) -> None:
        """Set and save."""
        self._post.views = value
        self._runner.run(self._post.save_changes())

    def close(self) -> None:
        """Close the client and the loop."""
        self._runner.run(self._client.close())
        self._runner.close()
