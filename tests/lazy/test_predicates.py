"""Sent predicates leave the same rows as predicates applied to all rows, for values that are easy to confuse."""

from __future__ import annotations

import datetime
import functools
import operator
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazy.conftest import DATES, FITTING, OBJECT_IDS, SCHEMA, UTC
from mangonel.arrow import Schema
from mangonel.arrow._lazy import arrow_predicates, polars_predicates
from mangonel.arrow._lazy.predicates import translate

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
duckdb = pytest.importorskip("duckdb")

# By hand: MANGONEL_PREDICATES=20000. Some fifty in a sample.
EXAMPLES = int(os.environ.get("MANGONEL_PREDICATES") or min(250, 4 * settings().max_examples))
PLAYED = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
KINDS = [
    ("fitting", "raise"),
    ("fitting", "null"),
    ("misfits", "null"),
    ("texts", "string"),
    ("ruled", "raise"),
]

LITERALS: dict[str, list[Any]] = {
    "i": [-(2**31), -1, 0, 1, 5, 2**31, 0.5, 5.0],
    "l": [-(2**63), -(2**53), 0, 5, 2**53, 2**53 + 1, 2**63 - 1, 0.5, 5.0, 2.0**53, 2.0**60],
    "f": [float("nan"), float("inf"), float("-inf"), -0.0, 0, 0.5, 5, 2**53, 2**53 + 1, 1e300],
    "s": ["", "a", "A", "ab", "5", "a.b", "ä", "\U0001f600", "\uffff", "\0"],
    "c": ["", "a", "A", "zz"],
    "b": [True, False],
    "d": [*(date.replace(tzinfo=UTC) for date in DATES), DATES[1].replace(microsecond=1, tzinfo=UTC)],
    "n": [DATES[1], DATES[0]],
    "o": [each.binary for each in OBJECT_IDS] + [b"", b"\x7f" * 11],
}
RELATIONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
COMPARE = ["compare"] * 3
COLUMNS = st.sampled_from(list(LITERALS))


@functools.cache
def whole(database: Any, name: str, on_invalid: str) -> Any:
    """Return all rows of a collection, as `to_arrow` makes them."""
    return pa.table(database[name].find().to_arrow(SCHEMA, on_invalid=on_invalid))


# Polars.


@st.composite
def polars_leaves(draw: Any) -> Any:
    name = draw(COLUMNS)
    column, literals = pl.col(name), st.sampled_from(LITERALS[name])
    if draw(st.integers(0, 9)) == 0:
        name, column, literals = "x", pl.col("st").struct.field("x"), st.sampled_from([-1, 1, 5, 0.5])
    way = draw(st.sampled_from([*COMPARE, "turned", "in", "between", "null", "text", "nan", "other"]))
    if way == "compare":
        return draw(st.sampled_from(RELATIONS))(column, pl.lit(draw(literals)))
    if way == "turned":
        return draw(st.sampled_from(RELATIONS))(pl.lit(draw(literals)), column)
    if way == "in" and name not in ("o", "c", "x"):
        found = draw(st.lists(literals, max_size=3))
        if name in ("i", "l"):
            found = [each for each in found if isinstance(each, int)]
        if name == "f":
            found = [float(each) for each in found]
        return column.is_in(found if found else [None])
    if way == "between" and name not in ("b", "o", "c"):
        closed = draw(st.sampled_from(["both", "left", "right", "none"]))
        if name in ("l", "x"):
            # With a double as one bound, Polars' own results differ: eager and lazy frames round differently.
            literals = literals.filter(lambda value: isinstance(value, int))
        return column.is_between(draw(literals), draw(literals), closed=closed)
    if way == "text" and name == "s":
        text = draw(literals)
        return draw(
            st.sampled_from(
                [
                    column.str.starts_with(text),
                    column.str.contains(text, literal=True),
                    column.str.ends_with(text),
                ]
            )
        )
    if way == "nan" and name == "f":
        return draw(st.sampled_from([column.is_nan(), column.is_not_nan()]))
    if way == "other":
        return draw(
            st.sampled_from(
                [pl.col("t").list.len() > 1, pl.col("t").is_not_null(), pl.col("st").is_null(), pl.col("b")]
            )
        )
    return draw(st.sampled_from([column.is_null(), column.is_not_null()]))


def trees(
    leaves: Any, *, both: Any = operator.and_, either: Any = operator.or_, contrary: Any = operator.invert
) -> Any:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(both, inner, inner), st.builds(either, inner, inner), st.builds(contrary, inner)
        ),
        max_leaves=5,
    )


