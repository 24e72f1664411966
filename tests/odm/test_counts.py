"""Counting a query's documents, with any conditions."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from mangonel.odm import Connection, Document, Indexed, Point, where_js


class Aged(Document):
    name: str
    age: int


class Placed(Document):
    at: Annotated[Point, Indexed(kind="2dsphere")]


@pytest.fixture
def people(db: Connection, face: Any) -> None:
    face.save(*(Aged(name=name, age=age) for name, age in (("Ada", 36), ("Bob", 20), ("Eve", 50))))


def test_query_with_javascript_is_counted(people: None, face: Any) -> None:
    query = Aged.find(where_js("this.age > 30"))

    assert face.call(query, "count") == len(face.collect(query)) == 2
    assert face.call(query.skip(1), "count") == 1
    assert face.call(query.limit(1), "count") == 1


def test_javascript_among_other_conditions_is_counted(people: None, face: Any) -> None:
    either = Aged.find(where_js("this.age < 30") | (Aged.name == "Eve"))
    both = Aged.find(where_js("this.age > 30") & (Aged.name == "Eve"))

    assert (face.call(either, "count"), face.call(both, "count")) == (2, 1)


def test_page_of_a_query_with_javascript_knows_the_total(people: None, face: Any) -> None:
    pages = face.call(Aged.find(where_js("this.age > 30")).sort(Aged.age), "paginate", 2, 1)

    assert (pages.total, [person.name for person in pages.items]) == (2, ["Eve"])


def test_query_by_distance_is_counted(db: Connection, face: Any) -> None:
    face.call(Placed, "sync_indexes")
    face.save(*(Placed(at=Point(13.4 + n, 52.5)) for n in range(3)))
    near = Placed.find({"at": {"$nearSphere": Point(13.4, 52.5).to_geojson(), "$maxDistance": 100_000}})

    assert face.call(near, "count") == 2
