"""A class finds the documents that its own upserts inserted, with any subclasses."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel.odm import Connection, Document, inc, set_


class Shape(Document):
    __root__ = True
    __collection__ = "shapes"
    name: str
    n: int = 0


class Round(Shape):
    pass


class Circle(Round):
    pass


KINDS = pytest.mark.parametrize("kind", [Shape, Round, Circle])


@KINDS
def test_three_upserts_make_one_document(kind: Any, db: Connection, face: Any) -> None:
    for _ in range(3):
        query = kind.find(kind.name == "x")
        face.call(query, "update", inc(kind.n), upsert=True)
    assert db.client[db.name]["shapes"].count_documents({}) == 1
    found = face.call(kind.find(), "one")
    assert (type(found), found.name, found.n) == (kind, "x", 3)


@KINDS
def test_three_calls_of_find_and_update_make_one_document(kind: Any, db: Connection, face: Any) -> None:
    for times in (1, 2, 3):
        query = kind.find(kind.name == "x")
        found = face.call(query, "find_and_update", inc(kind.n), upsert=True)
        assert (type(found), found.n) == (kind, times)
    assert db.client[db.name]["shapes"].count_documents({}) == 1


@KINDS
def test_three_calls_of_upsert_make_one_document(kind: Any, db: Connection, face: Any) -> None:
    for given in ({}, {"on_insert": kind(name="x")}, {}):
        found = face.call(kind.find(kind.name == "x"), "upsert", inc(kind.n), **given)
        assert type(found) is kind
    assert db.client[db.name]["shapes"].count_documents({}) == 1


@KINDS
def test_an_upsert_by_a_pipeline_stores_the_class_too(kind: Any, db: Connection, face: Any) -> None:
    for _ in range(3):
        stages: Any = [{"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}]
        face.call(kind.find(kind.name == "x"), "find_and_update", stages, upsert=True)
    found = face.call(kind.find(), "one")
    assert (type(found), found.n) == (kind, 3)


def test_an_upsert_leaves_the_class_of_what_it_finds(db: Connection, face: Any) -> None:
    face.save(Circle(name="x"))
    face.call(Round.find(Round.name == "x"), "update", set_(Round.n, 7), upsert=True)
    found = face.call(Shape.find(), "one")
    assert (type(found), found.n) == (Circle, 7)
