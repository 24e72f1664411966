"""The DNS step: SRV and TXT records of a seed list, and the addresses of hosts. Blocks during queries.

Spec: initial-dns-seedlist-discovery.
"""

from __future__ import annotations

import socket
from typing import Any

from mangonel._options import srv
from mangonel.common import SRV_SERVICE_NAME
from mangonel.doctor.report import FAILURE, NOTE, OK, WARNING, Report
from mangonel.doctor.sight import Sight
from mangonel.doctor.target import Target
from mangonel.errors import ConfigurationError

_RESOLVER_REMEDY = (
    "look at this machine's resolver (/etc/resolv.conf) and at the VPN; "
    "`dig {name} {kind}` asks the same question"
)
_NAME_REMEDY = "look for a slip in the name; a private zone is visible from its own network only"


def resolve_seeds(target: Target, report: Report, timeout: float) -> bool:
    """Look up the SRV and TXT records and put the hosts into the target's options; return False without records."""
    if not target.is_srv:
        return True
    assert target.options.srv is not None
    fqdn: str = target.options.srv._parts["fqdn"]
    service = target.given("srvServiceName") or SRV_SERVICE_NAME
    name = f"_{service}._tcp.{fqdn}"
    if not _has_records(name, fqdn, report, timeout):
        return False
    try:
        target.options = target.options.with_resolved_hosts()
    except Exception as error:
        report.add(
            FAILURE,
            "dns-srv-refused",
            f"the records of {fqdn} cannot be used: {target.shown(error)}",
            remedy="ask the administrator of the zone to correct its SRV and TXT records: hosts must lie in the domain "
            "of the name, and one TXT record may hold authSource, replicaSet and loadBalanced",
        )
        return False
    seeds = [f"{host}:{port}" for host, port in target.options.seeds]
    report.add(OK, "dns-srv", f"{name} names {', '.join(seeds)}", hosts=seeds)
    from_dns = [
        f"{option}={value}"
        for option in ("authSource", "replicaSet", "loadBalanced")
        if (value := target.given(option)) is not None
    ]
    if from_dns:
        report.add(NOTE, "dns-txt", f"options with those of the TXT record: {', '.join(from_dns)}")
    return True


def _has_records(name: str, fqdn: str, report: Report, timeout: float) -> bool:
    try:
        resolver = srv._dnspython()
    except ConfigurationError as error:
        report.add(FAILURE, "dns-package", str(error), remedy='pip install "mangonel[srv]"')
        return False
    try:
        srv.query(name, "SRV", timeout)
        return True
    except (resolver.NXDOMAIN, resolver.NoAnswer):
        if _exists(fqdn, resolver, timeout):
            report.add(
                FAILURE,
                "dns-no-srv",
                f"{fqdn} exists, but has no SRV records ({name})",
                remedy="use mongodb:// when it is a host, or the name that the operator of the deployment gives for "
                "mongodb+srv://",
            )
        else:
            report.add(
                FAILURE,
                "dns-name-not-found",
                f"DNS knows neither {name} nor {fqdn}",
                remedy=_NAME_REMEDY,
            )
    except Exception as error:
        report.add(
            FAILURE,
            "dns-no-answer",
            f"DNS does not answer for {name}: {error}",
            remedy=_RESOLVER_REMEDY.format(name=name, kind="SRV")
            + "; some resolvers drop SRV questions: then use mongodb:// with the hosts themselves",
        )
    return False


def _exists(fqdn: str, resolver: Any, timeout: float) -> bool:
    for kind in ("A", "AAAA", "TXT"):
        try:
            srv.query(fqdn, kind, timeout)
            return True
        except resolver.NXDOMAIN:
            return False
        except resolver.NoAnswer:
            # The name exists, with records of another kind.
            return True
        except Exception:
            continue
    return False


def look_up(sight: Sight) -> None:
    """Look up the IP addresses of a host; record them, or the error, in the sight. Blocks."""
    if sight.port is None:
        return
    try:
        found = socket.getaddrinfo(sight.host, sight.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        sight.failed_at, sight.error = "dns", error
        return
    sight.addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))


def report_addresses(sights: list[Sight], report: Report, *, others: bool = False) -> None:
    """Report the results of `look_up`; a failure is a warning if another server, here or in `others`, was reached."""
    some = others or any(sight.failed_at is None for sight in sights)
    for sight in sights:
        if sight.port is None:
            continue
        if sight.failed_at is None:
            text = ", ".join(sight.addresses)
            if text != sight.host:
                report.add(OK, "dns-addresses", f"{sight.host} is {text}", sight.name, hosts=sight.addresses)
            continue
        error = sight.error
        is_temporary = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
        if is_temporary:
            code, text = "dns-no-answer", f"no answer about {sight.host}: {error}"
            remedy = _RESOLVER_REMEDY.format(name=sight.host, kind="A")
        else:
            code, text = "dns-name-not-found", f"no such host: {sight.host}"
            remedy = _NAME_REMEDY
        if sight.named_by:
            code = "dns-member-unknown"
            text = f"the replica set names this member, but {text}"
            remedy = (
                "give this machine the name (DNS or its hosts file), or configure the set with names that clients can "
                "resolve (rs.reconfig); to use one member only, set directConnection=true"
            )
        report.add(WARNING if some else FAILURE, code, text, sight.name, remedy)
