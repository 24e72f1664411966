"""Detects clients that guess ids, and visitors whose browser differs from the one that logged in.

About visitors it keeps only salted digests in their own websession and, for a minute, a count for each network.
Knows no store. Spec: OWASP Session Management Cheat Sheet ("detection of session id guessing", "binding").
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterable

__all__ = ["SIGNALS", "Guessing", "digests", "network_of"]

# Signals that every framework offers; an application may define more under other names.
SIGNALS = ("user_agent", "network")

NETWORKS = 4096
DIGEST_BYTES = 8


def network_of(address: str | None) -> str:
    """Return the /24 of an IPv4 address or the /64 of an IPv6 address, "" for anything else."""
    if not address:
        return ""
    from ipaddress import ip_address, ip_network

    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(parsed, "ipv4_mapped", None)
    parsed = mapped or parsed
    return str(ip_network((parsed, 24 if parsed.version == 4 else 64), strict=False))


def digests(names: Iterable[str], signals: Callable[[str], str | None] | None, salt: bytes) -> dict[str, str]:
    """Return a salted digest of each signal of the request, as text, which every codec preserves."""
    found = {}
    for name in names:
        value = signals(name) if signals is not None else None
        if name == "network" and signals is not None:
            value = network_of(signals("address"))
        if value is not None:
            found[name] = hmac.digest(salt, f"{name}\0{value}".encode(), "sha256")[:DIGEST_BYTES].hex()
    return found


class Guessing:
    """Counts unknown ids by network in a time window; bounded, and kept in memory only.

    Args:
        limit: how many unknown ids from one network within the window count as guessing.
        window: length of the window in seconds.
    """

    def __init__(self, limit: int = 20, window: float = 60.0) -> None:
        self.limit = limit
        self.window = window
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def note(self, network: str, now: float) -> bool:
        """Count an unknown id; return True when it reaches the limit, once per window."""
        started, count = self._seen.pop(network, (now, 0))
        if now - started > self.window:
            started, count = now, 0
        self._seen[network] = (started, count + 1)
        while len(self._seen) > NETWORKS:
            self._seen.popitem(last=False)
        return count + 1 == self.limit
