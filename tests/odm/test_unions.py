"""A field of several types loads each stored value by the first type that accepts it."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from typing import Any, Literal

import pytest

from mangonel import bson
from mangonel.bson.datetime_ms import DatetimeMS
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    LineString,
    MultiLineString,
    MultiPoint,
    Polygon,
    ValidationError,
)


class Colour(enum.Enum):
    RED = "r"


AREA = Polygon([(0, 0), (3, 6), (6, 1), (0, 0)])
DAY = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


def model_of(annotation: Any, **settings: Any) -> Any:
    body = {"__annotations__": {"value": annotation}, "__module__": __name__, **settings}
    return type(Document)("Several", (Document,), body)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Literal["a"] | str, "z"),
        (Literal["a"] | Literal["b"], "b"),
        (Colour | str, "z"),
        (list[int] | list[str], ["a"]),
        (list[int] | set[str], {"a"}),
        (list[list[int]] | list[list[str]], [["a"], ["b"]]),
        (tuple[int, str] | list[int], [1, 2, 3]),
        (dict[str, int] | dict[str, str], {"a": "b"}),
        (dict[str, int] | Polygon, AREA),
        (uuid.UUID | bytes, b"ab"),
        (dt.date | dt.datetime, DAY.replace(hour=5)),
        (dt.date | dt.datetime, dt.date(2024, 5, 1)),
        (LineString | Polygon, AREA),
        (MultiPoint | LineString | MultiLineString, LineString([(0, 0), (1, 1)])),
        (list[LineString | Polygon], [AREA, LineString([(0, 0), (1, 1)])]),
    ],
)
@pytest.mark.parametrize("way", ["eager", "lazy"])
def test_what_is_stored_is_loaded(annotation: Any, value: Any, way: str, db: Connection, face: Any) -> None:
    several = model_of(annotation)
    face.save(several(value=value))
    found = face.call(getattr(several.find(), way)(), "one")
    assert found.value == value
    assert type(found.value) is type(value)
    stored = several.collection().find_one()
    found.value = found.value
    face.save(found)
    assert several.collection().find_one() == stored


@pytest.mark.parametrize("stored", [["a", None], {"a": 1}, 3, [[1]]])
def test_what_no_type_takes_does_not_fit(stored: Any) -> None:
    data = bson.encode({"_id": bson.ObjectId(), "value": stored})
    with pytest.raises(ValidationError, match=r"at \$\.value"):
        model_of(list[int] | list[str] | Polygon).from_bson(data)
    lenient = model_of(list[int] | list[str] | Polygon, __on_bad__="raw")
    assert lenient.from_bson(data).value == stored
    good = bson.encode({"_id": bson.ObjectId(), "value": ["a"]})
    assert lenient.from_bson(good).value == ["a"]


def test_what_cannot_be_decoded_is_told_and_not_tried_again() -> None:
    data = bson.encode({"_id": bson.ObjectId(), "value": [DatetimeMS(10**17)]})
    with pytest.raises(ValidationError, match="date value out of range"):
        model_of(list[dt.datetime] | list[str]).from_bson(data)


class Card(Embedded):
    kind: Literal["card"] = "card"
    last4: str


class Iban(Embedded):
    kind: Literal["iban"] = "iban"
    iban: str


class Dog(Embedded):
    __root__ = True
    __tag_root__ = True
    name: str = ""


class Cat(Embedded):
    __root__ = True
    __tag_root__ = True
    name: str = ""


class Kitten(Cat):
    weeks: int = 0


IBAN = {"kind": "iban", "iban": "x"}


@pytest.mark.parametrize(
    ("annotation", "given", "made"),
    [
        (Card | Iban, IBAN, Iban(iban="x")),
        (Card | Iban | None, IBAN, Iban(iban="x")),
        (list[Card | Iban], [IBAN, Card(last4="1")], [Iban(iban="x"), Card(last4="1")]),
        (dict[str, Card | Iban], {"a": IBAN}, {"a": Iban(iban="x")}),
        (int | Card, {"last4": "1"}, Card(last4="1")),
        (Dog | Cat, {"_cls": "Cat", "name": "a"}, Cat(name="a")),
        (Dog | Cat, {"_cls": "Kitten", "weeks": 3}, Kitten(weeks=3)),
        (list[Dog | Cat], [{"_cls": "Cat"}, {"_cls": "Dog"}], [Cat(), Dog()]),
    ],
)
def test_a_mapping_becomes_the_alternative_that_it_names(annotation: Any, given: Any, made: Any) -> None:
    several = model_of(annotation, __cast__=True)
    assigned = several(value=made)
    assigned.value = given
    found = [several.from_dict({"value": given}), several(value=given), assigned]
    assert [document.value for document in found] == [made] * 3
    assert (
        bson.decode(found[1].to_bson().raw)["value"]
        == bson.decode(several(value=made).to_bson().raw)["value"]
    )


def test_a_mapping_that_fits_no_alternative_or_is_not_to_be_cast_is_refused() -> None:
    for given, cast in (({"kind": "cash"}, True), ([], True), ("iban", True), (IBAN, False)):
        with pytest.raises(ValidationError, match=r"^expected Card or Iban, got \w+ at \$\.value"):
            model_of(Card | Iban, __cast__=cast)(value=given)
