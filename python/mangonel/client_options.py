"""All options of one client: merged from URI and keyword arguments, checked, and passed to the core.

Knows the option table and the URI parser; opens nothing. Spec: uri-options.
"""

from __future__ import annotations

import os

from mangonel._arguments import expect, expect_instance
from mangonel._light import Iterable, Mapping
from mangonel._options.case_insensitive import CaseInsensitiveDict
from mangonel.auth import build_credential, without_frames
from mangonel.common import MIN_HEARTBEAT_INTERVAL
from mangonel.errors import ConfigurationError
from mangonel.options import DEFAULTS, validate_keyword
from mangonel.pool_options import PoolOptions
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import make_read_preference, read_pref_mode_from_name
from mangonel.uri_parser import (
    DEFAULT_PORT,
    SRV_SCHEME,
    check_security_options,
    check_topology_options,
    normalize_options,
    split_hosts,
    split_uri,
)
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mangonel._options.proxy import Proxy
    from mangonel._options.seed_list import SeedList
    from mangonel._options.tls import Security
    from mangonel.bson.codec_options import CodecOptions
    from mangonel.read_preferences import _ServerMode
    from mangonel.typings import _Address

__all__ = ["ClientOptions"]

# Any value of these turns TLS on; a flag does so only if False, since True loosens the checks of TLS.
_FILES_OF_TLS = ("tlscertificatekeyfile", "tlscertificatekeyfilepassword", "tlscafile", "tlscrlfile")
_IMPLIES_TLS = (*_FILES_OF_TLS, "ssl_context")
_FALSE_IMPLIES_TLS = (
    "tlsallowinvalidcertificates",
    "tlsallowinvalidhostnames",
    "tlsdisableocspendpointcheck",
)

_CODEC_OPTIONS = (
    "document_class",
    "tz_aware",
    "unicode_decode_error_handler",
    "tzinfo",
    "type_registry",
    "datetime_conversion",
)


_SECRET_OPTIONS = frozenset(["username", "password", "proxypassword", "tlscertificatekeyfilepassword"])
# Properties of authentication mechanisms that are not secret, in any case.
_OPEN_PROPERTIES = frozenset(
    [
        "canonicalize_host_name",
        "environment",
        "service_host",
        "service_name",
        "service_realm",
        "token_resource",
    ]
)


# The highest number of a TCP port.
_LAST_PORT = 65_535


def is_open_property(name: str) -> bool:
    """Return whether a property of an authentication mechanism is not secret."""
    return name.lower() in _OPEN_PROPERTIES


def _shown(name: str, value: Any) -> str:
    if name == "document_class":
        return "dict" if value is dict else f"{value.__module__}.{value.__name__}"
    if name == "authmechanismproperties" and isinstance(value, dict):
        return repr({key: found if is_open_property(key) else "<redacted>" for key, found in value.items()})
    if name.endswith("ms") and name != "wtimeoutms" and isinstance(value, int | float):
        # Stored in seconds, passed in milliseconds.
        return str(int(value * 1000))
    return repr(value)


