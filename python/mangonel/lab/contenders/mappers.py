"""Document mappers, and the dicts and the raw socket that they are compared with. Each imports its own package.

The methods for reading and saving: `read` reads a collection of one kind repeatedly and returns the objects of the last
time; `plain` converts an object to a dict for checking; `decode` works on bytes without a server; `load_post` loads one
post; `prepare` makes the update for its changed scalar without sending it; `save` saves it.

The methods of the ODM benchmarking specification, each for one document: `create` from values; `change` a scalar of a
loaded object and store it; `find` by a query; `foreign` finds by the id of a referenced document, which the same
command returns.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import importlib
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mangonel.lab.contender import Batching, Contender, Target
from mangonel.lab.contenders._models import (
    FLAT,
    JOINED,
    NESTED,
    ONE,
    POSTS,
    SMALL,
    USERS,
    annotated,
    fielded,
    fields_of,
)
from mangonel.lab.contenders._pymongo_like import uri_with


class Reader:
    """The methods. `models` holds the classes by kind, `names` the names of their collections."""

    client: Any
    post: Any

    def __init__(self, target: Target, kinds: Sequence[str] = (USERS, POSTS)) -> None:
        self.names = {kind: f"{target.collection}_{kind}" for kind in kinds}
        self.open(target)
        self.models: dict[str, Any] = {}
        for kind in kinds:
            self.models[kind] = self.make(kind)

    def open(self, target: Target) -> None:
        """Connect."""
        raise NotImplementedError

    def make(self, kind: str) -> Any:
        """Make the class of a kind."""
        raise NotImplementedError

    def read(self, kind: str, times: int) -> list[Any]:
        model = self.models[kind]
        found: list[Any] = []
        for _ in range(times):
            found = self.all(model)
        return found

    def all(self, model: Any) -> list[Any]:
        """Return the objects of a whole collection."""
        raise NotImplementedError

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        raise NotImplementedError

    def decode(self, kind: str, data: bytes) -> list[Any]:
        """Make objects from concatenated documents, through dicts if the mapper has no other way."""
        import bson

        make = self.maker(self.models[kind])
        return [make(document) for document in bson.decode_all(data)]

    def maker(self, model: Any) -> Callable[[Any], Any]:
        raise NotImplementedError

    def save(self, value: int) -> None:
        self.post.views = value
        self.post.save()

    def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        found.save()

    def each(self, verb: str, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Call a method of the specification once for each row of arguments."""
        act = getattr(self, verb)
        return [act(*row) for row in rows]

    def close(self) -> None:
        self.client.close()


class DictReader(Reader):
    """The dicts of a driver with PyMongo's names."""

    driver, codec = "mangonel", "mangonel.bson"

    def open(self, target: Target) -> None:
        self.client = importlib.import_module(self.driver).MongoClient(target.uri)
        self._database = self.client[target.database]

    def make(self, kind: str) -> Any:
        return self._database[self.names[kind]]

    def all(self, model: Any) -> list[Any]:
        return model.find().to_list()

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found)

    def decode(self, kind: str, data: bytes) -> list[Any]:
        return list(importlib.import_module(self.codec).decode_all(data))

    def create(self, kind: str, values: dict[str, Any]) -> None:
        self.models[kind].insert_one(dict(values))

    def change(self, kind: str, found: Any, value: str) -> None:
        key = f"{ONE}.field1" if kind == NESTED else "field1"
        self.models[kind].update_one({"_id": found["_id"]}, {"$set": {key: value}})

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self.models[kind].find_one(query)

    def foreign(self, id: Any) -> Any:
        lookup = {"from": self.names[SMALL], "localField": "other", "foreignField": "_id", "as": "other"}
        stages = [{"$match": {"other": id}}, {"$limit": 1}, {"$lookup": lookup}, {"$unwind": "$other"}]
        return self.models[JOINED].aggregate(stages).next()


class PyMongoReader(DictReader):
    driver, codec = "pymongo", "bson"


