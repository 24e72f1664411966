"""Connection strings: from `mongodb://...` to hosts, user and options. Opens nothing; queries DNS only for SRV.

Specs: connection-string, uri-options, initial-dns-seedlist-discovery. Names and results are PyMongo's.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._core import run_now
from mangonel._options.case_insensitive import CaseInsensitiveDict
from mangonel._options.checks import unquote
from mangonel.errors import ConfigurationError, InvalidURI
from mangonel.options import URI_OPTIONS, validate_uri_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from mangonel._options.srv import Ask
    from mangonel.typings import _Address

__all__ = [
    "parse_host",
    "parse_ipv6_literal_host",
    "parse_uri",
    "parse_userinfo",
    "split_hosts",
    "split_options",
    "validate_options",
]

SCHEME = "mongodb://"
SRV_SCHEME = "mongodb+srv://"
DEFAULT_PORT = 27017

# Characters that a database name in a URI must not contain; a dot separates a collection.
_FORBIDDEN_IN_DATABASE = frozenset('/ "$')

# The options that tlsInsecure sets, which therefore cannot be combined with it.
TLS_INSECURE = ("tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames", "tlsDisableOCSPEndpointCheck")

# The only options that a TXT record may set; DNS is not trusted with more.
_TXT_OPTIONS = frozenset({"authsource", "replicaset", "loadbalanced"})

# The spelling of options in the result of parse_uri, whatever the spelling in the URI. Options that PyMongo leaves in
# lower case stay in lower case.
_LOWER_CASE = frozenset(
    {"enableoverloadretargeting", "maxadaptiveretries", "timeoutms", "tlscrlfile", "uuidrepresentation"}
    | {"waitqueuemultiple"}
)
_SPELLING = {
    row.name.lower(): row.name for row in URI_OPTIONS.values() if row.name.lower() not in _LOWER_CASE
}

_ESCAPE_HINT = "username and password must be escaped according to RFC 3986, use urllib.parse.quote_plus"


def parse_userinfo(userinfo: str) -> tuple[str, str]:
    """Return user and password of `user:password`, both unescaped. The password may be empty.

    Raises:
        InvalidURI: the user is missing, or a reserved character is not escaped.

    Example:
        >>> parse_userinfo("ada:p%40ss")
        ('ada', 'p@ss')
    """
    expect("userinfo", userinfo, str, "str")
    if "@" in userinfo or userinfo.count(":") > 1 or _has_stray_percent(userinfo):
        raise InvalidURI(_ESCAPE_HINT)
    user, _, password = userinfo.partition(":")
    if not user:
        raise InvalidURI("The empty string is not valid username: expected one before '@'")
    return unquote(user), unquote(password)


def parse_ipv6_literal_host(entity: str, default_port: int | None) -> tuple[str, str | int | None]:
    """Return address and port of `[address]:port`. The port is text, or `default_port` if there is none.

    Args:
        entity: an address in brackets.
        default_port: returned if the text has no port.

    Raises:
        ValueError: the closing bracket is missing.

    Example:
        >>> parse_ipv6_literal_host("[::1]:27018", 27017)
        ('::1', '27018')
    """
    expect("entity", entity, str, "str")
    if "]" not in entity:
        raise ValueError("an IPv6 address literal must be enclosed in '[' and ']' (RFC 2732)")
    address, colon, port = entity.partition("]:")
    return (address[1:], port) if colon else (entity[1:-1], default_port)


def parse_host(entity: str, default_port: int | None = DEFAULT_PORT) -> _Address:
    """Return host (in lower case) and port of `host`, `host:port`, `[ipv6]:port` or a socket's path.

    Args:
        entity: one host of a URI.
        default_port: the port if the host has none.

    Raises:
        ValueError: the port is not a number from 1 to 65535, or there is more than one colon.

    Example:
        >>> parse_host("DB.example:27018")
        ('db.example', 27018)
    """
    expect("entity", entity, str, "str")
    if entity.startswith("["):
        host, port = parse_ipv6_literal_host(entity, default_port)
    elif entity.endswith(".sock"):
        return entity, default_port
    elif entity.count(":") > 1:
        raise ValueError(
            "expected host:port, got several ':'; enclose an IPv6 address in '[' and ']' (RFC 2732), "
            "escape other reserved characters"
        )
    else:
        host, colon, text = entity.partition(":")
        port = text if colon else default_port
    if isinstance(port, str):
        port = _parse_port(port)
    return host.lower(), port


def split_hosts(hosts: str, default_port: int | None = DEFAULT_PORT) -> list[_Address]:
    """Return (host, port) for each of `host1[:port],host2[:port]...`. The port of a socket path is None.

    Args:
        hosts: the part of a URI between the credentials and the path.
        default_port: the port of hosts without one.

    Raises:
        ConfigurationError: a host is empty.
        InvalidURI: there is an escape outside a socket's path or an IPv6 zone.
        ValueError: a port is wrong.

    Example:
        >>> split_hosts("a.example,b.example:27018")
        [('a.example', 27017), ('b.example', 27018)]
    """
    expect("hosts", hosts, str, "str")
    addresses = []
    for entity in hosts.split(","):
        if not entity:
            raise ConfigurationError("empty host (or extra comma in host list)")
        if entity.endswith(".sock"):
            addresses.append(parse_host(unquote(entity), None))
        elif entity.startswith("["):
            # RFC 6874 writes the zone of a link-local address with %25.
            addresses.append(parse_host(entity.replace("%25", "%"), default_port))
        elif "%" in entity:
            raise InvalidURI(f"expected escapes only in socket paths and IPv6 zones, got one in {entity}")
        else:
            addresses.append(parse_host(entity, default_port))
    return addresses


def validate_options(opts: Mapping[str, Any], warn: bool = False) -> CaseInsensitiveDict | dict[str, Any]:
    """Return the checked options of a connection string. For a plain dict, the names become lower case.

    Args:
        opts: name to text.
        warn: True: drop wrong options with a UserWarning. False: raise for them.

    Example:
        >>> dict(validate_options({"maxPoolSize": "10"}))
        {'maxpoolsize': 10}
    """
    checked = validate_uri_options(opts, warn)
    if isinstance(opts, CaseInsensitiveDict):
        return checked
    return dict(checked.items())


def split_options(
    opts: str, validate: bool = True, warn: bool = False, normalize: bool = True
) -> CaseInsensitiveDict:
    """Return the options of a connection string: the part after the `?`.

    Args:
        opts: `name=value` pairs, all separated by `&` or all by `;`.
        validate: check and convert the values; otherwise they stay text.
        warn: drop wrong options with a UserWarning instead of raising.
        normalize: replace names by the driver's own (`tls` for `ssl`).

    Raises:
        InvalidURI: `opts` has something other than pairs, or both separators, or options contradict each other.
        ConfigurationError, TypeError, ValueError: an option is unknown or has a wrong value, unless `warn`.

    Example:
        >>> dict(split_options("w=majority&timeoutMS=500"))
        {'w': 'majority', 'timeoutms': 0.5}
    """
    expect("opts", opts, str, "str")
    if "&" in opts and ";" in opts:
        raise InvalidURI("can not mix '&' and ';' as option separators")
    # Without a separator PyMongo splits at spaces, so a space after a single option does no harm.
    options = _parse_pairs(opts.split("&" if "&" in opts else ";" if ";" in opts else None) or [""])
    check_security_options(options)
    if normalize:
        normalize_options(options)
    if validate:
        options = validate_uri_options(options, warn)
        if options.get("authsource") == "":
            raise InvalidURI("the authSource database cannot be an empty string")
    return options


def parse_uri(
    uri: str,
    default_port: int | None = DEFAULT_PORT,
    validate: bool = True,
    warn: bool = False,
    normalize: bool = True,
    connect_timeout: float | None = None,
    srv_service_name: str | None = None,
    srv_max_hosts: int | None = None,
    srv_allowed_hosts_suffix: str | None = None,
    srv_host_validator: Callable[[str], bool] | None = None,
) -> dict[str, Any]:
    """Parse a connection string into nodelist, username, password, database, collection, options and fqdn.

    Args:
        uri: `mongodb://` or `mongodb+srv://`; the latter queries DNS for hosts and options.
        default_port: the port of hosts without one.
        validate, warn, normalize: as for split_options.
        connect_timeout: seconds for each DNS query. None: connectTimeoutMS of the URI.
        srv_service_name: service to look up. None: srvServiceName of the URI, or `mongodb`.
        srv_max_hosts: use at most this many hosts, chosen at random.
        srv_allowed_hosts_suffix: the domain that the hosts found must belong to.
        srv_host_validator: decides whether a host is allowed, in place of the specification's rule.

    Raises:
        InvalidURI: the string cannot be read.
        ConfigurationError: options contradict each other, or DNS has no usable answer.
        ValueError, TypeError: a port or the value of an option is wrong.

    Example:
        >>> parse_uri("mongodb://db.example/shop?appName=web")["nodelist"]
        [('db.example', 27017)]
    """
    parts = split_uri(uri, default_port, validate, warn, normalize, srv_max_hosts)
    if uri.startswith(SRV_SCHEME):
        resolve_srv(
            parts,
            warn=warn,
            validate=validate,
            normalize=normalize,
            timeout=connect_timeout,
            service_name=srv_service_name,
            max_hosts=srv_max_hosts,
            allowed_hosts_suffix=srv_allowed_hosts_suffix,
            host_validator=srv_host_validator,
        )
    return with_spelling(parts)


def with_spelling(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of `split_uri` with option names in the documented spelling, as parse_uri returns them."""
    parts["options"] = {_SPELLING.get(name, name): value for name, value in parts["options"].items()}
    return parts