class ClientOptions:
    """Read-only options of a client; see `client.options`.

    Args:
        username, password, database: from the connection string, or None.
        options: checked options by lower-case name; times in seconds.
        is_sync: True for the blocking face, False for asyncio.
        seeds: the hosts and ports to contact first.

    Raises:
        ConfigurationError: options contradict each other or are not supported.
        ValueError: minPoolSize is above maxPoolSize.
    """

    seeds: tuple[_Address, ...]

    def __init__(
        self,
        username: str | None,
        password: str | None,
        database: str | None,
        options: Mapping[str, Any],
        is_sync: bool = True,
        seeds: Sequence[_Address] = (("localhost", DEFAULT_PORT),),
    ) -> None:
        expect("options", options, Mapping, "a mapping")
        self._options = options
        self._srv: SeedList | None = None
        self._is_resolved = True
        self._database = database
        self.seeds = tuple(seeds)
        self._codec_options = _parse_codec_options(options)
        self._read_preference = _parse_read_preference(options)
        self._write_concern = WriteConcern(
            options.get("w"), options.get("wtimeoutms"), options.get("journal"), options.get("fsync")
        )
        self._read_concern = ReadConcern(options.get("readconcernlevel"))
        self._credentials = build_credential(options, username, password, database)
        self._security = _parse_tls(options)
        self._pool_options = PoolOptions(
            max_pool_size=self._get("maxpoolsize"),
            min_pool_size=self._get("minpoolsize"),
            max_idle_time_seconds=self._get("maxidletimems"),
            connect_timeout=self._get("connecttimeoutms"),
            socket_timeout=self._get("sockettimeoutms"),
            wait_queue_timeout=self._get("waitqueuetimeoutms"),
            tls_allow_invalid_hostnames=options.get("tlsallowinvalidhostnames") or False,
            appname=self._get("appname"),
            driver=self._get("driver"),
            max_connecting=self._get("maxconnecting"),
            server_api=self._get("server_api"),
            load_balanced=self._get("loadbalanced"),
            is_sync=is_sync,
        )
        if self.heartbeat_frequency < MIN_HEARTBEAT_INTERVAL:
            raise ConfigurationError(
                f"heartbeatFrequencyMS cannot be less than {MIN_HEARTBEAT_INTERVAL * 1000:.0f}, "
                f"got {self.heartbeat_frequency * 1000:.0f}"
            )
        if options.get("waitqueuemultiple") is not None:
            import warnings

            warnings.warn("waitQueueMultiple has no effect; use waitQueueTimeoutMS", stacklevel=4)

    @classmethod
    def from_arguments(
        cls,
        host: str | Sequence[str] | None,
        port: int | None,
        document_class: type | None,
        tz_aware: bool | None,
        connect: bool | None,
        type_registry: Any,
        keywords: Mapping[str, Any],
        *,
        is_sync: bool = True,
    ) -> ClientOptions:
        """Return the options for the arguments of a client's constructor.

        Keyword arguments override the connection string. A wrong or unknown option in the connection string is dropped
        with a UserWarning; as a keyword argument it raises.

        Args:
            host, port, document_class, tz_aware, connect, type_registry: as for `MongoClient`.
            keywords: the other keyword arguments.
            is_sync: False for an asyncio client.

        Raises:
            InvalidURI, ConfigurationError: as for `MongoClient`.
            TypeError, ValueError: a keyword argument has a wrong value.

        Example:
            >>> given = {"appname": "web"}
            >>> ClientOptions.from_arguments("db.example", None, None, None, None, None, given).pool_options.appname
            'web'
        """
        if port is None:
            port = DEFAULT_PORT
        expect_instance("port", port, int)
        if not 0 < port <= _LAST_PORT:
            import warnings

            # As in PyMongo, the client is made nevertheless; programs expect the error when it connects.
            warnings.warn(
                f"expected a port between 1 and {_LAST_PORT}, got {port}; the client cannot connect",
                UserWarning,
                stacklevel=3,
            )
        if host is not None and (not isinstance(host, Iterable) or isinstance(host, bytes | type)):
            raise TypeError(
                f'expected a URI, a host or a list of hosts for "host", got {type(host).__name__}'
            )
        entities = ["localhost"] if host is None else [host] if isinstance(host, str) else list(host)
        for entity in entities:
            expect("host", entity, str, "each host as str")
        given = CaseInsensitiveDict(keywords)
        parts, seeds = _parse_hosts(entities, port, given.get("srvmaxhosts"))

        given["document_class"] = document_class or dict
        if type_registry is not None:
            given["type_registry"] = type_registry
        given["tz_aware"] = parts["options"].get("tz_aware", False) if tz_aware is None else tz_aware
        given["connect"] = _default_connect(parts["options"]) if connect is None else connect
        for name in given:
            spelling = given.cased_key(name)
            given[spelling] = validate_keyword(spelling, given[name])
        if given.get("password") and not (given.get("username") or parts["username"]):
            import warnings

            # PyMongo does not warn.
            warnings.warn(
                "expected a username with the password, got none; the client does not log in",
                UserWarning,
                stacklevel=3,
            )
        if not parts["fqdn"]:
            return cls._merged(parts, given, seeds, is_sync)
        from mangonel._options.seed_list import SeedList

        seed_list = SeedList(parts, given, [seed for seed in seeds if seed not in parts["nodelist"]])
        made = cls._merged(*seed_list.placeholder(), is_sync)
        made._srv, made._is_resolved = seed_list, False
        return made

    @classmethod
    def _merged(
        cls,
        parts: Mapping[str, Any],
        given: CaseInsensitiveDict,
        seeds: Sequence[_Address],
        is_sync: bool,
    ) -> ClientOptions:
        options = CaseInsensitiveDict(parts["options"])
        options.absorb(given)
        check_security_options(options)
        normalize_options(options)
        check_topology_options(seeds, options)
        if not parts["fqdn"]:
            _refuse_srv_options(options)
        checked = {name: options[name] for name in options}
        username = options.get("username", parts["username"])
        password = options.get("password", parts["password"])
        return cls(username, password, parts["database"], checked, is_sync, seeds)

    def described(self) -> list[str]:
        """Return the options as the keyword arguments of a client, without secrets."""
        first = ("document_class", "tz_aware", "connect")
        names = [*first, *(name for name in self._options if name not in first)]
        return [
            f"{name}={_shown(name, self._options[name])}"
            for name in names
            if name in self._options and name not in _SECRET_OPTIONS
        ]

    @property
    def srv(self) -> SeedList | None:
        """The DNS lookup behind a `mongodb+srv://` URI; None for other URIs."""
        return self._srv

    @property
    def is_resolved(self) -> bool:
        """Whether `seeds` holds hosts, not a name to look up in DNS."""
        return self._is_resolved

    def with_resolved_hosts(self) -> ClientOptions:
        """Return the options with the hosts from DNS and the options of the TXT record. Blocks.

        Raises:
            ConfigurationError: DNS has no usable answer, or the TXT record contradicts these options.
        """
        if self._srv is None or self._is_resolved:
            return self
        try:
            made = self._merged(*self._srv.resolved(), not self._pool_options._is_async)
        except Exception as error:
            if self._credentials is not None:
                # The frames' locals hold the password.
                without_frames(error)
            raise
        made._srv = self._srv
        if made._credentials is not None and self._credentials is not None:
            # The user is the same, so cached tokens stay valid.
            made._credentials.responder = self._credentials.responder
        return made

    def _get(self, name: str) -> Any:
        return self._options.get(name, DEFAULTS[name])

    @property
    def connect(self) -> bool | None:
        """Whether the client starts to monitor its deployment when it is made."""
        return self._options.get("connect")

    @property
    def default_database_name(self) -> str | None:
        """The database of the connection string, which get_default_database returns."""
        return self._database

    @property
    def codec_options(self) -> CodecOptions[Any]:
        """How documents become Python objects."""
        return self._codec_options

    @property
    def direct_connection(self) -> bool | None:
        """Whether only the given host is used, even if it belongs to a replica set. None: its type decides."""
        return self._options.get("directconnection")

    @property
    def local_threshold_ms(self) -> float:
        """The latency window: how many milliseconds slower than the nearest a suitable server may be."""
        return self._get("localthresholdms")

    @property
    def server_selection_timeout(self) -> float:
        """Seconds to wait for a suitable server."""
        return self._get("serverselectiontimeoutms")

    @property
    def server_selector(self) -> Any:
        """The user's function that filters the suitable servers, or None."""
        return self._get("server_selector")

    @property
    def heartbeat_frequency(self) -> float:
        """Seconds between two checks of a server."""
        value: float | None = self._get("heartbeatfrequencyms")
        return DEFAULTS["heartbeatfrequencyms"] if value is None else value

    @property
    def pool_options(self) -> PoolOptions:
        """The options of the pools."""
        return self._pool_options

    @property
    def read_preference(self) -> _ServerMode:
        """The default read preference."""
        return self._read_preference

    @property
    def replica_set_name(self) -> str | None:
        """The replica set that all servers must belong to, or None."""
        return self._options.get("replicaset")

    @property
    def write_concern(self) -> WriteConcern:
        """The default write concern."""
        return self._write_concern

    @property
    def read_concern(self) -> ReadConcern:
        """The default read concern."""
        return self._read_concern

    @property
    def security(self) -> Security | None:
        """The TLS settings of connections; None without TLS."""
        return self._security

    @property
    def proxy(self) -> Proxy | None:
        """The SOCKS5 proxy to connect through; None to connect directly."""
        host = self._get("proxyhost")
        if not host:
            return None
        from mangonel._options.proxy import Proxy

        return Proxy(host, self._get("proxyport"), self._get("proxyusername"), self._get("proxypassword"))

    @property
    def timeout(self) -> float | None:
        """Seconds for a whole operation (timeoutMS). 0: no limit. None: the other time limits apply."""
        return self._options.get("timeoutms")

    @property
    def retry_writes(self) -> bool:
        """Whether a write is retried once after a network error or a failover."""
        return bool(self._get("retrywrites"))

    @property
    def retry_reads(self) -> bool:
        """Whether a read is retried once after a network error or a failover."""
        return bool(self._get("retryreads"))

    @property
    def auto_encryption_opts(self) -> Any:
        """The options of automatic encryption, or None."""
        return self._get("auto_encryption_opts")

    @property
    def load_balanced(self) -> bool | None:
        """Whether the client is behind a load balancer."""
        return self._options.get("loadbalanced")

    @property
    def event_listeners(self) -> list[Any]:
        """The listeners of this client."""
        return list(self._get("event_listeners") or ())

    @property
    def tracing(self) -> dict[str, Any]:
        """The settings of OpenTelemetry spans; empty: the environment decides."""
        return dict(self._get("tracing") or {})

    @property
    def advise(self) -> bool:
        """Whether to warn of slow commands; by default, the environment decides."""
        asked = self._get("advise")
        if asked is None:
            return os.environ.get("MANGONEL_ADVISE", "").lower() in ("1", "true", "yes")
        return bool(asked)

    @property
    def metrics(self) -> bool:
        """Whether the client counts operations, for `client.metrics()`."""
        return bool(self._get("metrics"))

    @property
    def server_monitoring_mode(self) -> str:
        """How servers are checked: auto, stream or poll."""
        return str(self._get("servermonitoringmode"))

    @property
    def max_adaptive_retries(self) -> int:
        """How often an operation is retried when a server reports that it is overloaded."""
        keyword = self._options.get("max_adaptive_retries")
        return int(self._get("maxadaptiveretries") if keyword is None else keyword)

    @property
    def enable_overload_retargeting(self) -> bool:
        """Whether a retry after overload goes to another server."""
        keyword = self._options.get("enable_overload_retargeting")
        return bool(self._get("enableoverloadretargeting") if keyword is None else keyword)

    def core_options(self) -> dict[str, Any]:
        """Return the options in the Rust core's form: flat, whole milliseconds, None for "no limit".

        Keys: `hosts` (pairs of host and port; a port of None marks a socket's path), `app_name`, `metadata`,
        `direct_connection`, `load_balanced`, `replica_set`, `max_pool_size` (0: no limit), `min_pool_size`,
        `max_idle_time_ms`, `max_connecting`, `wait_queue_timeout_ms`, `connect_timeout_ms`,
        `socket_timeout_ms`, `server_selection_timeout_ms` (0: do not wait), `timeout_ms` (0: no limit),
        `heartbeat_frequency_ms`, `min_heartbeat_ms`, `local_threshold_ms`, `server_selector`,
        `server_monitoring_mode`, `is_faas`, `retry_writes`,
        `retry_reads`, `max_adaptive_retries`, `enable_overload_retargeting`, `credential` (a MongoCredential or None),
        `compressors` (names in order of preference), `zlib_compression_level`, `api_version`, `api_strict`,
        `api_deprecation_errors`.
        """
        from mangonel.handshake_metadata import is_faas

        pool = self._pool_options
        api = pool.server_api
        return {
            # Before DNS has answered there are no hosts.
            "hosts": [seed for seed in self.seeds if _is_reachable(seed)] if self._is_resolved else [],
            "app_name": pool.appname,
            "metadata": pool.metadata,
            "direct_connection": self.direct_connection,
            "load_balanced": bool(self.load_balanced),
            "replica_set": self.replica_set_name,
            "max_pool_size": pool.max_pool_size or 0,
            "min_pool_size": pool.min_pool_size,
            "max_idle_time_ms": _milliseconds(pool.max_idle_time_seconds),
            "max_connecting": pool.max_connecting,
            "wait_queue_timeout_ms": _milliseconds(pool.wait_queue_timeout),
            "connect_timeout_ms": _milliseconds(pool.connect_timeout),
            "socket_timeout_ms": _milliseconds(pool.socket_timeout),
            "server_selection_timeout_ms": _milliseconds(self.server_selection_timeout),
            "timeout_ms": _milliseconds(self.timeout),
            "heartbeat_frequency_ms": _milliseconds(self.heartbeat_frequency),
            "min_heartbeat_ms": _milliseconds(MIN_HEARTBEAT_INTERVAL),
            "server_selector": self.server_selector,
            "local_threshold_ms": _milliseconds(self.local_threshold_ms / 1000),
            "server_monitoring_mode": self.server_monitoring_mode,
            "is_faas": is_faas(),
            "retry_writes": self.retry_writes,
            "retry_reads": self.retry_reads,
            "credential": self._credentials,
            "compressors": list(self._get("compressors")),
            "zlib_compression_level": self._get("zlibcompressionlevel"),
            "max_adaptive_retries": min(self.max_adaptive_retries, 0xFFFF_FFFF),
            "enable_overload_retargeting": self.enable_overload_retargeting,
            "api_version": api.version if api else None,
            "api_strict": api.strict if api else None,
            "api_deprecation_errors": api.deprecation_errors if api else None,
        }


