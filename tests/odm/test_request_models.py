"""`Input` and `Patch`: the model determines what a request may send, and nothing else is accepted."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import pytest
from annotated_types import Ge, MaxLen

from mangonel.bson import ObjectId
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Input,
    Patch,
    Ref,
    Sequence,
    SoftDelete,
    Timestamps,
    ValidationError,
    Version,
    field,
)

pydantic = pytest.importorskip("pydantic")
fastapi = pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")


class Street(Embedded):
    name: str
    number: int | None = None


class Member(Timestamps, SoftDelete):
    __input_exclude__ = ("role",)
    __computed__ = ("label", "age_in", "streets")
    name: Annotated[str, MaxLen(10)]
    age: Annotated[int, Ge(0)] = 7
    role: str = "guest"
    fee: Decimal = Decimal("1.5")
    tags: list[str] = field(default_factory=list, key="t")
    home: Street | None = None
    sponsor: Ref[Member] | None = None
    number: Annotated[int | None, Sequence()] = None
    born: dt.date | None = field(default=None, frozen=True)
    rev: Annotated[int, Version] = 0

    @property
    def label(self) -> str:
        return f"{self.name} ({self.age})"

    def age_in(self) -> int:
        return self.age + 1

    @property
    def streets(self) -> list[Street]:
        return [self.home] if self.home is not None else []


@pytest.fixture
def client(db: Connection) -> Any:
    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        await db.aclose()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/members", status_code=201)
    async def add(member: Input[Member]) -> Member:
        return await member.make(role="new").asave()

    @app.get("/members/{id}")
    async def read(id: ObjectId) -> Member:
        found = await Member.aget_or_none(id)
        if found is None:
            raise fastapi.HTTPException(404)
        return found

    @app.patch("/members/{id}")
    async def change(id: ObjectId, patch: Patch[Member]) -> Member:
        return await patch.apply(await Member.aget(id)).asave()

    with testclient.TestClient(app) as found:
        yield found


def test_documents_are_made_read_and_changed_by_requests(client: Any) -> None:
    sent = {"name": "Ada", "fee": 2, "t": ["a"], "home": {"name": "x"}, "sponsor": str(ObjectId())}
    answer = client.post(
        "/members", json={**sent, "role": "admin", "rev": 9, "number": 9, "created_at": "2001-01-01"}
    )
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert {name: made[name] for name in ("age", "role", "fee", "tags", "rev", "number", "sponsor")} == {
        "age": 7,
        "role": "new",
        "fee": "2",
        "tags": ["a"],
        "rev": 0,
        "number": 1,
        "sponsor": sent["sponsor"],
    }
    assert made["created_at"] > "2020"
    assert (made["label"], made["age_in"], made["streets"]) == ("Ada (7)", 8, [{"name": "x", "number": None}])
    url = f"/members/{made['id']}"
    changed = client.patch(
        url, json={"age": 8, "home": None, "role": "admin", "id": str(ObjectId()), "born": "2000-01-01"}
    )
    assert changed.status_code == 200, changed.text
    found = client.get(url).json()
    assert {name: found[name] for name in ("age", "home", "role", "id", "born", "fee", "rev")} == {
        "age": 8,
        "home": None,
        "role": "new",
        "id": made["id"],
        "born": None,
        "fee": "2",
        "rev": 1,
    }
    assert client.get(f"/members/{ObjectId()}").status_code == 404
    assert client.get("/members/x").status_code == 422


def test_faults_of_a_request_are_named_with_their_paths(client: Any) -> None:
    for method, url, body, paths in (
        (client.post, "/members", {"age": -1, "home": {}}, {"name", "age", "home.name"}),
        (
            client.patch,
            f"/members/{ObjectId()}",
            {"name": None, "age": "x", "fee": "y"},
            {"name", "age", "fee"},
        ),
    ):
        answer = method(url, json=body)
        assert answer.status_code == 422
        assert {".".join(map(str, fault["loc"][1:])) for fault in answer.json()["detail"]} == paths


def test_the_schema_says_what_may_be_sent_and_what_is_answered(client: Any) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    sent, patch, answered = schemas["MemberInput"], schemas["MemberPatch"], schemas["Member"]
    assert set(sent["properties"]) == {"name", "age", "fee", "tags", "home", "sponsor", "born"}
    assert sent["required"] == ["name"]
    assert (sent["properties"]["age"]["default"], sent["properties"]["age"]["minimum"]) == (7, 0)
    assert set(patch["properties"]) == set(sent["properties"]) - {"born"}
    assert "required" not in patch
    assert {"label", "age_in", "streets", "id", "role"} <= set(answered["properties"])
    assert answered["properties"]["label"] == {"title": "Label", "readOnly": True, "type": "string"}


def test_other_fields_are_chosen_by_name() -> None:
    assert list(Member.input_model(only=["name", "role"]).model_fields) == ["name", "role"]  # type: ignore[attr-defined]
    assert "age" not in Member.patch_model(exclude=["age"]).model_fields  # type: ignore[attr-defined]
    assert Input[Member] is Input[Member]
    assert Member.input_model() is Input[Member]  # type: ignore[comparison-overlap]
    with pytest.raises(AttributeError, match="no field 'nme'"):
        Member.input_model(exclude=["nme"])
    with pytest.raises(TypeError, match="expected a Member"):
        Patch[Member].model_validate({}).apply(Street(name="x"))  # type: ignore[attr-defined]


def test_values_of_the_program_replace_those_of_the_request() -> None:
    made = Input[Member].model_validate({"name": "Ada", "tags": ["a"]})  # type: ignore[attr-defined]
    first, second = made.make(name="Eve"), made.make()
    assert (first.name, second.name, first.age, first.is_new) == ("Eve", "Ada", 7, True)
    with pytest.raises(ValidationError):
        made.make(age="x")


class Strict(Document):
    __unknown__: ClassVar[str] = "forbid"
    id: int
    n: int = 0


def test_an_id_without_a_default_is_sent_and_unknown_keys_are_refused() -> None:
    made = Input[Strict].model_validate({"_id": 3})  # type: ignore[attr-defined]
    assert made.make().id == 3
    assert list(Patch[Strict].model_fields) == ["n"]  # type: ignore[attr-defined]
    with pytest.raises(pydantic.ValidationError, match="more"):
        Input[Strict].model_validate({"id": 3, "more": 1})  # type: ignore[attr-defined]


def test_of_repeated_constraints_the_strictest_is_asked_for() -> None:
    class Adult(Document):
        age: Annotated[int, Ge(18), Ge(0)]

    shape: Any = Input[Adult]
    assert shape.model_json_schema()["properties"]["age"]["minimum"] == 18
    with pytest.raises(pydantic.ValidationError, match="18"):
        shape(age=5)
