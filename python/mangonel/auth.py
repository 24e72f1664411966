"""The user of a client: the authentication mechanisms, and the checks of credentials against their rules.

Knows no connection; the core runs the conversation. Spec: auth. Names and rules are PyMongo's.
"""

from __future__ import annotations

from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["MECHANISMS", "MongoCredential"]

MECHANISMS = frozenset(
    {
        "DEFAULT",
        "GSSAPI",
        "MONGODB-AWS",
        "MONGODB-OIDC",
        "MONGODB-X509",
        "PLAIN",
        "SCRAM-SHA-1",
        "SCRAM-SHA-256",
    }
)
"""The names of the mechanisms that options accept."""

EXTERNAL = "$external"

_NAMELESS = frozenset({"MONGODB-AWS", "MONGODB-OIDC", "MONGODB-X509"})
# The mechanisms that allow no other source.
_EXTERNAL = _NAMELESS | {"GSSAPI"}


class MongoCredential:
    """The credentials of a client's user. Their `repr` hides the password.

    Attributes:
        mechanism: name of the mechanism; with `DEFAULT` the server decides which SCRAM to use.
        source: the database that knows the user; `$external` for mechanisms with an external authority.
        username, password: None if the mechanism has none.
        mechanism_properties: the checked properties of the mechanism.
        responder: computes the client's messages if the core cannot; None for most mechanisms.
        allowed_hosts: patterns of the hosts that may receive the credentials; None for any.
    """

    __slots__ = (
        "allowed_hosts",
        "mechanism",
        "mechanism_properties",
        "password",
        "responder",
        "source",
        "username",
    )

    def __init__(
        self,
        mechanism: str,
        source: str,
        username: str | None,
        password: str | None,
        mechanism_properties: Mapping[str, Any],
    ) -> None:
        self.mechanism = mechanism
        self.source = source
        self.username = username
        self.password = password
        self.mechanism_properties = mechanism_properties
        self.responder: Any = None
        self.allowed_hosts: list[str] | None = None

    def _values(self) -> tuple[Any, ...]:
        properties = tuple(sorted((name, repr(value)) for name, value in self.mechanism_properties.items()))
        return self.mechanism, self.source, self.username, self.password, properties

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, MongoCredential) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return (
            f"MongoCredential(mechanism={self.mechanism!r}, source={self.source!r}, "
            f"username={self.username!r}, password={'None' if self.password is None else '<hidden>'})"
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            "cannot pickle a credential: its password would be readable; pass the options instead"
        )


_SECRETS = frozenset(
    {"authmechanismproperties", "password", "proxypassword", "tlscertificatekeyfilepassword"}
)


def has_secret(host: Any, keywords: Mapping[str, Any]) -> bool:
    """Return whether a client's arguments hold a secret."""
    hosts = [host] if isinstance(host, str) else host if isinstance(host, (list, tuple)) else ()
    in_hosts = any(
        mark in entity.lower()
        for entity in hosts
        if isinstance(entity, str)
        for mark in ("@", "%40", "password=", "aws_session_token")
    )
    return in_hosts or any(name.lower() in _SECRETS for name in keywords)


def without_frames(error: BaseException | None) -> None:
    """Remove the frames, and with them local variables, from an error and from its causes."""
    # An error may be its own cause: `raise error from error`.
    seen: set[int] = set()
    left = [error]
    while left:
        error = left.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = None
        # `__cause__` and `__context__` are the same for most errors; a tool may follow either.
        left += (error.__cause__, error.__context__)


def without_values(error: Exception) -> Exception:
    """Return the same error without frames and without the document that could not be sent."""
    from mangonel.errors import InvalidDocument

    if isinstance(error, InvalidDocument):
        return type(error)(str(error))
    if isinstance(error, UnicodeEncodeError):
        # The whole text is one of the error's arguments.
        culprit = error.object[error.start : error.end]
        return UnicodeEncodeError(error.encoding, culprit, 0, len(culprit), error.reason)
    without_frames(error)
    return error