def split_uri(
    uri: str,
    default_port: int | None = DEFAULT_PORT,
    validate: bool = True,
    warn: bool = False,
    normalize: bool = True,
    srv_max_hosts: int | None = None,
) -> dict[str, Any]:
    """Return the parts of a connection string without querying DNS; arguments and errors as for parse_uri.

    For `mongodb+srv://` both the nodelist and `fqdn` hold the name to look up.
    """
    expect("uri", uri, str, "str")
    is_srv = uri.startswith(SRV_SCHEME)
    if not is_srv and not uri.startswith(SCHEME):
        raise InvalidURI(f"Invalid URI scheme: URI must begin with '{SCHEME}' or '{SRV_SCHEME}'")
    rest = uri[len(SRV_SCHEME if is_srv else SCHEME) :]
    if not rest:
        raise InvalidURI("Must provide at least one hostname or IP after the scheme")

    before_options, _, options_text = rest.partition("?")
    authority, _, path = before_options.partition("/")
    database, collection = _parse_path(path)
    options = (
        split_options(options_text, validate, warn, normalize) if options_text else CaseInsensitiveDict()
    )
    userinfo, at, hosts = authority.rpartition("@")
    user, password = parse_userinfo(userinfo) if at else (None, None)

    srv_max_hosts = srv_max_hosts or options.get("srvMaxHosts")
    fqdn = None
    if is_srv:
        nodes = _srv_name(hosts, options)
        fqdn = nodes[0][0]
    else:
        given = [
            name for name in ("srvServiceName", "srvAllowedHostsSuffix") if options.get(name) is not None
        ]
        given += ["srvMaxHosts"] if srv_max_hosts else []
        if given:
            raise ConfigurationError(f"the {given[0]} option is only allowed with '{SRV_SCHEME}' URIs")
        nodes = split_hosts(hosts, default_port)
    check_topology_options(nodes, options)
    return {
        "nodelist": nodes,
        "username": user,
        "password": password,
        "database": database,
        "collection": collection,
        "options": options,
        "fqdn": fqdn,
    }