class DrainReader(PyMongoReader):
    """The lower bound: the same reads by a socket that only counts bytes."""

    def open(self, target: Target) -> None:
        from mangonel.lab.contenders.raw import RawSocket

        super().open(target)
        self._checked: set[str] = set()
        self._sockets = {
            kind: RawSocket(dataclasses.replace(target, collection=name)) for kind, name in self.names.items()
        }

    def read(self, kind: str, times: int) -> list[Any]:
        """Discard the replies; return the documents of a first, checked read."""
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

    def make(self, kind: str) -> Any:
        from mangonel import odm

        # Dates without a time zone, as the others have them.
        stored, inside = (
            partial(annotated, base, __tz_aware__=False) for base in (odm.Document, odm.Embedded)
        )
        if kind == JOINED:
            small: Any = odm.Ref
            fields = {**FLAT[SMALL], "other": small[self.models[SMALL]]}
        else:
            fields = fields_of(kind, inside, odm.Point)
        return stored(kind.title(), fields, __collection__=self.names[kind])

    def read(self, kind: str, times: int) -> list[Any]:
        # One query, read repeatedly.
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
        """Make the whole update command as `save` does, and discard it."""
        from mangonel import _core

        post = self.post
        post.views = value
        _, database, name, codec, *_ = post._bind(False)._context
        operation = _core.odm_save(post, (database, name, codec, None))
        _core.odm_settle(post, True)
        return operation

    def create(self, kind: str, values: dict[str, Any]) -> None:
        model = self.models[kind]
        (model(**values) if kind != NESTED else model.from_dict(values)).save()

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self.models[kind].find(query).one()

    def foreign(self, id: Any) -> Any:
        model = self.models[JOINED]
        return model.find(model.other == id).lookup(model.other).first()


class LazyOdmReader(OdmReader):
    """The same with containers left undecoded, which queries do by default."""

    is_lazy = True


class MongoEngineReader(Reader):
    """Raise: it has no `$lookup`."""

    def open(self, target: Target) -> None:
        engine = self._engine = importlib.import_module("mongoengine")
        engine.connect(host=target.uri, db=target.database, uuidRepresentation="standard")
        self._kinds = {
            str: engine.StringField,
            int: engine.IntField if USERS in self.names else engine.LongField,
            float: engine.FloatField,
            bool: engine.BooleanField,
            bytes: engine.BinaryField,
            dt.datetime: engine.DateTimeField,
        }

    def make(self, kind: str) -> Any:
        engine: Any = self._engine
        fields = fields_of(
            kind,
            partial(fielded, engine.EmbeddedDocument, kinds=self._kinds),
            engine.PointField(auto_index=False),
            one=engine.EmbeddedDocumentField,
            strings=lambda kind: engine.ListField(engine.StringField()),
            many=engine.EmbeddedDocumentListField,
        )
        meta = {"collection": self.names[kind], "auto_create_index": kind == USERS}
        return fielded(engine.Document, kind.title(), fields, self._kinds, meta=meta)

    def all(self, model: Any) -> list[Any]:
        return list(model.objects)

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.to_mongo().to_dict())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        return model._from_son

    def load_post(self) -> None:
        self.post = self.models[POSTS].objects.order_by("_id").first()

    def prepare(self, value: int) -> Any:
        """Find the changes and encode the update."""
        import bson

        self.post.views = value
        updates, removals = self.post._delta()
        self.post._clear_changed_fields()
        return bson.encode({"$set": updates, "$unset": removals} if removals else {"$set": updates})

    def create(self, kind: str, values: dict[str, Any]) -> None:
        model = self.models[kind]
        made = model._from_son(values, created=True) if kind == NESTED else model(**values)
        made.save(force_insert=True)

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self.models[kind].objects(__raw__=query).get()

    def close(self) -> None:
        self._engine.disconnect()


