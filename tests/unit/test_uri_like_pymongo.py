"""The URI parser and the client options, compared with PyMongo's on the same input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import pymongo
import pymongo.driver_info
import pymongo.read_preferences
import pymongo.server_api
import pymongo.uri_parser
import pymongo.uri_parser_shared
import pytest

from mangonel import MongoClient, driver_info, options, read_preferences, server_api, uri_parser
from mangonel.client_options import ClientOptions

HOSTS = [
    "mongodb://",
    "mongodb:///",
    "mongodb://localhost",
    "mongodb://LOCALHOST:27018/",
    "mongodb://a,b:1,c:2/db",
    "mongodb://a,,b",
    "mongodb://a,",
    "mongodb://:27017",
    "mongodb://a:",
    "mongodb://a:0",
    "mongodb://a:65535",
    "mongodb://a:65536",
    "mongodb://a:-1",
    "mongodb://a:27017 ",
    "mongodb://a:b",
    "mongodb://a:1:2",
    "mongodb://[::1]",
    "mongodb://[::1]:27018",
    "mongodb://[::1",
    "mongodb://::1",
    "mongodb://[fe80::1%25eth0]:5",
    "mongodb://1.2.3.4:5,[::1]:6",
    "mongodb://%2Ftmp%2Fmongodb-27017.sock",
    "mongodb://%2ftmp%2Fa%20b.sock/db?w=1",
    "mongodb://rel.sock",
    "mongodb:///tmp/mongodb-27017.sock",
    "mongodb://u:p@%2Ftmp%2Fmongodb-27017.sock,a:5/db.c",
    "mongodb://a%20b",
    "mongodb://user@host",
    "mongodb://user:@host",
    "mongodb://user:pass@host/db",
    "mongodb://u%40x:p%3Aw%2F@host",
    "mongodb://u+v:p+w@host",
    "mongodb://:pass@host",
    "mongodb://@host",
    "mongodb://u:p:q@host",
    "mongodb://u@v:p@host",
    "mongodb://u%:p@host",
    "mongodb://u%zz:p@host",
    "mongodb://u%4:p@host",
    "mongodb://host/db.coll.more",
    "mongodb://host/.coll",
    "mongodb://host/d%20b",
    "mongodb://host/d$b",
    'mongodb://host/d"b',
    "mongodb://host/d%2Fb",
    "mongodb://host/a/b",
    "mongodb://host?w=1",
    "mongodb://host/?w=1",
    "mongodb://host/db?",
    "mongodb://host/?",
    "http://host",
    "mongodb:/host",
    "",
    "mongodb+srv://",
    "mongodb+srv://a.b.c:5",
    "mongodb+srv://a.b.c,d.e.f",
    "mongodb+srv://a.b.c/?directConnection=true",
    "mongodb://a/?srvServiceName=x",
    "mongodb://a/?srvMaxHosts=1",
    "mongodb://a/?srvMaxHosts=0",
    "mongodb://a/?srvAllowedHostsSuffix=x.y",
]

BOOLEANS = ("true", "false", "True", "1", "")
NUMBERS = ("0", "1", "-1", "5", "1.5", "x", "", "1000000000000", "None")

VALUES = {
    **{row.name: BOOLEANS for row in options.URI_OPTIONS.values() if row.check is options.check.boolean},
    **dict.fromkeys(
        (
            "connectTimeoutMS",
            "heartbeatFrequencyMS",
            "localThresholdMS",
            "maxAdaptiveRetries",
            "maxConnecting",
            "maxIdleTimeMS",
            "maxPoolSize",
            "maxStalenessSeconds",
            "minPoolSize",
            "serverSelectionTimeoutMS",
            "socketTimeoutMS",
            "timeoutMS",
            "w",
            "waitQueueMultiple",
            "waitQueueTimeoutMS",
            "wTimeoutMS",
            "zlibCompressionLevel",
        ),
        NUMBERS,
    ),
    "ssl": BOOLEANS,
    "appname": ("x", "é" * 64, "é" * 65, "a%20b", "a+b"),
    "authMechanism": ("SCRAM-SHA-256", "GSSAPI", "NOPE", "plain"),
    "authMechanismProperties": (
        "SERVICE_NAME:a,CANONICALIZE_HOST_NAME:true",
        "CANONICALIZE_HOST_NAME:forward",
        "CANONICALIZE_HOST_NAME:maybe",
        "NOPE:1",
        "SERVICE_NAME",
        "AWS_SESSION_TOKEN:a%2Bb",
        "x,AWS_SESSION_TOKEN:a",
    ),
    "authSource": ("db", "$external", ""),
    # Not snappy and zstd: PyMongo has those only with extra packages.
    "compressors": ("zlib", "zlib,nope", "nope", ""),
    "datetime_conversion": ("1", "DATETIME_MS", "datetime_auto", "2", "9", "nope"),
    "readConcernLevel": ("majority", ""),
    "readPreference": ("primary", "secondaryPreferred", "SECONDARY", "secondary_preferred", ""),
    "readPreferenceTags": ("dc:ny", "dc:ny,rack:1", "", "dc", "dc:ny:x", "dc%3Any", "d%3Ac:n%2Cy"),
    "replicaSet": ("rs0", ""),
    "serverMonitoringMode": ("auto", "stream", "poll", "push"),
    "srvServiceName": ("x",),
    "tlsCAFile": ("/etc/hostname", "/does/not/exist"),
    "tlsCertificateKeyFilePassword": ("x",),
    "unicode_decode_error_handler": ("strict", "replace", "ignore", "nope"),
    "uuidRepresentation": ("standard", "javaLegacy", "pythonLegacy", "csharpLegacy", "unspecified", "nope"),
    "noSuchOption": ("1",),
}

SETS = [
    "w=1&journal=true",
    "w=1;journal=true",
    "w=1&journal=true;x=1",
    "w",
    "w=",
    "=1",
    "w=1=2",
    "w=1&",
    "&",
    "w=1&w=2",
    "w=1 ",
    " ",
    "w=1 x",
    "W=1&w=2",
    "readPreference=secondary&readPreferenceTags=dc:ny&readPreferenceTags=&readpreferencetags=dc:la",
    "ssl=true&tls=true",
    "ssl=true&tls=false",
    "ssl=true&tls=1",
    "tlsInsecure=true",
    "tlsInsecure=false&tls=true",
    "tlsInsecure=true&tlsAllowInvalidCertificates=true",
    "tlsInsecure=true&tlsAllowInvalidHostnames=false",
    "tlsInsecure=true&tlsDisableOCSPEndpointCheck=true",
    "tlsAllowInvalidCertificates=true&tlsDisableOCSPEndpointCheck=true",
    "tlsAllowInvalidCertificates=false&tlsDisableOCSPEndpointCheck=false",
    "directConnection=true&replicaSet=rs",
    "directConnection=true&loadBalanced=true",
    "loadBalanced=true&replicaSet=rs",
    "loadBalanced=true",
    "authSource=",
    "MAXPOOLSIZE=5&maxidletimems=1000",
]

URIS = [
    *HOSTS,
    *(f"mongodb://h/?{name}={value}" for name, values in VALUES.items() for value in values),
    *(f"mongodb://h/?{text}" for text in SETS),
    "mongodb://a,b/?directConnection=true",
    "mongodb://a,b/?directConnection=false",
    "mongodb://a,b/?loadBalanced=true",
]


# Classes of this driver's error tree that PyMongo's lacks.
ADDED = {"UnsafeValueError", "UsageError"}


def _outcome(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = call()
        except Exception as error:
            return "raises", [base.__name__ for base in type(error).__mro__ if base.__name__ not in ADDED]
    # PyMongo's parse_uri reads the options twice and warns twice.
    return value, {warning.category.__name__ for warning in caught}


@pytest.mark.parametrize("warn", [False, True])
@pytest.mark.parametrize("uri", URIS)
def test_uri_is_parsed_as_by_pymongo(uri: str, warn: bool) -> None:
    ours = _outcome(lambda: uri_parser.parse_uri(uri, warn=warn))
    theirs = _outcome(lambda: pymongo.uri_parser.parse_uri(uri, warn=warn))

    assert ours == theirs


@pytest.mark.parametrize("text", [uri.partition("?")[2] for uri in URIS if "?" in uri])
@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_options_are_split_as_by_pymongo(text: str, validate: bool, normalize: bool) -> None:
    def split(parser: Any) -> dict[str, Any]:
        options = parser.split_options(text, validate=validate, warn=True, normalize=normalize)
        return {name: options[name] for name in options}

    assert _outcome(lambda: split(uri_parser)) == _outcome(lambda: split(pymongo.uri_parser_shared))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        *(("parse_host", (host,)) for host in ("a", "A:5", "a:x", "[::1]:5", "x.sock", "a:b:c", "a:99999")),
        *(("parse_ipv6_literal_host", (host, 5)) for host in ("[::1]", "[::1]:7", "[::1", "[a]:")),
        *(("parse_userinfo", (text,)) for text in ("u:p", "u", ":p", "", "u%40:p", "u%", "a:b:c", "a@b")),
        *(("split_hosts", (text,)) for text in ("a", "a:1,B:2", "", "a,", "%2Fx.sock", "a%", "[::1%25e]")),
        *(("split_hosts", (text, None)) for text in ("a", "a:1,b")),
        *(("validate_options", ({"W": "1"}, warn)) for warn in (True, False)),
        *(("validate_options", ({"nope": "1", "W": "x"}, warn)) for warn in (True, False)),
    ],
    ids=str,
)
def test_helper_of_the_parser_equals_pymongos(function: str, arguments: tuple[Any, ...]) -> None:
    ours = _outcome(lambda: getattr(uri_parser, function)(*arguments))
    theirs = _outcome(lambda: getattr(pymongo.uri_parser_shared, function)(*arguments))

    assert ours == theirs


def test_every_option_of_pymongo_is_known() -> None:
    from pymongo import common

    # PyMongo has no SOCKS5.
    own = {"proxyhost", "proxypassword", "proxyport", "proxyusername"}
    assert set(options.URI_OPTIONS) - own == set(common.URI_OPTIONS_VALIDATOR_MAP)
    # Ours alone: a ready SSL context, where PyMongo accepts files only; advice, metrics and spans.
    assert set(options.ALL_OPTIONS) - {"advise", "metrics", "ssl_context", "tracing"} - own == set(
        common.VALIDATORS
    )


@pytest.mark.parametrize("name", ["maxpolsize", "Fooo", "replicatset", "x" * 40])
def test_unknown_keyword_is_refused_with_pymongos_suggestions(name: str) -> None:
    with pytest.raises(pymongo.errors.ConfigurationError) as theirs:
        pymongo.MongoClient(connect=False, **{name: 1})
    with pytest.raises(uri_parser.ConfigurationError) as ours:
        _options(**{name: 1})

    assert str(ours.value).partition(" Did")[0] == str(theirs.value).partition(" Did")[0]
    assert ("Did you mean" in str(ours.value)) == ("Did you mean" in str(theirs.value))


def _options(host: Any = None, **keywords: Any) -> ClientOptions:
    named = (
        keywords.pop(name, None)
        for name in ("port", "document_class", "tz_aware", "connect", "type_registry")
    )
    return ClientOptions.from_arguments(host, *named, keywords)


KEYWORDS: list[dict[str, Any]] = [
    {},
    {"host": "a"},
    {"host": ["a", "b:5", "a:27017"]},
    {"host": "mongodb://a:1,b/db?w=2&maxPoolSize=7"},
    {"host": ["mongodb://a", "mongodb://b"]},
    {"host": []},
    {"host": "a", "port": 5},
    {"host": "a", "port": "5"},
    {"host": "mongodb://h/?readPreference=secondary&readPreferenceTags=dc:ny&maxStalenessSeconds=100"},
    {"host": "mongodb://h/?readPreference=primary&readPreferenceTags=dc:ny"},
    {"host": "mongodb://h/?maxPoolSize=5", "maxPoolSize": 6},
    {"host": "mongodb://h/?maxPoolSize=x", "minPoolSize": 6},
    {"host": "mongodb://h/?tz_aware=true"},
    {"host": "mongodb://h/?tz_aware=true", "tz_aware": False},
    {"host": "mongodb://h/?connect=true"},
    {"MAXpoolSIZE": 5},
    {"maxPoolSize": 0, "minPoolSize": 5},
    {"maxPoolSize": 4, "minPoolSize": 5},
    {"heartbeatFrequencyMS": 499},
    {"heartbeatFrequencyMS": 500},
    {"directConnection": True, "host": ["a", "b"]},
    {"directConnection": True, "replicaSet": "rs"},
    {"w": 2, "wTimeoutMS": 5, "journal": True},
    {"w": 0, "journal": True},
    {"journal": True, "fsync": True},
    {"readPreference": "nearest", "maxStalenessSeconds": 90},
    {"readConcernLevel": "majority"},
    {"tls": False},
    {"tls": False, "tlsAllowInvalidCertificates": True},
    {"tls": False, "tlsAllowInvalidCertificates": False},
    {"tls": False, "tlsCAFile": "/etc/hostname"},
    {"tlsCAFile": "/does/not/exist"},
    {"ssl": False},
    {"ssl": False, "tls": True},
    {"tlsInsecure": True, "tlsAllowInvalidHostnames": True},
    {"document_class": list},
    {"document_class": 5},
    {"tzinfo": timezone(timedelta(hours=1)), "tz_aware": True},
    {"tzinfo": timezone(timedelta(hours=1))},
    {"tzinfo": 5, "tz_aware": True},
    {"type_registry": 5},
    {"uuidRepresentation": "standard"},
    {"datetime_conversion": "DATETIME_MS"},
    {"read_preference": 5},
    {"driver": 5},
    {"server_api": 5},
    {"appname": "x" * 129},
    {"appname": "app"},
    {"localThresholdMS": 0},
    {"serverSelectionTimeoutMS": 0},
    {"serverSelectionTimeoutMS": None},
    {"timeoutMS": 0},
    {"timeoutMS": 1500},
    {"username": "u", "password": "p"},
    {"host": "mongodb://u:p@h/db", "authMechanism": "SCRAM-SHA-256"},
    {"compressors": "zlib", "zlibCompressionLevel": 5},
    {"loadBalanced": True},
    {"tls": True},
    {"max_adaptive_retries": 5, "maxAdaptiveRetries": 4},
    {"enable_overload_retargeting": True},
    {"connectTimeoutMS": 0, "socketTimeoutMS": 0},
    {"connectTimeoutMS": None, "socketTimeoutMS": None, "waitQueueTimeoutMS": None, "maxPoolSize": None},
    {"retryWrites": False, "retryReads": "false"},
    {"retryWrites": 1},
    {"event_listeners": 5},
    {"username": ""},
    {"username": "", "password": ""},
    {"host": "mongodb://u:p@h", "username": ""},
    {"username": 5},
    {"password": 5},
    {"compressors": 5},
    {"server_selector": 5},
    {"zlibCompressionLevel": 10},
    {"serverMonitoringMode": "poll"},
    {"authMechanismProperties": 5},
]


OPTIONS = (
    *("connect", "direct_connection", "local_threshold_ms", "server_selection_timeout", "replica_set_name"),
    *("heartbeat_frequency", "timeout", "retry_writes", "retry_reads", "load_balanced"),
    *("max_adaptive_retries", "server_monitoring_mode", "auto_encryption_opts"),
    "enable_overload_retargeting",
)
POOL_OPTIONS = (
    *("max_pool_size", "min_pool_size", "max_connecting", "max_idle_time_seconds", "connect_timeout"),
    *("socket_timeout", "wait_queue_timeout", "tls_allow_invalid_hostnames", "appname", "driver"),
    *("server_api", "load_balanced", "non_default_options"),
)
CONCERNS = ("read_preference", "write_concern", "read_concern")
CODEC_OPTIONS = ("document_class", "tz_aware", "uuid_representation", "tzinfo")


def _shown(options: Any, seeds: Any) -> dict[str, Any]:
    codec = options.codec_options
    shown = {name: getattr(options, name) for name in OPTIONS}
    shown |= {name: getattr(options.pool_options, name) for name in POOL_OPTIONS}
    shown |= {name: repr(getattr(options, name)) for name in CONCERNS}
    shown |= {name: getattr(codec, name) for name in CODEC_OPTIONS}
    return shown | {"conversion": codec.datetime_conversion.name, "seeds": set(seeds)}


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
def test_client_options_are_those_of_pymongo(keywords: dict[str, Any]) -> None:
    def theirs() -> Any:
        with pymongo.MongoClient(**{"connect": False, **keywords}) as client:
            return _shown(client.options, client._topology_settings.seeds)

    def ours() -> Any:
        options = _options(**{"connect": False, **keywords})
        return _shown(options, options.seeds)

    assert _outcome(ours) == _outcome(theirs)


def test_instances_are_taken_as_options() -> None:
    ours = _options(
        read_preference=read_preferences.Secondary(),
        driver=driver_info.DriverInfo("wrapper", "1"),
        server_api=server_api.ServerApi("1", strict=True),
    )

    assert ours.read_preference == read_preferences.Secondary()
    assert ours.pool_options.driver == ("wrapper", "1", None)
    assert ours.core_options()["api_strict"] is True


@pytest.mark.parametrize("direct", [True, False, None])
@pytest.mark.parametrize(
    "hosts",
    [["a", "b"], ["a:1", "a:2"], "a,b", "mongodb://a,b", ["mongodb://a,b"], ["a", "a"], ["a"], "a"],
    ids=str,
)
def test_several_hosts_are_named_for_a_direct_connection_as_in_pymongo(
    hosts: Any, direct: bool | None
) -> None:
    options = {} if direct is None else {"directConnection": direct}

    def made(client_class: Any) -> bool:
        with client_class(hosts, connect=False, **options) as client:
            return bool(client.options)

    assert _outcome(lambda: made(MongoClient)) == _outcome(lambda: made(pymongo.MongoClient))
