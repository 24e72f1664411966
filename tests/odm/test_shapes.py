"""Results as dataclasses, structs, typed dicts and pydantic models: what each takes from a document."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from mangonel import MongoClient
from mangonel.server import Server

DOCUMENTS = [{"_id": 1, "name": "a", "inner": {"n": 1}, "tags": ["x"], "more": 1}, {"_id": 2, "name": "b"}]


@dataclasses.dataclass
class Inner:
    n: int


@dataclasses.dataclass
class Plain:
    _id: int
    name: str
    inner: Inner | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(kw_only=True, frozen=True, slots=True)
class Named:
    id: int
    name: str
    inner: Inner | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Derived(Inner):
    n: int = 7
    _id: int = 0
    shown: str = dataclasses.field(init=False, default="made")


@dataclasses.dataclass
class One:
    name: str


class InnerStruct(msgspec.Struct):
    n: int


class Struct(msgspec.Struct, rename={"number": "_id"}):
    number: int
    name: str
    inner: InnerStruct | None = None
    tags: list[str] = []


class KeywordStruct(msgspec.Struct, kw_only=True):
    tags: list[str] = []
    name: str


class InnerModel(pydantic.BaseModel):
    n: int


class Model(pydantic.BaseModel):
    id: int
    name: str
    inner: InnerModel | None = None
    tags: list[str] = []


class InnerDict(TypedDict):
    n: int


class Dict(TypedDict, total=False):
    _id: int
    name: str
    inner: InnerDict
    tags: list[str]


EXPECTED: dict[Any, list[Any]] = {
    Plain: [Plain(1, "a", Inner(1), ["x"]), Plain(2, "b")],
    Named: [Named(id=1, name="a", inner=Inner(1), tags=["x"]), Named(id=2, name="b")],
    Derived: [Derived(7, 1), Derived(7, 2)],
    One: [One("a"), One("b")],
    Struct: [Struct(1, "a", InnerStruct(1), ["x"]), Struct(2, "b")],
    KeywordStruct: [KeywordStruct(name="a", tags=["x"]), KeywordStruct(name="b")],
    Model: [Model(id=1, name="a", inner=InnerModel(n=1), tags=["x"]), Model(id=2, name="b")],
    Dict: [{"_id": 1, "name": "a", "inner": {"n": 1}, "tags": ["x"]}, {"_id": 2, "name": "b"}],
}


@pytest.mark.parametrize("shape", EXPECTED, ids=lambda shape: shape.__name__)
def test_a_shape_takes_its_fields(shape: Any, server: Server, database_name: str) -> None:
    with MongoClient(server.uri) as client:
        things = client[database_name]["things"]
        things.insert_many(DOCUMENTS)
        found = things.find({}, sort=[("_id", 1)], into=shape).to_list()
    assert found == EXPECTED[shape]
    assert [type(one) for one in found] == [dict if shape is Dict else shape] * 2
