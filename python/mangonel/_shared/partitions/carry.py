"""Carries a client's hosts and options, but no secrets, to other processes; each process makes the client once.

Passwords and other secret options come from the environment of the other process, or from a function of the
application. Spec: none.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from mangonel._light import Mapping
from mangonel._shared.settings import Settings
from mangonel.client_options import is_open_property
from mangonel.errors import ConfigurationError
from mangonel.uri_parser import TLS_INSECURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ENVIRONMENT = "MANGONEL_URI"
"""The environment variable with the URI for partitions that come from other processes."""

# Secret options: the other process must get them from elsewhere.
_SECRETS = ("proxypassword", "tlscertificatekeyfilepassword")
# Options whose objects belong to this process.
_FIXED = ("auto_encryption_opts", "ssl_context")
# Options that partitions do not need (listeners of this process) or carry themselves (settings of collections).
_LEFT_BEHIND = frozenset(
    [
        "advise",
        "connect",
        "document_class",
        "datetime_conversion",
        "event_listeners",
        "fsync",
        "journal",
        "maxstalenessseconds",
        "password",
        "read_preference",
        "readconcernlevel",
        "readpreference",
        "readpreferencetags",
        "tracing",
        "type_registry",
        "tz_aware",
        "tzinfo",
        "unicode_decode_error_handler",
        "username",
        "uuidrepresentation",
        "w",
        "waitqueuemultiple",
        "wtimeoutms",
    ]
)
# Time options whose checks return milliseconds; the others return seconds.
_MILLISECONDS = ("localthresholdms",)


def check_connect(connect: Any) -> None:
    """Raise unless another process can use this value of `connect=`.

    Raises:
        TypeError: `connect` is neither a function nor a name.
        ConfigurationError: `connect` is a URI; the message does not show it, since it may have a password.
    """
    if connect is not None and not isinstance(connect, str) and not callable(connect):
        raise TypeError(
            "expected a function, or the name of an environment variable, as connect, got "
            f"{type(connect).__name__}"
        )
    if isinstance(connect, str) and "://" in connect:
        raise ConfigurationError(
            "expected the name of an environment variable as connect, got a URI; set a variable to it, or pass a "
            "function that returns it"
        )


class Carried:
    """How another process reaches the deployment of a client.

    Args:
        uri: the hosts, without a user.
        options: keyword arguments of the client.
        lacking: the missing options, for an error message; None: none are missing.
        connect: a function, or the name of an environment variable, in place of all the others.
    """

    __slots__ = ("connect", "lacking", "options", "uri")

    def __init__(
        self,
        uri: str | None,
        options: dict[str, Any],
        lacking: str | None,
        connect: Callable[[], object] | str | None,
    ) -> None:
        self.uri, self.options, self.lacking, self.connect = uri, options, lacking, connect

    def __reduce__(self) -> tuple[object, ...]:
        return Carried, (self.uri, self.options, self.lacking, self.connect)

    def key(self) -> Any:
        """Return a key that identifies the client."""
        return self.uri, repr(sorted(self.options.items())), self.connect


def carried(client: Any, connect: Callable[[], object] | str | None) -> Carried:
    """Describe a client for another process.

    Args:
        client: a client of either face.
        connect: as for `Collection.partitions`.

    Raises:
        ConfigurationError: the client has an option that exists only in this process, and `connect` is None.
    """
    made = client._options
    given = made._options
    if connect is not None:
        # The function supplies hosts, secrets and options.
        return Carried(None, {}, None, connect)
    for name in _FIXED:
        if given.get(name) is not None:
            raise ConfigurationError(
                f"expected a client that can be made again in another process, got one with {name}; pass "
                "connect=, a function that returns a client, to partitions()"
            )
    lacking = [name for name in _SECRETS if given.get(name)]
    options = {name: value for name, value in map(_as_given, given.items()) if value is not None}
    credentials = made._credentials
    properties = options.get("authmechanismproperties") or {}
    if credentials is not None:
        if credentials.password is not None:
            lacking.insert(0, f"the password of {credentials.username!r}")
        elif credentials.username:
            options["username"] = credentials.username
        options.setdefault("authsource", credentials.source)
        lacking += [name for name in properties if not is_open_property(name)]
        if lacking:
            # Without the secret, the other credentials are useless.
            for name in ("username", "authmechanism", "authmechanismproperties", "authsource"):
                options.pop(name, None)
    if "tlsinsecure" in options:
        # A client refuses tlsInsecure together with the options that it sets.
        for name in TLS_INSECURE:
            options.pop(name.lower(), None)
    for name in _SECRETS:
        options.pop(name, None)
    return Carried(_uri(made), options, ", ".join(lacking) or None, None)


def _as_given(option: tuple[str, Any]) -> tuple[str, Any]:
    """Return name and value as a client accepts them; the value is None for an option to leave out."""
    name, value = option
    name = name.lower()
    if name in _LEFT_BEHIND or value is None:
        return name, None
    if name.endswith("ms") and name not in _MILLISECONDS:
        return name, value * 1000
    return name, value


def _uri(options: Any) -> str:
    if options.srv is not None:
        return f"mongodb+srv://{options.srv.name}/"
    from urllib.parse import quote

    hosts = []
    for host, port in options.seeds:
        if port is None:
            hosts.append(quote(host, safe=""))
        else:
            hosts.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return f"mongodb://{','.join(hosts)}/"


# One client for each deployment and face, for the life of the process. It works in a forked child, as any client does.
_clients: dict[Any, Any] = {}
_lock = allocate_lock()


def client_for(carried: Carried, kind: type[Any]) -> Any:
    """Return this process's client for a carried one; make it at first use. Sends nothing.

    Args:
        carried: the other process's description.
        kind: the class of the client.

    Raises:
        ConfigurationError: the environment lacks the URI or a secret, or `connect` returned no client, URI or mapping
            of options.
    """
    key = kind, *carried.key()
    with _lock:
        client = _clients.get(key)
        if client is None or client._core.is_closed:
            if not _clients:
                from atexit import register

                # The exit handler runs before the interpreter clears its modules.
                register(_clients.clear)
            client = _clients[key] = _made(carried, kind)
        return client


def _made(carried: Carried, kind: type[Any]) -> Any:
    connect = carried.connect
    if connect is None:
        uri = os.environ.get(ENVIRONMENT)
        if uri is not None:
            return kind(uri)
        if carried.lacking is not None:
            raise ConfigurationError(
                f"expected the environment variable {ENVIRONMENT} in this process, got none, and a partition never "
                f"carries {carried.lacking}; set it to a URI, or pass connect= to partitions()"
            )
        return kind(carried.uri, **carried.options)
    if isinstance(connect, str):
        uri = os.environ.get(connect)
        if uri is None:
            raise ConfigurationError(
                f"expected a URI in the environment variable {connect}, as connect= says, got none; set it in this "
                "process"
            )
        return kind(uri)
    given = connect()
    if isinstance(given, str):
        return kind(given)
    if isinstance(given, Settings) and getattr(given, "_core", None) is not None:
        if given._port.is_async is not kind._port_class.is_async:  # type: ignore[attr-defined]  # a client's
            raise ConfigurationError(f"expected {kind.__name__} from connect=, got {type(given).__name__}")
        return given
    if isinstance(given, Mapping):
        return kind(**given)
    raise ConfigurationError(
        f"expected a client, a URI or a mapping of a client's arguments from connect=, got {type(given).__name__}"
    )
