"""What workers of an engine inherit: a MANGONEL_URI of another deployment is refused, not read from."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel import MongoClient
from mangonel._parts_of_tables import TableParts, Target
from mangonel.errors import ConfigurationError
from mangonel.server import Server

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
        "mongodb+srv://cluster.example/",
    ],
)
def test_the_same_deployment_by_any_of_its_names_is_taken(
    rows: Any, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("MANGONEL_URI", uri.format(rows.database.client.address[1]))

    assert len(both(rows)) == 2


def test_connect_names_the_deployment_of_workers(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGONEL_URI", "mongodb://a.example")

    assert len(both(rows, connect="MANGONEL_URI")) == 2
    assert len(both(rows, connect=dict)) == 2


def test_without_the_variable_workers_use_the_client_of_the_program(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANGONEL_URI", raising=False)

    assert len(both(rows)) == 2
