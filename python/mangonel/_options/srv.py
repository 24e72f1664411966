"""The DNS queries of `mongodb+srv://`: hosts from SRV records, options from a TXT record.

Decisions are flows (`async def`) with a function that queries DNS, blocking or on an event loop. Spec:
initial-dns-seedlist-discovery. dnspython is imported at the first query.
"""

from __future__ import annotations

from mangonel._core import run_now
from mangonel.common import CONNECT_TIMEOUT, SRV_SERVICE_NAME
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    # Queries DNS for the records of a name and a type, within seconds.
    Ask = Callable[[str, str, float], Coroutine[Any, Any, Any]]


# Domains in which no name can be registered, so allowing the whole domain is safe.
_SPECIAL_USE = frozenset({"example", "internal", "invalid", "local", "localhost", "onion", "test"})


def query(name: str, record: str, timeout: float) -> Any:
    """Return DNS's answer, an iterable of records. Errors are dnspython's."""
    resolver = _dnspython()
    return resolver.resolve(name, record, lifetime=timeout)


async def ask_at_once(name: str, record: str, timeout: float) -> Any:
    """Query as `query` does. It blocks, so a flow that calls it never suspends."""
    return query(name, record, timeout)


async def ask_on_loop(name: str, record: str, timeout: float) -> Any:
    """Return DNS's answer as `query` does, without blocking the event loop."""
    _dnspython()
    from dns import asyncresolver

    return await asyncresolver.resolve(name, record, lifetime=timeout)


def _dnspython() -> Any:
    try:
        from dns import resolver
    except ImportError as error:
        raise ConfigurationError(
            "mongodb+srv:// needs the package dnspython; install mangonel[srv]"
        ) from error
    return resolver


class SrvResolver:
    """Queries DNS for one name and refuses hosts outside its domain.

    Args:
        fqdn: the name in the URI.
        timeout: seconds for each query. None: the default connect timeout.
        service_name: name of the service. None: `mongodb`.
        allowed_hosts_suffix: domain that the hosts must belong to.
        host_validator: decides whether a host is allowed, in place of the specification's rule.
        ask: function that queries DNS.

    Raises:
        ConfigurationError: an IP address instead of a name, or contradicting arguments.
    """

    def __init__(
        self,
        fqdn: str,
        timeout: float | None = None,
        service_name: str | None = None,
        allowed_hosts_suffix: str | None = None,
        host_validator: Callable[[str], bool] | None = None,
        ask: Ask = ask_at_once,
    ) -> None:
        if host_validator is not None and allowed_hosts_suffix is not None:
            raise ConfigurationError("Cannot specify both srv_host_validator and srvAllowedHostsSuffix")
        if _is_ip_address(fqdn):
            raise ConfigurationError(
                "Invalid URI host: an IP address is not a valid hostname for 'mongodb+srv://'; "
                "use 'mongodb://' for it"
            )
        self._fqdn = fqdn.lower()
        self._timeout = timeout or CONNECT_TIMEOUT
        self._service_name = service_name or SRV_SERVICE_NAME
        self._host_validator = host_validator
        self._ask = ask
        self._suffix = None if allowed_hosts_suffix is None else "." + _checked_suffix(allowed_hosts_suffix)

    async def hosts_flow(self, max_hosts: int | None = None) -> list[tuple[str, int]]:
        """Return the hosts of the SRV records; a random selection if there are more than `max_hosts`.

        Raises:
            ConfigurationError: no answer, or a host outside the domain.
        """
        try:
            hosts, _ = await self._ask_flow()
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(str(error)) from error
        for host, _ in hosts:
            self._check(host)
        if max_hosts and max_hosts < len(hosts):
            import random

            return random.sample(hosts, max_hosts)
        return hosts

    def poll(self) -> tuple[list[tuple[str, int]], float]:
        """Query now; return the permitted hosts, and the seconds that the answer is valid.

        Raises:
            Exception: an error of dnspython; the previous answer stays valid.
        """
        hosts, ttl = run_now(self._ask_flow())
        allowed = []
        for host in hosts:
            try:
                self._check(host[0])
            except ConfigurationError as error:
                import logging

                from mangonel._observe.logger_names import logger_name

                logging.getLogger(logger_name("topology")).warning("SRV record left out: %s", error)
            else:
                allowed.append(host)
        return allowed, ttl

    async def _ask_flow(self) -> tuple[list[tuple[str, int]], float]:
        records = await self._ask(f"_{self._service_name}._tcp.{self._fqdn}", "SRV", self._timeout)
        hosts = [(record.target.to_text().rstrip(".").lower(), int(record.port)) for record in records]
        found = getattr(records, "rrset", None)
        return hosts, float(found.ttl) if found is not None else 0.0

    async def options_flow(self) -> str | None:
        """Return the text of the TXT record, or None if there is none.

        Raises:
            ConfigurationError: DNS failed, or returned more than one record.
        """
        resolver = _dnspython()
        try:
            records = list(await self._ask(self._fqdn, "TXT", self._timeout))
        except (resolver.NoAnswer, resolver.NXDOMAIN):
            return None
        except Exception as error:
            raise ConfigurationError(str(error)) from error
        if len(records) > 1:
            raise ConfigurationError(f"expected one TXT record for {self._fqdn}, got {len(records)}")
        if not records:
            return None
        return b"".join(records[0].strings).decode()

    def _check(self, host: str) -> None:
        if self._host_validator is not None:
            try:
                allowed = self._host_validator(host)
            except Exception as error:
                raise ConfigurationError(
                    f"srv_host_validator raised an exception for SRV host {host}: {error}"
                ) from error
            if not isinstance(allowed, bool):
                raise ConfigurationError(
                    f"srv_host_validator must return a bool, got {type(allowed).__name__} for SRV host {host}"
                )
            if not allowed:
                raise ConfigurationError(f"Invalid SRV host: {host} was rejected by srv_host_validator")
            return
        if self._suffix is not None:
            if not host.endswith(self._suffix):
                raise ConfigurationError(f"Invalid SRV host: {host} does not end in {self._suffix}")
            return
        labels = self._fqdn.split(".")
        # A name of one or two labels is its own domain, and the host must be below it.
        domain = labels[1:] if len(labels) > 2 else labels
        if len(labels) < 3 and host == self._fqdn:
            raise ConfigurationError("Invalid SRV host: the address is identical to the SRV hostname")
        if host.split(".")[1:][-len(domain) :] != domain:
            raise ConfigurationError(f"Invalid SRV host: {host} is not in the domain {'.'.join(domain)}")


def _checked_suffix(text: str) -> str:
    """Return the domain of srvAllowedHostsSuffix in DNS spelling; refuse one in which anyone can register names."""
    suffix = text.strip(".")
    if not suffix:
        raise ConfigurationError(f"srvAllowedHostsSuffix must not be empty, got {text!r}")
    if not suffix.isascii():
        suffix = suffix.encode("idna").decode()
    suffix = suffix.lower()
    if suffix in _SPECIAL_USE:
        return suffix
    if "." not in suffix:
        raise ConfigurationError(f"srvAllowedHostsSuffix must have at least two labels, got {text!r}")
    try:
        from publicsuffixlist import PublicSuffixList
    except ImportError as error:
        raise ConfigurationError(
            "srvAllowedHostsSuffix needs the package publicsuffixlist, to refuse public domains; install mangonel[srv]"
        ) from error
    if PublicSuffixList().is_public(suffix):
        raise ConfigurationError(f"srvAllowedHostsSuffix must not be a public suffix, got {text!r}")
    return suffix


def _is_ip_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
