"""The documents of the mapper experiments, and filling a collection with them. Imports a driver only when used."""

from __future__ import annotations

import datetime
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Document, Target

COUNT = 200
DAY = datetime.datetime(2024, 3, 1, 12, 30, 1, 123_000)


def article(number: int) -> Document:
    """A post of 18 keys and about 1.4 KB with its `_id`: an author, a place, tags, five comments."""
    return {
        "title": f"How we made number {number} fast",
        "slug": f"how-we-made-number-{number}-fast",
        "body": "Lorem ipsum dolor sit amet, consectetur. " * 13,
        "status": "published",
        "lang": "en",
        "author": {"name": "Ada Lovelace", "email": "ada@example.org"},
        "tags": ["python", "mongodb", "speed"],
        "category": "engineering",
        "views": number * 17,
        "likes": number,
        "rating": 4.5,
        "published": True,
        "location": {"type": "Point", "coordinates": [13.4, 52.5]},
        "created": DAY,
        "updated": DAY + datetime.timedelta(minutes=number),
        "comments": [
            {
                "author": f"user{place}",
                "text": "Thanks, this is just what I was after.",
                "at": DAY,
                "likes": place,
            }
            for place in range(5)
        ],
        "source": "web",
    }


def stored(kind: str, types: Any) -> list[Document]:
    """Return the documents of one kind with their ids."""
    make = documents.user if kind == "users" else article
    return [{"_id": types.ObjectId(f"{number:024x}"), **make(number)} for number in range(COUNT)]


def fill(target: Target, kind: str) -> None:
    """Fill the collection of one kind, unless it is filled."""
    import bson
    import pymongo

    with pymongo.MongoClient[Any](target.uri) as client:
        collection = client[target.database][f"{target.collection}_{kind}"]
        if collection.count_documents({}) != COUNT:
            collection.drop()
            collection.insert_many(stored(kind, bson))
