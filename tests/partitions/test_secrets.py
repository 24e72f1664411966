"""A pickled part holds its client's hosts and options, and never a password."""

from __future__ import annotations

import os
import pickle
import ssl
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest

from auth.conftest import ROOT, guarded
from mangonel import AsyncMongoClient, MongoClient
from mangonel._parts_of_tables import Target
from mangonel.errors import ConfigurationError
from mangonel.server import Server
from mangonel.server_api import ServerApi

__all__ = ["guarded"]

SECRET = "s3cr3t-w0rd"


def part_of(uri: str, connect: Any = None, **options: Any) -> Any:
    """The only part of a query, for which nothing is sent."""
    from mangonel._shared.partitions.part import whole

    with MongoClient[Any](uri, connect=False, **options) as client:
        orders = client.shop.orders
        return whole(orders.find(), orders._partition_class, connect)


SECRETS: dict[str, tuple[str, dict[str, Any]]] = {
    "the password of 'ada'": (f"mongodb://ada:{SECRET}@a.example/?replicaSet=rs", {}),
    "the password of 'bob'": ("mongodb://a.example", {"username": "bob", "password": SECRET}),
    "the password of 'plain'": (f"mongodb://plain:{SECRET}@a.example/?authMechanism=PLAIN&tls=true", {}),
    "proxypassword": (f"mongodb://a.example/?proxyHost=b&proxyUsername=u&proxyPassword={SECRET}", {}),
    "the password of 'key'": (
        f"mongodb://key:{SECRET}@a.example/?authMechanism=MONGODB-AWS",
        {"authMechanismProperties": {"AWS_SESSION_TOKEN": SECRET}},
    ),
}


@pytest.mark.parametrize("what", SECRETS)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_pickle_has_no_secret_and_the_other_process_says_what_lacks(what: str, protocol: int) -> None:
    uri, options = SECRETS[what]

    data = pickle.dumps(part_of(uri, **options), protocol)

    assert SECRET.encode() not in data
    with patch.dict(os.environ):
        os.environ.pop("MANGONEL_URI", None)
        with pytest.raises(ConfigurationError) as caught:
            pickle.loads(data).find()
    assert what in str(caught.value)
    assert "set it to a URI, or pass connect= to partitions()" in str(caught.value)


def test_secrets_stay_out_of_pickles_that_follow_other_attributes() -> None:
    part = part_of(SECRETS["the password of 'ada'"][0])
    again = pickle.loads(pickle.dumps(part))

    assert SECRET.encode() not in pickle.dumps([again, {"part": part}])
    assert SECRET not in repr(part) + repr(vars(again))


def arguments() -> dict[str, Any]:
    return {"host": "mongodb://b.example", "appname": "made there", "connect": False}


def client_there() -> MongoClient[Any]:
    return MongoClient("mongodb://c.example", connect=False)


def asyncio_client() -> AsyncMongoClient[Any]:
    return AsyncMongoClient("mongodb://c.example")


def nonsense() -> int:
    return 5


@pytest.mark.parametrize(
    ("connect", "variables", "host"),
    [
        (None, {"MANGONEL_URI": "mongodb://d.example/?connect=false"}, "d.example"),
        ("ANALYTICS", {"ANALYTICS": "mongodb://e.example/?connect=false"}, "e.example"),
        (arguments, {}, "b.example"),
        (client_there, {}, "c.example"),
    ],
    ids=["environment", "a variable", "arguments", "a client"],
)
def test_other_process_takes_its_client_from_where_it_is_told(
    connect: Any, variables: dict[str, str], host: str
) -> None:
    part = pickle.loads(pickle.dumps(part_of(SECRETS["the password of 'ada'"][0], connect)))

    with patch.dict(os.environ, variables):
        client = part.find().collection.database.client

    assert client.options.seeds == ((host, 27017),)
    client.close()


