"""Adapters of document mappers, and of what they are compared with: each reads whole collections into its objects.

Models are made inside functions, so that the conductor imports none of the mappers. The verbs: `read` so many times
a collection of one kind, `plain` an object back to a dict for checking, `decode` bytes without a server, `prepare`
the update of one changed scalar without sending it, `save` it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
from collections.abc import Callable
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


class PyMongoReader(Reader):
    """PyMongo's dicts."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import pymongo

        self.client: Any = pymongo.MongoClient(target.uri)
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
        import bson

        return list(bson.decode_all(data))

    def close(self) -> None:
        """Close the client."""
        self.client.close()


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


class MangonelReader(Reader):
    """This driver's dicts."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        from mangonel import MongoClient

        self.client: Any = MongoClient(target.uri)
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
        from mangonel import bson

        return list(bson.decode_all(data))

    def close(self) -> None:
        """Close the client."""
        self.client.close()


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
