"""Groups of a dataset equal pyarrow's groups of its table, with or without the server's help."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazy.conftest import SCHEMA, documents
from mangonel import MongoClient
from mangonel.bson import Int64
from mangonel.monitoring import CommandListener
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")

# By hand: MANGONEL_PREDICATES=20000.
EXAMPLES = int(os.environ.get("MANGONEL_PREDICATES", "60"))
COLUMNS = ["i", "l", "f", "s", "b", "d", "n", "whole", "text"]
KINDS = {**SCHEMA, "whole": int, "text": str}


class Asked(CommandListener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: Any) -> None:
        self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...


@pytest.fixture(scope="module")
def groups(standalone: Server) -> Iterator[tuple[Any, Asked]]:
    asked = Asked()
    with MongoClient[Any](standalone.uri, event_listeners=[asked]) as client:
        database = client[f"groups_{uuid.uuid4().hex[:8]}"]
        rows = list(documents())
        for row in rows:
            # Two columns without odd values: the server groups them.
            row |= {"whole": row["_id"] % 5 or None, "text": "abc"[row["_id"] % 3]}
            if row["_id"] % 4 == 0:
                del row["whole"]
        database.rows.insert_many(rows)
        yield database.rows, asked
        client.drop_database(database.name)


def in_order(table: Any) -> list[str]:
    return sorted(repr({name: _shown(value) for name, value in row.items()}) for row in table.to_pylist())


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        # Sums are rounded differently.
        return "nan" if math.isnan(value) else f"{value + 0.0:.12g}"
    return value


AGGREGATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(COLUMNS), st.sampled_from(["sum", "mean", "min", "max", "count"])),
        st.just(([], "count_all")),
    ),
    min_size=1,
    max_size=4,
    unique_by=str,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from([each for each in COLUMNS if each != "f"]), max_size=2, unique=True),
    AGGREGATIONS,
)
def test_groups_are_those_of_the_table(
    groups: tuple[Any, Asked], keys: list[str], aggregations: list[Any]
) -> None:
    dataset = groups[0].dataset(KINDS)
    whole = pa.table(groups[0].find().to_arrow(KINDS))
    try:
        wanted = whole.group_by(keys).aggregate(aggregations)
    except pa.ArrowException:
        # Such as the mean of texts.
        return

    found = dataset.group_by(keys).aggregate(aggregations)

    assert found.schema.names == wanted.schema.names
    assert found.schema.types == wanted.schema.types
    assert in_order(found) == in_order(wanted)


def test_server_groups_what_is_the_same_there(groups: tuple[Any, Asked]) -> None:
    collection, asked = groups
    dataset = collection.dataset(KINDS, {"text": {"$ne": "c"}})
    wanted = [("whole", each) for each in ("sum", "mean", "min", "max", "count")]
    whole = pa.table(collection.find({"text": {"$ne": "c"}}).to_arrow(KINDS))
    asked.names.clear()

    found = dataset.group_by(["text"]).aggregate([*wanted, ([], "count_all")])

    assert "find" not in asked.names
    assert "aggregate" in asked.names
    assert in_order(found) == in_order(whole.group_by(["text"]).aggregate([*wanted, ([], "count_all")]))


def test_values_that_the_server_treats_otherwise_are_grouped_here(groups: tuple[Any, Asked]) -> None:
    collection, asked = groups
    asked.names.clear()

    # In a text column decimals and other values are text; the server sorts NaN below every number.
    dataset = collection.dataset(KINDS)
    dataset.group_by("s").aggregate([("i", "count")])
    assert asked.names.count("find") == 1
    dataset.group_by("text").aggregate([("f", "min")])
    assert asked.names.count("find") == 2


def test_no_rows_make_one_group_without_keys_and_none_with(groups: tuple[Any, Asked]) -> None:
    dataset = groups[0].dataset(KINDS, {"_id": -1})

    assert dataset.group_by([]).aggregate([("whole", "sum"), ([], "count_all")]).to_pylist() == [
        {"whole_sum": None, "count_all": 0}
    ]
    assert dataset.group_by("text").aggregate([("whole", "sum")]).num_rows == 0
    with pytest.raises(KeyError, match="expected a column of"):
        dataset.group_by("text").aggregate([("nothing", "sum")])


def test_sum_that_leaves_int64_is_pyarrows(standalone: Server) -> None:
    with MongoClient[Any](standalone.uri) as client:
        rows = client.groups_large.rows
        rows.drop()
        rows.insert_many([{"_id": n, "n": Int64(2**62)} for n in range(4)])
        wanted = pa.table(rows.find().to_arrow({"n": int})).group_by([]).aggregate([("n", "sum")])

        assert rows.dataset({"n": int}).group_by([]).aggregate([("n", "sum")]) == wanted
