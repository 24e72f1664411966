"""The checks of client options: each takes an option's name and value, and returns the value to use.

They raise ValueError or TypeError, which become warnings for a URI. Times are passed in milliseconds and returned in
seconds, as in PyMongo's attributes. Spec: uri-options.
"""

from __future__ import annotations

from mangonel._arguments import expect_instance
from mangonel._light import Mapping, MutableMapping, Sequence
from mangonel.common import validate_boolean, validate_integer, validate_string
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

COMPRESSORS = ("snappy", "zlib", "zstd")

MECHANISMS = (
    "DEFAULT",
    "GSSAPI",
    "MONGODB-AWS",
    "MONGODB-OIDC",
    "MONGODB-X509",
    "PLAIN",
    "SCRAM-SHA-1",
    "SCRAM-SHA-256",
)

# Callbacks and lists of hosts can only be passed in a dict.
_OBJECT_PROPERTIES = ("OIDC_CALLBACK", "OIDC_HUMAN_CALLBACK", "ALLOWED_HOSTS")

# Properties that are allowed in a URI too.
_MECHANISM_PROPERTIES = (
    "AWS_SESSION_TOKEN",
    "CANONICALIZE_HOST_NAME",
    "ENVIRONMENT",
    "SERVICE_HOST",
    "SERVICE_NAME",
    "SERVICE_REALM",
    "TOKEN_RESOURCE",
)

_CANONICALIZE = {"true": True, "false": False} | {n: n for n in ("none", "forward", "forwardAndReverse")}

# The numbers of mangonel.bson.binary.UuidRepresentation.
_UUID_REPRESENTATIONS = {
    "unspecified": 0,
    "standard": 4,
    "pythonLegacy": 3,
    "javaLegacy": 5,
    "csharpLegacy": 6,
}

# Means "longer than any wait", in the option's unit.
_TOO_LARGE = 1e9


class UnsafeValueError(ValueError):
    """A wrong value that must not become a mere warning: credentials would go to the wrong service."""


def optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return a check that also accepts None."""

    def checked(option: str, value: Any) -> Any:
        return None if value is None else check(option, value)

    return checked


def boolean(option: str, value: Any) -> bool:
    """A bool, or `true` or `false` in a URI."""
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise ValueError(f"{option} must be 'true' or 'false', not {value!r}")
        return value == "true"
    return validate_boolean(option, value)


def positive_integer(option: str, value: Any) -> int:
    """An integer of at least 1."""
    number = validate_integer(option, value)
    if number <= 0:
        raise ValueError(f"{option} must be a positive integer, not {number}")
    return number


def non_negative_integer(option: str, value: Any) -> int:
    """An integer of at least 0."""
    number = validate_integer(option, value)
    if number < 0:
        raise ValueError(f"{option} must be a non negative integer, not {number}")
    return number


def integer_or_string(option: str, value: Any) -> int | str:
    """The value of `w`: a number of members or a name."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise TypeError(f"Wrong type for {option}, value must be an integer or a string, not {type(value)}")
    try:
        number = int(value)
    except ValueError:
        return value
    return non_negative_integer(option, number)


