"""`__cast__`: the conversions of stored and assigned values, only for models that ask for them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from typing import Any, ClassVar

import pytest

from mangonel.bson import Decimal128, ObjectId, encode
from mangonel.odm import Connection, Document, Embedded, Point, ValidationError, field
from odm.conftest import Face


class Plain(Embedded):
    n: int = 5
    tags: list[int] = field(default_factory=list)


class Deep(Embedded):
    inside: Plain | None = None
    n: int = 1


class Own(Embedded):
    __cast__ = {"null"}  # noqa: RUF012  # as programs write it
    n: int = 5


class Strict(Document):
    n: int = 7
    part: Own | None = None


class Values(Document):
    __cast__ = True
    n: int = 7
    tags: list[int] = field(default_factory=list)


class Decimals(Document):
    __cast__: ClassVar[Any] = {"decimal"}
    n: int = 7
    f: float = 0.0
    tags: list[int] = field(default_factory=list)


class Nulls(Document):
    __cast__: ClassVar[Any] = "null"
    n: int = 7
    must: str
    tags: list[int] = field(default_factory=list)
    maybe: int | None = None


class Singles(Document):
    __cast__: ClassVar[Any] = {"single"}
    tags: list[str] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    pair: tuple[int, ...] = ()


class ByField(Document):
    __cast__: ClassVar[Any] = {"n": {"null", "values"}, "tags": "single"}
    n: int = 7
    m: int = 8
    tags: list[int] = field(default_factory=list)


class Similar(Document):
    __cast__ = True
    owner: ObjectId | None = None
    price: decimal.Decimal = decimal.Decimal(0)
    key: uuid.UUID | None = None
    at: dt.datetime | None = None
    data: bytes = b""
    n: int = 0


class PartsByField(Document):
    __cast__: ClassVar[Any] = {
        "tags": {"values", "single"},
        "table": "decimal",
        "pair": "values",
        "rows": {"values", "single"},
    }
    tags: list[int] = field(default_factory=list)
    table: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    rows: list[list[int]] = field(default_factory=list)
    others: list[int] = field(default_factory=list)


class Reaching(Document):
    __cast__: ClassVar[Any] = {"values", "null", "single", "decimal"}
    deep: Deep | None = None
    many: list[Deep] = field(default_factory=list)
    by_name: dict[str, Plain] = field(default_factory=dict)
    own: Own | None = None


def loaded(model: Any, **values: Any) -> Any:
    return model.from_bson(encode({"_id": ObjectId(), **values}))


# Model, field, the stored value, and the converted value or an error.
TABLE: list[tuple[Any, str, Any, Any]] = [
    (Values, "n", "3", 3),
    (Values, "n", 3.0, 3),
    (Values, "n", 3.5, ValidationError),
    (Values, "n", Decimal128("3"), ValidationError),
    (Values, "n", None, ValidationError),
    (Values, "tags", ["1", 2], [1, 2]),
    (Values, "tags", 1, ValidationError),
    (Decimals, "n", Decimal128("3"), 3),
    (Decimals, "n", Decimal128("3.00"), 3),
    (Decimals, "n", Decimal128("3.5"), ValidationError),
    (Decimals, "n", Decimal128("NaN"), ValidationError),
    (Decimals, "n", Decimal128("Infinity"), ValidationError),
    (Decimals, "n", "3", ValidationError),
    (Decimals, "f", Decimal128("3.5"), 3.5),
    (Decimals, "tags", [Decimal128("1")], [1]),
    (Nulls, "n", None, 7),
    (Nulls, "tags", None, []),
    (Nulls, "must", None, ValidationError),
    (Nulls, "maybe", None, None),
    (Nulls, "n", "3", ValidationError),
    (Singles, "tags", "a", ["a"]),
    (Singles, "tags", ["a", "b"], ["a", "b"]),
    (Singles, "tags", 1, ValidationError),
    (Singles, "keys", 1, {1}),
    (Singles, "pair", 1, (1,)),
    (Singles, "tags", None, ValidationError),
    (ByField, "n", None, 7),
    (ByField, "n", "3", 3),
    (ByField, "m", None, ValidationError),
    (ByField, "m", "3", ValidationError),
    (ByField, "tags", 1, [1]),
    (ByField, "tags", "1", ValidationError),
    (PartsByField, "tags", "1", [1]),
    (PartsByField, "tags", ["1", 2.0], [1, 2]),
    (PartsByField, "tags", ["x"], ValidationError),
    (PartsByField, "table", {"a": Decimal128("3")}, {"a": 3}),
    (PartsByField, "table", {"a": "3"}, ValidationError),
    (PartsByField, "pair", ["1", 2], (1, "2")),
    (PartsByField, "rows", [["1"], 2], [[1], [2]]),
    (PartsByField, "others", ["1"], ValidationError),
    (Similar, "owner", "no id", ValidationError),
    (Similar, "price", "no number", ValidationError),
    (Similar, "key", 5, ValidationError),
    (Similar, "at", 1e300, ValidationError),
    (Similar, "at", 2**62, ValidationError),
    (Similar, "n", math.inf, ValidationError),
    (Similar, "data", "ab", b"ab"),
    # Python reads these as this many zeros.
    (Similar, "data", 5, ValidationError),
]


@pytest.mark.parametrize(("model", "name", "stored", "wanted"), TABLE)
def test_what_a_stored_value_becomes(model: Any, name: str, stored: Any, wanted: Any) -> None:
    values = {"must": "x", name: stored} if model is Nulls else {name: stored}
    if wanted is ValidationError:
        with pytest.raises(ValidationError, match=rf"\$\.{name}"):
            loaded(model, **values).validate()
        return
    found = loaded(model, **values)
    assert getattr(found, name) == wanted
    assert type(getattr(found, name)) is type(wanted)


@pytest.mark.parametrize(
    ("model", "name", "given", "wanted"),
    [row for row in TABLE if row[2] is not None and not isinstance(row[2], Decimal128)]
    + [
        (Decimals, "n", decimal.Decimal("3.0"), 3),
        (Decimals, "n", decimal.Decimal("3.5"), ValidationError),
        (Decimals, "n", decimal.Decimal("Infinity"), ValidationError),
        (Values, "n", decimal.Decimal("3.5"), ValidationError),
        (Nulls, "n", None, 7),
    ],
)
def test_what_an_assigned_value_becomes(model: Any, name: str, given: Any, wanted: Any) -> None:
    document = model(must="x") if model is Nulls else model()
    if wanted is ValidationError:
        with pytest.raises(ValidationError, match=rf"\$\.{name}"):
            setattr(document, name, given)
    else:
        setattr(document, name, given)
        assert getattr(document, name) == wanted


def test_embedded_documents_take_over_the_casts_of_the_documents_that_hold_them() -> None:
    found = loaded(
        Reaching,
        deep={"n": "3", "inside": {"n": None, "tags": "4"}},
        many=[{"n": Decimal128("2"), "inside": {"n": "6", "tags": ["1"]}}],
        by_name={"a": {"n": None}},
        own={"n": None},
    )
    assert found.deep.n == 3
    assert (found.deep.inside.n, found.deep.inside.tags) == (5, [4])
    assert (found.many[0].n, found.many[0].inside.n, found.many[0].inside.tags) == (2, 6, [1])
    assert (found.by_name["a"].n, found.own.n) == (5, 5)


def test_an_embedded_document_with_casts_of_its_own_keeps_them() -> None:
    with pytest.raises(ValidationError, match=r"\$\.own\.n"):
        loaded(Reaching, own={"n": "3"}).validate()
    assert loaded(Strict, part={"n": None}).part.n == 5
    with pytest.raises(ValidationError, match=r"\$\.n"):
        loaded(Strict, n="3").validate()


def test_embedded_documents_that_were_used_before_take_them_over_too() -> None:
    class Early(Embedded):
        n: int = 5

    with pytest.raises(ValidationError):
        Early(n="3")  # type: ignore[arg-type]  # as it must not be

    class Late(Document):
        __cast__ = True
        part: Early | None = None

    assert loaded(Late, part={"n": "3"}).part.n == 3


def test_unknown_casts_are_refused_at_definition() -> None:
    with pytest.raises(
        TypeError, match=r"expected True, some of 'values', .* in Wrong\.__cast__, got the casts nul$"
    ):

        class Wrong(Document):
            __cast__: ClassVar[Any] = {"nul"}

    with pytest.raises(TypeError, match="got the field 'm'"):

        class Other(Document):
            __cast__: ClassVar[Any] = {"m": "null"}
            n: int = 0


# Reading a value in another form does not mark it as changed.


@pytest.mark.parametrize("way", ["one", "all"])
def test_a_value_in_another_form_is_no_change_until_it_is_changed(
    way: str, db: Connection, face: Face
) -> None:
    class Place(Document):
        __collection__ = "forms"
        __cast__: ClassVar[Any] = {"tags": {"single"}, "n": "values"}
        n: int = 0
        at: Point | None = None
        spots: list[Point] = field(default_factory=list)
        tags: list[str] = field(default_factory=list)

    raw = db.client[db.name]["forms"]
    row = {"_id": ObjectId(), "n": "3", "at": [1.5, 2.5], "spots": [[1.0, 2.0]], "tags": "a"}
    raw.insert_one(row)
    found = face.call(Place.find(), way)
    place = found[0] if way == "all" else found
    assert (place.at, place.spots, place.tags, place.n) == (Point(1.5, 2.5), [Point(1.0, 2.0)], ["a"], 3)
    assert (place.changes(), place.is_changed) == ({}, False)
    face.save(place)
    assert raw.find_one() == row
    place.tags.append("b")
    place.at = Point(1.5, 3.0)
    assert set(place.changes()) == {"tags", "at"}
    face.save(place)
    at = {"type": "Point", "coordinates": [1.5, 3.0]}
    assert raw.find_one() == {**row, "tags": ["a", "b"], "at": at}
