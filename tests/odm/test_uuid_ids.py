"""Models whose ids are UUIDs, where the mapper itself encodes ids or reads documents without decoding them."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest

from mangonel.bson import CodecOptions, UuidRepresentation
from mangonel.bson.datetime_ms import DatetimeMS
from mangonel.odm import (
    Audited,
    Connection,
    DanglingReference,
    DeleteDenied,
    Document,
    F,
    Many,
    Ref,
    StaleDocument,
    ValidationError,
    add_to_set,
    field,
    many,
    related,
    set_,
)


class Owner(Document):
    __collection__ = "uuid_owners"
    id: uuid.UUID = field(default_factory=uuid.uuid4, key="_id")  # type: ignore[assignment]
    n: int = 0
    tags: list[str] = field(default_factory=list)
    codes: list[uuid.UUID] = field(default_factory=list)
    at: dt.datetime | None = None
    pets: Many[Pet] = many(by="owner", order="name")


class Pet(Document):
    __collection__ = "uuid_pets"
    owner: Ref[Owner] = field(on_delete="deny")
    name: str = ""


class Deed(Audited):
    __collection__ = "uuid_deeds"
    id: uuid.UUID = field(default_factory=uuid.uuid4, key="_id")  # type: ignore[assignment]
    n: int = 0


def stored(db: Connection) -> Any:
    """Return the driver's collection of owners."""
    options: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
    return db.client[db.name].get_collection("uuid_owners", codec_options=options)


def test_a_document_and_a_query_are_deleted_under_a_rule(db: Connection, face: Any) -> None:
    one, other = face.call(Owner(), "save"), face.call(Owner(), "save")
    face.call(one, "delete")
    assert face.call(Owner.find(Owner.id == other.id), "delete") == 1
    assert stored(db).count_documents({}) == 0


def test_a_rule_denies_and_a_reference_to_nothing_is_refused(db: Connection, face: Any) -> None:
    owner = face.call(Owner(), "save")
    pet = face.call(Pet(owner=owner, name="Rex"), "save")
    with pytest.raises(DeleteDenied):
        face.call(owner, "delete")
    pet.owner = Ref(uuid.uuid4())
    with pytest.raises(DanglingReference):
        face.call(pet, "save")
    assert face.call(pet, "reload").owner.id == owner.id


def test_a_change_on_top_of_another_writers_is_refused(db: Connection, face: Any) -> None:
    owner = face.call(Owner(tags=["a", "b", "c"]), "save")
    stored(db).update_one({"_id": owner.id}, {"$set": {"tags": ["z"]}})
    owner.tags[1] = "changed"
    with pytest.raises(StaleDocument):
        face.call(owner, "save")


def test_an_undecodable_document_is_named(db: Connection, face: Any) -> None:
    owner = face.call(Owner(), "save")
    stored(db).update_one({"_id": owner.id}, {"$set": {"at": DatetimeMS(10**17)}})
    with pytest.raises(ValidationError, match="out of range") as raised:
        face.call(Owner.find(Owner.id == owner.id), "dicts")
    assert raised.value.id == owner.id


def test_a_few_children_are_found_for_each_parent(db: Connection, face: Any) -> None:
    owners = [face.call(Owner(n=n), "save") for n in range(2)]
    for owner in owners:
        for name in "cab":
            face.call(Pet(owner=owner, name=name), "save")
    found = face.call(
        Owner.find().sort("n").include(related(Owner.pets, Pet.find().sort("name").limit(2))), "all"
    )
    assert [[pet.name for pet in owner.pets.values] for owner in found] == [["a", "b"], ["a", "b"]]


def test_a_change_names_its_document(db: Connection, face: Any) -> None:
    changes = Owner.watch(max_await_time_ms=200)
    face.wait(changes.__aenter__() if face.is_async else changes.__enter__())
    owner = face.call(Owner(), "save")
    event = next(found for found in iter(lambda: face.call(changes, "try_next"), 0) if found is not None)
    assert (event.operation, event.id) == ("insert", owner.id)
    face.call(changes, "close")


def test_elements_are_added_beside_a_computed_value(db: Connection, face: Any) -> None:
    code = uuid.uuid4()
    owner = face.call(Owner(codes=[code]), "save")
    face.call(owner, "update", set_(Owner.n, F(Owner.n) + 1), add_to_set(Owner.codes, code, uuid.UUID(int=1)))
    assert face.call(owner, "reload").codes == [code, uuid.UUID(int=1)]


def test_every_change_is_kept(db: Connection, face: Any) -> None:
    deed = face.call(Deed(), "save")
    deed.n = 1
    face.call(deed, "save")
    face.call(Deed.find(Deed.id == deed.id), "update", set_(Deed.n, 2))
    assert [kept.changes.get("n", (None, None))[1] for kept in face.call(deed, "history")] == [0, 1, 2]
    face.call(deed, "delete")
    assert face.call(Deed.find(), "count") == 0


def test_several_are_saved_and_paged(db: Connection, face: Any) -> None:
    owners = [Owner(n=n) for n in range(3)]
    face.call(Owner, "save_all", owners)
    for owner in owners:
        owner.n += 10
    pets = [Pet(owner=owner, name="Rex") for owner in owners]
    face.call(Owner, "save_all", owners)
    face.call(Pet, "save_all", pets)
    query = Owner.find().sort("id")
    page = face.call(query, "page", size=2)
    rest = face.call(query, "page", size=2, after=page.next)
    assert {owner.id for owner in (*page, *rest)} == {owner.id for owner in owners}
    found = face.call(Pet.find().lookup(Pet.owner), "all")
    assert sorted(pet.owner.value.n for pet in found) == [10, 11, 12]
