"""A document's dict, JSON or response recreates it, including its classes."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import bson
from mangonel.errors import WriteError
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Input,
    Patch,
    UnsupportedOption,
    ValidationError,
    Versioned,
    field,
)

pydantic = pytest.importorskip("pydantic")


class Pet(Embedded):
    __root__ = True
    name: str = ""


class Dog(Pet):
    tricks: int = 0


class Cat(Pet):
    lives: int = field(default=9, key="l")


class Tea(Embedded):
    __root__ = True
    __tag_root__ = True
    __tag__ = "drink"
    sugar: int = 0


class Milk(Embedded):
    __root__ = True
    __tag_root__ = True
    __tag__ = "drink"
    sugar: int = 0


class Owner(Versioned):
    __collection__ = "shown_owners"
    __root__ = True
    id: int
    pet: Pet
    pets: list[Pet] = field(default_factory=list)
    by_name: dict[str, Pet] = field(default_factory=dict)
    drink: Tea | Milk | None = None


class Breeder(Owner):
    prizes: int = 0


def breeder() -> Breeder:
    pets = [Pet(name="a"), Dog(tricks=2), Cat(lives=7)]
    named = {pet.name: pet for pet in (Dog(name="d"), Cat(name="c"))}
    return Breeder(id=1, pet=Dog(name="x", tricks=3), pets=pets, by_name=named, drink=Milk(sugar=1), prizes=4)


WAYS: dict[str, Callable[[Any], Any]] = {
    "to_dict": lambda owner: Owner.from_dict(owner.to_dict()),
    "by key": lambda owner: Owner.from_dict(owner.to_dict(by_key=True)),
    "to_json": lambda owner: Owner.from_dict(json.loads(owner.to_json())),
    "pydantic": lambda owner: pydantic.TypeAdapter(Owner).validate_python(
        pydantic.TypeAdapter(Owner).dump_python(owner)
    ),
    "its JSON": lambda owner: pydantic.TypeAdapter(Owner).validate_json(
        pydantic.TypeAdapter(Owner).dump_json(owner)
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_shown_makes_the_same_document(way: str) -> None:
    owner = breeder()
    made = WAYS[way](owner)
    assert type(made) is Breeder
    assert bson.decode(made.to_bson().raw) == bson.decode(owner.to_bson().raw)


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


class Mark(Embedded):
    mood: Mood = Mood.CALM
    colours: set[str] = field(default_factory=set)


class Stable(Document):
    id: int  # type: ignore[assignment]
    mood: Mood
    last: Mood | None = None
    colours: set[str] = field(default_factory=set)
    moods: frozenset[Mood] = frozenset()
    at: tuple[int, Mood] = (0, Mood.CALM)
    days: tuple[int, ...] = ()
    marks: tuple[Mark, ...] = ()
    named: dict[str, list[Mood]] = field(default_factory=dict)
    groups: list[set[int]] = field(default_factory=list)


@pytest.mark.parametrize("way", ["to_dict", "by key", "to_json"])
def test_enums_sets_and_tuples_are_made_from_what_is_shown(way: str) -> None:
    stable = Stable(
        id=1,
        mood=Mood.WILD,
        last=Mood.CALM,
        colours={"red"},
        moods=frozenset([Mood.WILD]),
        at=(3, Mood.WILD),
        days=(1, 2),
        marks=(Mark(mood=Mood.WILD, colours={"blue"}),),
        named={"a": [Mood.WILD]},
        groups=[{1}, {2}],
    )
    shown: Any = {
        "to_dict": stable.to_dict,
        "by key": lambda: stable.to_dict(by_key=True),
        "to_json": lambda: json.loads(stable.to_json()),
    }[way]()
    assert bson.decode(Stable.from_dict(shown).to_bson().raw) == bson.decode(stable.to_bson().raw)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mood": "sad"}, r"expected Mood, got str at \$\.mood"),
        ({"mood": "wild", "colours": ["red", 1]}, r"expected str, got int at \$\.colours"),
        ({"mood": "wild", "colours": [["red"]]}, r"expected set, got list at \$\.colours"),
        ({"mood": "wild", "at": [1]}, r"expected tuple, got list at \$\.at"),
        ({"mood": "wild", "named": {"a": ["wild", "sad"]}}, r"expected Mood, got str at \$\.named\.a\[1\]"),
        ({"mood": "wild", "marks": [{"mood": "sad"}]}, r"expected Mood, got str at \$\.marks\[0\]\.mood"),
    ],
)
def test_values_that_no_document_shows_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Stable.from_dict({"id": 1, **wrong})


@pytest.mark.parametrize("keys", [("_cls", "lives"), ("lives", "_cls")])
def test_a_tag_may_stand_anywhere_among_the_keys(keys: tuple[str, str]) -> None:
    values = {"_cls": "Cat", "lives": 3}
    made = Pet.from_dict({key: values[key] for key in keys})
    assert (made, made.extra) == (Cat(lives=3), {})
    assert Owner.from_dict({"id": 1, "pet": {key: values[key] for key in keys}}).pet == Cat(lives=3)


class Loose(Embedded):
    n: int = 0


def test_a_tag_that_names_no_class_is_refused_and_no_other_class_is_made() -> None:
    wrong = r"^expected 'Dog' or 'Cat' for the tag, got 'Cow' at \$"
    with pytest.raises(ValidationError, match=wrong + r"\._cls$"):
        Pet.from_dict({"name": "x", "_cls": "Cow"})
    with pytest.raises(ValidationError, match=wrong + r"\.pets\[1\]\._cls$"):
        Owner.from_dict({"id": 1, "pet": {}, "pets": [{"_cls": "Dog"}, {"_cls": "Cow"}]})
    with pytest.raises(ValidationError, match=r"^expected 'Dog' for the tag, got 'Cat' at \$\._cls$"):
        Dog.from_dict({"_cls": "Cat"})
    for adapter, values in ((Pet, {"_cls": "Cow"}), (Owner, {"id": 1, "pet": {"_cls": "Cow"}})):
        with pytest.raises(pydantic.ValidationError, match="expected 'Dog' or 'Cat' for the tag, got 'Cow'"):
            pydantic.TypeAdapter(adapter).validate_python(values)
    # Without a family the key is an ordinary one.
    assert Loose.from_dict({"n": 1, "_cls": "Cow"}).extra == {"_cls": "Cow"}


@pytest.mark.parametrize("parted", [False, True], ids=["whole", "only"])
def test_json_of_a_query_is_that_of_the_documents(parted: bool, db: Connection, face: Any) -> None:
    face.save(breeder(), Owner(id=2, pet=Pet(name="p")))
    for model in (Owner, Breeder):
        query = model.find().sort("id")
        query = query.only(model.pet, model.drink) if parted else query
        shown = json.loads(face.call(query, "json"))
        found = face.call(query.eager(), "all")
        assert shown == [json.loads(one.to_json()) for one in found]
    if not parted:
        shown = json.loads(face.call(Owner.find().sort("id"), "json"))
        assert [type(Owner.from_dict(one)) for one in shown] == [Breeder, Owner]
    with pytest.raises(UnsupportedOption, match=r"exclude of '_cls'"):
        face.call(Owner.find(), "json", exclude=["_cls"])
    with pytest.raises(UnsupportedOption, match=r"exclude of 'pet._cls'"):
        face.call(Owner.find(), "json", exclude=["pet._cls"])


def test_the_tag_is_shown_unless_names_leave_it_out() -> None:
    owner = breeder()
    assert owner.to_dict(only=["pet"]) == {"pet": {"name": "x", "tricks": 3, "_cls": "Dog"}}
    assert owner.to_dict(only=["pet.name", "_cls"]) == {"pet": {"name": "x"}, "_cls": "Breeder"}
    less = owner.to_dict(only=["pet", "drink"], exclude=["pet._cls", "drink.drink"])
    assert less == {"pet": {"name": "x", "tricks": 3}, "drink": {"sugar": 1}}
    with pytest.raises(AttributeError, match="no field '_tag'"):
        owner.to_dict(exclude=["_tag"])


def test_a_request_and_a_patch_keep_classes(db: Connection, face: Any) -> None:
    owner = breeder()
    sent = json.loads(owner.to_json())
    made = Input[Breeder].model_validate(sent).make()
    assert bson.decode(made.to_bson().raw) == bson.decode(owner.to_bson().raw)
    face.save(owner)
    part = json.loads(Breeder(id=3, pet=Cat(lives=1), drink=Tea()).to_json())
    patch = Patch[Breeder].model_validate({"pet": part["pet"], "pets": [part["pet"]], "drink": part["drink"]})
    patch.apply(owner)
    old, new = owner.changes()["pet"]
    assert (old, new) == (Dog(name="x", tricks=3), Cat(lives=1))
    face.save(owner)
    found = face.call(Owner, "get", 1)
    assert (found.pet, found.pets, found.drink) == (Cat(lives=1), [Cat(lives=1)], Tea())
    first, second = face.call(found, "history")
    assert first.document.to_dict() == breeder().to_dict()
    assert second.document.to_dict() == found.to_dict()
    assert second.changes["pet"][1] == {"_cls": "Cat", "name": "", "l": 1}


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_schemas_have_the_tags(mode: Any) -> None:
    schema = pydantic.TypeAdapter(Owner).json_schema(mode=mode)
    assert schema["properties"]["_cls"] == {"type": "string", "enum": ["Breeder"]}
    pet, dog = schema["$defs"]["Pet"], pydantic.TypeAdapter(Dog).json_schema(mode=mode)
    assert pet["properties"]["_cls"]["enum"] == ["Dog", "Cat"]
    assert dog["properties"]["_cls"]["enum"] == ["Dog"]
    assert ("_cls" in dog.get("required", ())) == (mode == "serialization")


class Part(Embedded):
    __root__ = True
    __unknown__ = "forbid"
    n: int = 0


class Wheel(Part):
    spokes: int = 0


class Car(Document):
    __collection__ = "shown_cars"
    __unknown__ = "forbid"
    __root__ = True
    part: Part | None = None


class Van(Car):
    seats: int = 2


def test_the_servers_schema_takes_every_class_of_a_family(db: Connection, face: Any) -> None:
    face.call(Car, "create_collection", validate=True)
    face.save(Car(part=Part(n=1)), Van(part=Wheel(spokes=3)))
    assert sorted(type(one).__name__ for one in face.call(Car.find(), "all")) == ["Car", "Van"]
    for wrong in ({"_cls": "Bus"}, {"_cls": "Van", "wings": 2}, {"part": {"_cls": "Wheel", "teeth": 1}}):
        with pytest.raises(WriteError):
            Car.collection().insert_one(wrong)
