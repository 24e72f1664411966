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
