"""Functions that move collections, and `for`, refuse objects that are not collections or belong to the other face."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, files, jsonl

MOVERS = [
    files.export_table,
    files.import_table,
    jsonl.export_jsonl,
    jsonl.import_jsonl,
    files.aexport_table,
    files.aimport_table,
    jsonl.aexport_jsonl,
    jsonl.aimport_jsonl,
]


@pytest.fixture(scope="module")
def client() -> Iterator[MongoClient[Any]]:
    with MongoClient[Any]("mongodb://127.0.0.1:1", connect=False) as made:
        yield made


def called(mover: Callable[..., Any], collection: Any) -> None:
    """Call a function of either face."""

    async def steps() -> None:
        await mover(collection, "x.csv" if "table" in mover.__name__ else "x.jsonl")

    if inspect.iscoroutinefunction(mover):
        asyncio.run(steps())
    else:
        mover(collection, "x.csv" if "table" in mover.__name__ else "x.jsonl")


@pytest.mark.parametrize("mover", MOVERS, ids=lambda mover: mover.__name__)
def test_what_is_no_collection_is_named_by_its_type(
    mover: Callable[..., Any], client: MongoClient[Any]
) -> None:
    for wrong in ("orders", 5, None, client.shop, client.shop.orders.find()):
        said = f'expected a collection for "collection", got {type(wrong).__name__}'
        with pytest.raises(TypeError, match=said):
            called(mover, wrong)


@pytest.mark.parametrize("mover", MOVERS, ids=lambda mover: mover.__name__)
def test_a_collection_of_the_other_face_is_told_with_the_function_for_it(
    mover: Callable[..., Any], client: MongoClient[Any]
) -> None:
    if inspect.iscoroutinefunction(mover):
        other: Any = client.shop.orders
        said = f"got one of the blocking face; use {mover.__name__[1:]}"
    else:
        other = AsyncMongoClient[Any]("mongodb://127.0.0.1:1", connect=False).shop.orders
        said = f"got one of the asyncio face; use a{mover.__name__}"
    with pytest.raises(TypeError, match=said):
        called(mover, other)


def test_for_over_a_cursor_of_the_asyncio_face_is_refused() -> None:
    collection = AsyncMongoClient[Any]("mongodb://127.0.0.1:1", connect=False).shop.orders
    for cursor in (collection.find(), collection.find_raw_batches()):
        with pytest.raises(TypeError, match="is not iterable"):
            list(cursor)
    with pytest.raises(IndexError, match="does not support indexing"):
        collection.find()[0]