def positive_number(option: str, value: Any) -> float:
    """A number above 0 and below a billion."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{option} must be an integer or float, not {value!r}") from None
    except TypeError:
        raise TypeError(f"{option} must be an integer or float, not {type(value)}") from None
    if not 0 < number < _TOO_LARGE:
        raise ValueError(f"{option} must be greater than 0 and less than one billion, not {value!r}")
    return number


def non_negative_number(option: str, value: Any) -> float:
    """A number of at least 0 and below a billion."""
    return 0 if _is_zero(value) else positive_number(option, value)


def seconds(option: str, value: Any) -> float:
    """A time above 0."""
    return positive_number(option, value) / 1000.0


def seconds_or_zero(option: str, value: Any) -> float:
    """A time; 0 means "do not wait", and None is ignored."""
    if value is None:
        raise ConfigurationError(f"{option} cannot be None; leave it out for the default")
    return non_negative_number(option, value) / 1000.0 if not _is_zero(value) else 0


def seconds_or_unlimited(option: str, value: Any) -> float | None:
    """A time; 0 and None mean "no limit"."""
    return None if value is None or _is_zero(value) else seconds(option, value)


def deadline_seconds(option: str, value: Any) -> float:
    """The value of timeoutMS; 0 means "no limit" and stays 0."""
    return non_negative_number(option, value) / 1000.0


def max_staleness(option: str, value: Any) -> int:
    """Seconds above 0, or -1 for no limit."""
    return -1 if value in (-1, "-1") else positive_integer(option, value)


def app_name(option: str, value: Any) -> str:
    """A name of at most 128 bytes."""
    if (size := len(validate_string(option, value).encode())) > 128:
        raise ValueError(f"{option} must be <= 128 bytes, not {size}")
    return str(value)


def readable_file(option: str, value: Any) -> str:
    """The path of a readable file; otherwise raises OSError, which never becomes a warning."""
    with open(validate_string(option, value), "rb"):
        return str(value)


def one_of(*names: str) -> Callable[[str, Any], str]:
    """Return a check for one of these names."""

    def checked(option: str, value: Any) -> str:
        if value not in names:
            raise ValueError(f"{option} must be one of {', '.join(names)}, not {value!r}")
        return str(value)

    return checked


def read_preference_tags(option: str, value: Any) -> list[dict[str, str]]:
    """Tag sets as `dc:ny,rack:1`, one string per set; an empty string accepts any member."""
    tag_sets = []
    for tag_set in value if isinstance(value, list) else [value]:
        try:
            pairs = (tag.split(":") for tag in tag_set.split(",")) if tag_set != "" else ()
            tag_sets.append({unquote(key): unquote(tag) for key, tag in pairs})
        except Exception:
            raise ValueError(f"{tag_set!r} not a valid value for {option}; expected key:value,...") from None
    return tag_sets


def mechanism_properties(option: str, value: Any) -> dict[str, Any]:
    """Properties of an authentication mechanism as `KEY:value,...` or as a dict."""
    if isinstance(value, dict):
        return {key: _mechanism_property(option, key, item) for key, item in value.items()}
    if not isinstance(value, str):
        raise TypeError(f"{option} must be given as a string or a dictionary, not {type(value)}")
    properties: dict[str, Any] = {}
    for pair in unquote(value).split(","):
        key, _, item = pair.partition(":")
        if not item:
            raise ValueError(f"Malformed auth mechanism properties: expected {option} as KEY:value,...")
        if key not in _MECHANISM_PROPERTIES:
            # A token with a comma in it must not appear in a message or a log.
            found = "a key" if "AWS_SESSION_TOKEN" in value else key
            raise ValueError(
                f"{found} is not a supported auth mechanism property; expected one of {_MECHANISM_PROPERTIES}"
            )
        properties[key] = canonicalize_host_name(item) if key == "CANONICALIZE_HOST_NAME" else item
    return properties


def canonicalize_host_name(value: Any) -> bool | str:
    """The value of CANONICALIZE_HOST_NAME: a bool, or the kind of look-up."""
    if isinstance(value, bool):
        return value
    if value not in _CANONICALIZE:
        raise UnsafeValueError(f"CANONICALIZE_HOST_NAME {value!r} must be one of {tuple(_CANONICALIZE)}")
    return _CANONICALIZE[value]


def _mechanism_property(option: str, key: str, value: Any) -> Any:
    known = (*_MECHANISM_PROPERTIES, *_OBJECT_PROPERTIES)
    if key not in known:
        raise UnsafeValueError(f"expected one of {', '.join(known)} in {option}, got {key!r}")
    if key == "CANONICALIZE_HOST_NAME":
        return canonicalize_host_name(value)
    if isinstance(value, bool):
        return str(value).lower()
    callback = key in _OBJECT_PROPERTIES[:2] and hasattr(value, "fetch")
    if isinstance(value, str) or callback or (key == "ALLOWED_HOSTS" and isinstance(value, list)):
        return value
    raise TypeError(f"wrong type for auth mechanism property {key}: {type(value)}")


def compressors(option: str, value: Any) -> list[str]:
    """Names of compressors in order of preference; unknown ones are dropped with a warning."""
    import warnings

    wanted = value.split(",") if isinstance(value, str) else list(value)
    for name in wanted:
        if name not in COMPRESSORS:
            warnings.warn(f"Unsupported compressor: {name}; known are {', '.join(COMPRESSORS)}", stacklevel=2)
    return [name for name in wanted if name in COMPRESSORS]


def proxy_host(option: str, value: Any) -> str:
    """A host name or address."""
    text = validate_string(option, value)
    if not text:
        raise ValueError(f"expected a host for {option}, got an empty string")
    if "/" in text or "@" in text or text.count(":") == 1:
        # The message does not show the value, since it may hold a password.
        raise ValueError(
            f"expected a name or an address alone for {option}, got a URL, a port or a user in it; "
            "use proxyPort, proxyUsername and proxyPassword"
        )
    return text


def port(option: str, value: Any) -> int:
    """A TCP port."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise TypeError(f"expected an integer for {option}, got {value!r}") from None
    if not 0 < number <= 65_535:
        raise ValueError(f"expected a port from 1 to 65535 for {option}, got {number}")
    return number


def proxy_secret(option: str, value: Any) -> str:
    """A proxy's user name or password; RFC 1929 has one byte for its length."""
    text = validate_string(option, value)
    if len(text.encode()) > 255:
        raise ValueError(f"expected at most 255 bytes for {option}, got {len(text.encode())}")
    return text


