"""The steps TCP, TLS and hello: whether each server can be reached, and how it answers. Blocks.

Spec: mongodb-handshake, uri-options ("TLS Options").
"""

from __future__ import annotations

import contextlib
import errno
import ssl
import time
from datetime import UTC, datetime
from typing import Any

from mangonel._options.tls import _REASONS, _REMEDIES
from mangonel.doctor.connection import NotMongoDB, identify, open_connection
from mangonel.doctor.report import FAILURE, NOTE, OK, SKIPPED, WARNING, Report
from mangonel.doctor.sight import Sight
from mangonel.doctor.target import Target

SOON = 21 * 86_400  # seconds: warn about a certificate that expires within three weeks
_VERIFY_CODES = {
    9: "tls-not-yet-valid",
    10: "tls-expired",
    23: "tls-revoked",
    62: "tls-wrong-name",
    64: "tls-wrong-name",
}
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN)


def connect(sight: Sight, timeout: float) -> None:
    """Connect to each IP address of a server."""
    for address in [sight.host] if sight.port is None else sight.addresses:
        begun = time.perf_counter()
        try:
            open_connection(address, sight.port, timeout).close()
        except OSError as error:
            sight.refused.append(address)
            sight.error = error
        else:
            sight.connect_seconds = sight.connect_seconds or time.perf_counter() - begun
    if not sight.connect_seconds:
        sight.failed_at = "tcp"


def report_connections(sights: list[Sight], report: Report, *, others: bool = False) -> None:
    """Report the results of `connect`; a failure is a warning if another server, here or in `others`, was reached."""
    some = others or any(sight.failed_at is None for sight in sights)
    for sight in sights:
        if sight.failed_at is None:
            milliseconds = sight.connect_seconds * 1000
            report.add(
                OK, "tcp-connected", f"connected in {milliseconds:.1f} ms", sight.name, ms=milliseconds
            )
            if sight.refused:
                report.add(
                    NOTE,
                    "tcp-some-addresses",
                    f"not by {', '.join(sight.refused)}; each new connection may try it in vain first",
                    sight.name,
                    "let the server listen there too (net.bindIp), or name the address that answers in the URI",
                )
            continue
        code, text, remedy = _explain_connection(sight)
        if sight.named_by:
            text = f"{text} (named by {sight.named_by})"
        report.add(WARNING if some else FAILURE, code, text, sight.name, remedy)


def _explain_connection(sight: Sight) -> tuple[str, str, str]:
    error = sight.error
    if sight.port is None:
        remedy = "look whether mongod runs and where its socket is (net.unixDomainSocket); the path is escaped in a URI"
        if isinstance(error, PermissionError):
            remedy = "this user may not open the socket; see net.unixDomainSocket.filePermissions"
        return "tcp-socket", str(error), remedy
    if isinstance(error, ConnectionRefusedError):
        return (
            "tcp-refused",
            "connection refused: the machine is there, but nothing listens on this port",
            "look whether mongod runs, on which port (27017 unless it was told otherwise) and on which addresses "
            "(net.bindIp: by default only on its own machine); a container must publish the port",
        )
    if isinstance(error, TimeoutError):
        return (
            "tcp-timeout",
            "no answer: something on the way drops the packets, or the machine is off",
            "look at firewalls, security groups and the access list of a hosted deployment; it must let in the address "
            "that this machine is seen with",
        )
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return (
            "tcp-unreachable",
            f"no way there: {error.strerror}",
            "look at the VPN and the routes of this machine; an IPv6 address needs a network with IPv6",
        )
    return "tcp-failed", str(error), "the message is the operating system's"


def secure(sight: Sight, target: Target, timeout: float) -> None:
    """Do the TLS handshake and check certificates; TLS 1.3 reports a missing client certificate in the first reply."""
    security = target.options.security
    assert security is not None
    address = (sight.host, sight.port)
    try:
        with open_connection(sight.host, sight.port, timeout, security.context) as connection:
            _look_at(sight, connection.sock)
            try:
                connection.ask({"hello": 1})
            except OSError as error:
                sight.failed_at, sight.error = "tls", security.explain(error, address)
                sight.tls["is_shaken"] = True
    except NotMongoDB:
        # Reported by the next step.
        return
    except OSError as error:
        sight.failed_at, sight.error = "tls", security.explain(error, address)
        _look_without_checking(sight, target, timeout)


def _look_at(sight: Sight, sock: Any) -> None:
    cipher = sock.cipher()
    sight.tls.update(version=sock.version(), cipher=cipher[0] if cipher else None)
    with contextlib.suppress(AttributeError, ssl.SSLError, ValueError):
        # The public method exists from CPython 3.13 on, and returns DER bytes without fields.
        sight.certificates = [made.get_info() for made in sock._sslobj.get_unverified_chain() or ()]


