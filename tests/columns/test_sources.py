"""Tables of every library and layout are stored as their rows; rows that the server refuses are reported."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import AsyncMongoClient, MongoClient, _core
from mangonel.errors import BulkWriteError
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

SIMPLE = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
INTEGERS = st.integers(-100, 100)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BYTES = st.binary(max_size=20)
# A type of Arrow, and values of it that BSON has unchanged.
LEAVES: list[tuple[Any, Any]] = [
    *((kind, INTEGERS) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, INTEGERS.map(abs)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    *((kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, BYTES) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["", "a", "é" * 9])),
    (pa.dictionary(pa.int32(), pa.large_string()), st.sampled_from(["x", "y"])),
    (pa.timestamp("ms"), st.integers(-(10**12), 10**12).map(
        lambda millis: datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=millis)
    )),
    (pa.null(), st.none()),
]  # fmt: skip


@st.composite
def columns(draw: Any, depth: int = 2) -> tuple[Any, Any]:
    """A type of Arrow and a strategy for its values, None among them."""
    shape = draw(st.sampled_from(["leaf", "leaf", "list", "large", "fixed", "struct"] if depth else ["leaf"]))
    if shape == "leaf":
        kind, values = draw(st.sampled_from(LEAVES))
        return kind, st.none() | values
    kind, values = draw(columns(depth - 1))
    if shape == "struct":
        return pa.struct({"p": kind, "q": pa.int64()}), st.none() | st.fixed_dictionaries(
            {"p": values, "q": INTEGERS}
        )
    if shape == "fixed":
        return pa.list_(kind, 2), st.none() | st.lists(values, min_size=2, max_size=2)
    return (pa.list_ if shape == "list" else pa.large_list)(kind), st.none() | st.lists(values, max_size=3)


@st.composite
def chunked(draw: Any) -> tuple[Any, list[Any]]:
    """A table of one column whose chunks are slices at any bit of longer arrays, and its values."""
    kind, values = draw(columns())
    chunks, wanted = [], []
    for _ in range(draw(st.integers(1, 3))):
        items = draw(st.lists(values, max_size=20))
        start = draw(st.integers(0, len(items)))
        length = draw(st.integers(0, len(items) - start))
        chunks.append(pa.array(items, kind).slice(start, length))
        wanted += items[start : start + length]
    return pa.table({"a": pa.chunked_array(chunks, kind)}), wanted


@given(drawn=chunked(), rows=st.integers(1, 50))
@SIMPLE
def test_slices_of_any_layout_are_the_rows_that_they_show(drawn: tuple[Any, list[Any]], rows: int) -> None:
    table, wanted = drawn
    reader = _core.ArrowReader(table, False)
    told = []
    while (part := reader.next_part(rows)) is not None:
        told += [part[index]["a"] for index in range(len(part))]

    assert told == wanted


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_dictionaries_of_unsigned_indices_are_the_rows_that_they_show(kind: Any) -> None:
    """`pa.array` always makes signed indices, so the property above never tests unsigned ones."""
    column = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None, 1], kind), pa.array(["x", "y"], pa.large_string())
    )
    part = _core.ArrowReader(pa.table({"a": column.slice(1)}), False).next_part(10)

    assert column.type.index_type == kind
    assert [part[index]["a"] for index in range(len(part))] == ["x", None, "y"]


def test_types_that_reach_arrow_as_numbers_or_addresses_are_refused() -> None:
    from mangonel.arrow.frames import table_of

    thing = polars.Series([object()], dtype=polars.Object)
    for frame in (polars.DataFrame({"a": thing}), polars.DataFrame({"b": [1], "a": thing})):
        with pytest.raises(
            TypeError, match=r"got Polars' Object, of which Arrow has only addresses.* in column \$\.a"
        ):
            table_of(frame)
    months = pandas.DataFrame({"m": pandas.period_range("2020", periods=2, freq="M")})
    for table in (months, pa.table({"in": pa.StructArray.from_arrays([pa.array(months["m"])], names=["m"])})):
        with pytest.raises(TypeError, match=r"got pandas' period, .*to_timestamp\(\) in column \$\.(in\.)?m"):
            table_of(table)


def _numpy(ids: list[int], texts: list[str | None]) -> Any:
    made = np.zeros(len(ids), [("_id", "i8"), ("t", "O")])
    made["_id"], made["t"] = ids, texts
    return made


def _pyarrow(ids: list[int], texts: list[str | None]) -> Any:
    return pa.table({"_id": pa.array(ids, pa.int64()), "t": pa.array(texts, pa.string())})


def _pandas(kind: Any) -> Callable[..., Any]:
    return lambda ids, texts: pandas.DataFrame(
        {"_id": pandas.array(ids, dtype="Int64"), "t": pandas.Series(texts, dtype=kind)}
    )


SOURCES: dict[str, Callable[[list[int], list[str | None]], Any]] = {
    "pyarrow": _pyarrow,
    "pyarrow, chunks": lambda ids, texts: pa.concat_tables(
        [_pyarrow(ids[:5], texts[:5]), _pyarrow([], []), _pyarrow(ids[5:], texts[5:])]
    ),
    "pyarrow, slice": lambda ids, texts: _pyarrow([0] * 3 + ids + [0], [None] * 3 + texts + ["z"]).slice(3, len(ids)),
    "pyarrow, dictionary": lambda ids, texts: _pyarrow(ids, texts).set_column(
        1, "t", pa.array(texts, pa.string()).dictionary_encode()
    ),
    "pyarrow, batch": lambda ids, texts: _pyarrow(ids, texts).to_batches()[0],
    "pyarrow, reader": lambda ids, texts: _pyarrow(ids, texts).to_reader(4),
    "polars": lambda ids, texts: polars.DataFrame({"_id": ids, "t": texts}),
    "polars, categories": lambda ids, texts: polars.DataFrame(
        {"_id": ids, "t": polars.Series(texts, dtype=polars.Categorical)}
    ),
    "polars, chunks": lambda ids, texts: polars.concat(
        [polars.DataFrame({"_id": ids[:7], "t": texts[:7]}), polars.DataFrame({"_id": ids[7:], "t": texts[7:]})],
        rechunk=False,
    ),
    "pandas, objects": _pandas(object),
    "pandas, strings": _pandas("string"),
    "pandas, arrow": _pandas(pandas.ArrowDtype(pa.string())),
    "pandas, categories": _pandas("category"),
    "numpy": _numpy,
    "dict": lambda ids, texts: {"_id": np.array(ids), "t": np.array(texts, dtype=object)},
}  # fmt: skip


@pytest.fixture(scope="module")
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"sources_{uuid.uuid4().hex[:8]}"]
        yield database
        client.drop_database(database.name)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("failing", [[], [0], [4, 9], [19]], ids=str)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_refused_rows_are_told_and_the_others_stored(
    standalone: Server, database: Any, source: str, failing: list[int], ordered: bool, is_async: bool
) -> None:
    rows = database[f"rows_{uuid.uuid4().hex[:8]}"]
    # Row 0 has the existing `_id`, the others that of row 1.
    ids = [1_001 if number in failing and number else 1_000 + number for number in range(20)]
    texts: list[str | None] = [None if number % 4 == 1 else f"é{number}" for number in range(20)]
    wanted = [{"_id": one, "t": text} for one, text in zip(ids, texts, strict=True)]
    if 0 in failing:
        rows.insert_one({"_id": 1_000, "t": "é0"})
    stop = failing[0] if ordered and failing else 20
    stored = [row for number, row in enumerate(wanted[:stop]) if number not in failing]
    stored += wanted[:1] if 0 in failing else []

    async def insert() -> Any:
        async with AsyncMongoClient[Any](standalone.uri) as client:
            return await client[database.name][rows.name].insert_arrow(SOURCES[source](ids, texts), ordered)

    try:
        made = asyncio.run(insert()) if is_async else rows.insert_arrow(SOURCES[source](ids, texts), ordered)
        told, inserted = [], made.inserted_count
    except BulkWriteError as error:
        told = [refused["index"] for refused in error.details["writeErrors"]]
        inserted = error.details["nInserted"]
    assert told == (failing[:1] if ordered else failing)
    assert inserted == stop - (len(failing) if not ordered else 0)
    assert list(rows.find(sort=[("_id", 1)])) == sorted(stored, key=lambda row: row["_id"])
