"""The documents of the shop, each defined once for both faces. Knows no web."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, ClassVar

from annotated_types import MaxLen

from mangonel.odm import Document, Index, Indexed, Point, field

STATES = ("new", "paid", "shipped")
"""What an order goes through."""


def now() -> dt.datetime:
    """The current time in UTC, in whole milliseconds as in BSON."""
    return dt.datetime.now(dt.UTC)


class Account(Document):
    """A user who may log in. The id is the name."""

    __collection__ = "accounts"

    id: str  # type: ignore[assignment]  # the name takes the place of an ObjectId
    password: bytes
    salt: bytes
    title: str


class Customer(Document):
    """A customer who signed up in the shop."""

    __collection__ = "customers"

    name: Annotated[str, MaxLen(80)]
    city: str
    # The shop numbers customers without gaps, so that a page can detect missed or repeated ones.
    number: int = 0
    joined: dt.datetime = field(default_factory=now)


class Order(Document):
    """An order of a customer; it copies the name for the list of orders."""

    __collection__ = "orders"

    customer: str
    item: str
    cents: int
    state: str = STATES[0]
    placed: dt.datetime = field(default_factory=now)


class Post(Document):
    """A post with a location."""

    __collection__ = "posts"
    __indexes__: ClassVar[list[Index]] = [Index("title", "body", kind="text", weights={"title": 3})]

    title: Annotated[str, MaxLen(120)]
    body: str
    author: str
    city: str
    place: Annotated[Point, Indexed("2dsphere")]
    written: dt.datetime


MODELS = (Account, Customer, Order, Post)
