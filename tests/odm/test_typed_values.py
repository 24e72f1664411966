"""Values without documents have the types that their fields declare."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from typing import Any

from mangonel.bson import Binary
from mangonel.odm import Connection, Document, Embedded, field


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Box(Embedded):
    cm: decimal.Decimal


class Ware(Document):
    price: decimal.Decimal
    day: dt.date
    colour: Colour
    code: uuid.UUID
    box: Box | None = None
    colours: list[Colour] = field(default_factory=list)


D = decimal.Decimal
DAY = dt.date(2026, 1, 2)
CODE = uuid.UUID(int=7)


def test_values_distinct_and_extremes_have_their_fields_types(db: Connection, face: Any) -> None:
    both = [Colour.RED, Colour.BLUE]
    face.save(
        Ware(price=D("1.5"), day=DAY, colour=Colour.RED, code=CODE, box=Box(cm=D("3")), colours=both),
        Ware(price=D("2.5"), day=DAY, colour=Colour.BLUE, code=CODE),
    )
    query = Ware.find().sort("price")
    assert face.call(query, "values", Ware.price) == [D("1.5"), D("2.5")]
    assert face.call(query, "values", Ware.day, Ware.colour) == [(DAY, Colour.RED), (DAY, Colour.BLUE)]
    assert face.call(query, "values", Ware.box) == [Box(cm=D("3")), None]
    assert face.call(query, "values", "box.cm") == [D("3"), None]
    assert face.call(query, "distinct", Ware.code) == [CODE]
    assert set(face.call(query, "distinct", Ware.colours)) == set(both)
    assert face.call(query, "min", Ware.price) == D("1.5")
    assert face.call(query, "max", Ware.day) == DAY
    assert face.call(query, "sum", Ware.price) == D("4.0")


class Sealed(Document):
    data: Binary
    parts: list[Binary]
    by_name: dict[str, Binary]
    either: Binary | str = ""


def test_binary_data_of_every_subtype_comes_back_as_it_was_stored(db: Connection, face: Any) -> None:
    plain, own = Binary(b"plain", 0), Binary(b"own", 128)
    stored = Sealed(data=plain, parts=[plain, own], by_name={"a": own, "b": plain}, either=plain)
    face.save(stored)

    found = face.call(Sealed.find(), "one")
    values = [found.data, *found.parts, *found.by_name.values(), found.either]
    assert values == [plain, plain, own, own, plain, plain]
    assert [(type(value), value.subtype) for value in values] == [
        (Binary, value.subtype) for value in [plain, plain, own, own, plain, plain]
    ]
    assert found == stored
    assert found.changes() == {}
    assert face.call(Sealed.find(Sealed.data == plain), "values", Sealed.data) == [plain]