def zlib_level(option: str, value: Any) -> int:
    """-1 (zlib's default) to 9."""
    try:
        level = int(value)
    except Exception:
        raise TypeError(f"{option} must be an integer, not {value!r}") from None
    if not -1 <= level <= 9:
        raise ValueError(f"{option} must be between -1 and 9, not {level}")
    return level


def uuid_representation(option: str, value: Any) -> int:
    """The name of a UuidRepresentation in the spelling of URIs."""
    try:
        return _UUID_REPRESENTATIONS[value]
    except KeyError:
        raise ValueError(
            f"{value} is an invalid UUID representation; expected one of {tuple(_UUID_REPRESENTATIONS)}"
        ) from None


def datetime_conversion(option: str, value: Any) -> Any:
    """A DatetimeConversion, its name or its number."""
    from mangonel.bson.codec_options import DatetimeConversion

    if value is None:
        return DatetimeConversion.DATETIME
    if isinstance(value, str):
        return DatetimeConversion(int(value)) if value.isdigit() else DatetimeConversion[value]
    if isinstance(value, int):
        return DatetimeConversion(value)
    raise TypeError(f"{option} must be a str or int representing DatetimeConversion, not {type(value)}")


def document_class(option: str, value: Any) -> Any:
    """A class for decoded documents: a mutable mapping, or raw BSON."""
    # dict[str, Any] is not a class, but its origin is.
    kind = getattr(value, "__origin__", value)
    if isinstance(kind, type) and issubclass(kind, MutableMapping):
        return value
    if getattr(value, "_type_marker", None) == 101:
        return value
    raise TypeError(
        f"{option} must be dict, SON, RawBSONDocument or another MutableMapping class, not {value!r}"
    )


def type_registry(option: str, value: Any) -> Any:
    """A TypeRegistry."""
    from mangonel.bson.codec_options import TypeRegistry

    return expect_instance(option, value, TypeRegistry)


def tz_info(option: str, value: Any) -> Any:
    """A time zone."""
    import datetime

    return expect_instance(option, value, datetime.tzinfo)


def driver_info(option: str, value: Any) -> Any:
    """A DriverInfo."""
    from mangonel.driver_info import DriverInfo

    return expect_instance(option, value, DriverInfo)


def server_api(option: str, value: Any) -> Any:
    """A ServerApi."""
    from mangonel.server_api import ServerApi

    return expect_instance(option, value, ServerApi)


def read_preference(option: str, value: Any) -> Any:
    """A read preference."""
    from mangonel.read_preferences import _ServerMode

    if not isinstance(value, _ServerMode):
        raise TypeError(f"{value!r} is not a read preference; see mangonel.read_preferences")
    return value


def event_listeners(option: str, value: Any) -> Any:
    """A sequence of listeners."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{option} must be a list or tuple, not {type(value)}")
    if value:
        from mangonel.monitoring import check_listeners

        check_listeners(option, value)
    return value


def tracing(option: str, value: Any) -> Any:
    """The setting of spans: a bool, or a mapping of `enabled`, `query_text_max_length`, `query_text_values` and
    `tracer_provider`.
    """
    if isinstance(value, bool):
        return {"enabled": value}
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a bool or a mapping for {option}, got {type(value).__name__}")
    unknown = set(value) - {"enabled", "query_text_max_length", "query_text_values", "tracer_provider"}
    if unknown:
        raise ConfigurationError(
            f"unknown field {min(unknown)!r} in {option}; "
            "it has enabled, query_text_max_length, query_text_values and tracer_provider"
        )
    longest = value.get("query_text_max_length")
    if longest is not None:
        non_negative_integer("query_text_max_length", longest)
    for name in ("enabled", "query_text_values"):
        # Any non-empty text is true, even "false".
        if (given := value.get(name)) is not None and not isinstance(given, bool):
            raise TypeError(f"expected a bool for {name}, got {type(given).__name__}")
    provider = value.get("tracer_provider")
    if provider is not None and not callable(getattr(provider, "get_tracer", None)):
        raise TypeError(f"expected a TracerProvider for tracer_provider, got {type(provider).__name__}")
    return dict(value)


def callable_object(option: str, value: Any) -> Any:
    """A function."""
    if not callable(value):
        raise TypeError(f"{option} must be a callable, not {type(value)}")
    return value


def ssl_context(option: str, value: Any) -> Any:
    """An ssl.SSLContext for the client's side."""
    from ssl import SSLContext

    return expect_instance(option, value, SSLContext)


def encryption_options(option: str, value: Any) -> Any:
    """The options of automatic encryption, recognised by their methods, since their class may not be loaded."""
    if not hasattr(value, "_attach"):
        raise TypeError(f"{option} must be an instance of AutoEncryptionOpts, not {type(value)}")
    return value


def _is_zero(value: Any) -> bool:
    return bool(value == 0) or value == "0"


def unquote(text: str) -> str:
    """Return `text` with `%XX` and `+` decoded."""
    if "%" not in text:
        return text.replace("+", " ")
    from urllib.parse import unquote_plus

    return unquote_plus(text)
