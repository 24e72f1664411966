"""Models in pydantic and FastAPI: all faults at once, named components, and the same JSON from every path."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import uuid
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, MaxLen

from mangonel.bson import Int64, ObjectId
from mangonel.odm import Connection, Document, Embedded, Point, Ref, Refs, field

pydantic = pytest.importorskip("pydantic")
fastapi = pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")


class Colour(enum.Enum):
    RED = "red"


class Seller(Document):
    name: str


class Line(Embedded):
    item: Annotated[str, MaxLen(10)]
    price: decimal.Decimal
    next: Line | None = None


class Card(Embedded):
    kind: Literal["card"] = "card"
    last4: str


class Iban(Embedded):
    kind: Literal["iban"] = "iban"
    iban: str


class Sale(Document):
    seller: Ref[Seller]
    lines: list[Line]
    pay: Card | Iban
    at: dt.datetime
    day: dt.date = dt.date(2024, 2, 29)
    total: Annotated[decimal.Decimal, Ge(0)] = decimal.Decimal(0)
    colour: Colour = Colour.RED
    place: Point | None = None
    helpers: Refs[Seller]
    friends: list[Ref[Seller]] = field(default_factory=list)
    by_role: dict[str, Ref[Seller]] = field(default_factory=dict)
    blob: bytes = b"\x00\xff"
    key: uuid.UUID = uuid.UUID(int=5)
    ratio: float = 1.0
    large: Int64 = Int64(2**60)
    tags: set[str] = field(default_factory=set)
    note: str | None = None
    labels: dict[str, int] = field(default_factory=dict, key="l")


def body() -> dict[str, Any]:
    return {
        "seller": str(ObjectId()),
        "lines": [{"item": "tea", "price": 3}],
        "pay": {"kind": "card", "last4": "1234"},
        "at": "2024-02-29T12:00:00+02:00",
    }


@pytest.fixture
def app() -> Any:
    made = fastapi.FastAPI()

    def echo(sale: Any) -> Any:
        return sale

    echo.__annotations__ = {"sale": Annotated[Sale, fastapi.Body()], "return": Sale}
    made.post("/sales")(echo)

    def every() -> Any:
        return Sale.find().sort("id").all()

    made.get("/sales", response_model=list[Sale])(every)
    return made


def test_all_faults_of_a_body_are_named_at_once_with_their_paths(app: Any) -> None:
    wrong = {
        "seller": "nobody",
        "lines": [{"item": "tea", "price": 3}, {"item": "x" * 11, "next": {"item": 3, "price": "much"}}],
        "pay": {"kind": "gold"},
        "at": "2024-02-29T12:00:00",
        "total": -1,
        "colour": "blue",
        "labels": {"a": "b"},
    }
    answer = testclient.TestClient(app).post("/sales", json=wrong)
    assert answer.status_code == 422
    assert {".".join(map(str, fault["loc"][1:])) for fault in answer.json()["detail"]} == {
        "seller",
        "lines.1.item",
        "lines.1.price",
        "lines.1.next.item",
        "lines.1.next.price",
        "pay",
        "at",
        "total",
        "colour",
        "labels.a",
    }


def test_decimals_of_a_body_may_be_numbers(app: Any) -> None:
    answer = testclient.TestClient(app).post("/sales", json={**body(), "total": 7})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["total"], answer.json()["lines"][0]["price"]) == ("7", "3")
    assert Sale(**{**valid(), "total": 7}).total == decimal.Decimal(7)


def valid() -> dict[str, Any]:
    """Return the arguments of a sale."""
    return {
        "seller": ObjectId(),
        "lines": [
            Line(item="tea", price=decimal.Decimal("1.50"), next=Line(item="x", price=decimal.Decimal(1)))
        ],
        "pay": Iban(iban="NO1"),
        "at": dt.datetime(2024, 2, 29, 12, 0, 0, 5000, dt.UTC),
    }


def test_models_are_named_components(app: Any) -> None:
    schemas = testclient.TestClient(app).get("/openapi.json").json()["components"]["schemas"]
    # A decimal may arrive as a number but is returned as text, so input and output schemas differ.
    assert {"Sale-Input", "Sale-Output", "Line-Input", "Line-Output", "Card", "Iban"} <= set(schemas)
    sale, line = schemas["Sale-Input"], schemas["Line-Input"]
    assert sale["properties"]["lines"]["items"] == {"$ref": "#/components/schemas/Line-Input"}
    assert {"$ref": "#/components/schemas/Line-Input"} in line["properties"]["next"]["anyOf"]
    assert set(sale["required"]) == {"seller", "lines", "pay", "at"}


def test_json_of_a_query_and_of_a_response_model_agree(app: Any, db: Connection) -> None:
    seller = Seller(name="Ada").save()
    full = valid() | {
        "seller": seller,
        "place": Point(10.5, 59.9),
        "helpers": [seller],
        "friends": [seller],
        "by_role": {"a": seller},
        "tags": {"a"},
        "note": "n",
        "labels": {"a": 1},
    }
    Sale(**full).save()
    Sale(**valid()).save()
    ours = json.loads(Sale.find().sort("id").json())
    theirs = testclient.TestClient(app).get("/sales").json()
    assert ours == theirs
    assert [json.loads(sale.to_json()) for sale in Sale.find().sort("id")] == ours


def test_a_body_may_use_the_names_of_the_database(app: Any) -> None:
    id = str(ObjectId())
    answer = testclient.TestClient(app).post("/sales", json={**body(), "_id": id, "l": {"a": 1}})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["id"], answer.json()["labels"]) == (id, {"a": 1})


class Shape(Document):
    __root__ = True
    name: str


class Circle(Shape):
    r: float


def test_the_tag_of_a_body_chooses_the_member_of_a_family() -> None:
    adapter = pydantic.TypeAdapter(Shape)
    made = adapter.validate_python({"_cls": "Circle", "name": "c", "r": 2})
    assert isinstance(made, Circle)
    with pytest.raises(pydantic.ValidationError) as caught:
        adapter.validate_python({"_cls": "Circle", "name": 1, "r": "x"})
    assert {fault["loc"] for fault in caught.value.errors()} == {("name",), ("r",)}


def test_unknown_keys_of_a_body_are_dropped_kept_or_refused() -> None:
    class Open(Document):
        __dynamic__ = True

    class Closed(Document):
        __unknown__ = "forbid"

    assert pydantic.TypeAdapter(Open).validate_python({"more": 1}).extra == {"more": 1}
    assert pydantic.TypeAdapter(Seller).validate_python({"name": "x", "more": 1}).extra == {}
    with pytest.raises(pydantic.ValidationError, match="more"):
        pydantic.TypeAdapter(Closed).validate_python({"more": 1})


def test_models_are_fields_of_pydantic_models() -> None:
    class Basket(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        lines: list[Line]

    made = Basket.model_validate_json('{"lines": [{"item": "tea", "price": "1.5"}]}')
    assert made.lines[0].price == decimal.Decimal("1.5")
    assert json.loads(made.model_dump_json())["lines"][0]["price"] == "1.5"
    assert set(Basket.model_json_schema()["$defs"]) == {"Line"}
