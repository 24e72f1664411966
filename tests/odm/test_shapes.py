"""Results as dataclasses, structs, typed dicts and pydantic models: the parts of a document that each takes."""

from __future__ import annotations

import abc
import dataclasses
import gc
import sys
import weakref
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from mangonel import MongoClient, _core
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


@dataclasses.dataclass
class Flat:
    id: int
    name: str = dataclasses.field(default="none", kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class FlatSlots:
    name: str
    id: int = 0


class FlatStruct(msgspec.Struct):
    id: int
    name: str


EXPECTED: dict[Any, list[Any]] = {
    Plain: [Plain(1, "a", Inner(1), ["x"]), Plain(2, "b")],
    Named: [Named(id=1, name="a", inner=Inner(1), tags=["x"]), Named(id=2, name="b")],
    Derived: [Derived(7, 1), Derived(7, 2)],
    One: [One("a"), One("b")],
    Flat: [Flat(1, name="a"), Flat(2, name="b")],
    FlatSlots: [FlatSlots("a", 1), FlatSlots("b", 2)],
    FlatStruct: [FlatStruct(1, "a"), FlatStruct(2, "b")],
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


@dataclasses.dataclass
class After:
    name: str

    def __post_init__(self) -> None:
        self.name += " after"


@dataclasses.dataclass
class Initialized:
    name: str

    def __init__(self, name: str) -> None:
        self.name = name + " initialized"


@dataclasses.dataclass
class New:
    name: str

    def __new__(cls, name: str) -> Any:
        made = object.__new__(cls)
        made.__dict__["new"] = name
        return made


@dataclasses.dataclass
class Setting:
    name: str

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, f"{value} set")


class Counting(type):
    calls = 0

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        Counting.calls += 1
        return super().__call__(*args, **kwargs)


@dataclasses.dataclass
class Counted(metaclass=Counting):
    name: str


@dataclasses.dataclass
class Hidden:
    name: str
    made: str = dataclasses.field(init=False, default_factory=lambda: "made")


@dataclasses.dataclass
class Abstract(abc.ABC):
    name: str

    @abc.abstractmethod
    def nothing(self) -> None: ...


def test_a_class_with_something_of_its_own_is_called(server: Server, database_name: str) -> None:
    with MongoClient(server.uri) as client:
        things = client[database_name]["things"]
        things.insert_one({"name": "a"})

        def one(shape: Any) -> Any:
            return things.find_one({}, into=shape)

        assert one(After).name == "a after"
        assert one(Initialized).name == "a initialized"
        assert vars(one(New)) == {"new": "a", "name": "a"}
        assert one(Setting).name == "a set"
        assert one(Counted).name == "a"
        assert Counting.calls == 1
        assert one(Hidden).made == "made"
        with pytest.raises(TypeError, match="abstract"):
            one(Abstract)


def test_a_maker_refuses_the_slot_of_another_class() -> None:
    with pytest.raises(TypeError, match="expected a slot of"):
        _core.OdmMaker(Flat, [FlatSlots.name])


def test_a_made_object_is_whole_and_its_own(server: Server, database_name: str) -> None:
    with MongoClient(server.uri) as client:
        things = client[database_name]["things"]
        things.insert_many([{"_id": number, "name": f"name {number}"} for number in range(500)])
        found = things.find({}, sort=[("_id", 1)], into=Flat).to_list()
        slotted = things.find({}, sort=[("_id", 1)], into=FlatSlots).to_list()
    assert found == [Flat(number, name=f"name {number}") for number in range(500)]
    assert slotted == [FlatSlots(f"name {number}", number) for number in range(500)]
    assert gc.is_tracked(slotted[0])
    found[0].name = "changed"
    assert found[1].name == "name 1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        slotted[0].name = "changed"  # type: ignore[misc]
    value, called = slotted[3].name, FlatSlots(f"name {len(found)}", 1).name
    del slotted[3]
    # Its slot's reference went with it.
    assert sys.getrefcount(value) == sys.getrefcount(called)
    weak = weakref.ref(found.pop())
    assert weak() is None
