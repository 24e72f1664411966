"""Who a client authenticates as: the mechanisms there are, and a user checked against the rules of one.

Knows no connection; the conversation is the core's. Spec: auth; names and rules are PyMongo's.
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
"""The names of the mechanisms that options may name; GSSAPI is known and refused."""

EXTERNAL = "$external"

_NAMELESS = frozenset({"MONGODB-AWS", "MONGODB-OIDC", "MONGODB-X509"})


class MongoCredential:
    """A user as a client authenticates it; its password is never shown.

    Attributes:
        mechanism: name of the mechanism; `DEFAULT` lets the server say which SCRAM it has for the user.
        source: the database that knows the user; `$external` for mechanisms that ask somebody else.
        username, password: or None where the mechanism has none.
        mechanism_properties: the checked properties of the mechanism.
    """

    __slots__ = ("mechanism", "mechanism_properties", "password", "source", "username")

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


def build_credential(
    options: Mapping[str, Any], username: str | None, password: str | None, database: str | None
) -> MongoCredential | None:
    """Return the user that the options name, or None when they name nobody.

    Args:
        options: checked options by lower-case name.
        username, password, database: of the connection string or of keyword arguments.

    Raises:
        ConfigurationError, ValueError: the mechanism cannot do with what it is given. Nothing was sent.
    """
    mechanism: str | None = options.get("authmechanism")
    if mechanism is None:
        if username is None:
            return None
        mechanism = "DEFAULT"
    source: str | None = options.get("authsource")
    if not username and mechanism not in _NAMELESS:
        raise ConfigurationError(f"{mechanism} requires a username")
    if mechanism == "GSSAPI":
        raise ConfigurationError(
            "the mechanism GSSAPI (Kerberos) is not supported; use MONGODB-X509, or PLAIN with TLS"
        )
    if mechanism in _NAMELESS and source not in (None, EXTERNAL):
        # PyMongo raises either class, by the mechanism.
        kind = ValueError if mechanism == "MONGODB-X509" else ConfigurationError
        raise kind(f"authentication source must be $external or None for {mechanism}, not {source!r}")
    if mechanism == "MONGODB-X509":
        if password is not None:
            raise ConfigurationError(
                "passwords are not supported by MONGODB-X509: the certificate is the proof"
            )
        return MongoCredential(mechanism, EXTERNAL, username, None, {})
    if mechanism in ("MONGODB-AWS", "MONGODB-OIDC"):
        raise ConfigurationError(f"the mechanism {mechanism} is not supported yet")
    if mechanism == "PLAIN":
        if password is None:
            raise ConfigurationError("PLAIN requires a password")
        return MongoCredential(mechanism, source or database or EXTERNAL, username, password, {})
    if password is None:
        raise ConfigurationError(f"a password is required for the user {username!r}")
    if not password:
        raise ConfigurationError(
            f"the password of the user {username!r} is empty; the server has no such user"
        )
    return MongoCredential(mechanism, source or database or "admin", username, password, {})