class BeanieReader(Reader):
    """Beanie, with state management to detect changes, on its own event loop."""

    def __init__(self, target: Target, kinds: Sequence[str] = (USERS, POSTS)) -> None:
        super().__init__(target, kinds)
        if POSTS in kinds:
            self._tracked = self.make(POSTS, is_tracked=True)
        self._runner.run(self._begin(target))

    def open(self, target: Target) -> None:
        self._runner = asyncio.Runner()

    def make(self, kind: str, *, is_tracked: bool = False) -> Any:
        import beanie
        import pydantic

        if kind == JOINED:
            link: Any = beanie.Link
            fields = {**FLAT[SMALL], "other": link[self.models[SMALL]]}
        else:
            fields = fields_of(kind, partial(annotated, pydantic.BaseModel))
        settings: dict[str, Any] = {"name": self.names[kind]}
        if is_tracked or kind not in (USERS, POSTS):
            settings["use_state_management"] = True
        return annotated(beanie.Document, f"{kind.title()}{'Tracked' * is_tracked}", fields, settings)

    async def _begin(self, target: Target) -> None:
        import beanie
        import pymongo

        self.client = pymongo.AsyncMongoClient(target.uri)
        models = [*self.models.values(), *([self._tracked] if POSTS in self.models else [])]
        await beanie.init_beanie(database=self.client[target.database], document_models=models)

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
        """Find the changes and encode the update."""
        import bson

        self.post.views = value
        return bson.encode({"$set": self.post.get_changes()})

    def save(self, value: int) -> None:
        self.post.views = value
        self._runner.run(self.post.save_changes())

    def each(self, verb: str, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        act: Callable[..., Any] = getattr(self, f"_{verb}")

        async def steps() -> list[Any]:
            return [await act(*row) for row in rows]

        return self._runner.run(steps())

    async def _create(self, kind: str, values: dict[str, Any]) -> None:
        await self.models[kind](**values).insert()

    async def _change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        await found.save_changes()

    async def _find(self, kind: str, query: dict[str, Any]) -> Any:
        return await self.models[kind].find_one(query)

    async def _foreign(self, id: Any) -> Any:
        return await self.models[JOINED].find_one(self.models[JOINED].other.id == id, fetch_links=True)

    def close(self) -> None:
        self._runner.run(self.client.close())
        self._runner.close()


class OdmanticReader(Reader):
    """ODMantic's blocking engine."""

    def open(self, target: Target) -> None:
        import odmantic
        import pymongo

        self.client = pymongo.MongoClient(target.uri)
        self._engine: Any = odmantic.SyncEngine(client=self.client, database=target.database)

    def make(self, kind: str) -> Any:
        import odmantic

        if kind == JOINED:
            fields = {**FLAT[SMALL], "other": self.models[SMALL]}
        else:
            fields = fields_of(kind, partial(annotated, odmantic.EmbeddedModel))
        config = {"collection": self.names[kind]}
        more = {"other": odmantic.Reference()} if kind == JOINED else {}
        return annotated(odmantic.Model, kind.title(), fields, model_config=config, **more)

    def all(self, model: Any) -> list[Any]:
        return list(self._engine.find(model))

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.model_dump_doc())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        return model.model_validate_doc

    def create(self, kind: str, values: dict[str, Any]) -> None:
        self._engine.save(self.models[kind](**values))

    def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        self._engine.save(found)

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self._engine.find_one(self.models[kind], query)

    def foreign(self, id: Any) -> Any:
        return self._engine.find_one(self.models[JOINED], self.models[JOINED].other == id)


