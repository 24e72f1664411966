"""Document mappers, and the dicts and the raw socket that they are compared with. Each imports its own when made.

The verbs: `read` so many times a collection of one kind, `plain` an object back to a dict for checking, `decode` bytes
without a server, `prepare` the update of one changed scalar without sending it, `save` it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import importlib
from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import Batching, Contender, Target
from mangonel.lab.contenders import _models
from mangonel.lab.contenders._models import POSTS, USERS, annotated, list_of
from mangonel.lab.contenders._pymongo_like import uri_with

OBJECTS = "objects"  # reads collections into objects, or says what that costs at least
POSTS_TOO = "posts"
DECODES_ALONE = "decodes-alone"
SAVES_FIELDS = "saves-fields"


class Reader:
    """The verbs. `kind` is one of USERS and POSTS, whose collections `names` has; `models` has their classes."""

    models: dict[str, Any]
    client: Any
    # The post of `prepare` and `save`.
    post: Any

    def __init__(self, target: Target) -> None:
        self.target = target
        self.names = {kind: f"{target.collection}_{kind}" for kind in (USERS, POSTS)}

    def read(self, kind: str, times: int) -> list[Any]:
        """Read the collection so many times; return the objects of the last time."""
        model = self.models[kind]
        found: list[Any] = []
        for _ in range(times):
            found = self.all(model)
        return found

    def all(self, model: Any) -> list[Any]:
        """Return the objects of a whole collection."""
        raise NotImplementedError

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        """Return an object as the document it came from."""
        raise NotImplementedError

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Make the objects of documents that stand one after the other: of dicts, where a mapper has no other way."""
        import bson

        make = self.maker(self.models[kind])
        return [make(document) for document in bson.decode_all(data)]

    def maker(self, model: Any) -> Callable[[Any], Any]:
        """Return what makes an object of a dict."""
        raise NotImplementedError

    def load_post(self) -> None:
        """Load one post for `prepare` and `save`."""
        raise NotImplementedError

    def prepare(self, value: int) -> Any:
        """Set `views` and make the update of it, but send nothing."""
        raise NotImplementedError

    def save(self, value: int) -> None:
        """Set `views` and save."""
        self.post.views = value
        self.post.save()

    def close(self) -> None:
        """Close what is open."""
        self.client.close()


class DictReader(Reader):
    """The dicts of a driver with PyMongo's names."""

    driver, codec = "mangonel", "mangonel.bson"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
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
    """PyMongo's dicts."""

    driver, codec = "pymongo", "bson"


