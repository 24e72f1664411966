"""Deployments with one fault each, and a check-up with few pings."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from auth.conftest import guarded
from mangonel.doctor import Finding, Report, examine
from mangonel.server import Server, start
from tls.certificates import Certificates
from tls.conftest import certificates, server_context
from tools.dns_server import DnsServer
from tools.faces import TIMEOUT

__all__ = ["certificates", "guarded", "server_context"]


def look(uri: str, **options: Any) -> Report:
    """Return the report of a check-up with few pings; only a bug reaches its time limit."""
    return examine(uri, **{"timeout": TIMEOUT, "pings": 3, **options})


def only(report: Report, code: str) -> Finding:
    """Return the single finding with this code; a failure shows the other findings."""
    found = [finding for finding in report.findings if finding.code == code]
    assert len(found) == 1, "\n".join(finding.lines() for finding in report.findings)
    return found[0]


def failures(report: Report) -> list[str]:
    """Return the codes of the faults that make the deployment unusable."""
    return [finding.code for finding in report.findings if finding.status == "failure"]


@pytest.fixture(scope="session")
def demanding(certificates: Certificates) -> Iterator[Server]:
    """A mongod that speaks TLS only, with clients that have a certificate of its authority."""
    with start(tls={"certificateKeyFile": certificates.server, "CAFile": certificates.authority}) as server:
        yield server


@pytest.fixture
def speaker() -> Iterator[Callable[[bytes, bytes], int]]:
    """Starts servers that greet with some bytes and answer any request with others; returns their port."""
    lines: list[socket.socket] = []

    def begin(greeting: bytes, answer: bytes) -> int:
        line = socket.create_server(("127.0.0.1", 0))
        lines.append(line)

        def talk(peer: socket.socket) -> None:
            with peer:
                try:
                    peer.sendall(greeting)
                    if peer.recv(4096):
                        peer.sendall(answer)
                except OSError:
                    return

        def serve() -> None:
            while True:
                try:
                    peer, _ = line.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(peer,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        port: int = line.getsockname()[1]
        return port

    yield begin
    for line in lines:
        # Closing alone would leave the thread in accept.
        line.shutdown(socket.SHUT_RDWR)
        line.close()


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[DnsServer]:
    """A DNS server that knows what the test tells it, asked instead of the machine's."""
    from mangonel._options import srv

    with DnsServer() as server:
        monkeypatch.setattr(srv, "query", server.query)
        yield server


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names and their IP addresses; all other names are unknown, but IP addresses work."""
    known = {"localhost": "127.0.0.1"}
    look_up = socket.getaddrinfo

    def look_up_here(host: Any, *args: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in known:
            return look_up(known[name], *args, **named)
        if name.replace(".", "").isdigit():
            return look_up(host, *args, **named)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    return known
