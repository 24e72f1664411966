"""The table of all client options: name, check, default and target, and the options that are not supported yet.

Knows no URI syntax and no client. Spec: uri-options; names and defaults are PyMongo's.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._light import Mapping
from mangonel._options import checks as check
from mangonel._options.case_insensitive import CaseInsensitiveDict
from mangonel.common import (
    CONNECT_TIMEOUT,
    ENABLE_OVERLOAD_RETARGETING,
    HEARTBEAT_FREQUENCY,
    LOCAL_THRESHOLD_MS,
    MAX_ADAPTIVE_RETRIES,
    MAX_CONNECTING,
    MAX_POOL_SIZE,
    MIN_POOL_SIZE,
    RETRY_READS,
    RETRY_WRITES,
    SERVER_MONITORING_MODE,
    SERVER_SELECTION_TIMEOUT,
    validate_list,
    validate_string,
)
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Option:
    """One row of the table; `goes_to` names the part of ClientOptions that reads the option."""

    __slots__ = ("aliases", "check", "default", "goes_to", "name")

    def __init__(
        self,
        name: str,
        check: Callable[[str, Any], Any],
        default: Any,
        goes_to: str,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.name, self.check, self.default, self.goes_to, self.aliases = (
            name,
            check,
            default,
            goes_to,
            aliases,
        )


_optional = check.optional
_string_or_none = _optional(validate_string)

# Options of connection strings, also accepted as keyword arguments. Times are seconds after the check.
_URI_OPTIONS = (
    Option("appname", _optional(check.app_name), None, "handshake"),
    Option("authMechanism", check.one_of(*check.MECHANISMS), None, "credentials"),
    Option("authMechanismProperties", check.mechanism_properties, None, "credentials"),
    Option("authSource", validate_string, None, "credentials"),
    Option("compressors", check.compressors, (), "compression"),
    Option("connect", check.boolean, None, "client"),
    Option("connectTimeoutMS", check.seconds_or_unlimited, CONNECT_TIMEOUT, "pool"),
    Option("datetime_conversion", check.datetime_conversion, None, "codec"),
    Option("directConnection", check.boolean, None, "topology"),
    Option("driver", _optional(check.driver_info), None, "handshake"),
    Option("enableOverloadRetargeting", check.boolean, ENABLE_OVERLOAD_RETARGETING, "retry"),
    Option("fsync", check.boolean, None, "write concern"),
    Option("heartbeatFrequencyMS", _optional(check.seconds), HEARTBEAT_FREQUENCY, "topology"),
    Option("journal", check.boolean, None, "write concern"),
    Option("loadBalanced", check.boolean, None, "topology"),
    Option("localThresholdMS", check.non_negative_number, LOCAL_THRESHOLD_MS, "topology"),
    Option("maxAdaptiveRetries", check.non_negative_integer, MAX_ADAPTIVE_RETRIES, "retry"),
    Option("maxConnecting", check.positive_integer, MAX_CONNECTING, "pool"),
    Option("maxIdleTimeMS", _optional(check.seconds), None, "pool"),
    Option("maxPoolSize", _optional(check.non_negative_integer), MAX_POOL_SIZE, "pool"),
    Option("maxStalenessSeconds", check.max_staleness, -1, "read preference"),
    Option("minPoolSize", check.non_negative_integer, MIN_POOL_SIZE, "pool"),
    Option("proxyHost", check.proxy_host, None, "proxy"),
    Option("proxyPassword", check.proxy_secret, None, "proxy"),
    Option("proxyPort", check.port, 1080, "proxy"),
    Option("proxyUsername", check.proxy_secret, None, "proxy"),
    Option("readConcernLevel", _string_or_none, None, "read concern"),
    Option(
        "readPreference",
        check.one_of("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"),
        "primary",
        "read preference",
    ),
    Option("readPreferenceTags", check.read_preference_tags, None, "read preference"),
    Option("replicaSet", _string_or_none, None, "topology"),
    Option("retryReads", check.boolean, RETRY_READS, "retry"),
    Option("retryWrites", check.boolean, RETRY_WRITES, "retry"),
    Option("server_api", _optional(check.server_api), None, "client"),
    Option(
        "serverMonitoringMode", check.one_of("auto", "stream", "poll"), SERVER_MONITORING_MODE, "topology"
    ),
    Option("serverSelectionTimeoutMS", check.seconds_or_zero, SERVER_SELECTION_TIMEOUT, "topology"),
    Option("socketTimeoutMS", check.seconds_or_unlimited, None, "pool"),
    Option("srvAllowedHostsSuffix", validate_string, None, "srv"),
    Option("srvMaxHosts", check.non_negative_integer, 0, "srv"),
    Option("srvServiceName", validate_string, "mongodb", "srv"),
    Option("timeoutMS", _optional(check.deadline_seconds), None, "client"),
    Option("tls", check.boolean, None, "tls", ("ssl",)),
    Option("tlsAllowInvalidCertificates", check.boolean, None, "tls"),
    Option("tlsAllowInvalidHostnames", check.boolean, None, "tls"),
    Option("tlsCAFile", _optional(check.readable_file), None, "tls"),
    Option("tlsCRLFile", _optional(check.readable_file), None, "tls"),
    Option("tlsCertificateKeyFile", _optional(check.readable_file), None, "tls"),
    Option("tlsCertificateKeyFilePassword", _string_or_none, None, "tls"),
    Option("tlsDisableOCSPEndpointCheck", check.boolean, None, "tls"),
    Option("tlsInsecure", check.boolean, None, "tls"),
    Option("tz_aware", check.boolean, False, "codec"),
    Option("unicode_decode_error_handler", check.one_of("strict", "replace", "ignore"), "strict", "codec"),
    Option("uuidRepresentation", check.uuid_representation, 0, "codec"),
    Option("w", check.integer_or_string, None, "write concern"),
    Option("waitQueueMultiple", _optional(check.non_negative_integer), None, "nothing"),
    Option("waitQueueTimeoutMS", _optional(check.seconds), None, "pool"),
    Option("wTimeoutMS", check.non_negative_integer, None, "write concern"),
    Option("zlibCompressionLevel", check.zlib_level, -1, "compression"),
)

# Options that are only keyword arguments.
_KEYWORDS = (
    Option("advise", _optional(check.boolean), None, "monitoring"),
    Option("authoidcallowedhosts", validate_list, None, "credentials"),
    Option("auto_encryption_opts", _optional(check.encryption_options), None, "encryption"),
    Option("document_class", check.document_class, dict, "codec"),
    Option("enable_overload_retargeting", check.boolean, None, "retry"),
    Option("event_listeners", check.event_listeners, None, "monitoring"),
    Option("max_adaptive_retries", check.non_negative_integer, None, "retry"),
    Option("metrics", check.boolean, False, "monitoring"),
    Option("password", _string_or_none, None, "credentials"),
    Option("read_preference", check.read_preference, None, "read preference"),
    Option("server_selector", _optional(check.callable_object), None, "topology"),
    Option("srv_host_validator", _optional(check.callable_object), None, "srv"),
    Option("ssl_context", _optional(check.ssl_context), None, "tls"),
    Option("tracing", _optional(check.tracing), None, "monitoring"),
    Option("type_registry", _optional(check.type_registry), None, "codec"),
    Option("tzinfo", _optional(check.tz_info), None, "codec"),
    Option("username", _string_or_none, None, "credentials"),
)


def _by_lower_name(rows: tuple[Option, ...]) -> dict[str, Option]:
    return {name.lower(): row for row in rows for name in (row.name, *row.aliases)}


# Lower-case name or alias -> row.
URI_OPTIONS = _by_lower_name(_URI_OPTIONS)
ALL_OPTIONS = URI_OPTIONS | _by_lower_name(_KEYWORDS)

DEFAULTS = {name: row.default for name, row in ALL_OPTIONS.items()}


def find_option(name: str, table: Mapping[str, Option]) -> Option:
    """Return the row of an option; raise ConfigurationError with similar names if there is none."""
    row = table.get(name.lower())
    if row is not None:
        return row
    from difflib import get_close_matches

    message = f"Unknown option: {name}."
    if name.lower() in ALL_OPTIONS:
        message += f" It is no option of a URI; pass it to the client as an argument: {name}="
    elif likely := get_close_matches(name.lower(), table, cutoff=0.2):
        message += (
            f" Did you mean one of ({', '.join(likely)}) or maybe a camelCase version of one? "
            "Refer to docstring."
        )
    raise ConfigurationError(message)


def validate_keyword(name: str, value: Any) -> Any:
    """Return the checked value of an option passed as a keyword argument.

    Raises:
        ConfigurationError: the option does not exist.
        TypeError, ValueError: the value does not fit the option.
    """
    return find_option(name, ALL_OPTIONS).check(name, value)


def validate_uri_options(options: Mapping[str, Any], warn: bool) -> CaseInsensitiveDict:
    """Return the checked options of a connection string.

    Args:
        options: name to text.
        warn: True: drop unknown options and wrong values with a UserWarning, but raise for proxy options. False: raise.
    """
    expect("options", options, Mapping, "a mapping")
    checked = CaseInsensitiveDict()
    for name, value in options.items():
        spelling = options.cased_key(name) if isinstance(options, CaseInsensitiveDict) else name
        try:
            checked[spelling] = find_option(spelling, URI_OPTIONS).check(spelling, value)
        except (ValueError, TypeError, ConfigurationError) as error:
            # If a proxy option were dropped, the client would connect without the proxy or through another one.
            if not warn or isinstance(error, check.UnsafeValueError) or name.lower().startswith("proxy"):
                raise
            import warnings

            warnings.warn(str(error), stacklevel=4)
    return checked
