"""The connection string of a check-up: its options, a form without secrets, and a form for one server.

Opens nothing. Spec: connection-string.
"""

from __future__ import annotations

import re
import warnings
from typing import Any
from urllib.parse import unquote_plus

from mangonel.client_options import ClientOptions
from mangonel.doctor.report import FAILURE, NOTE, OK, WARNING, Report
from mangonel.errors import ConfigurationError, InvalidURI
from mangonel.uri_parser import SCHEME, SRV_SCHEME

MASK = "***"
_SECRET_OPTIONS = re.compile(
    r"(?i)\b(proxypassword|tlscertificatekeyfilepassword|ssl_pem_passphrase|password|authmechanismproperties)=([^&;]*)"
)
# Options about the whole deployment; a check of one server sets its own.
_NOT_FOR_ONE_SERVER = frozenset(
    {"replicaset", "directconnection", "loadbalanced", "srvservicename", "srvmaxhosts", "connecttimeoutms"}
    | {"srvallowedhostssuffix", "serverselectiontimeoutms", "tls", "ssl", "authsource", "minpoolsize"}
    | {"timeoutms", "readpreference", "readpreferencetags", "maxstalenessseconds"}
)
# Errors of parsing a string; OSError concerns a file that an option names.
_UNREADABLE = (InvalidURI, ConfigurationError, TypeError, ValueError, OSError)
_RESERVED = frozenset("/?#[]@:")


class Target:
    """A connection string that could be parsed.

    Args:
        uri: the string as passed in, with its secrets; never shown.
        options: the options of a client with this string.
    """

    def __init__(self, uri: str, options: ClientOptions) -> None:
        self._uri = uri
        self.options = options

    @property
    def is_srv(self) -> bool:
        """Whether the hosts come from DNS."""
        return self.options.srv is not None

    @property
    def database(self) -> str | None:
        """The database that the string names."""
        return self.options.default_database_name

    def given(self, name: str) -> Any:
        """The checked value of an option, or None if it was not given."""
        return self.options._options.get(name.lower())

    def shown(self, text: object) -> str:
        """Return another component's message without the secrets of this string."""
        return _without(str(text), _secrets(self._uri, cut=_end_of_userinfo(self._uri)))

    def direct(self, host: str, port: int | None) -> tuple[str, dict[str, Any]]:
        """Return the connection string for one server alone, secrets included, and additional keyword arguments."""
        _, _, rest = self._uri.partition("://")
        if "://" not in self._uri:
            rest = self._uri
        cut = _end_of_userinfo(self._uri)
        userinfo = self._uri[self._uri.find("://") + 3 : cut + 1] if cut is not None else ""
        behind = rest[len(userinfo) :]
        _, _, query = behind.partition("?")
        pairs = [pair for pair in re.split("[&;]", query) if pair]
        kept = [pair for pair in pairs if pair.partition("=")[0].lower() not in _NOT_FOR_ONE_SERVER]
        if port is None:
            from urllib.parse import quote

            where = quote(host, safe="")
        else:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        keywords: dict[str, Any] = {"directConnection": not self.options.load_balanced}
        if self.options.load_balanced:
            keywords["loadBalanced"] = True
        if self.options.security is not None:
            keywords["tls"] = True
        credentials = self.options._credentials
        if credentials is not None:
            keywords["authSource"] = credentials.source
        return f"{SCHEME}{userinfo}{where}/?{'&'.join(kept)}", keywords