class UmongoReader(Reader):
    """umongo on PyMongo. It has no field for bytes and no `$lookup`."""

    def open(self, target: Target) -> None:
        import pymongo

        self.client = pymongo.MongoClient(target.uri)
        frameworks: Any = importlib.import_module("umongo.frameworks")
        self._instance = frameworks.PyMongoInstance(self.client[target.database])

    def make(self, kind: str) -> Any:
        umongo: Any = importlib.import_module("umongo")
        fields = umongo.fields
        kinds = {str: fields.StringField, int: fields.IntegerField, dt.datetime: fields.NaiveDateTimeField}
        inside = fields_of(
            kind,
            lambda name, types: self._instance.register(fielded(umongo.EmbeddedDocument, name, types, kinds)),
            one=fields.EmbeddedField,
            many=lambda embedded: fields.ListField(fields.EmbeddedField(embedded)),
        )
        meta = type("Meta", (), {"collection_name": self.names[kind]})
        return self._instance.register(fielded(umongo.Document, kind.title(), inside, kinds, Meta=meta))

    def all(self, model: Any) -> list[Any]:
        return list(model.find())

    def plain(self, kind: str, found: Any) -> dict[str, Any]:
        return dict(found.to_mongo())

    def maker(self, model: Any) -> Callable[[Any], Any]:
        return partial(model.build_from_mongo, use_cls=False)

    def create(self, kind: str, values: dict[str, Any]) -> None:
        self.models[kind](**values).commit()

    def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        found.commit()

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self.models[kind].find_one(query)


class DjangoReader(Reader):
    """Django's models on MongoDB's backend. Callers name the fields to store; an embedded document is stored whole."""

    def open(self, target: Target) -> None:
        settings = self._named("conf").settings
        backend = {"ENGINE": "django_mongodb_backend", "HOST": target.uri, "NAME": target.database}
        default = "django_mongodb_backend.fields.ObjectIdAutoField"
        if not settings.configured:
            settings.configure(DATABASES={"default": backend}, DEFAULT_AUTO_FIELD=default, USE_TZ=False)
            importlib.import_module("django").setup()
        # A process has one set of models and one connection for everything that it plays.
        self._named("apps").apps.all_models["lab"].clear()
        self._named("db").connection.settings_dict.update(backend)

    @staticmethod
    def _named(name: str) -> Any:
        return importlib.import_module(f"django.{name}")

    def make(self, kind: str) -> Any:
        models = self._named("db.models")
        fields: Any = importlib.import_module("django_mongodb_backend.fields")
        base: Any = importlib.import_module("django_mongodb_backend.models").EmbeddedModel
        kinds = {str: models.TextField, int: models.BigIntegerField, bytes: models.BinaryField}

        def inside(name: str, types: dict[str, Any]) -> Any:
            return fielded(base, name, types, kinds, Meta=type("Meta", (), {"app_label": "lab"}))

        found = fields_of(
            SMALL if kind == JOINED else kind,
            inside,
            one=fields.EmbeddedModelField,
            many=fields.EmbeddedModelArrayField,
        )
        if kind == JOINED:
            foreign = models.ForeignKey(self.models[SMALL], models.DO_NOTHING, db_column="other")
            found = {**found, "other": foreign}
        meta = type("Meta", (), {"app_label": "lab", "db_table": self.names[kind]})
        return fielded(models.Model, kind.title(), found, kinds, Meta=meta)

    def create(self, kind: str, values: dict[str, Any]) -> None:
        model = self.models[kind]
        if kind == NESTED:
            values = {name: self._inside(model, name, value) for name, value in values.items()}
        model(**values).save(force_insert=True)

    def _inside(self, model: Any, name: str, value: Any) -> Any:
        embedded = model._meta.get_field(name).embedded_model
        return [embedded(**each) for each in value] if isinstance(value, list) else embedded(**value)

    def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        found.save(update_fields=[ONE if kind == NESTED else "field1"])

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        named = {"pk" if name == "_id" else name.replace(".", "__"): value for name, value in query.items()}
        return self.models[kind].objects.get(**named)

    def foreign(self, id: Any) -> Any:
        return self.models[JOINED].objects.select_related("other").filter(other=id)[0]

    def close(self) -> None:
        self._named("db").connection.close()


def _opened(name: str, kinds: list[str], target: Target) -> Any:
    return globals()[name](dataclasses.replace(target, uri=uri_with(target)), kinds)


CONTENDERS = tuple(
    Contender(
        id,
        title,
        frozenset(offers),
        packages=("pymongo", *([package] if package else [])),
        blocking=partial(_opened, name, kinds),
    )
    for rows in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).values()
    for id, title, name, package, kinds, offers in rows
)
