"""Options of cursors, ways to a table and its policies, in all pairs and on both faces, compared with dicts."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, CursorType, MongoClient
from mangonel.arrow import Schema
from mangonel.bson import ObjectId
from mangonel.errors import InvalidOperation
from mangonel.odm import Document, Embedded
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")
for library in ("polars", "pandas", "numpy"):
    pytest.importorskip(library)

ROWS = 61
WHEN = datetime.datetime(2020, 1, 2, 3, 4, 5, 678_000)


class Inner(Embedded):
    a: int
    t: list[str]


class Row(Document):
    id: int
    n: int | None = None
    x: float | None = None
    s: str
    at: datetime.datetime
    sub: Inner


class Narrow(Document):
    id: int
    sub: Inner


def stored(number: int) -> dict[str, Any]:
    found: dict[str, Any] = {"_id": number}
    if number % 3:
        found["n"] = number
    found["x"] = number / 4 if number % 5 else None
    found["s"] = ["red", "Green", "blue"][number % 3]
    found["at"] = WHEN + datetime.timedelta(days=number)
    found["sub"] = {"a": number * 2, "t": ["t"] * (number % 3)}
    return found


FOUND: dict[str, Any] = {
    "plain": {},
    "filter": {"filter": {"_id": {"$gte": 20}}},
    "projection": {"projection": {"n": 1, "s": 1, "sub.a": 1}},
    "projection without": {"projection": {"x": 0, "_id": 0}},
    "limit": {"limit": 10},
    "negative limit": {"limit": -10},
    "skip": {"skip": 55},
    "sort": {"sort": [("_id", -1)]},
    "one of a batch": {"batch_size": 1, "limit": 9},
    "small batches": {"batch_size": 7},
    "hint": {"hint": "_id_"},
    "bounds": {"hint": [("_id", 1)], "min": [("_id", 5)], "max": [("_id", 50)]},
    "collation": {"collation": {"locale": "en", "strength": 2}, "filter": {"s": "green"}},
    "prefetch": {"prefetch": True, "batch_size": 7},
    "prefetch, limit": {"prefetch": True, "batch_size": 7, "limit": 20},
    "exhaust": {"cursor_type": CursorType.EXHAUST, "batch_size": 7},
    "comment": {
        "comment": "a table",
        "max_time_ms": 60_000,
        "allow_disk_use": True,
        "no_cursor_timeout": True,
    },
    "nothing": {"filter": {"_id": -1}},
    "bounds of values": {"let": {"least": 50}, "filter": {"$expr": {"$gt": ["$_id", "$$least"]}}},
    "session": {"session": None, "batch_size": 7},
}
AGGREGATED: dict[str, Any] = {
    "aggregate": {"batchSize": 7},
    "aggregate, collation": {"collation": {"locale": "en"}, "hint": "_id_"},
    "aggregate, session": {"session": None, "batchSize": 7},
    "aggregate, disk": {"allowDiskUse": True, "comment": "a table", "maxTimeMS": 60_000},
}
# Choices that `parallel` cannot honour; it raises.
WITHOUT_RANGES = {
    "limit", "negative limit", "skip", "sort", "hint", "bounds", "collation", "exhaust", "session",
    "one of a batch", "prefetch, limit", *AGGREGATED,
}  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "none": None,
    "mapping": {"_id": int, "x": float, "sub": {"a": int}},
    "Schema": Schema({"s": str, "at": datetime.datetime, "sub": {"t": [str]}, "n": int}),
    "category": {"_id": int, "s": "category"},
    "pyarrow": pa.schema([("n", pa.int64()), ("s", pa.string()), ("gone", pa.float64())]),
    "model": Row,
    "narrow model": Narrow,
}
# The part of a document that each schema keeps; names without more are kept whole.
SHAPES: dict[str, Any] = {
    "mapping": {"_id": 0, "x": 0, "sub": {"a": 0}},
    "Schema": {"s": 0, "at": 0, "sub": {"t": 0}, "n": 0},
    "category": {"_id": 0, "s": 0},
    "pyarrow": {"n": 0, "s": 0, "gone": 0},
    "model": {"_id": 0, "n": 0, "x": 0, "s": 0, "at": 0, "sub": {"a": 0, "t": 0}},
    "narrow model": {"_id": 0, "sub": {"a": 0, "t": 0}},
}
AXES: dict[str, list[Any]] = {
    "query": [*FOUND, *AGGREGATED],
    "way": ["to_arrow", "iter_arrow", "to_polars", "to_pandas", "to_numpy"],
    "schema": list(SCHEMAS),
    "missing": ["null", "distinguish"],
    "on_invalid": ["raise", "null", "string"],
    "categorical": [False, True],
    "parallel": [1, 3],
    "is_begun": [False, True],
}


def pairs(axes: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield a few combinations, chosen greedily, that contain every pair of values of two axes."""
    open_pairs = {
        frozenset({(one, a), (other, b)})
        for (one, first), (other, second) in itertools.combinations(enumerate(axes), 2)
        for a in first
        for b in second
    }
    while open_pairs:
        made = dict(sorted(min(open_pairs, key=lambda pair: repr(sorted(pair, key=repr)))))
        for at, values in enumerate(axes):
            if at not in made:
                gains = [
                    sum(frozenset({(at, value), each}) in open_pairs for each in made.items())
                    for value in values
                ]
                made[at] = values[gains.index(max(gains))]
        open_pairs -= {frozenset(two) for two in itertools.combinations(made.items(), 2)}
        yield tuple(made[at] for at in range(len(axes)))