def _is_reachable(seed: _Address) -> bool:
    """Return whether a server can have this port; True for the path of a socket."""
    port = seed[1]
    return port is None or 0 < port <= _LAST_PORT


def _parse_hosts(
    entities: Sequence[str], port: int, srv_max_hosts: int | None
) -> tuple[dict[str, Any], list[_Address]]:
    """Return the parts of the one URI among the hosts (empty without one), and every seed once."""
    # Hostnames contain no slash, so a slash marks a URI.
    uris = [entity for entity in entities if "/" in entity]
    if len(uris) > 1:
        raise ConfigurationError("host must not contain multiple MongoDB URIs")
    parts: dict[str, Any] = {"username": None, "password": None, "database": None, "fqdn": None}
    parts["options"] = CaseInsensitiveDict()
    # A dict keeps the order and drops repeated seeds.
    seeds: dict[_Address, None] = {}
    for entity in entities:
        if "/" in entity:
            parts = split_uri(entity, port, warn=True, normalize=False, srv_max_hosts=srv_max_hosts)
            seeds |= dict.fromkeys(parts["nodelist"])
        else:
            seeds |= dict.fromkeys(split_hosts(entity, port))
    if not seeds:
        raise ConfigurationError("need to specify at least one host")
    return parts, list(seeds)