@PLAYED
@given(trees(polars_leaves()), st.sampled_from(KINDS))
def test_polars_keeps_the_same_rows(confusing: Any, predicate: Any, kind: tuple[str, str]) -> None:
    name, on_invalid = kind
    scan = confusing[name].scan_polars(SCHEMA, on_invalid=on_invalid)
    try:
        wanted = pl.DataFrame(whole(confusing, name, on_invalid)).filter(predicate)["_id"].to_list()
    except pl.exceptions.PolarsError:
        # Such as a comparison of types that Polars does not compare.
        return

    assert scan.filter(predicate).collect()["_id"].sort().to_list() == wanted


# pyarrow.

ARROW_TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float64(),
    "d": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
}


@st.composite
def arrow_leaves(draw: Any) -> Any:
    name = draw(COLUMNS)
    column, literals = pc.field(name), st.sampled_from(LITERALS[name])
    way = draw(st.sampled_from([*COMPARE, "in", "null", "text", "nan", "nested", "truth"]))
    if way == "in" and name not in ("i", "c", "o"):
        found = draw(st.lists(literals, max_size=3))
        if name == "l":
            found = [each for each in found if isinstance(each, int)]
        if name == "f":
            found = [float(each) for each in found]
        if draw(st.booleans()):
            found = [*found, None]
        values = pa.array(found, {"s": pa.string(), "b": pa.bool_(), **ARROW_TYPES}[name])
        guarded = column.isin(values)
        if draw(st.booleans()):
            return pc.if_else(column.is_valid(), guarded, pa.scalar(None, pa.bool_()))
        return guarded
    if way == "null":
        return draw(
            st.sampled_from([column.is_null(), column.is_valid(), column.is_null(nan_is_null=name == "f")])
        )
    if way == "text" and name == "s":
        text = draw(literals)
        return draw(st.sampled_from([pc.starts_with, pc.match_substring, pc.ends_with]))(column, text)
    if way == "nan" and name == "f":
        return column.is_nan()
    if way == "nested":
        return draw(st.sampled_from(RELATIONS))(pc.field("st", "x"), draw(st.sampled_from([-1, 1, 5])))
    if way == "truth":
        return pc.field("b")
    value = draw(literals)
    if name == "f":
        value = float(value)
    if name in ("d", "n"):
        value = pa.scalar(value, ARROW_TYPES[name])
    return draw(st.sampled_from(RELATIONS))(column, value)


@PLAYED
@given(trees(arrow_leaves()), st.sampled_from(KINDS))
def test_arrow_keeps_the_same_rows(confusing: Any, predicate: Any, kind: tuple[str, str]) -> None:
    name, on_invalid = kind
    dataset = confusing[name].dataset(SCHEMA, on_invalid=on_invalid)
    try:
        wanted = whole(confusing, name, on_invalid).filter(predicate)["_id"].to_pylist()
    except pa.ArrowException:
        return

    assert sorted(dataset.to_table(filter=predicate)["_id"].to_pylist()) == wanted


# DuckDB.


@functools.cache
def duck() -> Any:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    return connection


def sql(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, datetime.datetime):
        return f"'{value.isoformat(' ')}'::timestamp" + ("tz" if value.tzinfo else "")
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value).lower()
    return f"'{value}'::double"


@st.composite
def sql_leaves(draw: Any) -> str:
    name = draw(COLUMNS)
    literals = st.sampled_from(LITERALS[name]).filter(lambda value: value != "\0").map(sql)
    way = draw(st.sampled_from([*COMPARE, "in", "between", "null", "text", "nested", "truth"]))
    if way == "in":
        return f"{name} in ({', '.join(draw(st.lists(literals, min_size=1, max_size=3)))})"
    if way == "between":
        return f"{name} between {draw(literals)} and {draw(literals)}"
    if way == "null":
        return f"{name} is {draw(st.sampled_from(['', 'not ']))}null"
    if way == "text" and name in ("s", "c"):
        return f"{name} like {sql(draw(st.sampled_from(['a%', '%a', 'a_', '%'])))}"
    if way == "nested":
        return f"st.x {draw(st.sampled_from(['<', '>', '=', '<>']))} {draw(st.sampled_from([-1, 1, 5]))}"
    if way == "truth":
        return "b"
    return f"{name} {draw(st.sampled_from(['<', '<=', '>', '>=', '=', '<>']))} {draw(literals)}"


