"""The specification's cases for `mongodb+srv://`, against a DNS server of our own that knows the names they use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel._options import srv
from mangonel.errors import ConfigurationError, InvalidURI
from mangonel.uri_parser import parse_uri
from tools.dns_server import DnsServer
from tools.official import FOLDER, NO_FOLDER

_TESTS = (FOLDER or Path()) / "initial-dns-seedlist-discovery" / "tests"
pytestmark = pytest.mark.skipif(not _TESTS.is_dir(), reason=NO_FOLDER)

_DOMAIN = "test.build.10gen.cc"
_ONE = [(f"localhost.{_DOMAIN}", 27017)]

# Hosts of the specification's names, where they differ from the one above.
_HOSTS: dict[int, list[tuple[str, int]]] = {
    **dict.fromkeys((3, 5, 6, 7, 8, 10, 11, 20, 21), _ONE),
    1: [*_ONE, (f"localhost.{_DOMAIN}", 27018)],
    2: [(f"localhost.{_DOMAIN}", 27018), (f"localhost.{_DOMAIN}", 27019)],
    12: [("localhost.build.10gen.cc", 27017)],
    13: [("test.build.10gen.cc", 27017)],
    14: [("localhost.not-test.build.10gen.cc", 27017)],
    15: [("localhost.test.not-build.10gen.cc", 27017)],
    16: [("localhost.test.build.not-10gen.cc", 27017)],
    17: [("localhost.test.build.10gen.not-cc", 27017)],
    18: [(f"localhost.sub.{_DOMAIN}", 27017)],
    19: [("localhost.evil.build.10gen.cc", 27017), *_ONE],
    23: [(f"localhost.{_DOMAIN}", 8000)],
    24: [(f"localhost.{_DOMAIN}", 8000)],
}
_TEXTS = {
    5: ["replicaSet=repl0&authSource=thisDB"],
    6: ["authSource=otherDB", "replicaSet=repl0"],
    7: ["ssl=false"],
    8: ["authSource"],
    10: ["socketTimeoutMS=500"],
    11: ['"replicaS" "et=rep" "l0"'],
    20: ["loadBalanced=true"],
    21: ["loadBalanced=false"],
    24: ["loadBalanced=true"],
}
# The cases' names of options, by the driver's names.
_NAMES = {"ssl": "tls", "authSource": "authSource"}


def _cases() -> list[Any]:
    paths = sorted(_TESTS.glob("*/*.json"))
    return [
        pytest.param(json.loads(path.read_text()), id=f"{path.parent.name}/{path.stem}") for path in paths
    ]


@pytest.fixture(scope="module")
def dns() -> Iterator[DnsServer]:
    with DnsServer() as server:
        for number, hosts in _HOSTS.items():
            server.srv(f"test{number}.{_DOMAIN}", hosts)
        server.srv(f"test22.{_DOMAIN}", _HOSTS[1], service="customname")
        for number, records in _TEXTS.items():
            server.txt(f"test{number}.{_DOMAIN}", *records)
        for name in (_DOMAIN, "build.10gen.cc"):
            server.srv(name, [(name, 27017)])
        yield server


@pytest.mark.each_once("case")
@pytest.mark.parametrize("case", _cases())
def test_seed_list(case: dict[str, Any], dns: DnsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srv, "query", dns.query)
    if case.get("error"):
        with pytest.raises((ConfigurationError, InvalidURI)):
            parse_uri(case["uri"])
        return
    parsed = parse_uri(case["uri"])
    seeds = {f"{host}:{port}" for host, port in parsed["nodelist"]}
    if case.get("seeds") is not None:
        assert seeds == set(case["seeds"])
    if case.get("numSeeds") is not None:
        assert len(seeds) == case["numSeeds"]
    for name, value in case.get("options", {}).items():
        assert parsed["options"][_NAMES.get(name, name)] == value, name
    expected = case.get("parsed_options", {})
    ours = {
        "user": parsed["username"],
        "password": parsed["password"],
        "db": parsed["database"],
        "auth_database": parsed["database"],
        "defaultDatabase": parsed["database"],
    }
    assert {name: ours[name] for name in expected} == expected
