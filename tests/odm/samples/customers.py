"""Partial updates and loads, unions, several models in one collection, fully typed fields."""

from __future__ import annotations

from typing import Any, Literal

from mangonel.odm import Document, Embedded, F, Mapped, ObjectId, mapped, max_, set_, set_on_insert
from mangonel.odm.expressions.changes import Update


class Address(Embedded):
    city: str
    zip: str | None = None


class Card(Embedded):
    kind: Literal["card"] = "card"
    last4: str


class Iban(Embedded):
    kind: Literal["iban"] = "iban"
    iban: str


class Customer(Document):
    name: str
    address: Address
    pay: Card | Iban
    phone: str | None = None


async def move(c: Customer, city: str) -> None:
    c.address.city = city
    c.phone = None
    await c.asave()


def by_city(x: str) -> int:
    return Customer.find(Customer.address.city == x).count()


def light(id_: ObjectId) -> str:
    c = Customer.find({"_id": id_}).only(Customer.name).one()
    return c.name


class Shape(Document):
    __root__ = True
    name: str


class Circle(Shape):
    r: float


class Rect(Shape):
    w: float
    h: float


async def area() -> float:
    total = 0.0
    async for s in Shape.find():
        match s:
            case Circle():
                total += 3.14159 * s.r**2
            case Rect():
                total += s.w * s.h
            case _:
                pass
    return total


class Strict(Document):
    n: Mapped[int]
    s: Mapped[str]
    score: Mapped[float] = mapped(default=0.0)
    words: Mapped[list[str]] = mapped(default_factory=list)
    note: Mapped[str | None] = mapped(default=None, key="t")


q = Strict.find(Strict.n.in_([1, 2]) & (Strict.n > 0), Strict.s.startswith("a"))


strict = Strict(n=1, s="a")
best: float = strict.score
words: list[str] = strict.words
note: str | None = strict.note
q2 = Strict.find(Strict.score > 0.5, Strict.note.startswith("a"))


class Measured(Document):
    level: int
    share: float = 0.0
    mixed: int | str = 0
    note: str | None = None
    label: Literal["a", "b"] = "a"
    lines: list[str]
    other: Any = None


def change(given: Any, level: int | None) -> int:
    """Valid changes, which no checker may refuse, values of type Any and of unions among them."""
    changes: list[Update] = [set_(Measured.level, 1), set_on_insert(Measured.note, "x")]
    return Measured.find().update(
        *changes,
        set_(Measured.level, given),
        set_(Measured.note, given["note"]),
        set_(Measured.note, None),
        set_(Measured.share, 1),
        set_(Measured.mixed, "x"),
        set_(Measured.mixed, 1),
        set_(Measured.label, "b"),
        set_(Measured.lines, []),
        set_(Measured.lines, ["x"]),
        set_(Measured.other, "x"),
        set_(Measured.level, level or 0),
        set_(Measured.level, F(Measured.level) + 1),
        set_(Measured.share, F(Measured.share) * 2),
        max_(Measured.level, given),
    )
