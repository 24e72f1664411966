"""Parts of a job are stored once over any number of runs; a run with other parts is refused, or stores nothing."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel._parts_of_tables import Target
from mangonel.errors import InvalidOperation
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")

ROWS = list(range(12))


@pytest.fixture
def rows(server: Server) -> Iterator[Any]:
    with MongoClient[Any](server.uri) as client:
        database = client[f"jobs_{uuid.uuid4().hex[:8]}"]
        database.create_collection("mangonel_once")
        yield database.create_collection("rows")
        client.drop_database(database.name)


def run(rows: Any, parts: int, *, till: int | None = None, knows: bool = True, name: str = "job") -> int:
    """Store the rows in parts; fail after this many. `knows`: how many parts there are, as Dask does."""
    target = Target(rows, once=name)
    job = target.job()
    assert job is not None
    if not job.begin(parts if knows else None):
        return 0
    size = len(ROWS) // parts
    written = 0
    for part in range(parts):
        if part == till:
            return written
        table = pa.table({"n": ROWS[part * size : part * size + size]})
        written += pickle.loads(pickle.dumps(target)).store(table, part)
    job.complete(parts)
    return written


def stored(rows: Any) -> list[int]:
    return sorted(row["n"] for row in rows.find())


@pytest.mark.parametrize("knows", [True, False])
def test_a_run_stores_what_an_earlier_one_did_not(rows: Any, knows: bool) -> None:
    assert run(rows, 4, till=2, knows=knows) == 6
    assert run(rows, 4, knows=knows) == 6

    assert stored(rows) == ROWS


@pytest.mark.parametrize("parts", [4, 3, 6])
def test_a_job_that_has_ended_stores_nothing_in_any_parts(rows: Any, parts: int) -> None:
    assert run(rows, 4) == 12
    assert run(rows, parts) == 0
    # Engines that start anyway.
    target = Target(rows, once="job")
    job = target.job()
    assert job is not None
    assert target.store(pa.table({"n": [0]}), 0) == 0
    job.complete(parts)

    assert stored(rows) == ROWS


@pytest.mark.parametrize("parts", [3, 6])
def test_other_parts_than_those_of_the_run_that_did_not_end_are_refused(rows: Any, parts: int) -> None:
    run(rows, 4, till=2)
    with pytest.raises(InvalidOperation, match=rf"^expected the 4 parts of .*'job'.*, got {parts}; nothing"):
        run(rows, parts)

    assert stored(rows) == ROWS[:6]
    assert run(rows, 4) == 6


@pytest.mark.parametrize("parts", [3, 6])
def test_other_rows_of_a_part_are_refused_where_no_number_is_known(rows: Any, parts: int) -> None:
    run(rows, 4, till=2, knows=False)
    with pytest.raises(
        InvalidOperation,
        match=rf"^expected the 3 rows .* the name 'job/0', got {12 // parts}; nothing was stored",
    ):
        run(rows, parts, knows=False)

    assert stored(rows) == ROWS[:6]


def test_fewer_parts_than_an_earlier_run_stored_do_not_end_in_silence(rows: Any) -> None:
    target = Target(rows, once="job")
    target.store(pa.table({"n": [7]}), 7)
    with pytest.raises(
        InvalidOperation, match="at least 8, got 4; rows may be stored twice: give this one another"
    ):
        run(rows, 4)


def test_parts_with_other_numbers_do_not_go_on_with_a_run_that_did_not_end(rows: Any) -> None:
    for name in ("ended", "broken"):
        run(rows, 4, till=None if name == "ended" else 2, name=name)
    ended, broken = (Target(rows, once=name).job() for name in ("ended", "broken"))
    assert ended is not None
    assert broken is not None

    assert not ended.begin(is_numbered_anew=True)
    with pytest.raises(InvalidOperation, match="whose parts now have other numbers; nothing was stored"):
        broken.begin(is_numbered_anew=True)


def test_a_name_of_something_else_is_refused(rows: Any) -> None:
    other = Target(rows.database.others, once="job").job()
    assert other is not None
    other.begin()
    rows.insert_arrow(pa.table({"n": [1]}), once="table")

    with pytest.raises(
        InvalidOperation, match=r"got 'job', by which a job was stored in jobs_\w+\.others; nothing"
    ):
        run(rows, 4)
    with pytest.raises(
        InvalidOperation, match=r"got 'table', by which a table was stored in jobs_\w+\.rows; nothing"
    ):
        run(rows, 4, name="table")
    with pytest.raises(InvalidOperation, match=r"expected the 1 rows .* 'table', got 2; nothing was stored"):
        rows.insert_arrow(pa.table({"n": [1, 2]}), once="table")


def test_batches_of_a_stream_are_jobs_of_their_own(rows: Any) -> None:
    target = Target(rows, once="stream")
    for batch in (0, 1, 1):
        job = target.job(batch)
        assert job is not None
        target.store(pa.table({"n": [batch]}), 0, of=batch)
        job.complete(1)

    assert stored(rows) == [0, 1]
