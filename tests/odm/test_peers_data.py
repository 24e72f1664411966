"""Data of MongoEngine and Beanie opens and saves without loss."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from mangonel.odm import Connection, Document, Embedded, Ref, field


def raw(db: Connection, collection: str) -> list[dict[str, Any]]:
    return list(db.database()[collection].find().sort("_id"))


def test_documents_of_mongoengine_open_and_save(db: Connection, face: Any, server: Any) -> None:
    me = pytest.importorskip("mongoengine")
    me.disconnect("peer")
    me.connect(db=db.name, host=server.uri, alias="peer", uuidRepresentation="standard")

    class MEAddress(me.EmbeddedDocument):  # type: ignore[misc, name-defined]
        city = me.StringField()
        zip = me.StringField()

    class MEAuthor(me.Document):  # type: ignore[misc, name-defined]
        meta = {"db_alias": "peer", "collection": "author"}  # noqa: RUF012
        name = me.StringField()

    class MEShape(me.Document):  # type: ignore[misc, name-defined]
        meta = {"db_alias": "peer", "collection": "shape", "allow_inheritance": True}  # noqa: RUF012
        name = me.StringField(db_field="n")
        author = me.ReferenceField(MEAuthor, dbref=True)
        address = me.EmbeddedDocumentField(MEAddress)
        places = me.EmbeddedDocumentListField(MEAddress)
        at = me.DateTimeField()
        where = me.PointField()
        old = me.StringField()

    class MECircle(MEShape):
        r = me.FloatField()

    author = MEAuthor(name="Ada").save()
    given = {
        "author": author,
        "address": MEAddress(city="Oslo"),
        "places": [MEAddress(city="Rome", zip="1")],
        "at": dt.datetime(2024, 1, 2),
        "where": [13.4, 52.5],
        "old": "kept",
    }
    MEShape(name="s", **given).save()
    MECircle(name="c", r=2.5, **given).save()
    before = raw(db, "shape")

    class Address(Embedded):
        city: str | None = None
        zip: str | None = None

    class Author(Document):
        name: str

    class Shape(Document):
        __root__ = True
        __tag_root__ = True
        __tag_value__ = "MEShape"
        name: str = field(key="n")
        author: Ref[Author]
        address: Address
        places: list[Address]
        at: dt.datetime
        where: Any

    class Circle(Shape):
        __tag_value__ = "MEShape.MECircle"
        r: float

    found = face.call(Shape.find().sort("id"), "all")
    assert [type(shape) for shape in found] == [Shape, Circle]
    assert found[1].r == 2.5
    assert str(found[1].author.id) == str(author.id)
    assert face.call(found[1].author, "get").name == "Ada"
    # Reading everything changes nothing.
    for shape in found:
        shape.to_dict()
        assert shape.changes() == {}
    found[1].places[0].zip = "2"
    found[1].name = "C"
    face.save(*found)
    before[1]["places"][0]["zip"] = "2"
    before[1]["n"] = "C"
    assert raw(db, "shape") == before
    # And the peer can read it again.
    assert MECircle.objects.get(id=str(found[1].id)).places[0].zip == "2"
    me.disconnect("peer")


def test_documents_of_beanie_open_and_save(db: Connection, face: Any, server: Any) -> None:
    beanie = pytest.importorskip("beanie")
    pymongo = pytest.importorskip("pymongo")
    pydantic = pytest.importorskip("pydantic")

    class BAddress(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        city: str
        zip: str | None = None

    class BAuthor(beanie.Document):  # type: ignore[misc, name-defined]
        name: str

        class Settings:
            name = "author"

    class BPost(beanie.Document):  # type: ignore[misc, name-defined]
        title: str
        author: beanie.Link[BAuthor]
        address: BAddress
        places: list[BAddress]
        note: str | None = None
        at: dt.datetime
        extra_key: int = 4

        class Settings:
            name = "post"
            is_root = True

    class BNews(BPost):
        source: str

    async def write() -> None:
        client: Any = pymongo.AsyncMongoClient(server.uri)
        await beanie.init_beanie(database=client[db.name], document_models=[BAuthor, BPost, BNews])
        author = BAuthor(name="Ada")
        await author.insert()
        await BNews(
            title="t",
            author=author,
            address=BAddress(city="Oslo"),
            places=[BAddress(city="Rome"), BAddress(city="Bonn", zip="1")],
            at=dt.datetime(2024, 1, 2),
            source="web",
        ).insert()
        await client.close()

    # The names of a test's own scope: beanie resolves the annotations as pydantic does.
    BPost.model_rebuild(_types_namespace={**globals(), **locals()})
    BNews.model_rebuild(_types_namespace={**globals(), **locals()})
    asyncio.run(write())
    before = raw(db, "post")
    assert before[0]["places"][0]["zip"] is None

    class Address(Embedded):
        city: str
        zip: str | None = None

    class Author(Document):
        name: str

    class Post(Document):
        __root__ = True
        __tag__ = "_class_id"
        title: str
        author: Ref[Author]
        address: Address
        places: list[Address]
        note: str | None = None
        at: dt.datetime

    class News(Post):
        __tag_value__ = before[0]["_class_id"]
        source: str

    (found,) = face.call(Post.find(), "all")
    assert isinstance(found, News)
    assert face.call(found.author, "get").name == "Ada"
    found.to_dict()
    assert found.changes() == {}
    found.places.append(Address(city="Paris"))
    found.title = "T"
    face.save(found)
    before[0]["places"].append({"city": "Paris"})
    before[0]["title"] = "T"
    assert raw(db, "post") == before
