"""BSON's types in pydantic models and in FastAPI: parameters, bodies, responses and their schema."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from mangonel.bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from mangonel.odm import Connection, Document, Input

pydantic = pytest.importorskip("pydantic")
fastapi = pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

ID = ObjectId("65f0c0ffee65f0c0ffee65f0")
VALUES: list[tuple[Any, Any]] = [
    (ID, "65f0c0ffee65f0c0ffee65f0"),
    (Decimal128("1.50"), "1.50"),
    (Int64(2**60), 2**60),
    (Binary(b"\x00\xff", 128), "AP8="),
    (Code("f()"), "f()"),
    (Timestamp(7, 8), {"$timestamp": {"t": 7, "i": 8}}),
    (MinKey(), {"$minKey": 1}),
    (MaxKey(), {"$maxKey": 1}),
    (DBRef("users", 3), {"$ref": "users", "$id": 3}),
    (Regex("^a", "i"), None),
    (DatetimeMS(5), 5),
]
WRONG: list[tuple[type[Any], Any]] = [
    (ObjectId, "nobody"),
    (ObjectId, 3),
    (ObjectId, b"\x00" * 12),
    (Decimal128, "much"),
    (Int64, 2**63),
    (Int64, True),
    (Int64, "x"),
    (Int64, 1.5),
    (Binary, "no base64!"),
    (Code, 3),
    (Timestamp, {"t": 1}),
    (Timestamp, {"$minKey": 1}),
    (Timestamp, {"t": "x", "i": 1}),
    (Timestamp, {"$timestamp": {"t": "x", "i": 1}}),
    (DBRef, {"$oid": "x"}),
    (Regex, "a/"),
    (Regex, "/a"),
    (Regex, "/a/q"),
    (MaxKey, "max"),
]


@pytest.mark.parametrize(("value", "wanted"), VALUES, ids=lambda value: type(value).__name__)
def test_a_value_goes_through_json_and_comes_back(value: Any, wanted: Any) -> None:
    kind = type(value)
    model = pydantic.create_model("Holder", value=(kind, ...), maybe=(kind | None, None))
    made = model(value=value)
    assert made.value is value
    assert made.model_dump() == {"value": value, "maybe": None}
    text = made.model_dump_json()
    assert wanted is None or json.loads(text)["value"] == wanted
    back = model.model_validate_json(text).value
    assert (type(back), back if kind is not Binary else bytes(back)) == (
        kind,
        value if kind is not Binary else bytes(value),
    )
    for mode in ("validation", "serialization"):
        assert model.model_json_schema(mode=mode)["properties"]["value"]["type"] in (
            "string",
            "integer",
            "object",
        )


class Kept(Document):
    """A document with a field of each type, in containers too."""

    __collection__ = "kept"
    decimal: Decimal128
    number: Int64
    binary: Binary
    code: Code
    moment: Timestamp
    least: MinKey
    most: MaxKey
    link: DBRef
    pattern: Regex
    patterns: list[Regex]
    moments: dict[str, Timestamp]
    either: Timestamp | Regex | None = None


def kept() -> Kept:
    return Kept(
        decimal=Decimal128("1.50"),
        number=Int64(2**60),
        binary=Binary(b"\x00\xff"),
        code=Code("f()"),
        moment=Timestamp(7, 8),
        least=MinKey(),
        most=MaxKey(),
        link=DBRef("users", ID),
        pattern=Regex("^a/b", "i"),
        patterns=[Regex("", "mx")],
        moments={"a": Timestamp(0, 1)},
        either=Regex("a"),
    )


def test_a_documents_response_is_taken_as_a_request(db: Connection) -> None:
    one = kept().save()
    app = fastapi.FastAPI()

    def read() -> Any:
        return Kept.find().one()

    def write(given: Any) -> Any:
        return given.make(id=one.id)

    read.__annotations__ = {"return": Kept}
    write.__annotations__ = {"given": Input[Kept], "return": Kept}
    app.get("/kept")(read)
    app.post("/kept")(write)
    client = testclient.TestClient(app)
    shown = client.get("/kept").json()
    assert [shown] == json.loads(Kept.find().json())
    assert shown == json.loads(Kept.find().one().to_json())
    assert (shown["moment"], shown["pattern"]) == ({"t": 7, "i": 8}, "/^a/b/i")
    answer = client.post("/kept", json=shown)
    assert (answer.status_code, answer.json()) == (200, shown), answer.text
    made = pydantic.TypeAdapter(Input[Kept]).validate_python(shown).make()
    assert made.to_dict(exclude=["id"]) == kept().to_dict(exclude=["id"])
    for schema in client.get("/openapi.json").json()["components"]["schemas"].values():
        if schema["title"].startswith("Kept"):
            kinds = {name: found.get("type") for name, found in schema["properties"].items()}
            assert (kinds["moment"], kinds["pattern"]) == ("object", ["string", "object"])
            assert None not in (kinds["decimal"], kinds["link"], kinds["least"])


def test_a_document_takes_extended_json_in_a_request() -> None:
    values = {
        **json.loads(kept().to_json()),
        "moment": {"$timestamp": {"t": 7, "i": 8}},
        "pattern": {"$regularExpression": {"pattern": "^a/b", "options": "i"}},
    }
    made = pydantic.TypeAdapter(Kept).validate_json(json.dumps(values))
    assert (made.moment, made.pattern) == (Timestamp(7, 8), Regex("^a/b", "i"))
    for wrong in ({"moment": 3}, {"pattern": "a"}, {"pattern": "/a"}, {"decimal": "much"}, {"number": 2**63}):
        [name] = wrong
        with pytest.raises(pydantic.ValidationError, match="expected") as caught:
            pydantic.TypeAdapter(Kept).validate_python({**values, **wrong})
        assert caught.value.errors()[0]["loc"] == (name,)


@pytest.mark.parametrize(("kind", "value"), WRONG)
def test_other_values_are_faults_of_the_request(kind: type[Any], value: Any) -> None:
    with pytest.raises(pydantic.ValidationError, match="expected"):
        pydantic.TypeAdapter(kind).validate_python(value)


def test_an_id_stands_in_paths_queries_and_bodies_of_fastapi() -> None:
    app = fastapi.FastAPI()

    class Pair(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        one: ObjectId
        others: list[ObjectId] = pydantic.Field(default_factory=list)

    def read(id: Any, other: Any = None) -> Any:
        assert type(id) is ObjectId
        return Pair(one=id, others=[other] if other is not None else [])

    read.__annotations__ = {"id": ObjectId, "other": ObjectId | None, "return": Pair}
    app.get("/things/{id}")(read)

    def write(pair: Any) -> Any:
        return {"id": pair.one, "times": {pair.one: 1}}

    write.__annotations__ = {"pair": Pair, "return": dict[str, Any]}
    app.post("/things")(write)
    client = testclient.TestClient(app)
    assert client.get(f"/things/{ID}?other={ID}").json() == {"one": str(ID), "others": [str(ID)]}
    assert client.get("/things/nobody").status_code == 422
    assert client.get(f"/things/{ID}?other=x").json()["detail"][0]["loc"] == ["query", "other"]
    schema = client.get("/openapi.json").json()
    parameter = schema["paths"]["/things/{id}"]["get"]["parameters"][0]
    assert parameter["schema"] == {"type": "string", "pattern": "^[0-9a-fA-F]{24}$", "title": "Id"}
    assert client.post("/things", json={"one": "x", "others": ["y"]}).status_code == 422


def test_constraints_of_pydantic_hold_for_them() -> None:
    adapter = pydantic.TypeAdapter(Annotated[Int64, pydantic.Field(ge=3)])
    assert adapter.validate_python("3") == 3
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python(2)
