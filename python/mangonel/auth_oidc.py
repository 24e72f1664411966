"""Callbacks of MONGODB-OIDC: applications pass access tokens to the driver with them.

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
        clientId: the application's id at the provider.
        requestScopes: scopes to request in addition.
    """

    issuer: str
    clientId: str | None = None  # noqa: N815  # the server's spelling
    requestScopes: list[str] | None = None  # noqa: N815


@dataclass
class OIDCCallbackContext:
    """The arguments of a callback.

    Attributes:
        timeout_seconds: the driver stops waiting for the token after this time.
        username: the user name of the connection string, or an empty string.
        version: the version of this interface: 1.
        refresh_token: the refresh token of an earlier result. Human callbacks only.
        idp_info: the identity provider to use. Human callbacks only.
    """

    timeout_seconds: float
    username: str
    version: int
    refresh_token: str | None = field(default=None, repr=False)
    idp_info: OIDCIdPInfo | None = None


@dataclass
class OIDCCallbackResult:
    """The result of a callback. `repr` does not show its tokens.

    Attributes:
        access_token: the token to send to the server.
        expires_in_seconds: accepted for compatibility; a token is used until the server refuses it.
        refresh_token: passed to the callback again after the access token has expired. Human callbacks only.
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
        """Return a token. With an AsyncMongoClient this may be a coroutine function.

        One thread at a time calls it, at most once in 100 ms. The operation that needs the token raises any exception
        from it.

        Args:
            context: the server's identity provider, and the last refresh token.

        Example:
            >>> class FromFile(OIDCCallback):
            ...     def fetch(self, context):
            ...         with open("/run/secrets/token") as file:
            ...             return OIDCCallbackResult(access_token=file.read())
        """
