"""Models of every kind of field, for the tests of the admin."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import ipaddress
import uuid
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, MaxLen

from mangonel.bson import Binary, Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp
from mangonel.odm import (
    Audited,
    Document,
    Embedded,
    File,
    Indexed,
    Many,
    Point,
    Polygon,
    Ref,
    Refs,
    Secret,
    Version,
    field,
    many,
)


class Author(Document):
    __collection__ = "admin_authors"

    name: Annotated[str, MaxLen(80)]
    posts: Many[Post] = many(by="author")


class Comment(Embedded):
    by: str
    text: str = ""


class Post(Document):
    __collection__ = "admin_posts"

    title: Annotated[str, MaxLen(80)]
    body: str = ""
    state: Literal["new", "seen"] = "new"
    likes: Annotated[int, Ge(0)] = 0
    author: Ref[Author] | None = field(default=None, on_delete="deny")
    tags: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    photo: File | None = None


class Picture(Document):
    """Deleted with its post."""

    __collection__ = "admin_pictures"

    post: Ref[Post] = field(on_delete="cascade")
    image: File | None = None


class Thumbnail(Document):
    """Deleted with its picture, which is deleted with its post."""

    __collection__ = "admin_thumbnails"

    picture: Ref[Picture] = field(on_delete="cascade")
    images: list[File] = field(default_factory=list)


class Contract(Audited):
    __collection__ = "admin_contracts"

    title: str
    version: Annotated[int, Version] = 0


class Scan(Audited):
    __collection__ = "admin_scans"

    title: str
    image: File | None = None


class Leaf(Embedded):
    number: int = 0


class Sheet(Leaf):
    scan: File | None = None
    next: Sheet | None = None


class Album(Document):
    __collection__ = "admin_albums"

    cover: File
    pages: list[Sheet | None] = field(default_factory=list)
    by_name: dict[str, list[Sheet]] = field(default_factory=dict)
    leaf: Leaf | None = None


class Vault(Document):
    __collection__ = "admin_vaults"
    __secret__: ClassVar[tuple[str, ...]] = ("hidden",)

    name: str
    token: Secret
    hidden: str = "unseen"


class Pin(Embedded):
    __secret__: ClassVar[tuple[str, ...]] = ("code",)

    name: str = "p"
    code: str = "unseen-code"
    token: Secret | None = field(default=None, key="t")


class Wallet(Audited):
    __collection__ = "admin_wallets"

    name: str
    token: Secret | None = None
    pin: Pin | None = None
    pins: list[Pin] = field(default_factory=list)
    by_name: dict[str, Pin] = field(default_factory=dict)


class Place(Document):
    __collection__ = "admin_places"
    __root__ = True

    name: str = ""
    at: Annotated[Point | None, Indexed("2dsphere")] = None
    number: int = 0
    anything: Any = None


class Cellar(Place):
    __secret__: ClassVar[tuple[str, ...]] = ("code",)

    code: str = "unseen-code"


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Card(Embedded):
    kind: Literal["card"] = "card"
    number: str = ""


class Bank(Embedded):
    kind: Literal["bank"] = "bank"
    iban: str = ""


class Part(Embedded):
    name: str
    weight: float | None = None
    inner: list[int] = field(default_factory=list)


class Everything(Document):
    __collection__ = "admin_everything"

    text: str
    whole: int
    real: float
    flag: bool
    raw: bytes
    moment: dt.datetime
    day: dt.date
    other_id: ObjectId
    price: decimal.Decimal
    anything: Any
    literal: Literal["x", 1, True]
    colour: Colour
    part: Part
    maybe_part: Part | None
    texts: list[str]
    parts: list[Part]
    numbers: set[int]
    names: frozenset[str]
    counts: dict[str, int]
    parts_by_name: dict[str, Part]
    payment: Card | Bank
    number_or_text: int | str
    payment_or_number: Card | Bank | int | None
    pair: tuple[int, str]
    reals: tuple[float, ...]
    place: Point
    area: Polygon
    author: Ref[Author]
    authors: Refs[Author]
    unique: uuid.UUID
    long: Int64
    exact: Decimal128
    stamp: Timestamp
    address: ipaddress.IPv4Address
    secret: Secret
    grid: list[list[int]]
    gaps: list[int | None]
    queue: collections.deque[int]
    binary: Binary
    pattern: Regex
    least: MinKey
    maybe: str | None = None
