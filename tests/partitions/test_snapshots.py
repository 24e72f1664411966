"""A snapshot during transfers: every sum over parts is right. Without one, sums mix several moments."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.errors import OperationFailure, SnapshotTooOld, SnapshotUnavailable
from mangonel.read_concern import ReadConcern
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")


@contextmanager
def transfers(client: Any, accounts: Any, count: int, *, writers: int) -> Iterator[None]:
    """Move money between accounts in transactions, from several threads."""
    is_over = threading.Event()

    def move(seed: int) -> None:
        n = seed
        while not is_over.is_set():
            n = (n * 1_103_515_245 + 12_345) % 2**31
            one, two = n % count, (n // 7919) % count
            if one == two:
                continue

            def pay(session: Any, one: int = one, two: int = two) -> None:
                accounts.update_one({"_id": one}, {"$inc": {"balance": -1}}, session=session)
                accounts.update_one({"_id": two}, {"$inc": {"balance": 1}}, session=session)

            with client.start_session() as session:
                session.with_transaction(pay)

    threads = [threading.Thread(target=move, args=(seed,)) for seed in range(1, writers + 1)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def check_sums(server: Server, accounts: int, reads: int) -> None:
    with MongoClient[Any](server.uri) as client:
        bank = client[f"snapshots_{uuid.uuid4().hex[:8]}"].accounts
        for start in range(0, accounts, 10_000):
            ids = range(start, min(start + 10_000, accounts))
            bank.insert_many([{"_id": n, "balance": 100} for n in ids])
        whole = bank.with_options(read_concern=ReadConcern("snapshot"))
        schema = {"balance": int}
        with transfers(client, bank, accounts, writers=4):
            for number in range(reads):
                if number % 2:
                    table = pa.table(whole.find().to_arrow(schema, parallel=4))
                    found = table["balance"].to_pylist()
                else:
                    parts = bank.partitions(4, snapshot=True)
                    assert len({part.snapshot_time for part in parts}) == 1
                    found = [
                        n for part in parts for n in pa.table(part.to_arrow(schema))["balance"].to_pylist()
                    ]
                assert (len(found), sum(found)) == (accounts, 100 * accounts)
        # Money did move.
        assert bank.count_documents({"balance": {"$ne": 100}}) > 1
        client.drop_database(bank.database.name)


def test_every_sum_of_a_snapshot_is_right_under_transfers(server: Server) -> None:
    check_sums(server, accounts=2000, reads=6)


@pytest.mark.no_sample
def test_every_sum_of_many_snapshots_is_right_under_transfers(server: Server) -> None:
    check_sums(server, accounts=20_000, reads=40)


def test_moment_of_parts_stays_when_they_are_read_later(server: Server) -> None:
    with MongoClient[Any](server.uri) as client:
        rows = client[f"snapshots_{uuid.uuid4().hex[:8]}"].rows
        rows.insert_many([{"_id": n} for n in range(100)])
        parts = rows.partitions(3, snapshot=True)

        rows.delete_many({"_id": {"$lt": 50}})
        rows.insert_many([{"_id": n} for n in range(100, 150)])

        assert sorted(d["_id"] for part in parts for d in part.find()) == list(range(100))
        client.drop_database(rows.database.name)


def test_deployment_without_snapshots_says_so(standalone: Server) -> None:
    with MongoClient[Any](standalone.uri) as client:
        client.snapshots.rows.insert_one({"_id": 1})

        with pytest.raises(
            SnapshotUnavailable,
            match=r"^expected a replica set or sharded cluster [^{]*; leave out the snapshot",
        ):
            client.snapshots.rows.partitions(2, snapshot=True)


def test_collection_without_snapshots_says_so(server: Server, database_name: str) -> None:
    with MongoClient[Any](server.uri) as client:
        client[database_name].create_collection("capped", capped=True, size=10_000)

        with pytest.raises(SnapshotUnavailable, match="capped collections have no snapshots"):
            client[database_name].capped.partitions(2, snapshot=True)


def test_moment_that_the_server_no_longer_keeps_says_what_to_do(server: Server, database_name: str) -> None:
    name = "minSnapshotHistoryWindowInSeconds"
    with MongoClient[Any](server.uri) as client:
        rows = client[database_name].rows
        rows.insert_many([{"_id": n} for n in range(10)])
        part = rows.partitions(2, snapshot=True)[0]
        kept = client.admin.command("setParameter", 1, **{name: 0})["was"]
        try:
            with pytest.raises(SnapshotTooOld, match=f"; read again from a new snapshot, or raise {name}"):
                _read_among_writes(part, rows)
        finally:
            client.admin.command("setParameter", 1, **{name: kept})


def _read_among_writes(part: Any, rows: Any) -> None:
    """Read until it fails: the server drops history while it accepts writes."""
    for number in range(100_000):
        rows.update_one({"_id": number % 10}, {"$inc": {"n": 1}})
        part.to_arrow()


def test_failing_snapshots_are_refusals_with_a_remedy(server: Server, database_name: str) -> None:
    from mangonel.errors import command_error

    for code, kind in ((239, SnapshotTooOld), (246, SnapshotUnavailable)):
        error = command_error({"ok": 0, "code": code, "errmsg": "no"})
        assert type(error) is kind
        assert isinstance(error, OperationFailure)
        assert str(error).startswith("no; read again")
