"""A DNS server on loopback that knows what a test tells it: SRV and TXT records, over UDP, with dnspython.

with DnsServer() as dns:
    dns.srv("cluster.example.org", [("a.example.org", 27017)], ttl=60)
    ...
    assert dns.asked == [("_mongodb._tcp.cluster.example.org", "SRV")]
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.resolver
import dns.rrset

__all__ = ["DnsServer"]


class DnsServer:
    """Listens from construction to `stop`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.is_silent = False  # receives but does not reply
        self._records: dict[tuple[str, str], dns.rrset.RRset] = {}
        self._later: dict[tuple[str, str], dns.rrset.RRset] = {}
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.bind(("127.0.0.1", 0))
        self._port = self._line.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def srv(
        self,
        name: str,
        hosts: Iterable[tuple[str, int]],
        *,
        then: Iterable[tuple[str, int]] = (),
        ttl: int = 60,
        service: str = "mongodb",
    ) -> None:
        """Answer with these hosts and ports from now on; with `then`, once, and with others afterwards."""
        name = f"_{service}._tcp.{name}"
        self._put(name, "SRV", ttl, [f"0 0 {port} {host}." for host, port in hosts])
        self._put(name, "SRV", ttl, [f"0 0 {port} {host}." for host, port in then], self._later)

    def txt(self, name: str, *records: str) -> None:
        """Answer with these TXT records; one of several strings is written `"a" "b"`."""
        self._put(
            name, "TXT", 60, [record if record.startswith('"') else f'"{record}"' for record in records]
        )

    def query(self, name: str, record: str, timeout: float) -> Any:
        """Ask this server, as `mangonel._options.srv.query` asks the machine's."""
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = self._port
        return resolver.resolve(name, record, lifetime=timeout)

    def stop(self) -> None:
        self._line.sendto(b"", self._line.getsockname())
        self._thread.join(5)
        self._line.close()

    def __enter__(self) -> DnsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _put(
        self,
        name: str,
        kind: str,
        ttl: int,
        records: list[str],
        place: dict[tuple[str, str], dns.rrset.RRset] | None = None,
    ) -> None:
        place = self._records if place is None else place
        name = name.lower() + "."
        if records:
            place[name, kind] = dns.rrset.from_text(name, ttl, "IN", kind, *records)
        else:
            place.pop((name, kind), None)

    def _serve(self) -> None:
        while True:
            data, sender = self._line.recvfrom(4096)
            if not data:
                return
            query = dns.message.from_wire(data)
            question = query.question[0]
            kind = dns.rdatatype.to_text(question.rdtype)
            name = question.name.to_text().lower()
            self.asked.append((name.rstrip("."), kind))
            if self.is_silent:
                continue
            response = dns.message.make_response(query)
            response.flags |= dns.flags.RA
            found = self._records.get((name, kind))
            if (name, kind) in self._later:
                self._records[name, kind] = self._later.pop((name, kind))
            if found is not None:
                response.answer.append(found)
            elif not any(known == name for known, _ in self._records):
                response.set_rcode(dns.rcode.NXDOMAIN)
            self._line.sendto(response.to_wire(), sender)
