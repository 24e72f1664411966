"""Partial updates and loads, unions, several models in one collection, fully typed fields."""

from __future__ import annotations

from typing import Literal

from mangonel.odm import Document, Embedded, Mapped, ObjectId


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


q = Strict.find(Strict.n.in_([1, 2]) & (Strict.n > 0), Strict.s.startswith("a"))
