"""ClientOptions: the values passed to the core, the refusals, and a client's description of itself."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import bson
import pymongo.pool_options
import pytest

import mangonel
from mangonel import MongoClient, _version, handshake_metadata
from mangonel.client_options import ClientOptions
from mangonel.driver_info import DriverInfo
from mangonel.errors import ConfigurationError, ServerSelectionTimeoutError
from mangonel.handshake_metadata import MAX_METADATA_SIZE, client_metadata

ROOT = Path(__file__).parents[2]


def _options(host: Any = None, is_sync: bool = True, **keywords: Any) -> ClientOptions:
    return ClientOptions.from_arguments(host, None, None, None, None, None, keywords, is_sync=is_sync)


def test_core_options_are_whole_milliseconds() -> None:
    core = _options(connectTimeoutMS=1500, maxIdleTimeMS="250", waitQueueTimeoutMS=500.5).core_options()

    assert core["connect_timeout_ms"] == 1500
    assert core["max_idle_time_ms"] == 250
    assert core["wait_queue_timeout_ms"] == 501


def test_a_number_of_retries_is_as_large_as_one_likes() -> None:
    with MongoClient(connect=False, maxAdaptiveRetries=2**70) as client:
        assert client.options.max_adaptive_retries == 2**70


@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_a_client_with_a_port_out_of_range_is_made_and_does_not_connect(port: int) -> None:
    with pytest.warns(UserWarning, match=f"between 1 and 65535, got {port}; the client cannot connect"):
        client = MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=20)
    with client, pytest.raises(ServerSelectionTimeoutError):
        client.admin.command("ping")
    with pytest.raises(ValueError, match="between 0 and 65535"):
        MongoClient(f"mongodb://a.example:{abs(port) + 65_536}")


def test_default_host_and_port_are_those_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MongoClient, "HOST", "a.example")
    monkeypatch.setattr(MongoClient, "PORT", 1234)

    with MongoClient() as client:
        assert "host=['a.example:1234']" in repr(client)


def test_whole_milliseconds_reach_the_core_unchanged() -> None:
    # The options hold seconds, and 1.005 * 1000 is not 1005 in binary.
    for milliseconds in range(1, 3000, 7):
        core = _options(socketTimeoutMS=milliseconds, localThresholdMS=milliseconds).core_options()

        assert core["socket_timeout_ms"] == core["local_threshold_ms"] == milliseconds


def test_shortest_timeout_does_not_become_no_limit() -> None:
    assert _options(socketTimeoutMS=0.01).core_options()["socket_timeout_ms"] == 1


def test_unlimited_is_none_for_times_and_zero_for_the_pool() -> None:
    core = _options(connectTimeoutMS=0, socketTimeoutMS=None, maxPoolSize=None).core_options()

    assert core["connect_timeout_ms"] is core["socket_timeout_ms"] is None
    assert core["max_pool_size"] == 0


def test_seeds_reach_the_core_once_each_in_the_order_given() -> None:
    hosts = ["b:2", "mongodb://a:1,b:2,%2Ftmp%2Fm.sock/db"]

    assert _options(hosts).core_options()["hosts"] == [("b", 2), ("a", 1), ("/tmp/m.sock", None)]


def test_database_of_the_uri_is_the_default_one() -> None:
    assert _options("mongodb://a/shop.items").default_database_name == "shop"


def test_encryption_options_are_of_their_class() -> None:
    with pytest.raises(TypeError, match="must be an instance of AutoEncryptionOpts"):
        _options(auto_encryption_opts=object())


@pytest.mark.parametrize(
    ("keywords", "is_on"),
    [
        ({"ssl": True}, True),
        ({"host": "mongodb://a/?ssl=true"}, True),
        ({"tlsAllowInvalidHostnames": False}, True),
        ({"tlsDisableOCSPEndpointCheck": False}, True),
        ({"tlsAllowInvalidHostnames": True}, False),
        ({"tlsInsecure": True}, False),
        ({"tls": False, "tlsInsecure": True}, False),
        ({}, False),
    ],
    ids=str,
)
def test_tls_is_on_by_itself_or_by_an_option_that_tightens_it(keywords: dict[str, Any], is_on: bool) -> None:
    assert (_options(**keywords).security is not None) is is_on


@pytest.mark.parametrize(
    "keywords",
    [
        {"tls": False},
        {"compressors": []},
        {"loadBalanced": False},
        {"event_listeners": []},
        {"authSource": "admin"},
        {"maxAdaptiveRetries": 2},
        {"timeoutMS": None},
        {"minPoolSize": 0},
        {"username": None},
    ],
    ids=str,
)
def test_value_that_asks_for_nothing_is_accepted(keywords: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _options(**keywords)


SRV_OPTIONS = ("srvServiceName", "srvAllowedHostsSuffix", "srv_host_validator", "srvMaxHosts")


@pytest.mark.parametrize("name", SRV_OPTIONS)
def test_srv_option_without_srv_uri_is_refused(name: str) -> None:
    value: Any = {"srv_host_validator": bool, "srvMaxHosts": 1}.get(name, "x.y")
    with pytest.raises(ConfigurationError, match=rf"{name} option is only allowed with"):
        _options(**{name: value})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("proxyHost=a&proxyPort=99999", "expected a port from 1 to 65535 for proxyPort, got 99999"),
        ("proxyHost=a&proxyPort=x", "expected an integer for proxyPort, got 'x'"),
        (f"proxyHost=a&proxyUsername={'u' * 256}&proxyPassword=p", "expected at most 255 bytes"),
        ("proxyHost=socks5%3A%2F%2Fa", "expected a name or an address alone for proxyHost"),
        ("proxyHost=a%3A1080", "use proxyPort"),
        ("proxyHost=ada%3As3cret%40a", "expected a name or an address alone for proxyHost"),
    ],
)
def test_a_wrong_option_of_a_proxy_is_refused_and_not_left_out(query: str, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        _options(f"mongodb://db.internal/?{query}")
    assert "s3cret" not in str(caught.value)


def test_a_proxy_may_have_an_address_of_ipv6() -> None:
    assert _options("mongodb://db.internal/?proxyHost=%3A%3A1").proxy is not None


@pytest.mark.parametrize("name", ["tracing", "metrics"])
def test_an_argument_in_a_uri_is_told_to_be_one(name: str) -> None:
    said = (
        f"^Unknown option: {name}. It is no option of a URI; pass it to the client as an argument: {name}=$"
    )
    with pytest.warns(UserWarning, match=said):
        _options(f"mongodb://db.internal/?{name}=true")


def test_option_without_effect_says_so() -> None:
    with pytest.warns(UserWarning, match="waitQueueMultiple has no effect"):
        _options(waitQueueMultiple=5)


@pytest.mark.parametrize("client", [MongoClient, mangonel.AsyncMongoClient])
@pytest.mark.parametrize("mechanism", [{}, {"authMechanism": "MONGODB-AWS"}])
def test_a_password_without_a_user_is_told_with_the_line_of_the_program(
    client: Any, mechanism: dict[str, Any]
) -> None:
    with pytest.warns(UserWarning, match="expected a username with the password, got none") as told:
        client(connect=False, password="s3cret", **mechanism)
    assert [(warning.filename, "s3cret" in str(warning.message)) for warning in told] == [(__file__, False)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client(connect=False, username=None, password=None)
        client(connect=False, password="")
        client("mongodb://ada@localhost", connect=False, password="s3cret")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for _, variables, fields in handshake_metadata._FAAS for name in variables]
    names += [field[1] for _, _, fields in handshake_metadata._FAAS for field in fields]
    for name in [*names, "AWS_EXECUTION_ENV", "KUBERNETES_SERVICE_HOST"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(handshake_metadata, "_DOCKER_MARK", "/does/not/exist")


ENVIRONMENTS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    (
        {"AWS_EXECUTION_ENV": "AWS_Lambda_x", "AWS_REGION": "r", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"},
        {"name": "aws.lambda", "region": "r", "memory_mb": 1024},
    ),
    ({"AWS_LAMBDA_RUNTIME_API": "x", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "big"}, {"name": "aws.lambda"}),
    ({"AWS_EXECUTION_ENV": "EC2"}, {}),
    ({"FUNCTIONS_WORKER_RUNTIME": "x"}, {"name": "azure.func"}),
    (
        {"K_SERVICE": "x", "FUNCTION_MEMORY_MB": "1", "FUNCTION_TIMEOUT_SEC": "2", "FUNCTION_REGION": "r"},
        {"name": "gcp.func", "memory_mb": 1, "timeout_sec": 2, "region": "r"},
    ),
    ({"VERCEL": "1", "VERCEL_REGION": "r"}, {"name": "vercel", "region": "r"}),
    ({"VERCEL": "1", "AWS_EXECUTION_ENV": "AWS_Lambda_x", "AWS_REGION": "r"}, {"name": "vercel"}),
    ({"K_SERVICE": "x", "FUNCTIONS_WORKER_RUNTIME": "y"}, {}),
    ({"KUBERNETES_SERVICE_HOST": "x"}, {"container": {"orchestrator": "kubernetes"}}),
]


@pytest.mark.parametrize(("variables", "expected"), ENVIRONMENTS, ids=str)
def test_metadata_names_the_function_service(
    variables: dict[str, str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert client_metadata().get("env", {}) == expected
    assert handshake_metadata.is_faas() == ("FUNC" in str(variables) or "name" in expected)
    assert _options().connect == (not handshake_metadata.is_faas())


def test_metadata_names_driver_face_and_wrapping_library() -> None:
    wrapper = DriverInfo("wrap", "2", "p")
    metadata = _options(is_sync=False, appname="shop", driver=wrapper).core_options()["metadata"]

    assert metadata["application"] == {"name": "shop"}
    assert metadata["driver"] == {"name": "mangonel|async|wrap", "version": f"{_version.__version__}||2"}
    assert metadata["platform"].endswith("|p")


def test_metadata_describes_the_machine_as_pymongo_does() -> None:
    ours, theirs = client_metadata(), pymongo.pool_options._METADATA

    assert ours["os"] == theirs["os"]
    assert ours["platform"] == theirs["platform"]


def test_library_added_twice_is_named_once() -> None:
    pool = _options(driver=DriverInfo("wrap", "2")).pool_options

    assert not pool.append_driver(DriverInfo("wrap", "2", ""))
    assert pool.append_driver(DriverInfo("other"))
    assert pool.metadata["driver"]["name"] == "mangonel|wrap|other"


@pytest.mark.parametrize("length", [0, 50, 120, 128, 200, 300, 400, 600])
def test_metadata_stays_within_512_bytes(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERCEL", "1")
    monkeypatch.setenv("VERCEL_REGION", "é" * length)
    driver = DriverInfo("w" * (length // 4), "v" * (length // 4), "é" * length)

    metadata = client_metadata("a" * min(length, 128), [driver])

    assert len(bson.encode(metadata)) <= MAX_METADATA_SIZE
    assert metadata["driver"]["name"].split("|")[0] == "mangonel"
    assert metadata["os"]["type"]
    assert handshake_metadata._bson_size(metadata) == len(bson.encode(metadata))


def test_metadata_loses_the_least_important_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERCEL", "1")
    monkeypatch.setenv("VERCEL_REGION", "r" * 400)

    metadata = client_metadata()

    assert metadata["env"] == {"name": "vercel"}
    assert metadata["os"].keys() == {"type", "name", "architecture", "version"}


def test_version_is_that_of_the_wheel() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())

    assert cargo["workspace"]["package"]["version"] == _version.__version__


# Modules that may take longer to import than the driver, and that this path does not need.
SLOW = {
    *("asyncio", "ssl", "socket", "logging", "subprocess", "email", "json", "uuid", "random", "platform"),
    *("inspect", "dataclasses", "difflib", "ipaddress", "urllib.parse", "dns"),
}


def test_making_client_options_imports_nothing_slow() -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "from mangonel import client_options, operations, results, collation, constants, cursor_shared;"
        "make = client_options.ClientOptions.from_arguments;"
        "make('mongodb://a/?maxPoolSize=5', None, None, None, None, None, {'w': 1}).core_options();"
        "print(*(set(sys.modules) - before))"
    )
    path = [str(ROOT / "python"), *(entry for entry in sys.path if entry.endswith("site-packages"))]
    # Without `site`, whose .pth files import modules of other packages.
    result = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {path}; {code}"],
        check=True,
        capture_output=True,
        text=True,
    )

    imported = set(result.stdout.split())
    assert "mangonel.client_options" in imported
    assert imported.isdisjoint(SLOW), imported & SLOW


@pytest.mark.parametrize(
    ("hosts", "service"),
    [
        ("a.Cosmos.azure.com", "CosmosDB"),
        ("a,b.docdb.amazonaws.com:27018", "DocumentDB"),
        # One service alone: PyMongo looks at a set of hosts, so the one that it names changes from run to run.
        (["a.mongodb.net", "b.docdb-elastic.amazonaws.com"], "DocumentDB"),
    ],
)
def test_a_host_of_another_service_is_told_once_as_by_pymongo(hosts: Any, service: str, caplog: Any) -> None:
    for driver in (mangonel, pymongo):
        for made in (driver.MongoClient, driver.AsyncMongoClient):
            with pytest.warns(UserWarning, match=service) as warned:
                made(hosts, connect=False)
            assert len(warned) == 1
            assert warned[0].filename == __file__
    with caplog.at_level("INFO"), warnings.catch_warnings():
        warnings.simplefilter("error")
        mangonel.MongoClient(hosts, connect=False)
    assert [record.name for record in caplog.records if service in record.getMessage()] == ["mangonel.client"]


def test_hosts_that_are_mongodb_are_not_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mangonel.MongoClient(["cosmos.azure.com", "docdb.amazonaws.com.example", "a.mongodb.net"])


@pytest.mark.parametrize("host", [5, 2.5, object()])
def test_what_is_no_host_is_named_by_its_type(host: Any) -> None:
    with pytest.raises(TypeError, match=f'list of hosts for "host", got {type(host).__name__}'):
        MongoClient(host, connect=False)
