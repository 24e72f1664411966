"""Who guesses ids, and whether a visitor still looks like the one the websession was given to.

Keeps nothing about visitors but salted digests in their own websession and, for a minute, a count for each network.
Knows no store. Spec: OWASP Session Management Cheat Sheet ("detection of session id guessing", "binding").
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterable

__all__ = ["SIGNALS", "Guessing", "digests", "network_of"]

# Signals that every framework offers; an application may offer more under names of its own.
SIGNALS = ("user_agent", "network")

NETWORKS = 4096
DIGEST_BYTES = 8


def network_of(address: str | None) -> str:
    """Return the /24 of an IPv4 address or the /64 of an IPv6 one, "" for neither."""
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
    """Return a salted digest of each signal that the request has, as text, which every codec gives back as it was."""
    found = {}
    for name in names:
        value = signals(name) if signals is not None else None
        if name == "network" and signals is not None:
            value = network_of(signals("address"))
        if value is not None:
            found[name] = hmac.digest(salt, f"{name}\0{value}".encode(), "sha256")[:DIGEST_BYTES].hex()
    return found


class Guessing:
    """Counts unknown ids by network in a window; bounded, and forgotten with the process.

    Args:
        limit: unknown ids from one network within the window that make it a guess.
        window: seconds.
    """

    def __init__(self, limit: int = 20, window: float = 60.0) -> None:
        self.limit = limit
        self.window = window
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def note(self, network: str, now: float) -> bool:
        """Count one; True when this one reaches the limit, once in a window."""
        started, count = self._seen.pop(network, (now, 0))
        if now - started > self.window:
            started, count = now, 0
        self._seen[network] = (started, count + 1)
        while len(self._seen) > NETWORKS:
            self._seen.popitem(last=False)
        return count + 1 == self.limit
