"""Models with encrypted fields, and their documents as stored."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from mangonel.bson import Binary
from mangonel.odm import Connection, Document, Embedded, Encrypted, Indexed, Ref, Version, field

DETERMINISTIC = Encrypted("deterministic", key="people")
RANDOM = Encrypted(key="people")


class Phone(Embedded):
    kind: str
    number: Annotated[str, DETERMINISTIC]
    note: Annotated[str | None, RANDOM] = None


class Person(Document):
    __collection__ = "encrypted_people"
    name: str
    ssn: Annotated[str | None, DETERMINISTIC, Indexed(unique=True, sparse=True)] = None
    pay: Annotated[float, RANDOM] = 0.0
    born: Annotated[dt.datetime | None, DETERMINISTIC] = None
    words: list[Annotated[str, RANDOM]] = field(default_factory=list)
    codes: set[Annotated[str, DETERMINISTIC]] = field(default_factory=set)
    phones: list[Phone] = field(default_factory=list)
    home: Phone | None = None
    marks: dict[str, Annotated[int, DETERMINISTIC]] = field(default_factory=dict)
    rev: Annotated[int, Version] = 0


class Visit(Document):
    __collection__ = "encrypted_visits"
    person: Ref[Person]
    at: int = 0


class Owned(Document):
    __collection__ = "encrypted_owned"
    owner: str
    text: Annotated[str, Encrypted(key_field="owner")]
    n: int = 0


# Ways to give a connection its keys; tests that name none use the first.
OPTIONS, OBJECTS = "options of the client", "objects beside it"


def face_client(server: Any, is_async: bool) -> Any:
    from mangonel import AsyncMongoClient, MongoClient

    return (AsyncMongoClient if is_async else MongoClient)(server.uri)


def stored(server: Any, db: Connection, model: Any = Person) -> list[dict[str, Any]]:
    """Return the stored document."""
    with face_client(server, False) as client:
        return client[db.name][model.__collection__].find().sort("_id").to_list()


def is_secret(value: Any) -> bool:
    return isinstance(value, Binary) and value.subtype == 6


def make(**values: Any) -> Person:
    given: dict[str, Any] = {
        "name": "Ada",
        "ssn": "457-55-5462",
        "pay": 4200.5,
        "born": dt.datetime(1815, 12, 10, tzinfo=dt.UTC),
        "words": ["one", "two", "three"],
        "codes": {"a", "b"},
        "phones": [Phone(kind="home", number="1", note="late"), Phone(kind="work", number="2")],
        "home": Phone(kind="home", number="1"),
        "marks": {"maths": 1, "latin": 5},
    }
    return Person(**{**given, **values})