CASES = list(pairs(list(AXES.values())))


@pytest.fixture(scope="module")
def name(standalone: Server) -> Iterator[str]:
    name = f"matrix_{uuid.uuid4().hex[:8]}"
    with MongoClient[Any](standalone.uri) as client:
        client[name].rows.insert_many([stored(number) for number in range(ROWS)])
        yield name
        client.drop_database(name)


def test_all_pairs_are_played() -> None:
    played = {frozenset(two) for case in CASES for two in itertools.combinations(enumerate(case), 2)}

    for (one, first), (other, second) in itertools.combinations(enumerate(AXES.values()), 2):
        for a, b in itertools.product(first, second):
            assert frozenset({(one, a), (other, b)}) in played


@pytest.mark.enough(1)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_tables_have_what_the_dicts_have(name: str, standalone: Server, is_async: bool) -> None:
    asyncio.run(_play(standalone.uri, name, is_async))


async def _play(uri: str, name: str, is_async: bool) -> None:
    async def wait(made: Any) -> Any:
        return await made if is_async else made

    client: Any = (AsyncMongoClient if is_async else MongoClient)(uri)
    rows = client[name].rows
    session = client.start_session()
    for case in CASES:
        query, way, schema, missing, on_invalid, categorical, parallel, is_begun = case

        async def cursor(query: str = query) -> Any:
            options = {**FOUND, **AGGREGATED}[query]
            if "session" in options:
                options = options | {"session": session}
            if query in FOUND:
                return rows.find(**options)
            return await wait(rows.aggregate([{"$match": {"_id": {"$gte": 9}}}], **options))

        documents = await wait((await cursor()).to_list())
        found = await cursor()
        options = {
            "missing": missing,
            "on_invalid": on_invalid,
            "categorical": categorical,
            "parallel": parallel,
        }
        if is_begun and documents:
            # The table gets the remaining documents; the server has the cursor's options by now.
            await wait(anext(found) if is_async else next(found))
        if parallel > 1 and (query in WITHOUT_RANGES or (is_begun and documents)):
            with pytest.raises(InvalidOperation, match="parallel=3"):
                await wait(getattr(found, way)(SCHEMAS[schema], **options))
            options["parallel"] = parallel = 1
        if schema != "none" and categorical:
            with pytest.raises(ValueError, match="no schema beside categorical"):
                await wait(getattr(found, way)(SCHEMAS[schema], **options))
            options["categorical"] = False
        if way == "iter_arrow":
            parts = found.iter_arrow(SCHEMAS[schema], rows=8, **options)
            tables = [part async for part in parts] if is_async else list(parts)
            made: Any = tables
        else:
            made = await wait(getattr(found, way)(SCHEMAS[schema], **options))
        if is_begun:
            documents = documents[1:]
        names = list(SHAPES[schema]) if schema != "none" else None
        told = rows_of(made, way)
        wanted = [under(SHAPES.get(schema), document) for document in documents]
        if missing == "distinguish":
            wanted = [
                row | {"$null": nulls(document, SHAPES.get(schema))}
                for row, document in zip(wanted, documents, strict=True)
            ]
        if schema == "none":
            # Columns of the fields that occurred; iter_arrow has those of its first table.
            names = list(told[0]) if told else []
            wanted = [{each: row.get(each) for each in names} for row in wanted]
            met = {each for document in documents for each in document}
            assert set(names) - {"$null"} == (met if told else set()) or way == "iter_arrow", case
        if parallel > 1:
            told, wanted = (sorted(each, key=repr) for each in (told, wanted))
        assert told == wanted, case
        assert not found.alive
    await wait(session.end_session())
    await wait(client.close())