@pytest.mark.parametrize(
    ("connect", "message"),
    [
        ("NOT_SET_HERE", "expected a URI in the environment variable NOT_SET_HERE"),
        (nonsense, "expected a client, a URI or a mapping"),
        (asyncio_client, "expected MongoClient from connect=, got AsyncMongoClient"),
    ],
)
def test_wrong_source_of_a_client_raises_and_names_itself(connect: Any, message: str) -> None:
    part = pickle.loads(pickle.dumps(part_of("mongodb://a.example", connect)))

    with pytest.raises(ConfigurationError, match=message):
        part.find()


@pytest.mark.parametrize("connect", ["mongodb://ada:secret@a.example", 5, {"host": "a.example"}])
def test_what_no_process_can_connect_by_is_refused_at_once(connect: Any) -> None:
    with MongoClient[Any]("mongodb://a.example", connect=False) as client:
        rows = client.a.rows
        for make in (
            lambda: rows.partitions(2, connect=connect),
            lambda: rows.scan_polars({"n": int}, connect=connect),
            lambda: rows.dataset({"n": int}, connect=connect),
            lambda: Target(rows, connect=connect),
        ):
            with pytest.raises((TypeError, ConfigurationError)) as caught:
                make()
            assert "as connect, got " in str(caught.value)
            assert "secret" not in str(caught.value)


def test_options_arrive_as_they_were_given() -> None:
    given = {
        "replicaSet": "rs",
        "connectTimeoutMS": 1234,
        "socketTimeoutMS": 0,
        "serverSelectionTimeoutMS": 2500,
        "localThresholdMS": 20,
        "maxIdleTimeMS": 60_000,
        "timeoutMS": 7000,
        "compressors": "zlib,zstd",
        "appname": "nightly",
        "retryReads": False,
        "maxPoolSize": 3,
        "tls": True,
        "tlsInsecure": True,
        "server_api": ServerApi("1", strict=True),
        "readPreference": "secondary",
        "readPreferenceTags": "dc:ny",
        "maxStalenessSeconds": 120,
        "w": "majority",
        "wTimeoutMS": 10,
    }
    here = part_of("mongodb://a.example,[::1]:27018,%2Ftmp%2Fm.sock", **given)
    there = pickle.loads(pickle.dumps(here)).find().collection
    mine, made = here.find().collection.database.client.options, there.database.client.options

    for name in ("seeds", "replica_set_name", "local_threshold_ms", "server_selection_timeout", "timeout"):
        assert getattr(made, name) == getattr(mine, name), name
    for name in ("connect_timeout", "socket_timeout", "max_idle_time_seconds", "appname", "max_pool_size"):
        assert getattr(made.pool_options, name) == getattr(mine.pool_options, name), name
    assert not made.retry_reads
    assert made.pool_options.server_api.strict
    assert made.core_options()["compressors"] == ["zlib", "zstd"]
    assert made.security is not None
    assert there.read_preference.document == mine.read_preference.document
    there.database.client.close()


def test_objects_of_this_process_need_a_function() -> None:
    part = part_of("mongodb://a.example", ssl_context=ssl.create_default_context())

    with pytest.raises(ConfigurationError, match="with ssl_context; pass connect="):
        pickle.dumps(part)


def test_part_logs_in_by_the_environment(guarded: Server) -> None:
    user, password = (quote(each, safe="") for each in ROOT)
    with MongoClient[Any](guarded.uri) as client:
        client.parts_guarded.rows.insert_many([{"_id": n} for n in range(100)])
        parts = pickle.loads(pickle.dumps(client.parts_guarded.rows.partitions(3)))
    uri = f"mongodb://{user}:{password}@{guarded.members[0].address}/"
    with patch.dict(os.environ, {"MANGONEL_URI": uri}):
        found = sorted(document["_id"] for part in parts for document in part.find())

    assert found == list(range(100))
    parts[0].find().collection.database.client.close()
