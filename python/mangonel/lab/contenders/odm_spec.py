"""Mappers at the tasks of the ODM benchmarking specification, and the driver's dicts that they are compared with.

The verbs, each for one document: `create` of values, `change` a scalar of a loaded object and store that, `find` by a
query, `foreign` by the id of what is referred to, which comes in the same command.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from mangonel.lab.contender import Contender, Target
from mangonel.lab.contenders._models import annotated, fielded, list_of
from mangonel.lab.contenders._pymongo_like import uri_with

SMALL, LARGE, NESTED, JOINED = "small", "large", "nested", "joined"
FIELDS = [f"field{number}" for number in range(1, 16)]
ONE, ARRAY = "embedded_str_doc_1", "embedded_str_doc_array"
# Types by key.
FLAT: dict[str, dict[str, Any]] = {
    SMALL: {f"field{n}": str if n <= 7 else int for n in range(1, 14)},
    LARGE: {**{f"field{n}": str if n <= 125 else int for n in range(1, 251)}, "image_field": bytes},
}


def nested(embedded: Callable[[str, dict[str, Any]], Any], one: Any, many: Any) -> dict[str, Any]:
    """Return the fields of the nested document; `embedded` makes a class, `one` and `many` the field of one."""
    texts, numbers = (
        embedded("Texts", dict.fromkeys(FIELDS, str)),
        embedded("Numbers", dict.fromkeys(FIELDS, int)),
    )
    found = {f"embedded_str_doc_{n}": one(texts) for n in range(1, 6)} | {ARRAY: many(texts)}
    return found | {f"embedded_int_doc_{n}": one(numbers) for n in range(8, 15)}


def same(kind: Any) -> Any:
    """A class, as the field that it is to mappers of annotations."""
    return kind


class Side:
    """The verbs, by blocking calls; `models` has the classes by kind."""

    models: dict[str, Any]
    client: Any

    def __init__(self, target: Target) -> None:
        self.names = {kind: f"{target.collection}_{kind}" for kind in (SMALL, LARGE, NESTED, JOINED)}
        self.target = dataclasses.replace(target, uri=uri_with(target))
        self.open()

    def open(self) -> None:
        raise NotImplementedError

    def each(self, verb: str, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        act = getattr(self, verb)
        return [act(*row) for row in rows]

    def close(self) -> None:
        self.client.close()


class DictSide(Side):
    def open(self) -> None:
        self.client = importlib.import_module("mangonel").MongoClient(self.target.uri)
        database = self.client[self.target.database]
        self.models = {kind: database[name] for kind, name in self.names.items()}

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


class OdmSide(Side):
    def open(self) -> None:
        from mangonel import odm

        self.client = odm.connect(self.target.uri, database=self.target.database)
        small = annotated(odm.Document, "Small", FLAT[SMALL], __collection__=self.names[SMALL])
        inside = nested(partial(annotated, odm.Embedded), same, list_of)
        joined = {**FLAT[SMALL], "other": odm.Ref[small]}  # type: ignore[valid-type]
        self.models = {SMALL: small} | {
            kind: annotated(odm.Document, kind.title(), fields, __collection__=self.names[kind])
            for kind, fields in ((NESTED, inside), (JOINED, joined))
        }

    def create(self, kind: str, values: dict[str, Any]) -> None:
        model = self.models[kind]
        (model(**values) if kind != NESTED else model.from_dict(values)).save()

    def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        found.save()

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self.models[kind].find(query).one()

    def foreign(self, id: Any) -> Any:
        model = self.models[JOINED]
        return model.find(model.other == id).lookup(model.other).first()


class MongoEngineSide(Side):
    """MongoEngine; it has no `$lookup`."""

    def open(self) -> None:
        engine: Any = importlib.import_module("mongoengine")
        engine.connect(
            host=self.target.uri, db=self.target.database, uuidRepresentation="standard", alias="odm-spec"
        )
        kinds = {str: engine.StringField, int: engine.LongField, bytes: engine.BinaryField}
        parts = nested(
            partial(fielded, engine.EmbeddedDocument, kinds=kinds),
            engine.EmbeddedDocumentField,
            engine.EmbeddedDocumentListField,
        )
        self.models = {
            kind: fielded(
                engine.Document,
                kind.title(),
                fields,
                kinds,
                meta={"collection": self.names[kind], "db_alias": "odm-spec", "auto_create_index": False},
            )
            for kind, fields in {**FLAT, NESTED: parts}.items()
        }
        self._engine = engine

    def create(self, kind: str, values: dict[str, Any]) -> None:
        model = self.models[kind]
        if kind == NESTED:
            model._from_son(values, created=True).save(force_insert=True)
        else:
            model(**values).save(force_insert=True)

    def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        found.save()

    def find(self, kind: str, query: dict[str, Any]) -> Any:
        return self.models[kind].objects(__raw__=query).get()

    def close(self) -> None:
        self._engine.disconnect(alias="odm-spec")


class BeanieSide(Side):
    """Beanie, saving what changed, on its own event loop."""

    def open(self) -> None:
        import beanie
        import pydantic
        import pymongo

        def stored(kind: str, fields: dict[str, Any]) -> Any:
            settings = {"name": self.names[kind], "use_state_management": True}
            return annotated(beanie.Document, kind.title(), fields, settings)

        self.models = {kind: stored(kind, fields) for kind, fields in FLAT.items()}
        self.models[NESTED] = stored(NESTED, nested(partial(annotated, pydantic.BaseModel), same, list_of))
        link: Any = beanie.Link
        link = link[self.models[SMALL]]
        self.models[JOINED] = stored(JOINED, {**FLAT[SMALL], "other": link})
        self._runner = asyncio.Runner()

        async def steps() -> None:
            self.client = pymongo.AsyncMongoClient(self.target.uri)
            await beanie.init_beanie(
                database=self.client[self.target.database], document_models=[*self.models.values()]
            )

        self._runner.run(steps())

    def each(self, verb: str, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        act: Callable[..., Any] = getattr(self, verb)

        async def steps() -> list[Any]:
            return [await act(*row) for row in rows]

        return self._runner.run(steps())

    async def create(self, kind: str, values: dict[str, Any]) -> None:
        await self.models[kind](**values).insert()

    async def change(self, kind: str, found: Any, value: str) -> None:
        (getattr(found, ONE) if kind == NESTED else found).field1 = value
        await found.save_changes()

    async def find(self, kind: str, query: dict[str, Any]) -> Any:
        return await self.models[kind].find_one(query)

    async def foreign(self, id: Any) -> Any:
        return await self.models[JOINED].find_one(self.models[JOINED].other.id == id, fetch_links=True)

    def close(self) -> None:
        self._runner.run(self.client.close())
        self._runner.close()


# What a mapper has no way to is a flag that it lacks.
ODM_SPEC, LARGE_TOO, JOINS = "odm-spec", "odm-spec-large", "odm-spec-joins"
_ROWS: tuple[tuple[str, str, type[Side], str, tuple[str, ...]], ...] = (
    ("odm-spec-dicts", "mangonel, dicts", DictSide, "mangonel", (LARGE_TOO, JOINS)),
    ("odm-spec-odm", "mangonel.odm", OdmSide, "mangonel", (JOINS,)),
    ("odm-spec-mongoengine", "MongoEngine", MongoEngineSide, "mongoengine", (LARGE_TOO,)),
    ("odm-spec-beanie", "Beanie", BeanieSide, "beanie", (LARGE_TOO, JOINS)),
)
CONTENDERS = tuple(
    Contender(
        id,
        title,
        frozenset({ODM_SPEC, *offers}),
        packages=("pymongo", package),
        blocking=partial(lambda kind, target: kind(target), side),
    )
    for id, title, side, package, offers in _ROWS
)