def under(shape: Any, document: Any) -> Any:
    """Return a document's fields in a schema, in the schema's order."""
    if not isinstance(shape, dict):
        return document
    return {
        key: None if document.get(key) is None else under(inner, document[key])
        for key, inner in shape.items()
    }


def nulls(document: Any, shape: Any) -> list[str]:
    """Return the paths of the nulls that the columns have."""
    return [key for key in (shape or document) if key in document and document[key] is None]


def rows_of(made: Any, way: str) -> list[dict[str, Any]]:
    """Return any table as rows of plain values."""
    if way == "iter_arrow":
        assert all(len(each) == 8 for each in made[:-1])
        return [row for each in made for row in rows_of(each, "to_arrow")]
    if way == "to_arrow":
        found: Iterable[Any] = pa.table(made).to_pylist()
    elif way == "to_polars":
        found = made.to_dicts()
    else:
        columns = {key: list(made[key]) for key in (made if way == "to_numpy" else made.columns)}
        found = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [plain(row) for row in found]


def plain(value: Any) -> Any:
    """Return a library's value in the form that BSON decodes to."""
    import numpy
    import pandas

    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | numpy.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, numpy.datetime64):
        value = pandas.Timestamp(value)
    if value is pandas.NaT:
        return None
    if isinstance(value, pandas.Timestamp):
        value = value.to_pydatetime()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float) and value != value:
        return None
    return value


@pytest.mark.parametrize("on_invalid", ["raise", "null", "string"])
@pytest.mark.parametrize("way", AXES["way"])
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_misfits_are_told_by_path_and_id_on_every_way(
    name: str, standalone: Server, is_async: bool, way: str, on_invalid: str
) -> None:
    wrong = {"_id": 2, "sub": {"l": [{"v": 1}, {"v": "two"}]}}
    documents = [{"_id": ObjectId(), "sub": {"l": [{"v": 1}]}}, wrong | {"_id": ObjectId()}]
    with MongoClient[Any](standalone.uri) as client:
        client[name].wrong.drop()
        client[name].wrong.insert_many(documents)

    async def play() -> Any:
        client: Any = (AsyncMongoClient if is_async else MongoClient)(standalone.uri)
        try:
            cursor = client[name].wrong.find({}, {"sub": 1}, sort=[("_id", 1)])
            made = getattr(cursor, way)(on_invalid=on_invalid)
            if way == "iter_arrow":
                return [each async for each in made] if is_async else list(made)
            return await made if is_async else made
        finally:
            closed = client.close()
            if is_async:
                await closed

    if on_invalid == "raise":
        place = rf"int32, got string at \$\.sub\.l\.1\.v of the document with _id .*{documents[1]['_id']}"
        with pytest.raises(ValueError, match=place):
            asyncio.run(play())
        return
    made = asyncio.run(play())
    told = [row["sub"] for row in rows_of(made, way)]
    assert told == [
        {"l": [{"v": 1 if on_invalid == "null" else "1"}]},
        {"l": [{"v": 1}, {"v": None}] if on_invalid == "null" else [{"v": "1"}, {"v": "two"}]},
    ]
