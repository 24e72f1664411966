"""Faults before a server replies: the connection string, DNS, TCP, and other programs that listen there."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from doctor.conftest import failures, look, only
from mangonel.doctor import connection
from mangonel.server import Server
from tools.dns_server import DnsServer


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("http://localhost:27017", "uri-scheme", "mongodb://"),
        ("mongodb://ada:p@ss/w:rd@localhost/", "uri-unescaped", "quote_plus"),
        ("mongodb://ada:100%@localhost/", "uri-unescaped", "%25"),
        ("mongodb://localhost:port/", "uri-invalid", ""),
        ("mongodb+srv://a.example.org:27017/", "uri-invalid", ""),
        ("mongodb://localhost/?tls=true&tlsCAFile=/no/such.pem", "uri-invalid", "PEM"),
        ("mongodb://a,b/?directConnection=true", "uri-invalid", ""),
    ],
)
def test_a_connection_string_that_cannot_be_read_is_explained(uri: str, code: str, words: str) -> None:
    report = look(uri)
    assert failures(report) == [code]
    assert words in only(report, code).remedy
    assert report.exit_status() == 3


def test_an_option_without_effect_is_a_warning(standalone: Server) -> None:
    report = look(f"{standalone.uri}?maxPolSize=5")
    assert "maxPolSize" in only(report, "uri-option").text
    assert (report.exit_status(), report.exit_status(strict=True)) == (0, 10)


def test_a_host_that_dns_does_not_know_is_told_from_one_that_is_down(hosts: dict[str, str]) -> None:
    report = look("mongodb://db.example.test:27017")
    assert failures(report) == ["dns-name-not-found"]
    assert report.exit_status() == 4


def test_a_resolver_that_does_not_answer_is_told_from_an_unknown_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def give_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", give_up)
    report = look("mongodb://db.example.test:27017")
    assert failures(report) == ["dns-no-answer"]
    assert "resolv.conf" in only(report, "dns-no-answer").remedy


def test_a_name_without_srv_records_is_told_from_an_unknown_name(dns: DnsServer) -> None:
    dns.txt("db.example.test", "something")
    assert failures(look("mongodb+srv://db.example.test/")) == ["dns-no-srv"]
    assert failures(look("mongodb+srv://other.example.test/")) == ["dns-name-not-found"]


def test_dns_that_is_silent_is_told(dns: DnsServer) -> None:
    dns.is_silent = True
    report = look("mongodb+srv://db.example.test/", timeout=0.3)
    assert failures(report) == ["dns-no-answer"]


def test_records_outside_the_domain_are_told(dns: DnsServer) -> None:
    dns.srv("db.example.test", [("a.elsewhere.test", 27017)])
    assert failures(look("mongodb+srv://db.example.test/")) == ["dns-srv-refused"]


def test_srv_records_lead_to_the_servers(dns: DnsServer, hosts: dict[str, str], standalone: Server) -> None:
    hosts["a.example.test"] = "127.0.0.1"
    dns.srv("db.example.test", [("a.example.test", standalone.members[0].port)])
    dns.txt("db.example.test", "authSource=admin")
    report = look("mongodb+srv://db.example.test/?tls=false")
    assert failures(report) == []
    assert only(report, "dns-srv").facts["hosts"] == [f"a.example.test:{standalone.members[0].port}"]
    assert "authSource=admin" in only(report, "dns-txt").text


def test_a_refused_connection_is_told_from_a_silent_machine(nowhere: str) -> None:
    report = look(nowhere)
    assert failures(report) == ["tcp-refused"]
    assert "bindIp" in only(report, "tcp-refused").remedy
    assert report.exit_status() == 5


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError("timed out"), "tcp-timeout"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "tcp-unreachable"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "tcp-unreachable"),
    ],
)
def test_a_network_that_does_not_lead_there_is_told(
    monkeypatch: pytest.MonkeyPatch, error: OSError, code: str
) -> None:
    # No address is certain to drop packets on every test machine.
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(connection.socket, "create_connection", fail)
    assert failures(look("mongodb://127.0.0.1:27017")) == [code]


def test_a_socket_that_is_not_there_is_told() -> None:
    assert failures(look("mongodb://%2Fno%2Fsuch%2Fmongodb-27017.sock")) == ["tcp-socket"]


def test_one_seed_that_is_down_is_a_warning(standalone: Server, nowhere: str) -> None:
    report = look(f"{nowhere},{standalone.members[0].address}/")
    assert only(report, "tcp-refused").status == "warning"


@pytest.mark.parametrize(
    ("greeting", "answer", "peer"),
    [
        (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"),
        (b"SSH-2.0-Any\r\n", b"", "an SSH server"),
        (b"", b"-ERR unknown command\r\n", "a Redis server"),
        (b"", b"\x00" * 64, "a server that speaks another protocol"),
    ],
)
def test_another_kind_of_server_is_named(
    speaker: Callable[[bytes, bytes], int], greeting: bytes, answer: bytes, peer: str
) -> None:
    report = look(f"mongodb://127.0.0.1:{speaker(greeting, answer)}")
    assert failures(report) == ["hello-not-mongodb"]
    assert only(report, "hello-not-mongodb").facts["peer"] == peer
    assert report.exit_status() == 7


def test_a_server_that_is_silent_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        report = look(f"mongodb://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
    assert failures(report) == ["hello-no-answer"]


def test_what_is_no_connection_string_is_refused() -> None:
    with pytest.raises(TypeError, match='expected a connection string for "uri", got int'):
        look(27017)  # type: ignore[arg-type]
