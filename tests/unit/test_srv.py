"""DNS for mongodb+srv://: the hosts and options that a response may contain. A table stands in for DNS."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import dns.asyncresolver
import dns.name
import dns.resolver
import pytest

from mangonel._options import srv
from mangonel.asynchronous import uri_parser as asynchronous_uri_parser
from mangonel.errors import ConfigurationError, InvalidURI
from mangonel.uri_parser import parse_uri

Zone = dict[tuple[str, str], Any]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Zone:
    """Return the DNS records, which the test fills; queries are kept under ("asked", "")."""
    records: Zone = {("asked", ""): []}

    def query(name: str, record: str, timeout: float) -> Any:
        records["asked", ""].append((name, record, timeout))
        if (name, record) not in records:
            raise dns.resolver.NXDOMAIN
        return records[name, record]

    monkeypatch.setattr(srv, "query", query)
    return records


def _srv_records(*hosts: str) -> list[Any]:
    return [
        SimpleNamespace(target=dns.name.from_text(host), port=27017 + index)
        for index, host in enumerate(hosts)
    ]


def _txt(*strings: bytes) -> Any:
    return SimpleNamespace(strings=strings)


def test_hosts_come_from_srv_records_and_tls_is_on(zone: Zone) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("A.example.org.", "b.example.org.")

    parsed = parse_uri("mongodb+srv://u:p@Cluster.Example.Org/db?connectTimeoutMS=3000")

    assert parsed["nodelist"] == [("a.example.org", 27017), ("b.example.org", 27018)]
    assert parsed["options"] == {"connectTimeoutMS": 3.0, "tls": True}
    assert parsed["fqdn"] == "cluster.example.org"
    assert (parsed["username"], parsed["database"]) == ("u", "db")
    assert {timeout for _, _, timeout in zone["asked", ""]} == {3.0}


@pytest.mark.parametrize("option", ["tls=false", "ssl=false"])
def test_tls_stays_off_when_the_uri_says_so(zone: Zone, option: str) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("a.example.org.")

    assert parse_uri(f"mongodb+srv://cluster.example.org/?{option}")["options"]["tls"] is False


@pytest.mark.parametrize(
    ("name", "host", "allowed"),
    [
        ("cluster.example.org", "a.example.org.", True),
        ("cluster.example.org", "a.b.example.org.", True),
        ("cluster.example.org", "example.org.", False),
        ("cluster.example.org", "a.evil.org.", False),
        ("cluster.example.org", "aexample.org.", False),
        ("example.org", "a.example.org.", True),
        ("example.org", "a.b.example.org.", True),
        ("example.org", "example.org.", False),
        ("example.org", "a.other.org.", False),
        ("local", "a.local.", True),
        ("local", "local.", False),
    ],
)
def test_host_outside_the_domain_is_refused(zone: Zone, name: str, host: str, allowed: bool) -> None:
    zone[f"_mongodb._tcp.{name}", "SRV"] = _srv_records(host)

    if allowed:
        assert parse_uri(f"mongodb+srv://{name}")["nodelist"] == [(host.rstrip("."), 27017)]
    else:
        with pytest.raises(ConfigurationError, match="Invalid SRV host"):
            parse_uri(f"mongodb+srv://{name}")


def test_validator_of_the_user_replaces_the_rule(zone: Zone) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("a.other.net.")

    parsed = parse_uri(
        "mongodb+srv://cluster.example.org", srv_host_validator=lambda host: host == "a.other.net"
    )

    assert parsed["nodelist"] == [("a.other.net", 27017)]
    for wrong in (lambda host: False, lambda host: 1, lambda host: 1 / 0):
        with pytest.raises(ConfigurationError, match="srv_host_validator"):
            parse_uri("mongodb+srv://cluster.example.org", srv_host_validator=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"authSource=x&replicaSet=rs", {"authSource": "x", "replicaSet": "rs"}),
        (b"loadBalanced=true", {"loadBalanced": True}),
    ],
)
def test_txt_record_may_set_some_options(zone: Zone, text: bytes, expected: dict[str, Any]) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("a.example.org.")
    zone["cluster.example.org", "TXT"] = [_txt(text[:5], text[5:])]

    assert parse_uri("mongodb+srv://cluster.example.org")["options"] == {**expected, "tls": True}


def test_option_of_the_uri_wins_over_the_txt_record(zone: Zone) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("a.example.org.")
    zone["cluster.example.org", "TXT"] = [_txt(b"authSource=x")]

    assert parse_uri("mongodb+srv://cluster.example.org/?authsource=y")["options"]["authSource"] == "y"


@pytest.mark.parametrize(
    "records", [[_txt(b"tls=false")], [_txt(b"authSource=x"), _txt(b"authSource=y")], [_txt(b"x")]]
)
def test_other_txt_records_are_refused(zone: Zone, records: list[Any]) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("a.example.org.")
    zone["cluster.example.org", "TXT"] = records

    with pytest.raises(ConfigurationError):
        parse_uri("mongodb+srv://cluster.example.org")


def test_srv_max_hosts_chooses_that_many_different_hosts(zone: Zone) -> None:
    hosts = [f"h{index}.example.org" for index in range(5)]
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records(*hosts)

    nodes = parse_uri("mongodb+srv://cluster.example.org/?srvMaxHosts=3")["nodelist"]

    assert len(set(nodes)) == 3
    assert {host for host, _ in nodes} <= set(hosts)
    assert len(parse_uri("mongodb+srv://cluster.example.org/?srvMaxHosts=9")["nodelist"]) == 5


@pytest.mark.parametrize("option", ["replicaSet=rs", "loadBalanced=true"])
def test_srv_max_hosts_excludes_options_of_the_txt_record(zone: Zone, option: str) -> None:
    zone["_mongodb._tcp.cluster.example.org", "SRV"] = _srv_records("a.example.org.")
    zone["cluster.example.org", "TXT"] = [_txt(option.encode())]

    with pytest.raises(InvalidURI, match="with srvMaxHosts"):
        parse_uri("mongodb+srv://cluster.example.org/?srvMaxHosts=1")


def test_service_name_is_part_of_the_question(zone: Zone) -> None:
    zone["_custom._tcp.cluster.example.org", "SRV"] = _srv_records("a.example.org.")

    assert parse_uri("mongodb+srv://cluster.example.org/?srvServiceName=custom")["nodelist"]
    assert parse_uri("mongodb+srv://cluster.example.org", srv_service_name="custom")["nodelist"]


def test_name_without_srv_records_is_a_configuration_error(zone: Zone) -> None:
    with pytest.raises(ConfigurationError):
        parse_uri("mongodb+srv://nowhere.example.org")


def test_ip_address_is_no_name_to_look_up(zone: Zone) -> None:
    with pytest.raises(ConfigurationError, match="an IP address is not a valid hostname"):
        parse_uri("mongodb+srv://127.0.0.1")


def test_on_an_event_loop_dns_is_asked_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def resolve(name: str, record: str, lifetime: float) -> Any:
        await asyncio.sleep(0)
        asked.append((name, record, lifetime))
        if record == "TXT":
            return [_txt(b"replicaSet=rs")]
        return _srv_records("A.example.org.")

    monkeypatch.setattr(dns.asyncresolver, "resolve", resolve)
    parsed = asyncio.run(
        asynchronous_uri_parser.parse_uri("mongodb+srv://cluster.example.org/db", connect_timeout=2)
    )

    assert parsed["nodelist"] == [("a.example.org", 27017)]
    assert parsed["options"] == {"replicaSet": "rs", "tls": True}
    assert asked == [("_mongodb._tcp.cluster.example.org", "SRV", 2), ("cluster.example.org", "TXT", 2)]