def resolve_srv(parts: dict[str, Any], **settings: Any) -> None:
    """Run `resolve_srv_flow` with its keyword arguments, blocking."""
    from mangonel._options import srv

    run_now(resolve_srv_flow(parts, srv.ask_at_once, **settings))


async def resolve_srv_flow(
    parts: dict[str, Any],
    ask: Ask,
    *,
    validate: bool = True,
    warn: bool = False,
    normalize: bool = True,
    timeout: float | None = None,
    service_name: str | None = None,
    max_hosts: int | None = None,
    allowed_hosts_suffix: str | None = None,
    host_validator: Callable[[str], bool] | None = None,
) -> None:
    """Query DNS for the hosts and options of a `mongodb+srv://` URI and put them into the `parts` of split_uri.

    Raises:
        ConfigurationError: DNS has no answer, or one that the specification forbids.
        InvalidURI: an option of the TXT record contradicts srvMaxHosts.
    """
    from mangonel._options import srv

    options: CaseInsensitiveDict = parts["options"]
    max_hosts = max_hosts or options.get("srvMaxHosts")
    resolver = srv.SrvResolver(
        parts["fqdn"],
        timeout or options.get("connectTimeoutMS"),
        service_name or options.get("srvServiceName"),
        allowed_hosts_suffix or options.get("srvAllowedHostsSuffix"),
        host_validator,
        ask,
    )
    parts["nodelist"] = await resolver.hosts_flow(max_hosts)
    if text := await resolver.options_flow():
        found = split_options(text, validate, warn, normalize)
        if set(found) - _TXT_OPTIONS:
            raise ConfigurationError(
                "only authSource, replicaSet and loadBalanced may come from a TXT record"
            )
        for name, value in found.items():
            options.setdefault(name, value)
    for name in ("loadBalanced", "replicaSet"):
        if max_hosts and options.get(name):
            raise InvalidURI(f"You cannot specify {name} with srvMaxHosts")
    if "tls" not in options and "ssl" not in options:
        options["tls"] = True if validate else "true"
    check_topology_options(parts["nodelist"], options)


