"""Document mappers, and the dicts and the raw socket that they are compared with. Each imports its own when made.

The verbs: `read` so many times a collection of one kind and return the objects of the last time, `plain` an object back
to a dict for checking, `decode` bytes without a server, `load_post` one post, `prepare` the update of its changed
scalar without sending it, `save` it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from mangonel.lab.contender import Batching, Contender, Target
from mangonel.lab.contenders import _models
from mangonel.lab.contenders._models import POSTS, USERS, annotated, fielded
from mangonel.lab.contenders._pymongo_like import uri_with

OBJECTS = "objects"  # reads collections into objects, or says what that costs at least
POSTS_TOO = "posts"
DECODES_ALONE = "decodes-alone"
SAVES_FIELDS = "saves-fields"


class Reader:
    """The verbs. `kind` is one of USERS and POSTS, whose collections `names` has; `models` has their classes."""

    models: dict[str, Any]
    client: Any
    post: Any

    def __init__(self, target: Target) -> None:
        self.names = {kind: f"{target.collection}_{kind}" for kind in (USERS, POSTS)}
        self.open(target)

    def open(self, target: Target) -> None:
        raise NotImplementedError

    def read(self, kind: str, times: int) -> list[Any]:
        model = self.models[kind]
        found: list[Any] = []
        for _ in range(times):
            found = self.all(model)
        return found

    def all(self, model: Any) -> list[Any]:
        raise NotImplementedError

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        raise NotImplementedError

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Make the objects of documents that stand one after the other: of dicts, where a mapper has no other way."""
        import bson

        make = self.maker(self.models[kind])
        return [make(document) for document in bson.decode_all(data)]

    def maker(self, model: Any) -> Callable[[Any], Any]:
        raise NotImplementedError

    def save(self, value: int) -> None:
        self.post.views = value
        self.post.save()

    def close(self) -> None:
        self.client.close()


class DictReader(Reader):
    """The dicts of a driver with PyMongo's names."""

    driver, codec = "mangonel", "mangonel.bson"

    def open(self, target: Target) -> None:
        self.client = importlib.import_module(self.driver).MongoClient(target.uri)
        database = self.client[target.database]
        self.models = {kind: database[name] for kind, name in self.names.items()}

    def all(self, model: Any) -> list[Any]:
        found: list[Any] = model.find().to_list()
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found)

    def decode(self, kind: str, data: bytes) -> list[Any]:
        return list(importlib.import_module(self.codec).decode_all(data))


class PyMongoReader(DictReader):
    driver, codec = "pymongo", "bson"


class DrainReader(PyMongoReader):
    """The floor: the same reads by a socket that only counts bytes."""

    def open(self, target: Target) -> None:
        from mangonel.lab.contenders.raw import RawSocket

        super().open(target)
        self._checked: set[str] = set()
        self._sockets = {
            kind: RawSocket(dataclasses.replace(target, collection=name)) for kind, name in self.names.items()
        }

    def read(self, kind: str, times: int) -> list[Any]:
        """Drain the replies; the documents of a first, checked reading are returned."""
        floor = self._sockets[kind]
        if kind not in self._checked:
            self._checked.add(kind)
            return list(floor.documents(Batching()))
        for _ in range(times):
            floor.iterate(Batching())
        return []

    def close(self) -> None:
        for floor in self._sockets.values():
            floor.close()
        super().close()