def _refuse_srv_options(options: CaseInsensitiveDict) -> None:
    for name in ("srvServiceName", "srvMaxHosts", "srvAllowedHostsSuffix", "srv_host_validator"):
        if options.get(name):
            raise ConfigurationError(f"the {name} option is only allowed with '{SRV_SCHEME}' URIs")


def _default_connect(options: Mapping[str, Any]) -> bool:
    from mangonel.handshake_metadata import is_faas

    # Function services may fork or freeze the process after its start.
    return bool(options.get("connect", not is_faas()))


def _parse_codec_options(options: Mapping[str, Any]) -> CodecOptions[Any]:
    from mangonel.bson.codec_options import CodecOptions

    given = {name: options[name] for name in _CODEC_OPTIONS if name in options}
    if "uuidrepresentation" in options:
        given["uuid_representation"] = options["uuidrepresentation"]
    return CodecOptions(**given)


def _parse_read_preference(options: Mapping[str, Any]) -> _ServerMode:
    if "read_preference" in options:
        return options["read_preference"]
    mode = read_pref_mode_from_name(options.get("readpreference", "primary"))
    return make_read_preference(
        mode, options.get("readpreferencetags"), options.get("maxstalenessseconds", -1)
    )


def _parse_tls(options: Mapping[str, Any]) -> Security | None:
    """Return the TLS settings, or None if TLS is off; raise for options that make no sense without TLS."""
    tls: bool | None = options.get("tls")
    implying = [name for name in _IMPLIES_TLS if options.get(name)]
    implying += [name for name in _FALSE_IMPLIES_TLS if options.get(name, True) is False]
    if implying and tls is False:
        raise ConfigurationError(
            f"TLS is off, but these options need it: {', '.join(implying)}; set tls=True or remove them"
        )
    if not (bool(implying) if tls is None else tls):
        return None
    if options.get("ssl_context") is not None:
        beside = [name for name in _FILES_OF_TLS if options.get(name)]
        beside += [name for name in _FALSE_IMPLIES_TLS if options.get(name)]
        if beside:
            raise ConfigurationError(
                f"ssl_context takes the place of these options: {', '.join(beside)}; set it up in the context"
            )
    from mangonel._options.tls import Security

    return Security(options)


def _milliseconds(seconds: float | None) -> int | None:
    """Return whole milliseconds, rounded up: rounding a short time down would mean "no limit"."""
    return None if seconds is None else -int(-round(seconds * 1000, 3) // 1)