def check_topology_options(nodes: Collection[Any], options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if directConnection, loadBalanced, replicaSet and the hosts contradict each other."""
    direct = options.get("directconnection")
    if direct and len(nodes) > 1:
        raise ConfigurationError("Cannot specify multiple hosts with directConnection=true")
    if not options.get("loadbalanced"):
        return
    if len(nodes) > 1:
        raise ConfigurationError("Cannot specify multiple hosts with loadBalanced=true")
    if direct:
        raise ConfigurationError("Cannot specify directConnection=true with loadBalanced=true")
    if options.get("replicaset"):
        raise ConfigurationError("Cannot specify replicaSet with loadBalanced=true")


def check_security_options(options: CaseInsensitiveDict) -> None:
    """Raise InvalidURI if TLS options contradict each other; set the options that they imply.

    Values may be text (from a URI) or already checked.
    """

    def refuse(first: str, second: str) -> None:
        first, second = (options.cased_key(name) if name in options else name for name in (first, second))
        raise InvalidURI(f"options {first} and {second} cannot be specified simultaneously")

    if options.get("tlsinsecure") is not None:
        for name in TLS_INSECURE:
            if name in options:
                refuse("tlsInsecure", name)
    if options.get("tlsallowinvalidcertificates") is not None:
        if "tlsdisableocspendpointcheck" in options:
            refuse("tlsAllowInvalidCertificates", "tlsDisableOCSPEndpointCheck")
        if options["tlsallowinvalidcertificates"] is True:
            options["tlsDisableOCSPEndpointCheck"] = True
    if options.get("tlscrlfile") is not None:
        for name in ("tlsInsecure", "tlsAllowInvalidCertificates", "tlsDisableOCSPEndpointCheck"):
            if options.get(name) is True:
                raise InvalidURI(f"option {name}=true cannot be specified with tlsCRLFile")
    _check_proxy_options(options)
    if "ssl" in options and "tls" in options and _truth(options["ssl"]) != _truth(options["tls"]):
        raise InvalidURI(
            f"conflicting values for options {options.cased_key('ssl')} and {options.cased_key('tls')}"
        )


def _check_proxy_options(options: CaseInsensitiveDict) -> None:
    """Raise InvalidURI if a proxy option lacks another option that it needs."""
    for name in ("proxyPort", "proxyUsername", "proxyPassword"):
        if name in options and not options.get("proxyHost"):
            raise InvalidURI(f"expected proxyHost with {name}, got none")
    if bool(options.get("proxyUsername")) != bool(options.get("proxyPassword")):
        raise InvalidURI("expected both proxyUsername and proxyPassword, got one of them")


def normalize_options(options: CaseInsensitiveDict) -> None:
    """Convert options to the driver's own names: tlsInsecure to the options it sets, `ssl` to `tls`."""
    insecure = options.get("tlsinsecure")
    if insecure is not None:
        for name in TLS_INSECURE:
            options[name] = insecure
    if "ssl" in options:
        options["tls"] = options.pop("ssl")


def _parse_pairs(pairs: list[str]) -> CaseInsensitiveDict:
    options = CaseInsensitiveDict()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or "=" in value:
            raise InvalidURI("MongoDB URI options are name=value pairs; escape '=' in a value as %3D")
        lower = name.lower()
        if lower == "readpreferencetags":
            # One tag set per occurrence, in order of preference; the check unescapes its parts.
            options.setdefault(name, []).append(value)
            continue
        if name in options:
            if lower.startswith("proxy"):
                raise InvalidURI(f"expected {name} once, got it again")
            import warnings

            warnings.warn(f"Duplicate URI option '{name}': the last one counts", stacklevel=4)
        # Properties are unescaped after splitting, since a value may hold an escaped comma.
        options[name] = value if lower == "authmechanismproperties" else unquote(value)
    return options


def _parse_path(path: str) -> tuple[str | None, str | None]:
    if not path:
        return None, None
    database, dot, collection = unquote(path).partition(".")
    if not _FORBIDDEN_IN_DATABASE.isdisjoint(database):
        if "@" in database + dot + collection:
            # With an unescaped "/" in the password, the rest of the password is here, so the name is not shown.
            raise InvalidURI(f"bad database name with '@' in it: {_ESCAPE_HINT}")
        raise InvalidURI(f'bad database name "{database}": it cannot hold any of / "$ or a space')
    return database, collection if dot else None


def _srv_name(hosts: str, options: CaseInsensitiveDict) -> list[_Address]:
    if options.get("directConnection") in (True, "true"):
        raise ConfigurationError(f"Cannot specify directConnection=true with {SRV_SCHEME} URIs")
    nodes = split_hosts(hosts, default_port=None)
    if len(nodes) != 1:
        raise InvalidURI(f"{SRV_SCHEME} URIs must include one, and only one, hostname")
    if nodes[0][1] is not None:
        raise InvalidURI(f"{SRV_SCHEME} URIs must not include a port number")
    return nodes


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        spaces = [letter for letter in text if letter.isspace()]
        if spaces and all(letter.isspace() or letter.isdigit() for letter in text):
            raise ValueError(f"Port contains whitespace character: {spaces[0]!r}")
        # The message leaves out the text: it may be part of an unescaped password.
        raise ValueError(f"Port contains non-digit characters. Hint: {_ESCAPE_HINT}")
    port = int(text)
    if not 0 < port <= 65535:
        raise ValueError(f"Port must be an integer between 0 and 65535, not {port}")
    return port


def _has_stray_percent(text: str) -> bool:
    hexdigits = frozenset("0123456789abcdefABCDEF")
    return any(len(part) < 2 or not hexdigits.issuperset(part[:2]) for part in text.split("%")[1:])


def _truth(value: Any) -> Any:
    return value == "true" if value in ("true", "false") else value