class OdmReader(Reader):
    is_lazy = False

    def open(self, target: Target) -> None:
        from mangonel import odm

        self.client = odm.connect(target.uri, database=target.database)
        post = _models.post(partial(annotated, odm.Embedded, __tz_aware__=False), odm.Point)
        # Dates without a time zone, as the others have them.
        stored = partial(annotated, odm.Document, __tz_aware__=False)
        self.models = {
            USERS: stored("User", _models.USER, __collection__=self.names[USERS]),
            POSTS: stored("Post", post, __collection__=self.names[POSTS]),
        }

    def read(self, kind: str, times: int) -> list[Any]:
        # One query, read again and again.
        query = self.models[kind].find()
        query = query.lazy() if self.is_lazy else query.eager()
        found: list[Any] = []
        for _ in range(times):
            found = query.all()
        return found

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.to_dict(by_key=True))

    def decode(self, kind: str, data: bytes) -> list[Any]:
        from mangonel import _core

        return list(_core.odm_decode_all(self.models[kind].__model__, data, self.is_lazy))

    def load_post(self) -> None:
        self.post = self.models[POSTS].find().sort("id").first()

    def prepare(self, value: int) -> Any:
        """Make the whole update command, as `save` does, and forget it."""
        from mangonel import _core

        post = self.post
        post.views = value
        collection = post._bind(False)
        names = collection._database_name, collection._name
        operation = _core.odm_save(post, *names, collection._codec, None, len)
        _core.odm_settle(post, True)
        return operation


class LazyOdmReader(OdmReader):
    """The same with containers left raw, as queries do by themselves."""

    is_lazy = True


class MongoEngineReader(Reader):
    def open(self, target: Target) -> None:
        engine: Any = importlib.import_module("mongoengine")
        engine.connect(host=target.uri, db=target.database, uuidRepresentation="standard")
        kinds = {
            str: engine.StringField,
            int: engine.IntField,
            float: engine.FloatField,
            bool: engine.BooleanField,
            dt.datetime: engine.DateTimeField,
        }
        post = _models.post(
            partial(fielded, engine.EmbeddedDocument, kinds=kinds),
            engine.PointField(auto_index=False),
            one=engine.EmbeddedDocumentField,
            strings=lambda kind: engine.ListField(engine.StringField()),
            many=engine.EmbeddedDocumentListField,
        )
        metas: dict[str, dict[str, Any]] = {kind: {"collection": self.names[kind]} for kind in (USERS, POSTS)}
        metas[POSTS]["auto_create_index"] = False
        self.models = {
            USERS: fielded(engine.Document, "User", _models.USER, kinds, meta=metas[USERS]),
            POSTS: fielded(engine.Document, "Post", post, kinds, meta=metas[POSTS]),
        }
        self._engine = engine

    def all(self, model: Any) -> list[Any]:
        return list(model.objects)

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.to_mongo().to_dict())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        make: Callable[[Any], Any] = model._from_son
        return make

    def load_post(self) -> None:
        self.post = self.models[POSTS].objects.order_by("_id").first()

    def prepare(self, value: int) -> Any:
        """Find out what changed and encode the update."""
        import bson

        self.post.views = value
        updates, removals = self.post._delta()
        self.post._clear_changed_fields()
        return bson.encode({"$set": updates, "$unset": removals} if removals else {"$set": updates})

    def close(self) -> None:
        self._engine.disconnect()


class BeanieReader(Reader):
    """Beanie, with state management for what is saved, on its own event loop."""

    def open(self, target: Target) -> None:
        import beanie
        import pydantic
        import pymongo

        post = _models.post(partial(annotated, pydantic.BaseModel))
        stored = partial(annotated, beanie.Document)
        self.models = {
            USERS: stored("User", _models.USER, {"name": self.names[USERS]}),
            POSTS: stored("Plain", post, {"name": self.names[POSTS]}),
        }
        self._tracked = stored("Tracked", post, {"name": self.names[POSTS], "use_state_management": True})
        self._runner = asyncio.Runner()

        async def open_client() -> None:
            self.client = pymongo.AsyncMongoClient(target.uri)
            models = [*self.models.values(), self._tracked]
            await beanie.init_beanie(database=self.client[target.database], document_models=models)

        self._runner.run(open_client())

    def read(self, kind: str, times: int) -> list[Any]:
        model = self.models[kind]

        async def steps() -> list[Any]:
            found: list[Any] = []
            for _ in range(times):
                found = await model.find().to_list()
            return found

        return self._runner.run(steps())

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return {"_id": found.id, **found.model_dump(exclude={"id", "revision_id"})}

    def maker(self, model: Any) -> Callable[[Any], Any]:
        from beanie.odm.utils.parsing import parse_obj

        return partial(parse_obj, model)

    def load_post(self) -> None:
        async def steps() -> Any:
            return await self._tracked.find().sort("_id").first_or_none()

        self.post = self._runner.run(steps())

    def prepare(self, value: int) -> Any:
        """Find out what changed and encode the update."""
        import bson

        self.post.views = value
        return bson.encode({"$set": self.post.get_changes()})

    def save(self, value: int) -> None:
        self.post.views = value
        self._runner.run(self.post.save_changes())

    def close(self) -> None:
        self._runner.run(self.client.close())
        self._runner.close()