class DrainReader(PyMongoReader):
    """The floor: the same reads by a socket that only counts bytes."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        from mangonel.lab.contenders.raw_socket import RawSocket

        self._sockets = {
            kind: RawSocket(dataclasses.replace(target, collection=name)) for kind, name in self.names.items()
        }
        self._checked: set[str] = set()

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
    """This package's mapper."""

    is_lazy = False

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        from mangonel import odm

        author = annotated("Author", odm.Embedded, _models.AUTHOR)
        comment = annotated("Comment", odm.Embedded, _models.COMMENT)
        post = _models.post(author, list[str], odm.Point, list_of(comment))
        self.client = odm.connect(target.uri, database=target.database)
        self.models = {
            USERS: annotated("User", odm.Document, _models.USER, __collection__=self.names[USERS]),
            POSTS: annotated("Post", odm.Document, post, __collection__=self.names[POSTS]),
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
        operation = _core.odm_save(
            post, collection._database_name, collection._name, collection._codec, None, len
        )
        _core.odm_settle(post, True)
        return operation


class LazyOdmReader(OdmReader):
    """The same with containers left raw, as queries do by themselves."""

    is_lazy = True


class MongoEngineReader(Reader):
    """MongoEngine."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        engine: Any = importlib.import_module("mongoengine")
        engine.connect(host=target.uri, db=target.database, uuidRepresentation="standard")
        kinds = {
            str: engine.StringField,
            int: engine.IntField,
            float: engine.FloatField,
            bool: engine.BooleanField,
            dt.datetime: engine.DateTimeField,
        }

        def model(name: str, base: Any, types: dict[str, Any], **more: Any) -> Any:
            fields = {key: kinds[kind]() if kind in kinds else kind for key, kind in types.items()}
            return type(base)(name, (base,), {**fields, **more, "__module__": __name__})

        author = model("Author", engine.EmbeddedDocument, _models.AUTHOR)
        comment = model("Comment", engine.EmbeddedDocument, _models.COMMENT)
        post = _models.post(
            engine.EmbeddedDocumentField(author),
            engine.ListField(engine.StringField()),
            engine.PointField(auto_index=False),
            engine.EmbeddedDocumentListField(comment),
        )
        meta = {"collection": self.names[POSTS], "auto_create_index": False}
        self.models = {
            USERS: model("User", engine.Document, _models.USER, meta={"collection": self.names[USERS]}),
            POSTS: model("Post", engine.Document, post, meta=meta),
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

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import beanie
        import pydantic
        import pymongo

        def stored(name: str, fields: dict[str, Any], kind: str, **settings: Any) -> Any:
            return annotated(name, beanie.Document, fields, {"name": self.names[kind], **settings})

        inner = {
            name: annotated(name, pydantic.BaseModel, fields)
            for name, fields in (
                ("Author", _models.AUTHOR),
                ("Location", _models.LOCATION),
                ("Comment", _models.COMMENT),
            )
        }
        post = _models.post(inner["Author"], list[str], inner["Location"], list_of(inner["Comment"]))
        self.models = {
            USERS: stored("User", _models.USER, USERS),
            POSTS: stored("Plain", post, POSTS),
        }
        self._tracked = stored("Tracked", post, POSTS, use_state_management=True)
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
        values: dict[str, Any] = found.model_dump(exclude={"id", "revision_id"})
        return {"_id": found.id, **values}

    def maker(self, model: Any) -> Callable[[Any], Any]:
        from beanie.odm.utils.parsing import parse_obj

        return functools.partial(parse_obj, model)

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

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import odmantic
        import pymongo

        self.client = pymongo.MongoClient(target.uri)
        self._engine: Any = odmantic.SyncEngine(client=self.client, database=target.database)
        config = {"collection": self.names[USERS]}
        self.models = {USERS: annotated("User", odmantic.Model, _models.USER, model_config=config)}

    def all(self, model: Any) -> list[Any]:
        return list(self._engine.find(model))

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.model_dump_doc())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        make: Callable[[Any], Any] = model.model_validate_doc
        return make


class UmongoReader(Reader):
    """umongo on PyMongo, on users alone."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        import pymongo

        umongo: Any = importlib.import_module("umongo")
        framework: Any = importlib.import_module("umongo.frameworks")
        fields: Any = umongo.fields
        kinds = {str: fields.StringField, int: fields.IntegerField, dt.datetime: fields.NaiveDateTimeField}
        self.client = pymongo.MongoClient(target.uri)
        instance: Any = framework.PyMongoInstance(self.client[target.database])
        meta = type("Meta", (), {"collection_name": self.names[USERS]})
        body: dict[str, Any] = {name: kinds[kind]() for name, kind in _models.USER.items()}
        base: Any = umongo.Document
        model = type(base)("User", (base,), {**body, "Meta": meta, "__module__": __name__})
        self.models = {USERS: instance.register(model)}

    def all(self, model: Any) -> list[Any]:
        return list(model.find())

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.to_mongo())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        return functools.partial(model.build_from_mongo, use_cls=False)


def _contender(
    id: str, title: str, reader: type[Reader], packages: tuple[str, ...], *offers: str
) -> Contender:
    def make(target: Target) -> Any:
        return reader(dataclasses.replace(target, uri=uri_with(target)))

    return Contender(id, title, frozenset({OBJECTS, *offers}), packages=("pymongo", *packages), blocking=make)


ALL = (POSTS_TOO, DECODES_ALONE, SAVES_FIELDS)
OURS = ("mangonel",)

CONTENDERS = (
    _contender("objects-floor", "floor: raw socket, bytes only", DrainReader, (), POSTS_TOO),
    _contender("objects-pymongo", "PyMongo, dicts", PyMongoReader, (), POSTS_TOO, DECODES_ALONE),
    _contender("objects-dicts", "mangonel, dicts", DictReader, OURS, POSTS_TOO, DECODES_ALONE),
    _contender("odm", "mangonel.odm, eager", OdmReader, OURS, *ALL),
    _contender("odm-lazy", "mangonel.odm, lazy", LazyOdmReader, OURS, POSTS_TOO, DECODES_ALONE),
    _contender("mongoengine", "MongoEngine", MongoEngineReader, ("mongoengine",), *ALL),
    _contender("beanie", "Beanie", BeanieReader, ("beanie",), *ALL),
    _contender("odmantic", "ODMantic", OdmanticReader, ("odmantic",), DECODES_ALONE),
    _contender("umongo", "umongo", UmongoReader, ("umongo",), DECODES_ALONE),
)
