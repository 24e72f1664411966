"""Several cursors over ranges of `_id`: each document once, for ids of any type; queries without ranges raise."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, CursorType, MongoClient
from mangonel.arrow import ColumnError
from mangonel.bson import Int64, MaxKey, MinKey, ObjectId
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import InvalidOperation
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")

ROWS = 600
# By kind of id: a function of the number.
IDS: dict[str, Any] = {
    "ints": lambda number: number,
    "object ids": lambda number: ObjectId(f"{number:024x}"),
    "types": lambda number: [number, str(number), {"n": number}, Int64(2**40 + number), number / 7 + 0.01][
        number % 5
    ],
}


@pytest.fixture(scope="module")
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        name = f"ranges_{uuid.uuid4().hex[:8]}"
        for kind, make in IDS.items():
            client[name][kind].insert_many(
                [{"_id": make(n), "n": n, "name": f"{n % 9}"} for n in range(ROWS)]
            )
        client[name].few.insert_many([{"_id": MinKey(), "n": 0}, {"_id": MaxKey(), "n": 1}])
        ends = [{"_id": MinKey(), "n": -1}, {"_id": MaxKey(), "n": ROWS}]
        client[name].ends.insert_many([*ends, *({"_id": n, "n": n} for n in range(ROWS))])
        yield client[name]
        client.drop_database(name)


def numbers(table: Any) -> list[int]:
    found: list[int] = sorted(pa.table(table)["n"].to_pylist())
    return found


CHOICES = {
    "kind": list(IDS),
    "parallel": [2, 4, 9],
    "options": [{}, {"prefetch": True}, {"batch_size": 7}, {"filter": {"n": {"$gte": 100}}}],
    "schema": [None, {"n": int}],
    "way": ["to_arrow", "iter_arrow"],
    "pool": [1, 3, 100],
}
CASES = list(itertools.product(*CHOICES.values()))


@pytest.mark.enough(1)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_every_document_comes_once(database: Any, standalone: Server, is_async: bool) -> None:
    async def play(cursor: Any, way: str, schema: Any, parallel: int, on_invalid: str) -> list[int]:
        if way == "to_arrow":
            found = cursor.to_arrow(schema, parallel=parallel, rows=100, on_invalid=on_invalid)
            return numbers(await found if is_async else found)
        tables = cursor.iter_arrow(schema, parallel=parallel, rows=100, on_invalid=on_invalid)
        parts = [table async for table in tables] if is_async else list(tables)
        # Each table but the last has the requested number of rows.
        assert {len(part) for part in parts[:-1]} == {100}
        return sorted(itertools.chain.from_iterable(numbers(part) for part in parts))

    async def all_cases() -> None:
        clients = {
            size: (AsyncMongoClient if is_async else MongoClient)(standalone.uri, maxPoolSize=size)
            for size in CHOICES["pool"]
        }
        # Each pair of choices occurs; the whole product would only take longer.
        for kind, parallel, options, schema, way, pool in CASES[::7]:
            cursor = clients[pool][database.name][kind].find(**options)
            least = options.get("filter", {}).get("n", {}).get("$gte", 0)
            case = (kind, parallel, options, schema, way, pool)
            on_invalid = "string" if kind == "types" and schema is None and way == "to_arrow" else "null"
            assert await play(cursor, way, schema, parallel, on_invalid) == list(range(least, ROWS)), case
            assert not cursor.alive, case
        for client in clients.values():
            if is_async:
                await client.close()
            else:
                client.close()

    asyncio.run(all_cases())


def test_collections_of_few_documents_are_read_whole(database: Any) -> None:
    assert numbers(database.few.find().to_arrow({"n": int}, parallel=8)) == [0, 1]
    assert numbers(database.ends.find().to_arrow({"n": int}, parallel=3)) == list(range(-1, ROWS + 1))
    assert len(database.nothing.find().to_arrow(parallel=4)) == 0
    assert list(database.nothing.find().iter_arrow(parallel=4)) == []


def test_schema_is_inferred_from_all_ranges(database: Any) -> None:
    database.wide.insert_many([{"_id": n, "n": n, "v": n if n < 300 else n + 0.5} for n in range(ROWS)])

    made = pa.table(database.wide.find().to_arrow(parallel=3))

    assert str(made["v"].type) == "double"
    assert numbers(made) == list(range(ROWS))


def test_frames_are_made_of_ranges_as_well(database: Any) -> None:
    polars, _ = pytest.importorskip("polars"), pytest.importorskip("pandas")

    frame = database.ints.find().to_polars(parallel=3, categorical=True)

    assert frame["n"].sum() == ROWS * (ROWS - 1) // 2
    assert frame["name"].dtype == polars.Categorical
    assert sorted(database.ints.find().to_pandas(parallel=3)["n"]) == list(range(ROWS))
    assert sorted(database.ints.find().to_numpy(parallel=3)["n"]) == list(range(ROWS))


def test_document_classes_do_not_matter(database: Any) -> None:
    from mangonel.bson.codec_options import CodecOptions

    raw = database.ints.with_options(codec_options=CodecOptions(document_class=RawBSONDocument))

    assert numbers(raw.find().to_arrow(parallel=3)) == list(range(ROWS))


def test_misfit_ends_all_cursors(database: Any, standalone: Server) -> None:
    database.mixed.insert_many([{"_id": n, "a": n if n < 500 else "x"} for n in range(ROWS)])
    before = _open_cursors(database)

    with pytest.raises(ColumnError, match=r"expected int32, got string at \$\.a"):
        database.mixed.find(batch_size=20).to_arrow(parallel=3)

    # The background kills them, with the next command at the latest.
    database.client.admin.command("ping")
    assert _open_cursors(database, until=before) <= before


def _open_cursors(database: Any, until: int | None = None) -> int:
    import time

    ends = time.monotonic() + 60
    while True:
        found = int(database.client.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"])
        if until is None or found <= until or time.monotonic() > ends:
            return found
        time.sleep(0.05)


CURSORS: dict[str, Any] = {
    "sort": lambda rows: rows.find().sort("n", 1),
    "skip": lambda rows: rows.find(skip=3),
    "limit": lambda rows: rows.find(limit=3),
    "hint": lambda rows: rows.find(hint="_id_"),
    "min": lambda rows: rows.find().min([("_id", 1)]),
    "max": lambda rows: rows.find().max([("_id", 1)]),
    "collation": lambda rows: rows.find(collation={"locale": "fr"}),
    "a tailable cursor": lambda rows: rows.find(cursor_type=CursorType.TAILABLE),
    "an exhaust cursor": lambda rows: rows.find(cursor_type=CursorType.EXHAUST),
    "hint:": lambda rows: rows.find({"$query": {}, "$hint": "_id_"}),
    "results of a command": lambda rows: rows.aggregate([]),
    "read from before": lambda rows: _begun(rows.find()),
}


def _begun(cursor: Any) -> Any:
    next(cursor)
    return cursor


@pytest.mark.parametrize("way", ["to_arrow", "iter_arrow", "to_polars", "to_pandas", "to_numpy"])
@pytest.mark.parametrize("what", [*CURSORS, "session"])
def test_what_has_no_ranges_raises_and_names_itself(database: Any, what: str, way: str) -> None:
    with database.client.start_session() as session:
        make = CURSORS.get(what, lambda rows: rows.find(session=session))

        with pytest.raises(InvalidOperation, match=rf"parallel=2.*{what}"):
            getattr(make(database.ints), way)(parallel=2)


def test_order_of_one_cursor_is_refused_by_its_own_name(database: Any) -> None:
    with pytest.raises(
        InvalidOperation, match=r"^ordered=True reads ranges of _id, which does not go with sort"
    ):
        database.ints.find().sort("n", 1).to_arrow(ordered=True)


def test_bound_session_has_no_ranges_either(database: Any) -> None:
    with (
        database.client.start_session() as session,
        session.bind(),
        pytest.raises(InvalidOperation, match="bound session"),
    ):
        database.ints.find().to_arrow(parallel=2)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_number_of_cursors_is_checked(database: Any, count: Any) -> None:
    with pytest.raises(ValueError, match="expected at least 1 cursor as parallel"):
        database.ints.find().to_arrow(parallel=count)
