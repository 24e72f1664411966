"""The mapper's queries as tables, and models as schemas."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import uuid
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from mangonel import MongoClient
from mangonel.arrow.schema import fields_of
from mangonel.errors import InvalidOperation
from mangonel.odm import Document, Embedded, Ref, connect
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")


class Color(enum.Enum):
    RED = "red"


class Address(Embedded):
    city: str
    zip_code: int | None = None


class Person(Document):
    __collection__ = "people"
    name: str
    born: datetime.date
    addresses: list[Address] = []  # noqa: RUF012 - as models are written
    color: Color | None = None
    size: Literal[1, 2] = 1
    friend: Ref[Person] | None = None
    money: decimal.Decimal | None = None
    token: uuid.UUID | None = None


class Loose(Document):
    others: dict[str, int] = {}  # noqa: RUF012 - as models are written


@pytest.fixture
def people(standalone: Server) -> Iterator[Any]:
    name = f"mapper_{uuid.uuid4().hex[:8]}"
    made = connect(standalone.uri, database=name)
    Person(name="Ada", born=datetime.date(1815, 12, 10), addresses=[Address(city="London")]).save()
    Person(name="Bob", born=datetime.date(1990, 1, 1), color=Color.RED).save()
    with MongoClient[Any](standalone.uri) as client:
        yield client[name]
        client.drop_database(name)
    made.close()


def test_model_is_a_schema() -> None:
    assert fields_of(Person) == [
        ("_id", "object_id"),
        ("name", "string"),
        ("born", "date"),
        ("addresses", ("list", ("struct", [("city", "string"), ("zip_code", "int64")]))),
        ("color", "string"),
        ("size", "int64"),
        ("friend", "object_id"),
        ("money", "string"),
        ("token", "uuid"),
    ]
    with pytest.raises(ValueError, match=r"columns for Loose\.others, got dict"):
        fields_of(Loose)


def test_queries_give_the_tables_of_their_documents(people: Any) -> None:
    query = Person.find(Person.name == "Ada")

    rows = pa.table(query.to_arrow(Person)).to_pylist()

    assert [(row["name"], row["addresses"]) for row in rows] == [
        ("Ada", [{"city": "London", "zip_code": None}])
    ]
    assert Person.find().sort(Person.name).to_polars({"name": str})["name"].to_list() == ["Ada", "Bob"]
    assert len(Person.find().to_pandas({"name": str})) == 2
    assert len(Person.find().none().to_arrow(Person)) == 0
    # A cursor of the driver accepts models too.
    assert len(people.people.find().to_arrow(Person)) == 2


def test_queries_take_the_options_of_cursors(people: Any) -> None:
    polars = pytest.importorskip("polars")
    query = Person.find()

    assert pa.table(query.to_arrow(missing="distinguish")).column_names[-1] == "$null"
    assert query.to_polars(categorical=True, parallel=2)["name"].dtype == polars.Categorical
    parts = [pa.table(part) for part in query.iter_arrow({"name": "category"}, rows=1, parallel=2)]
    assert sorted(part["name"].to_pylist()[0] for part in parts) == ["Ada", "Bob"]
    with pytest.raises(InvalidOperation, match=r"parallel=2.*sort"):
        query.sort(Person.name).to_numpy(parallel=2)


def test_queries_take_them_on_asyncio(people: Any, standalone: Server) -> None:
    async def play() -> None:
        made = connect(standalone.uri, database=people.name, alias="columns")
        query = Person.find().using(made)
        assert len(await query.ato_arrow(parallel=2)) == 2
        assert len([part async for part in query.aiter_arrow(rows=1, missing="distinguish", parallel=2)]) == 2
        await made.aclose()

    asyncio.run(play())