def _look_without_checking(sight: Sight, target: Target, timeout: float) -> None:
    """Inspect a certificate that was refused, or find out that the server does not speak TLS."""
    context = _unchecked_context()
    if path := target.given("tlsCertificateKeyFile"):
        context.load_cert_chain(path, password=target.given("tlsCertificateKeyFilePassword"))
    with (
        contextlib.suppress(OSError),
        open_connection(sight.host, sight.port, timeout, context) as connection,
    ):
        _look_at(sight, connection.sock)
    if not sight.certificates:
        with (
            contextlib.suppress(OSError, NotMongoDB),
            open_connection(sight.host, sight.port, timeout) as connection,
        ):
            sight.tls["is_plain"] = "ok" in connection.ask({"hello": 1})
        if "is_plain" not in sight.tls:
            sight.peer = identify(sight.host, sight.port, min(timeout, 1.0))


def report_security(sights: list[Sight], target: Target, report: Report, *, others: bool = False) -> None:
    """Report the results of `secure`; `others` as in report_connections."""
    if target.options.security is None:
        if others:
            return
        if any(not _is_loopback(sight) for sight in sights):
            report.add(
                WARNING,
                "tls-off",
                "connections are not encrypted",
                remedy="switch TLS on in the servers and add tls=true, unless the network is yours alone",
            )
        else:
            report.add(SKIPPED, "tls-off", "not asked for; the servers are on this machine")
        return
    some = others or any(sight.failed_at is None for sight in sights)
    for sight in sights:
        if sight.failed_at is None:
            _report_certificates(sight, report)
            continue
        code, text, remedy = _explain_security(sight)
        if sight.certificates:
            text = f"{text}; {_describe(sight.certificates[0])}"
        report.add(WARNING if some else FAILURE, code, text, sight.name, remedy, **sight.tls)


def _report_certificates(sight: Sight, report: Report) -> None:
    text = f"{sight.tls.get('version')} with {sight.tls.get('cipher')}"
    chain = sight.certificates
    if not chain:
        report.add(OK, "tls-secured", text, sight.name, **sight.tls)
        return
    text += f"; {_describe(chain[0])}"
    if len(chain) > 1:
        text += f"; chain: {' ← '.join(_name(made['subject']) for made in chain)}"
    facts = {"names": _names(chain[0]), "not_after": chain[0].get("notAfter"), **sight.tls}
    report.add(OK, "tls-secured", text, sight.name, **facts)
    for made in chain:
        left = _seconds(made.get("notAfter")) - time.time()
        if left < SOON:
            report.add(
                WARNING,
                "tls-expires-soon",
                f"the certificate of {_name(made['subject'])} ends in {max(left, 0) / 86_400:.1f} days",
                sight.name,
                "renew it, and let mongod read it again (rotateCertificates)",
                days=left / 86_400,
            )


def _explain_security(sight: Sight) -> tuple[str, str, str]:
    error, text = sight.error, str(sight.error)
    verify_code = getattr(error, "verify_code", None)
    if verify_code is not None:
        kind = "tls-unknown-authority" if verify_code in _UNKNOWN_AUTHORITY else "tls-refused"
        code = _VERIFY_CODES.get(verify_code, kind)
        why = getattr(error, "verify_message", "")
        remedy = _REMEDIES.get(verify_code, "see tlsCAFile and tlsAllowInvalidCertificates")
        return code, f"the certificate is refused ({why})", remedy
    if sight.tls.get("is_plain"):
        return (
            "tls-not-spoken",
            "the server speaks no TLS on this port; without it, it answers",
            "remove tls=true, or switch TLS on in the server (net.tls.mode: requireTLS)",
        )
    reason = getattr(error, "reason", None) or ""
    remedy = _REASONS.get(reason, "")
    if sight.peer:
        return (
            "tls-not-mongodb",
            f"got {sight.peer}",
            "look at the port: mongod's is 27017 unless told otherwise",
        )
    if "tlsCertificateKeyFile" in remedy and "trust" in remedy:
        return "tls-client-refused", f"the server refuses the client's certificate ({reason.lower()})", remedy
    if "tlsCertificateKeyFile" in remedy and "expired" not in remedy and "revoked" not in remedy:
        return (
            "tls-client-wanted",
            f"the server wants a certificate of the client ({reason.lower().replace('_', ' ')})",
            "name a certificate with its key, signed by an authority of the server, in tlsCertificateKeyFile",
        )
    if "in common" in remedy:
        return "tls-version", remedy, "let one of both speak TLS 1.2 or newer"
    if sight.tls.get("is_shaken"):
        return (
            "tls-client-wanted",
            f"the server ended the connection after the handshake ({text})",
            "it may want a certificate of the client (tlsCertificateKeyFile), or refuse the one that it got; its log "
            "tells",
        )
    return "tls-broken", text, remedy or "the server's log tells more; look what else listens on this port"


