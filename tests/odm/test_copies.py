"""Copies and pickles of a document are independent writers that save what the original would save."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel import _core
from mangonel.bson import ObjectId, decode, encode
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    ParallelSaveError,
    Ref,
    StaleDocument,
    ValidationError,
    Version,
    field,
)


class CopiedPlace(Embedded):
    city: str = ""
    street: str | None = None


class CopiedLine(Embedded):
    sku: str
    number: int = 1
    notes: list[str] = field(default_factory=list)
    place: CopiedPlace | None = None


class CopiedBill(Document):
    __unknown__ = "keep"
    owner: str = ""
    cents: int | None = None
    place: CopiedPlace = field(default_factory=CopiedPlace)
    first: CopiedLine | None = None
    tags: list[str] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    lines: list[CopiedLine] = field(default_factory=list)
    shelves: dict[str, list[CopiedLine]] = field(default_factory=dict)
    other: Ref[CopiedBill] | None = None


class CopiedVersion(CopiedBill):
    rev: Annotated[int, Version] = 0


class CopiedScalars(Document):
    owner: str = ""
    cents: int | None = None


WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda one: pickle.loads(pickle.dumps(one))}
ID = ObjectId("6600000000000000000000aa")
LINE = {"sku": "a", "number": 2}
STORED: list[dict[str, Any]] = [
    {"_id": ID},
    {"_id": ID, "owner": "ada", "cents": None, "place": {"city": "Oslo"}, "tags": ["x"], "marks": [1, 2]},
    {
        "_id": ID,
        "place": {"street": "s", "city": "b"},
        "first": {"number": 1, "sku": "f"},
        "new": {"k": [1]},
    },
    {
        "_id": ID,
        "lines": [LINE, {**LINE, "notes": ["n"], "place": {}}],
        "shelves": {"a": [LINE], "b": []},
        "rev": 3,
    },
]
CHANGES: dict[str, Any] = {
    "nothing": lambda bill: None,
    "a scalar": lambda bill: setattr(bill, "owner", "eve"),
    "None": lambda bill: setattr(bill, "cents", None),
    "a flat document inside": lambda bill: setattr(bill.place, "city", "Rome"),
    "another document": lambda bill: setattr(bill, "place", CopiedPlace(city="Rome")),
    "no document": lambda bill: setattr(bill, "first", None),
    "a document": lambda bill: setattr(bill, "first", CopiedLine(sku="n")),
    "inside of it": lambda bill: bill.first and setattr(bill.first, "notes", [*bill.first.notes, "z"]),
    "an append": lambda bill: bill.tags.append("y"),
    "a removal": lambda bill: bill.tags and bill.tags.pop(0),
    "another list": lambda bill: setattr(bill, "tags", ["q"]),
    "cleared and refilled": lambda bill: (bill.tags.clear(), bill.tags.append("r")),
    "a mark": lambda bill: bill.marks.add(7),
    "no mark": lambda bill: bill.marks.discard(1),
    "a line": lambda bill: bill.lines.append(CopiedLine(sku="l")),
    "a field of a line": lambda bill: bill.lines and setattr(bill.lines[-1], "number", 9),
    "a line fewer": lambda bill: bill.lines and bill.lines.pop(0),
    "a shelf": lambda bill: bill.shelves.setdefault("c", [CopiedLine(sku="s")]),
    "on a shelf": lambda bill: bill.shelves.get("a") and setattr(bill.shelves["a"][0], "sku", "t"),
    "a reference": lambda bill: setattr(bill, "other", Ref(ID)),
    "a key that no field has": lambda bill: bill.set_extra({"new": {"k": [1, 2]}, "key": "v"}),
    "a save": lambda bill: _core.odm_update(bill) and _core.odm_settle(bill, True),
    "a refused save": lambda bill: _core.odm_update(bill) and _core.odm_settle(bill, False),
    "a save of unknown outcome": lambda bill: _core.odm_update(bill) and _core.odm_settle(bill, None),
}


def sent(document: Any) -> tuple[Any, Any]:
    """Return the update that a document would send, with its conditions; restore the document afterwards."""
    update = _core.odm_update(document)
    guard = _core.odm_guard(document)
    if update is not None:
        _core.odm_settle(document, False)
    return update and decode(update), guard and decode(guard)


@pytest.mark.parametrize("way", WAYS)
@given(
    model=st.sampled_from([CopiedBill, CopiedVersion]),
    stored=st.sampled_from(STORED),
    names=st.lists(st.sampled_from(sorted(CHANGES)), max_size=6),
)
def test_a_copy_sends_what_its_original_would_send(
    way: str, model: Any, stored: dict[str, Any], names: list[str]
):
    bill = _core.odm_decode_all(model.__model__, encode(stored))[0]
    for name in names:
        CHANGES[name](bill)

    twin = WAYS[way](bill)

    assert twin == bill
    assert twin.changes() == bill.changes()
    assert sent(twin) == sent(bill)
    # A later change affects only one of them.
    before = sent(bill)
    CHANGES["a line"](twin)
    assert sent(bill) == before


@pytest.mark.parametrize("way", WAYS)
def test_without_containers_too(way: str):
    (one,) = _core.odm_decode_all(CopiedScalars.__model__, encode({"_id": ID, "owner": "ada"}))
    one.cents = 3

    assert sent(WAYS[way](one)) == sent(one) == ({"$set": {"cents": 3}}, None)


@pytest.mark.parametrize("way", WAYS)
def test_elements_are_not_stored_twice(way: str, db: Connection):
    bill = CopiedBill(lines=[CopiedLine(sku="a")]).save()
    bill.lines[0].number = 5

    WAYS[way](bill).save()

    assert CopiedBill.get(bill.id).lines == [CopiedLine(sku="a", number=5)]
    with pytest.raises(StaleDocument):
        bill.save()


@pytest.mark.parametrize("way", WAYS)
def test_a_new_document_is_new_in_the_copy(way: str, db: Connection):
    twin = WAYS[way](CopiedBill(owner="ada", tags=["x"]))

    twin.save()

    assert CopiedBill.get(twin.id).tags == ["x"]


def test_a_copy_made_while_a_save_is_under_way_does_not_know_whether_that_was_stored(db: Connection):
    bill = CopiedBill(tags=["x"]).save()
    bill.tags.append("y")
    _core.odm_update(bill)

    twin = copy.copy(bill)

    with pytest.raises(ParallelSaveError):
        bill.save()
    assert sent(twin) == ({"$push": {"tags": {"$each": ["y"]}}}, {"tags": {"$eq": ["x"]}})
    _core.odm_settle(bill, False)


def test_a_copy_stays_in_the_database_of_its_original(db: Connection):
    with db.use("copies_elsewhere"):
        bill = CopiedBill(owner="ada").save()
    twin = copy.copy(bill)
    twin.owner = "eve"

    twin.save()

    with db.use("copies_elsewhere"):
        assert CopiedBill.get(bill.id).owner == "eve"
        CopiedBill.collection().drop()


def test_a_document_with_a_value_that_cannot_be_decoded_is_copied_and_shown(db: Connection) -> None:
    collection = CopiedBill.collection()
    collection.insert_one({"_id": ObjectId(), "owner": "Ada", "place": {"city": 3}, "tags": [1]})
    bill = CopiedBill.find().all()[0]
    other = bill.copy(owner="Max")
    assert (other.owner, other.id != bill.id) == ("Max", True)
    for document in (bill, other):
        assert "tags=<expected str, got int at $.tags[0]" in repr(document)
        with pytest.raises(ValidationError, match=r"expected str, got int at \$\.place\.city"):
            _ = document.place
    other.save()
    assert [stored["tags"] for stored in collection.find()] == [[1], [1]]