def masked(uri: str) -> str:
    """Return a connection string for display: without password and without mechanism properties.

    If it cannot be parsed, everything up to the last `@` is treated as user and password.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _parse(uri)
        cut = _end_of_userinfo(uri)
    except _UNREADABLE:
        cut = uri.rfind("@") if "@" in uri else None
    if cut is not None:
        begin = uri.find("://") + 3 if "://" in uri[:cut] else 0
        user, colon, _ = uri[begin:cut].partition(":")
        uri = f"{uri[:begin]}{user}{colon}{MASK if colon else ''}{uri[cut:]}"
    return _SECRET_OPTIONS.sub(lambda found: f"{found[1]}={MASK}", uri)


def read_target(uri: str, report: Report) -> Target | None:
    """Parse the connection string and report on it; return None if it cannot be parsed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            target = Target(uri, _parse(uri))
        except _UNREADABLE as error:
            _report_unreadable(uri, error, report)
            return None
    options = target.options
    report.add(OK, "uri-read", report.uri, options=sorted(_names_of_options(uri)))
    for warning in caught:
        report.add(
            WARNING,
            "uri-option",
            target.shown(warning.message),
            remedy="mend or remove the option: it has no effect as it stands",
        )
    if options._credentials is None and target.given("authSource"):
        report.add(NOTE, "uri-no-user", "authSource is given without a user: the driver does not log in")
    if target.given("tlsAllowInvalidCertificates") or target.given("tlsInsecure"):
        report.add(
            WARNING,
            "uri-insecure",
            "the certificates of servers are not checked, so anyone between here and there can read along",
            remedy="name the authority's certificate in tlsCAFile and remove tlsInsecure or "
            "tlsAllowInvalidCertificates",
        )
    elif target.given("tlsAllowInvalidHostnames"):
        report.add(
            WARNING,
            "uri-insecure",
            "certificates for other hosts are accepted",
            remedy="connect by a name that the certificates hold and remove tlsAllowInvalidHostnames",
        )
    return target


def _parse(uri: str) -> ClientOptions:
    return ClientOptions.from_arguments(uri, None, None, None, None, None, {})


def _report_unreadable(uri: str, error: Exception, report: Report) -> None:
    cut = uri.rfind("@") if "@" in uri else None
    scheme, mark, rest = uri.partition("://")
    if mark and scheme + mark not in (SCHEME, SRV_SCHEME):
        report.add(
            FAILURE,
            "uri-scheme",
            f"expected a connection string to begin with {SCHEME} or {SRV_SCHEME}, got {scheme}{mark}",
            remedy=f"write {SCHEME} before the hosts, or {SRV_SCHEME} before a name that has SRV records",
        )
        return
    if mark and cut is not None:
        user, _, password = rest[: cut - len(scheme + mark)].partition(":")
        if any(_RESERVED & set(part) or re.search("%(?![0-9a-fA-F]{2})", part) for part in (user, password)):
            # The parser's own message may quote a part of the password.
            report.add(
                FAILURE,
                "uri-unescaped",
                "the user's name or password holds a character that has a meaning in URIs",
                remedy="escape both with urllib.parse.quote_plus: % is %25, @ is %40, : is %3A, / is %2F, ? is %3F",
            )
            return
    text = _without(str(error), _secrets(uri, cut))
    report.add(FAILURE, "uri-invalid", text, remedy=_remedy_of(text))


def _remedy_of(text: str) -> str:
    if "port number" in text and "+srv" in text:
        return "remove the port: SRV records name it; or use mongodb:// with the hosts themselves"
    if ("tls" in text and "PEM" in text) or "No such file" in text:
        return "give the path of an existing PEM file"
    return "see the page about connecting in the documentation for what a connection string may hold"


def _names_of_options(uri: str) -> set[str]:
    _, _, query = uri.partition("?")
    return {pair.partition("=")[0] for pair in re.split("[&;]", query) if pair}


def _end_of_userinfo(uri: str) -> int | None:
    """Return the position of the `@` that ends user and password, in a string that could be parsed."""
    begin = uri.find("://") + 3 if "://" in uri else 0
    ends = [place for mark in "/?" if (place := uri.find(mark, begin)) >= 0]
    place = uri.rfind("@", begin, min(ends, default=len(uri)))
    return place if place >= 0 else None


def _secrets(uri: str, cut: int | None) -> list[str]:
    found = [match[2] for match in _SECRET_OPTIONS.finditer(uri)]
    if cut is not None:
        begin = uri.find("://") + 3 if "://" in uri[:cut] else 0
        found.append(uri[begin:cut].partition(":")[2])
    # A property list holds names too; only the values after the colons are secret.
    found += [part for text in list(found) for part in re.split("[,:]", text)]
    return sorted({*found, *map(unquote_plus, found)}, key=len, reverse=True)


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        # Hiding one or two letters would reveal their position, and hide nothing.
        if len(secret) > 3:
            text = text.replace(secret, MASK)
    return text