@PLAYED
@given(
    trees(
        sql_leaves(),
        both=lambda one, two: f"({one} and {two})",
        either=lambda one, two: f"({one} or {two})",
        contrary=lambda one: f"(not {one})",
    ),
    st.sampled_from(KINDS),
)
def test_duckdb_keeps_the_same_rows(confusing: Any, predicate: str, kind: tuple[str, str]) -> None:
    name, on_invalid = kind
    connection = duck()
    connection.register("kept", whole(confusing, name, on_invalid))
    connection.register("sent", confusing[name].dataset(SCHEMA, on_invalid=on_invalid))
    try:
        wanted = connection.execute(f"select _id from kept where {predicate}").fetchall()
    except duckdb.Error:
        return

    assert sorted(connection.execute(f"select _id from sent where {predicate}").fetchall()) == sorted(wanted)


# Filters on the wire.

FIELDS = Schema(SCHEMA).fields


def filter_of(predicate: Any, *, on_invalid: str = "raise", has_collation: bool = False) -> Any:
    reader = polars_predicates if isinstance(predicate, pl.Expr) else arrow_predicates
    return translate(reader.node_of(predicate), FIELDS, on_invalid=on_invalid, has_collation=has_collation)


NAN = float("nan")
SENT: list[tuple[Any, Any]] = [
    (pl.col("l") > 5, {"l": {"$gt": 5}}),
    (pl.lit(5) > pl.col("l"), {"l": {"$lt": 5}}),
    (pl.col("b"), {"b": True}),
    (~pl.col("b"), {"b": False}),
    (pl.col("st").struct.field("x") == 1, {"st.x": {"$eq": 1}}),
    ((pl.col("l") > 5) & (pl.col("l") % 2 == 0), {"l": {"$gt": 5}}),
    (pc.field("l") > 5, {"l": {"$gt": 5}}),
    (pc.field("st", "x") == 1, {"st.x": {"$eq": 1}}),
    (pc.field("l").isin([1, 2]), {"l": {"$in": [1, 2]}}),
    (~(pc.field("l") > 5), {"l": {"$lte": 5}}),
    (pc.field("b"), {"b": True}),
]
NOT_SENT: list[Any] = [
    (pl.col("l") > 5) | (pl.col("l") % 2 == 0),
    pl.col("l") + 1 > 5,
    pl.col("t").list.len() > 1,
    pl.col("s").str.ends_with("a"),
    pl.col("l").map_elements(lambda value: value > 5, return_dtype=pl.Boolean),
    pl.col("f") > NAN,
    pl.col("f") > 2.0**60,
    pc.field("l") > pc.field("i"),
    pc.ends_with(pc.field("s"), "a"),
]


@pytest.mark.parametrize(("predicate", "wanted"), SENT, ids=[str(each[0]) for each in SENT])
def test_predicate_is_sent(predicate: Any, wanted: Any) -> None:
    assert filter_of(predicate) == wanted


@pytest.mark.parametrize("predicate", NOT_SENT, ids=str)
def test_predicate_without_an_equal_is_not_sent(predicate: Any) -> None:
    assert filter_of(predicate) is None


def test_what_may_be_anything_is_not_sent() -> None:
    # A value that does not fit is null, so any document may have a null there.
    assert filter_of(pl.col("l").is_null()) is not None
    assert filter_of(pl.col("l").is_null(), on_invalid="null") is None
    # A column of text may hold values of any type as text.
    assert filter_of(pl.col("s") == "5")["$or"][0] == {"s": {"$eq": "5"}}
    assert "int" in filter_of(pl.col("s") == "5", on_invalid="string")["$or"][1]["s"]["$type"]
    assert filter_of(pl.col("l").is_null(), on_invalid="string") is None
    assert filter_of(pl.col("s").is_not_null(), on_invalid="string")["$or"][1] == {"s": {"$type": "array"}}
    # A collation orders strings differently.
    assert filter_of(pl.col("s") > "a") is not None
    assert filter_of(pl.col("s") > "a", has_collation=True) is None
    assert filter_of(pl.col("s") != "a", has_collation=True) is None
    assert filter_of(pl.col("s") == "a", has_collation=True) is not None


def test_every_value_of_the_conftest_fits_its_column(confusing: Any) -> None:
    assert whole(confusing, "fitting", "raise").num_rows == whole(confusing, "misfits", "null").num_rows
    assert set(FITTING) < set(SCHEMA)
