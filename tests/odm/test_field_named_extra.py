"""A field may be called `extra`; the class's handling of unknown keys stays the same."""

from __future__ import annotations

import pytest

from mangonel.odm import Connection, Document, Embedded, Ref, Refs, field


class Box(Document):
    extra: str
    n: int = 0


def test_a_field_named_extra_is_stored_read_and_changed(db: Connection) -> None:
    box = Box(extra="a").save()
    Box.collection().update_one({}, {"$set": {"unknown": 1}})
    box = Box.get(box.id)
    assert (box.extra, box.to_dict()["extra"], Box.find(Box.extra == "a").count()) == ("a", "a", 1)
    box.extra = "b"
    box.save()
    # Keys without a field stay stored.
    assert Box.collection().find_one({}, {"_id": 0, "n": 0}) == {"extra": "b", "unknown": 1}


def test_a_dynamic_model_has_no_such_field() -> None:
    with pytest.raises(TypeError, match="dynamic model"):

        class Open(Document):
            __dynamic__ = True
            extra: str

    class Part(Embedded):
        extra: int

    with pytest.raises(TypeError, match="dynamic model"):

        class Other(Part):
            __dynamic__ = True

    assert Part(extra=1).extra == 1


def test_references_are_read_by_index_and_by_slice(db: Connection) -> None:
    class Shelf(Document):
        boxes: Refs[Box] = field(default_factory=list)  # type: ignore[assignment]

    boxes = [Box(extra=letter).save() for letter in "abc"]
    shelf = Shelf(boxes=boxes).save().reload()
    assert isinstance(shelf.boxes[0], Ref)
    assert (shelf.boxes[-1].get().extra, [one.id for one in shelf.boxes[:2]]) == (
        "c",
        [boxes[0].id, boxes[1].id],
    )
    with pytest.raises(IndexError):
        shelf.boxes[3]
