"""Do the usual work of a program, so that the compiler learns which code paths are common: `make trained`.

maturin runs it with a build that counts its branches, and then builds again with the counts: the common path of a
function is contiguous, and rare code is moved away from it. No server is needed: another process answers every command.
The work is broader than that of `tools/instructions.py`, with its own documents, since a path that is missing here is
treated as rare.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "instructions"))

import everyday
from counted import TIMES, play

import mangonel
from mangonel import _core, bson
from mangonel.bson import json_util
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.odm import Document, Embedded, connect

MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 250_000, datetime.UTC)
MANY = 100
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "größer", "東京", "naïve", "—"]


def documents(count: int = MANY) -> Iterator[dict[str, Any]]:
    """Yield documents of several shapes, with values of every type that programs store."""
    for number in range(count):
        name = f"{WORDS[number % len(WORDS)]} {number}"
        yield {
            "_id": bson.ObjectId(f"{number:024x}"),
            "name": name,
            "email": f"{number}@example.com",
            "age": number % 90,
            "visits": 2**40 + number,
            "balance": number / 7,
            "active": number % 3 == 0,
            "left": None,
            "joined": MOMENT + datetime.timedelta(hours=number),
            "tags": WORDS[: number % 7],
            "marks": [number / 3, number, 2.5, 0],
            "text": " ".join(WORDS) * (number % 5),
            "address": {"street": name, "city": "東京", "zip": str(number), "at": [13.4, 52.5]},
        }
        yield {
            "_id": number,
            "lines": [
                {"sku": f"A-{each}", "count": each, "price": each * 1.25, "options": {"gift": each == 2}}
                for each in range(number % 12)
            ],
            "rare": {
                "key": bson.Binary.from_uuid(uuid.UUID(int=number)),
                "bytes": bytes(range(number)),
                "price": bson.Decimal128("12.50"),
                "pattern": bson.Regex("^a.*b$", "i"),
                "stamp": bson.Timestamp(number, 1),
                "code": bson.Code("return 1"),
                "long": bson.Int64(number),
                "least": bson.MinKey(),
                "deep": {"er": {"est": [[number], [{}], []]}},
            },
        }


class Line(Embedded):
    """A line of an order."""

    sku: str
    count: int
    price: float


class Person(Document):
    """One of the documents with plain values."""

    name: str
    email: str
    age: int
    visits: int
    balance: float
    active: bool
    joined: datetime.datetime
    tags: list[str]
    text: str


class Order(Document):
    """An order, as the answering process returns it."""

    __collection__ = "people"
    customer: str
    total: float
    paid: bool
    placed: datetime.datetime
    lines: list[Line]
    tags: list[str]
    note: str | None = None


def orders(count: int) -> list[dict[str, Any]]:
    """Return orders as documents."""
    return [
        {
            "_id": bson.ObjectId(f"{number:024x}"),
            "customer": WORDS[number % len(WORDS)],
            "total": number * 1.5,
            "paid": number % 2 == 0,
            "placed": MOMENT,
            "lines": [{"sku": f"B-{each}", "count": each, "price": 0.5} for each in range(4)],
            "tags": WORDS[:3],
        }
        for number in range(count)
    ]


def train_codec() -> None:
    """Encode, decode, and turn into JSON and back."""
    aware = bson.CodecOptions(tz_aware=True, document_class=bson.SON)
    for document in documents():
        data = bson.encode(document)
        text = json_util.dumps(document)
        for _ in range(TIMES // 4):
            bson.encode(document)
            bson.decode(data)
            bson.decode(data, aware)
            json_util.dumps(document)
            json_util.loads(text)
        RawBSONDocument(data)["_id"]
    everything = b"".join(bson.encode(each) for each in documents())
    for _ in range(TIMES):
        bson.decode_all(everything)
        list(bson.decode_file_iter(io.BytesIO(everything)))


def train_columns() -> None:
    """Turn documents into columns and back into documents; read lines of JSON."""
    rows = [each for each in documents() if "name" in each]
    data = b"".join(map(bson.encode, rows))
    lines = b"".join(json_util.dumps(row).encode() + b"\n" for row in rows)
    for _ in range(TIMES):
        builder = _core.ColumnBuilder(None, "raise", 50)
        builder.add_bytes(data)
        _core.ArrowReader(builder.take(), skips_nulls=False).next_part(MANY)
        types = _core.TypeCounter()
        types.add_bytes(data)
        types.found()
        _core.documents_of_json_lines(lines, b"12345678", 0)


def train_driver(uri: str) -> None:
    """Do the everyday operations on every face that needs no further package."""
    with mangonel.MongoClient(uri) as client:
        for _ in range(everyday.ROUNDS):
            play(everyday.rows(client["shop"]["people"]))
    everyday.on_loop(uri)


def train_mapper(uri: str) -> None:
    """Make, find, change and store objects."""
    connect(uri, database="shop")
    given = orders(MANY)
    plain = [{name: each[name] for name in Person.__annotations__} for each in documents() if "name" in each]
    for _ in range(TIMES):
        for values in plain:
            Person.from_dict(values)
            Person(**values)
        for values in given[:5]:
            Order.from_dict(values)
            made = Order(**{name: values[name] for name in values.keys() - {"_id", "lines"}}, lines=[])
            made.lines.append(Line(sku="C", count=1, price=2.0))
            made.save()
        for found in Order.find(Order.total > 3, Order.customer != "fox").sort(-Order.total).all():
            _ = found.lines[0].sku, found.customer
        found.note = "gift"
        found.lines[1].count += 1
        found.save()
        Order.find(Order.customer == "fox").first()


def main() -> None:
    """Do all work; with a number, answer commands on the socket with that number instead."""
    if sys.argv[1:]:
        everyday.REPLIES["find"] = everyday.cursor(orders(MANY))
        everyday.answer(socket.socket(fileno=int(sys.argv[1])))
        return
    # The rows' output is needed only for counting.
    with contextlib.redirect_stdout(io.StringIO()):
        train_codec()
        train_columns()
        with everyday.serving(everyday.__file__) as uri:
            train_driver(uri)
        with everyday.serving(__file__) as uri:
            train_mapper(uri)


if __name__ == "__main__":
    main()
