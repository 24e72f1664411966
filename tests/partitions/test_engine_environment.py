"""Environments of an engine's workers: a MANGONEL_URI of another deployment is refused, not read from."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from mangonel import MongoClient, _parts_of_tables
from mangonel._parts_of_tables import Sizes, TableParts, Target
from mangonel.errors import ConfigurationError
from mangonel.server import Server
from tools.dns_server import DnsServer

pytest.importorskip("pyarrow")


def both(collection: Any, **options: Any) -> list[Any]:
    """A source's parts and a target, which every engine has."""
    return [*TableParts(collection, schema={"_id": int}, **options).parts, Target(collection, **options)]


@pytest.fixture
def rows(server: Server, database_name: str) -> Any:
    with MongoClient[Any](server.uri) as client:
        client[database_name].rows.insert_one({"_id": 1})
        yield client[database_name].rows


def test_another_deployment_in_the_environment_is_refused(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGONEL_URI", "mongodb://ada:secret@a.example:1,b.example:2/?replicaSet=rs0")
    host, port = rows.database.client.address

    for make in (TableParts, Target):
        with pytest.raises(ConfigurationError) as caught:
            make(rows)
        assert f"deployment {host}:{port} in MANGONEL_URI" in str(caught.value)
        assert "got a.example:1, b.example:2; " in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://a.example,127.0.0.1:{}/?replicaSet=rs0",
        "mongodb://localhost:{}",
    ],
)
def test_the_same_deployment_by_any_of_its_names_is_taken(
    rows: Any, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("MANGONEL_URI", uri.format(rows.database.client.address[1]))

    assert len(both(rows)) == 2


@pytest.mark.parametrize(
    ("uri", "got"),
    [
        ("mongodb+srv://ada:secret@db.example.test/", None),
        ("mongodb+srv://ada:secret@other.example.test/", "got b.example.test:"),
        (
            "mongodb+srv://ada:secret@unknown.example.test/",
            "got unknown.example.test, whose SRV records were not found",
        ),
    ],
)
@pytest.mark.parametrize("own", ["mongodb+srv://db.example.test/?tls=false", "mongodb://a.example.test:{}"])
def test_srv_records_of_the_environment_are_looked_up(
    server: Server,
    database_name: str,
    dns: DnsServer,
    hosts: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    uri: str,
    got: str | None,
    own: str,
) -> None:
    port = server.wait_for_primary().port
    hosts["a.example.test"] = "127.0.0.1"
    dns.srv("db.example.test", [("a.example.test", port)])
    dns.srv("other.example.test", [("b.example.test", port)])
    monkeypatch.setenv("MANGONEL_URI", uri)

    with MongoClient[Any](own.format(port)) as client:
        rows = client[database_name].rows
        rows.insert_one({"_id": 1})
        if got is None:
            assert len(both(rows)) == 2
            return
        for make in (TableParts, Target):
            with pytest.raises(ConfigurationError) as caught:
                make(rows)
            assert got in str(caught.value)
            assert "secret" not in str(caught.value)


def test_a_part_is_planned_for_each_64_mebibytes_of_the_collection(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.insert_many([{"text": "x" * 1_000} for _ in range(500)])
    for mebibytes, parts in ((0, 1), (64, 1), (65, 2), (640, 10)):
        sizes = Sizes(mebibytes << 20, has_parts=True)
        monkeypatch.setattr(_parts_of_tables, "sizes_of", lambda _, sizes=sizes: sizes)
        found = TableParts(rows, schema={"_id": int}).parts
        assert len(found) == parts, mebibytes


@pytest.mark.parametrize("schema", [None, {"_id": int}])
def test_wrong_ways_of_reading_are_told_by_the_program(rows: Any, schema: Any) -> None:
    with pytest.raises(ValueError, match='expected "raise", "null" or "string" as on_invalid, got "strict"'):
        TableParts(rows, schema=schema, on_invalid="strict")
    with pytest.raises(ValueError, match='expected "null" or "distinguish" as missing, got "none"'):
        TableParts(rows, schema=schema, missing="none")


def test_a_view_and_a_time_series_are_one_part(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parts_of_tables, "_PART", 100)
    at = datetime.datetime(2026, 1, 1)
    rows.insert_many([{"_id": number + 2, "at": at, "text": "x" * 100} for number in range(50)])
    database = rows.database
    database.create_collection("seen", viewOn="rows", pipeline=[])
    database.create_collection("hours", timeseries={"timeField": "at"})
    database.hours.insert_many(rows.find({"_id": {"$gt": 1}}).to_list())

    assert len(TableParts(rows).parts) > 5
    for name, count in (("seen", 51), ("hours", 50)):
        found = TableParts(database[name])
        assert [len(found.reader().table(part)) for part in found.parts] == [count]


def test_connect_names_the_deployment_of_workers(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGONEL_URI", "mongodb://a.example")

    assert len(both(rows, connect="MANGONEL_URI")) == 2
    assert len(both(rows, connect=dict)) == 2


def test_without_the_variable_workers_use_the_client_of_the_program(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANGONEL_URI", raising=False)

    assert len(both(rows)) == 2