class OdmanticReader(Reader):
    """ODMantic's blocking engine, on users alone."""

    def open(self, target: Target) -> None:
        import odmantic
        import pymongo

        self.client = pymongo.MongoClient(target.uri)
        self._engine: Any = odmantic.SyncEngine(client=self.client, database=target.database)
        config = {"collection": self.names[USERS]}
        self.models = {USERS: annotated(odmantic.Model, "User", _models.USER, model_config=config)}

    def all(self, model: Any) -> list[Any]:
        return list(self._engine.find(model))

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.model_dump_doc())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        make: Callable[[Any], Any] = model.model_validate_doc
        return make


class UmongoReader(Reader):
    """umongo on PyMongo, on users alone."""

    def open(self, target: Target) -> None:
        import pymongo

        umongo: Any = importlib.import_module("umongo")
        framework: Any = importlib.import_module("umongo.frameworks")
        fields: Any = umongo.fields
        kinds = {str: fields.StringField, int: fields.IntegerField, dt.datetime: fields.NaiveDateTimeField}
        self.client = pymongo.MongoClient(target.uri)
        instance: Any = framework.PyMongoInstance(self.client[target.database])
        meta = type("Meta", (), {"collection_name": self.names[USERS]})
        model = fielded(umongo.Document, "User", _models.USER, kinds, Meta=meta)
        self.models = {USERS: instance.register(model)}

    def all(self, model: Any) -> list[Any]:
        return list(model.find())

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.to_mongo())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        return partial(model.build_from_mongo, use_cls=False)


READS, DECODES, ALL = (POSTS_TOO,), (POSTS_TOO, DECODES_ALONE), (POSTS_TOO, DECODES_ALONE, SAVES_FIELDS)
USERS_ALONE = (DECODES_ALONE,)
_ROWS: tuple[tuple[str, str, type[Reader], str, tuple[str, ...]], ...] = (
    ("objects-floor", "floor: raw socket, bytes only", DrainReader, "", READS),
    ("objects-pymongo", "PyMongo, dicts", PyMongoReader, "", DECODES),
    ("objects-dicts", "mangonel, dicts", DictReader, "mangonel", DECODES),
    ("odm", "mangonel.odm, eager", OdmReader, "mangonel", ALL),
    ("odm-lazy", "mangonel.odm, lazy", LazyOdmReader, "mangonel", DECODES),
    ("mongoengine", "MongoEngine", MongoEngineReader, "mongoengine", ALL),
    ("beanie", "Beanie", BeanieReader, "beanie", ALL),
    ("odmantic", "ODMantic", OdmanticReader, "odmantic", USERS_ALONE),
    ("umongo", "umongo", UmongoReader, "umongo", USERS_ALONE),
)


def _opened(reader: type[Reader], target: Target) -> Any:
    return reader(dataclasses.replace(target, uri=uri_with(target)))


CONTENDERS = tuple(
    Contender(
        id,
        title,
        frozenset({OBJECTS, *offers}),
        packages=("pymongo", *([package] if package else [])),
        blocking=partial(_opened, reader),
    )
    for id, title, reader, package, offers in _ROWS
)
