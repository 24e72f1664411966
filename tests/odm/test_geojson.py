"""GeoJSON objects as dicts: the result of `to_dict` makes an equal document, and wrong objects are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel import _core, bson
from mangonel.odm import (
    Document,
    Embedded,
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
    Point,
    Polygon,
    ValidationError,
    field,
)


class Stop(Embedded):
    at: Point


class Journey(Document):
    start: Point | None = None
    way: LineString | Polygon | None = None
    stops: list[Stop] = field(default_factory=list)
    seen: list[Point] = field(default_factory=list)
    named: dict[str, Point] = field(default_factory=dict)
    area: MultiPolygon | MultiPoint | MultiLineString | None = None


NUMBER = st.floats(-180, 180)
POSITION = st.tuples(NUMBER, NUMBER)
POINT = st.builds(Point, NUMBER, NUMBER)
LINE = st.lists(POSITION, min_size=2, max_size=3)
RING = st.lists(POSITION, min_size=3, max_size=4)
VALUES: dict[str, Any] = {
    "start": st.none() | POINT,
    "way": st.none() | st.builds(LineString, LINE) | st.builds(Polygon, RING),
    "stops": st.lists(st.builds(Stop, at=POINT), max_size=2),
    "seen": st.lists(POINT, max_size=3),
    "named": st.dictionaries(st.text("ab", min_size=1), POINT, max_size=2),
    "area": st.builds(MultiPoint, LINE)
    | st.builds(MultiLineString, st.lists(LINE, max_size=2))
    | st.builds(MultiPolygon, st.lists(st.lists(RING, min_size=1, max_size=2), max_size=2)),
}


@given(st.fixed_dictionaries(VALUES), st.booleans())
def test_a_dict_makes_the_document_that_it_was_made_of(values: dict[str, Any], by_key: bool) -> None:
    made = Journey(**values)
    found = Journey.from_dict(made.to_dict(by_key=by_key))
    assert found.to_dict() == made.to_dict()
    assert found.to_bson().raw == made.to_bson().raw


WRONG = {
    "another object": ({"type": "Polygon", "coordinates": []}, "expected Point or None, got dict at $.start"),
    "a text": (
        {"type": "Point", "coordinates": "ab"},
        "expected the coordinates of a Point, got 'ab' at $.start",
    ),
    "texts": (
        {"type": "Point", "coordinates": ["1", "2"]},
        "expected the coordinates of a Point, got ['1', '2'] at $.start",
    ),
    "one number": (
        {"type": "Point", "coordinates": [1]},
        "expected the coordinates of a Point, got [1] at $.start",
    ),
    "a line": (
        {"type": "Point", "coordinates": [[1, 2]]},
        "expected the coordinates of a Point, got [[1, 2]] at $.start",
    ),
    "none": ({"type": "Point"}, "expected the coordinates of a Point, got None at $.start"),
    "no type": ({"coordinates": [1, 2]}, "expected Point or None, got dict at $.start"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_geojson_is_refused_with_its_place(what: str) -> None:
    value, message = WRONG[what]
    with pytest.raises(ValidationError) as caught:
        Journey.from_dict({"start": value})
    assert str(caught.value) == message


def test_faults_inside_of_lists_have_their_places() -> None:
    wrong = {"type": "Point", "coordinates": [True, 2]}
    with pytest.raises(ValidationError) as caught:
        Journey.from_dict({"stops": [{"at": wrong}], "seen": [Point(1, 2), wrong]})
    assert [fault["path"] for fault in caught.value.errors()] == ["$.stops[0].at", "$.seen[1]"]


def test_another_object_s_document_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a GeoJSON Polygon, got the type 'Point'"):
        Polygon.from_geojson({"type": "Point", "coordinates": [1, 2]})
    assert Point.from_geojson({"type": "Point", "coordinates": [1, 2]}) == Point(1, 2)


def test_a_geometry_in_a_dict_is_made_by_the_core() -> None:
    class Venue(Document):
        name: str
        at: Point
        others: list[Point] = field(default_factory=list)

    where = {"type": "Point", "coordinates": [1.0, 2.0]}
    made = _core.odm_build(Venue.__model__, {"name": "a", "at": where, "others": [where, Point(3.0, 4.0)]})
    assert (made.at, made.others) == (Point(1.0, 2.0), [Point(1.0, 2.0), Point(3.0, 4.0)])
    assert _core.odm_build(Venue.__model__, {"name": "a", "at": Point(1.0, 2.0)}).at == Point(1.0, 2.0)
    for wrong in ({"type": "Polygon", "coordinates": [1.0, 2.0]}, {"type": "Point", "coordinates": "here"}):
        with pytest.raises(ValidationError, match=r"at \$\.at"):
            Venue.from_dict({"name": "a", "at": wrong})


class Shapes(Document):
    point: Point | None = None
    line: LineString | None = None
    area: Polygon | None = None
    areas: MultiPolygon | None = None
    points: list[Point] = field(default_factory=list)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("point", [1.0]),
        ("point", {"type": "Point", "coordinates": [1.0]}),
        ("point", {"type": "Point", "coordinates": ["1", "2"]}),
        ("point", {"type": "Point", "coordinates": [[1.0, 2.0]]}),
        ("point", {"type": "Polygon", "coordinates": [1.0, 2.0]}),
        ("line", {"type": "LineString", "coordinates": [1.0, 2.0]}),
        ("line", {"type": "MultiPoint", "coordinates": [[1.0, 2.0], [3.0, 4.0]]}),
        ("area", {"type": "Polygon", "coordinates": [[1.0, 2.0], [3.0, 4.0]]}),
        ("areas", {"type": "MultiPolygon", "coordinates": [[[1.0, 2.0], None]]}),
        ("points", [[1.0, 2.0], [1.0]]),
    ],
)
def test_a_stored_geometry_of_another_form_does_not_fit(name: str, stored: Any) -> None:
    data = bson.encode({"_id": bson.ObjectId(), name: stored})
    path = rf"\$\.{name}\[1\]" if name == "points" else rf"\$\.{name}"
    with pytest.raises(ValidationError, match=rf"expected .*, got \w+ at {path}"):
        Shapes.from_bson(data)


def test_a_stored_position_may_have_a_height_and_whole_numbers() -> None:
    for stored in ([1, 2.5, 3], {"type": "Point", "coordinates": [1, 2.5, 3]}):
        found = Shapes.from_bson(bson.encode({"_id": bson.ObjectId(), "point": stored}))
        assert found.point is not None
        assert found.point.coordinates == [1, 2.5, 3]