def build_credential(
    options: Mapping[str, Any], username: str | None, password: str | None, database: str | None
) -> MongoCredential | None:
    """Return the credential that the options describe, or None if they name no user.

    Args:
        options: checked options by lower-case name.
        username, password, database: from the connection string or keyword arguments.

    Raises:
        ConfigurationError, ValueError: the options do not fit the mechanism. Nothing was sent.
    """
    # For a URI with a name and no password, the password is an empty string, which no mechanism accepts.
    password = password or None
    mechanism: str | None = options.get("authmechanism")
    if mechanism is None:
        if not username:
            return None
        mechanism = "DEFAULT"
    source: str | None = options.get("authsource")
    properties: Mapping[str, Any] = options.get("authmechanismproperties") or {}
    if not username and mechanism not in _NAMELESS:
        raise ConfigurationError(f"{mechanism} requires a username")
    if mechanism in _EXTERNAL and source not in (None, EXTERNAL):
        # PyMongo raises one class or the other, depending on the mechanism.
        kind = ValueError if mechanism == "MONGODB-X509" else ConfigurationError
        raise kind(f"authentication source must be $external or None for {mechanism}, not {source!r}")
    if mechanism == "MONGODB-X509":
        if password is not None:
            raise ConfigurationError(
                "passwords are not supported by MONGODB-X509: the certificate is the proof"
            )
        return MongoCredential(mechanism, EXTERNAL, username, None, {})
    if mechanism == "MONGODB-AWS":
        return _aws(username, password, properties)
    if mechanism == "MONGODB-OIDC":
        return _oidc(username, password, properties, options.get("authoidcallowedhosts"))
    if mechanism == "GSSAPI":
        return _gssapi(username or "", password, properties)
    if mechanism == "PLAIN":
        if password is None:
            raise ConfigurationError("PLAIN requires a password")
        for name, value in (("username", username or ""), ("password", password)):
            if "\0" in value:
                # The server would read the text after a NUL as the password (RFC 4616).
                raise ConfigurationError(f"expected a {name} without NUL, which separates both in PLAIN")
        return MongoCredential(mechanism, source or database or EXTERNAL, username, password, {})
    if password is None:
        raise ConfigurationError(f"a password is required for the user {username!r}")
    return MongoCredential(mechanism, source or database or "admin", username, password, {})


def _aws(username: str | None, password: str | None, properties: Mapping[str, Any]) -> MongoCredential:
    session_token = properties.get("AWS_SESSION_TOKEN")
    if username is not None and password is None:
        raise ConfigurationError("a username without a password is not supported by MONGODB-AWS")
    if session_token is not None and username is None:
        raise ConfigurationError(
            "AWS_SESSION_TOKEN goes with an access key id and a secret; give them as well"
        )
    from mangonel._auth.aws import AWSResponder

    credential = MongoCredential("MONGODB-AWS", EXTERNAL, username, password, {})
    credential.responder = AWSResponder(username, password, session_token)
    return credential


_GSSAPI_PROPERTIES = ("CANONICALIZE_HOST_NAME", "SERVICE_HOST", "SERVICE_NAME", "SERVICE_REALM")


def _gssapi(username: str, password: str | None, properties: Mapping[str, Any]) -> MongoCredential:
    from mangonel._auth.kerberos import SERVICE_NAME, KerberosResponder

    shown = {"SERVICE_NAME": SERVICE_NAME}
    shown.update({name: value for name, value in properties.items() if name in _GSSAPI_PROPERTIES})
    credential = MongoCredential("GSSAPI", EXTERNAL, username, password, shown)
    credential.responder = KerberosResponder(username, password, shown)
    return credential


# The hosts that may receive a human user's token, unless ALLOWED_HOSTS says otherwise (auth specification).
_OIDC_HOSTS = (
    "*.mongodb.net",
    "*.mongodb-qa.net",
    "*.mongodb-dev.net",
    "*.mongodbgov.net",
    "*.mongo.com",
    "localhost",
    "127.0.0.1",
    "::1",
)


def _oidc(
    username: str | None, password: str | None, properties: Mapping[str, Any], hosts: list[str] | None
) -> MongoCredential:
    callback: Any = properties.get("OIDC_CALLBACK")
    human: Any = properties.get("OIDC_HUMAN_CALLBACK")
    environment, resource = properties.get("ENVIRONMENT"), properties.get("TOKEN_RESOURCE", "")
    hosts = properties.get("ALLOWED_HOSTS", hosts)
    if password is not None:
        raise ConfigurationError("password is not supported by MONGODB-OIDC")
    if [callback, human, environment].count(None) != 2:
        raise ConfigurationError(
            "MONGODB-OIDC requires exactly one of the mechanism properties OIDC_CALLBACK, OIDC_HUMAN_CALLBACK and "
            "ENVIRONMENT"
        )
    if hosts is not None and human is None:
        raise ConfigurationError("ALLOWED_HOSTS is only valid with OIDC_HUMAN_CALLBACK")
    if environment is not None:
        from mangonel._auth.environments import ENVIRONMENTS, NEEDS_RESOURCE, EnvironmentCallback

        if environment not in ENVIRONMENTS:
            raise ConfigurationError(
                f"unrecognized ENVIRONMENT for MONGODB-OIDC: {environment}; known are {', '.join(ENVIRONMENTS)}"
            )
        if environment == "test" and username is not None:
            raise ConfigurationError("the test environment of MONGODB-OIDC does not support a username")
        if environment in NEEDS_RESOURCE and not resource:
            raise ConfigurationError(
                f"the {environment} environment of MONGODB-OIDC requires the mechanism property TOKEN_RESOURCE"
            )
        callback = EnvironmentCallback(environment, resource)
    from mangonel._auth.oidc import OIDCResponder

    shown = {name: value for name, value in properties.items() if name in ("ENVIRONMENT", "TOKEN_RESOURCE")}
    credential = MongoCredential("MONGODB-OIDC", EXTERNAL, username, None, shown)
    credential.responder = OIDCResponder(human or callback, username, is_human=human is not None)
    if human is not None:
        credential.allowed_hosts = list(_OIDC_HOSTS if hosts is None else hosts)
    return credential
