"""The DNS side of `mongodb+srv://`: hosts from SRV records, options from a TXT record. Blocks while it asks.

Spec: initial-dns-seedlist-discovery. dnspython is imported when the first question is asked.
"""

from __future__ import annotations

from mangonel.common import CONNECT_TIMEOUT, SRV_SERVICE_NAME
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def query(name: str, record: str, timeout: float) -> Any:
    """Return DNS's answer: an iterable of records. Errors are dnspython's."""
    from dns import resolver

    return resolver.resolve(name, record, lifetime=timeout)


class SrvResolver:
    """Asks DNS about one name and refuses hosts outside its domain.

    Args:
        fqdn: the name in the URI.
        timeout: seconds for each question. None: the default connect time-out.
        service_name: None: `mongodb`.
        allowed_hosts_suffix: domain the hosts must lie in.
        host_validator: says whether a host may be used; replaces the rule of the specification.

    Raises:
        ConfigurationError: an IP address instead of a name, or arguments that exclude each other.
    """

    def __init__(
        self,
        fqdn: str,
        timeout: float | None = None,
        service_name: str | None = None,
        allowed_hosts_suffix: str | None = None,
        host_validator: Callable[[str], bool] | None = None,
    ) -> None:
        if host_validator is not None and allowed_hosts_suffix is not None:
            raise ConfigurationError("cannot specify both srv_host_validator and srvAllowedHostsSuffix")
        if allowed_hosts_suffix is not None:
            # Needs the list of public suffixes, which is not here yet.
            raise ConfigurationError("the option srvAllowedHostsSuffix is not supported yet")
        if _is_ip_address(fqdn):
            raise ConfigurationError("expected a hostname after 'mongodb+srv://', found an IP address")
        self._fqdn = fqdn.lower()
        self._timeout = timeout or CONNECT_TIMEOUT
        self._service_name = service_name or SRV_SERVICE_NAME
        self._host_validator = host_validator

    def hosts(self, max_hosts: int | None = None) -> list[tuple[str, int]]:
        """Return the hosts of the SRV records; a random choice of them when there are more than `max_hosts`.

        Raises:
            ConfigurationError: no answer, or a host outside the domain.
        """
        try:
            records = query(f"_{self._service_name}._tcp.{self._fqdn}", "SRV", self._timeout)
        except Exception as error:
            raise ConfigurationError(str(error)) from error
        hosts = [(str(record.target).rstrip(".").lower(), int(record.port)) for record in records]
        for host, _ in hosts:
            self._check(host)
        if max_hosts and max_hosts < len(hosts):
            import random

            return random.sample(hosts, max_hosts)
        return hosts

    def options(self) -> str | None:
        """Return the text of the TXT record, or None when there is none.

        Raises:
            ConfigurationError: DNS failed, or has more than one record.
        """
        from dns import resolver

        try:
            records = list(query(self._fqdn, "TXT", self._timeout))
        except (resolver.NoAnswer, resolver.NXDOMAIN):
            return None
        except Exception as error:
            raise ConfigurationError(str(error)) from error
        if len(records) > 1:
            raise ConfigurationError(f"expected one TXT record for {self._fqdn}, found {len(records)}")
        return b"".join(records[0].strings).decode()

    def _check(self, host: str) -> None:
        if self._host_validator is not None:
            try:
                allowed = self._host_validator(host)
            except Exception as error:
                raise ConfigurationError(f"srv_host_validator failed for SRV host {host}: {error}") from error
            if not isinstance(allowed, bool):
                raise ConfigurationError(
                    f"srv_host_validator must return a bool for SRV host {host}, not {type(allowed).__name__}"
                )
            if not allowed:
                raise ConfigurationError(f"invalid SRV host: {host} was rejected by srv_host_validator")
            return
        labels = self._fqdn.split(".")
        # A name of one or two labels is its own domain; the host must then lie below it.
        domain = labels[1:] if len(labels) > 2 else labels
        if len(labels) < 3 and host == self._fqdn:
            raise ConfigurationError("invalid SRV host: the address is identical to the SRV hostname")
        if host.split(".")[1:][-len(domain) :] != domain:
            raise ConfigurationError(f"invalid SRV host: {host} is not in the domain {'.'.join(domain)}")


def _is_ip_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