def greet(sight: Sight, target: Target, timeout: float, pings: int) -> None:
    """Send hello `pings` times over one connection; identify a server that is not MongoDB."""
    security = target.options.security
    command: dict[str, Any] = {"hello": 1}
    if target.options.load_balanced:
        command["loadBalanced"] = True
    try:
        context = security.context if security is not None else None
        with open_connection(sight.host, sight.port, timeout, context) as connection:
            reply = connection.ask(command)
            if reply.get("ok") != 1:
                reply = connection.ask({"isMaster": 1})
            if reply.get("ok") != 1:
                raise NotMongoDB(f"a server that refuses hello ({reply.get('errmsg')})")
            for _ in range(pings):
                begun = time.perf_counter()
                answer = connection.ask({"hello": 1})
                sight.pings.append(time.perf_counter() - begun)
                if sight.pings[-1] == min(sight.pings) and isinstance(answer.get("localTime"), datetime):
                    here = datetime.now(UTC)
                    sight.clock_skew = (answer["localTime"] - here).total_seconds() + sight.pings[-1] / 2
        sight.hello = reply
    except NotMongoDB as error:
        sight.failed_at, sight.error, sight.peer = "hello", error, error.peer
    except (OSError, ValueError) as error:
        sight.failed_at, sight.error = "hello", error
        if security is None:
            sight.tls["is_spoken"] = _speaks_tls(sight, timeout)
        if not sight.tls.get("is_spoken"):
            sight.peer = identify(sight.host, sight.port, min(timeout, 1.0))


def _unchecked_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _speaks_tls(sight: Sight, timeout: float) -> bool:
    try:
        open_connection(sight.host, sight.port, timeout, _unchecked_context()).close()
    except ssl.SSLError as error:
        # A TLS alert is TLS as well.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True


def report_hellos(sights: list[Sight], report: Report, *, others: bool = False) -> None:
    """Report the results of `greet`; `others` as in report_connections."""
    some = others or any(sight.is_reached for sight in sights)
    for sight in sights:
        if sight.is_reached:
            hello = sight.hello
            text = (
                f"{sight.kind}, wire versions {hello.get('minWireVersion')} to {hello.get('maxWireVersion')}"
            )
            report.add(OK, "hello-answered", text, sight.name, kind=sight.kind)
            continue
        bad = WARNING if some else FAILURE
        if sight.tls.get("is_spoken"):
            report.add(
                bad,
                "hello-wants-tls",
                "the server speaks TLS only",
                sight.name,
                "add tls=true, and tlsCAFile when its certificate is signed by an authority of your own",
            )
        elif sight.peer:
            report.add(
                bad,
                "hello-not-mongodb",
                f"got {sight.peer} instead of a MongoDB server",
                sight.name,
                "look at the port: mongod's is 27017 unless it was told otherwise",
                peer=sight.peer,
            )
        else:
            remedy = (
                "look at the server's log; a server that is starting, or out of connections, answers late"
            )
            if isinstance(sight.error, TimeoutError):
                remedy += "; a proxy may take connections for a server that is down"
            report.add(bad, "hello-no-answer", f"no answer to hello: {sight.error}", sight.name, remedy)


def _is_loopback(sight: Sight) -> bool:
    return sight.port is None or all(ip.startswith("127.") or ip == "::1" for ip in sight.addresses)


def _describe(made: dict[str, Any]) -> str:
    names = ", ".join(_names(made)) or _name(made["subject"])
    signer = "itself" if made["subject"] == made["issuer"] else _name(made["issuer"])
    return f"its certificate is for {names}, signed by {signer}, good from {made['notBefore']} to {made['notAfter']}"


def _names(made: dict[str, Any]) -> list[str]:
    return [str(value).strip() for _, value in made.get("subjectAltName", ())]


def _name(subject: Any) -> str:
    parts = dict(pair for relative in subject for pair in relative)
    return str(parts.get("commonName") or parts.get("organizationName") or "an unnamed subject")


def _seconds(date: str | None) -> float:
    return ssl.cert_time_to_seconds(date) if date else float("inf")
