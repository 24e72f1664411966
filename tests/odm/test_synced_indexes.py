"""Declared indexes beside existing ones that differ in one option: built again once, and left alone otherwise."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, ClassVar

import pytest

from mangonel.collation import Collation
from mangonel.odm import Connection, Document, Index, Indexed, field, now

EN = {"locale": "en"}
FOLDED = {"locale": "en", "strength": 2}


def model(indexes: list[Index], **options: Any) -> Any:
    """Return a model with these indexes and class attributes."""
    annotations = {"text": "str", "n": "int", "at": "dt.datetime"}
    body = {"text": "", "n": 0, "at": field(default_factory=now), "__annotations__": annotations}
    body |= {"__module__": __name__, "__qualname__": "Page", "__indexes__": indexes}
    return type("Page", (Document,), body | options)


assert dt  # the annotations above name it

# What exists, the declared index, and whether the two differ.
CASES: dict[str, tuple[Any, dict[str, Any], Index, bool]] = {
    "a stricter collation": ({"text": 1}, {"collation": EN}, Index("text", collation=FOLDED), True),
    "a looser collation": ({"text": 1}, {"collation": FOLDED}, Index("text", collation=EN), True),
    "another language": ({"text": 1}, {"collation": EN}, Index("text", collation={"locale": "da"}), True),
    "no collation": ({"text": 1}, {"collation": EN}, Index("text"), True),
    "a new collation": ({"text": 1}, {}, Index("text", collation=EN), True),
    "one collation": ({"text": 1}, {"collation": FOLDED}, Index("text", collation=FOLDED), False),
    "an object": ({"text": 1}, {"collation": EN}, Index("text", collation=Collation("en")), False),
    "defaults of a language": (
        {"text": 1},
        {"collation": {"locale": "da"}},
        Index("text", collation={"locale": "da"}),
        False,
    ),
    "numbers in order": (
        {"text": 1},
        {"collation": {**EN, "numericOrdering": True}},
        Index("text", collation=EN),
        True,
    ),
    "the simple collation": ({"text": 1}, {}, Index("text", collation={"locale": "simple"}), False),
    "expires at once": ({"at": 1}, {}, Index("at", expireAfterSeconds=0), True),
    "expires at once, as before": (
        {"at": 1},
        {"expireAfterSeconds": 0},
        Index("at", expireAfterSeconds=0),
        False,
    ),
    "expires no more": ({"at": 1}, {"expireAfterSeconds": 0}, Index("at"), True),
    "language of a text": (
        {"text": "text"},
        {},
        Index("text", kind="text", default_language="none"),
        True,
    ),
    "language as before": (
        {"text": "text"},
        {"default_language": "none"},
        Index("text", kind="text", default_language="none"),
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_index_is_built_again_if_it_differs(case: str, db: Connection, face: Any) -> None:
    keys, options, declared, differs = CASES[case]
    page = model([declared])
    db.client[db.name]["page"].create_index([*keys.items()], **options)
    plan = face.call(page, "sync_indexes", plan=True)
    assert bool(plan.rebuild) is differs
    face.call(page, "sync_indexes")
    assert not face.call(page, "sync_indexes", plan=True)


def test_indexes_have_the_collation_of_their_collection(db: Connection, face: Any) -> None:
    declared = [
        Index("text", unique=True),
        Index("n", collation={"locale": "simple"}),
        Index("at", collation=EN),
    ]
    page = model(declared, __collection_options__={"collation": FOLDED})
    face.call(page, "create_collection")
    face.call(page, "sync_indexes")
    assert not face.call(page, "sync_indexes", plan=True)
    # The collection's is the one that counts, whatever the class says.
    plan = face.call(model(declared), "sync_indexes", plan=True)
    assert plan.keep == ["text_1", "n_1", "at_1"]


def test_two_indexes_of_one_name_are_refused(db: Connection, face: Any) -> None:
    for indexes in (
        [Index("text", name="x"), Index("n", name="x")],
        [Index("text", "n", name="x"), Index("n", "text", name="x")],
        [Index("text"), Index("text", unique=True)],
    ):
        with pytest.raises(TypeError, match=r"^expected one index with the name '(x|text_1)', got "):
            face.call(model(indexes), "sync_indexes", plan=True)


class Twice(Document):
    mail: Annotated[str, Indexed(unique=True)]
    __indexes__: ClassVar[list[Index]] = [Index("mail", unique=True)]


def test_one_index_may_be_declared_twice(db: Connection, face: Any) -> None:
    assert face.call(Twice, "sync_indexes", plan=True).create == ["mail_1"]
