"""Callbacks of MONGODB-OIDC: how an application hands the driver its access tokens.

Names and fields are PyMongo's. Spec: auth, "MONGODB-OIDC".
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["OIDCCallback", "OIDCCallbackContext", "OIDCCallbackResult", "OIDCIdPInfo"]


@dataclass
class OIDCIdPInfo:
    """The identity provider that the server trusts.

    Attributes:
        issuer: URL of the provider's discovery document, without its well-known path.
        clientId: the application's name there.
        requestScopes: scopes to ask for besides.
    """

    issuer: str
    clientId: str | None = None  # noqa: N815  # the server's spelling
    requestScopes: list[str] | None = None  # noqa: N815


@dataclass
class OIDCCallbackContext:
    """What a callback is told.

    Attributes:
        timeout_seconds: after this time nobody waits for the token any more.
        username: of the connection string, or an empty string.
        version: of this interface: 1.
        refresh_token: what an earlier result carried. Human callbacks only.
        idp_info: the identity provider to ask. Human callbacks only.
    """

    timeout_seconds: float
    username: str
    version: int
    refresh_token: str | None = field(default=None, repr=False)
    idp_info: OIDCIdPInfo | None = None


@dataclass
class OIDCCallbackResult:
    """What a callback returns. Its tokens are not shown by `repr`.

    Attributes:
        access_token: the token that the server gets.
        expires_in_seconds: accepted for compatibility; a token is used until the server refuses it.
        refresh_token: given back to the callback when the access token has expired. Human callbacks only.
    """

    access_token: str = field(repr=False)
    expires_in_seconds: float | None = None
    refresh_token: str | None = field(default=None, repr=False)


class OIDCCallback(abc.ABC):
    """Base class of callbacks; pass an instance as the mechanism property OIDC_CALLBACK or OIDC_HUMAN_CALLBACK.

    Example:
        >>> class FromFile(OIDCCallback):
        ...     def fetch(self, context):
        ...         with open("/run/secrets/token") as file:
        ...             return OIDCCallbackResult(access_token=file.read())
        >>> MongoClient(authMechanism="MONGODB-OIDC", authMechanismProperties={"OIDC_CALLBACK": FromFile()})
    """

    @abc.abstractmethod
    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult | Awaitable[OIDCCallbackResult]:
        """Return a token; with an AsyncMongoClient it may be a coroutine function.

        Called by one thread at a time, and not again within 100 ms. What it raises is raised by the operation that
        needed the token.

        Args:
            context: what the server said about its identity provider, and the refresh token of the last time.

        Example:
            >>> class FromFile(OIDCCallback):
            ...     def fetch(self, context):
            ...         with open("/run/secrets/token") as file:
            ...             return OIDCCallbackResult(access_token=file.read())
        """
