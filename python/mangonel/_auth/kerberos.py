"""GSSAPI: a Kerberos ticket authenticates the user, and the same conversation authenticates the server.

The library `gssapi`, the extra `mangonel[gssapi]`, asks the realm's KDC and reads the answers. Spec: auth, "GSSAPI";
RFC 4752.
"""

from __future__ import annotations

import _thread
import socket
from typing import TYPE_CHECKING, Any

from mangonel.errors import ConfigurationError, OperationFailure, ProtocolError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Mapping

SERVICE_NAME = "mongodb"
# The bit for messages without protection, in the server's offer and in the client's choice.
NO_SECURITY_LAYER = 1
OFFER_SIZE = 4
# Credentials obtained with a password are replaced when they have fewer seconds left.
LEAST_LIFETIME_S = 60


class KerberosResponder:
    """The Kerberos identity of one client.

    Args:
        username: the principal, such as `ada@EXAMPLE.ORG`.
        password: its password. None: the credentials are in a cache, such as `kinit` fills, or in a client keytab.
        properties: SERVICE_NAME, SERVICE_REALM, SERVICE_HOST and CANONICALIZE_HOST_NAME.
    """

    def __init__(self, username: str, password: str | None, properties: Mapping[str, Any]) -> None:
        self._username = username
        self._password = password
        self._properties = properties
        self._lock = _thread.allocate_lock()
        self._credentials: Any = None

    def __repr__(self) -> str:
        return f"KerberosResponder(username={self._username!r})"

    def respond(
        self,
        challenge: bytes | None,
        state: Any,
        refused: int | None,
        timeout: float | None,
        loop: AbstractEventLoop | None,
        host: str,
    ) -> tuple[bytes, int, bool, Any]:
        """Return the client's next message and the security context of this conversation.

        Raises:
            ConfigurationError: `gssapi` is not installed. Nothing was sent.
            OperationFailure: no ticket for this user and server, or the server could not prove itself.
            ProtocolError: the server sent a message that does not belong to the conversation.
        """
        gssapi = _gssapi()
        try:
            if challenge is None:
                context = gssapi.SecurityContext(
                    name=self._service(gssapi, host),
                    creds=self._credentials_now(gssapi),
                    mech=gssapi.MechType.kerberos,
                    flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
                    usage="initiate",
                )
                return context.step() or b"", 0, False, context
            if state is None:
                raise ProtocolError("expected the server to end the GSSAPI conversation, got another message")
            if state.complete:
                return self._choose(state, challenge), 0, False, None
            return state.step(challenge) or b"", 0, False, state
        except gssapi.exceptions.GSSError as error:
            raise OperationFailure(self._explain(host, error)) from error

    def after_fork(self) -> None:
        """Replace the lock that another thread of the parent may hold."""
        self._lock = _thread.allocate_lock()

    def _service(self, gssapi: Any, host: str) -> Any:
        properties = self._properties
        service = properties.get("SERVICE_NAME", SERVICE_NAME)
        host = canonical_host(
            properties.get("SERVICE_HOST", host), properties.get("CANONICALIZE_HOST_NAME", False)
        )
        realm = properties.get("SERVICE_REALM")
        if realm is None:
            return gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        return gssapi.Name(f"{service}/{host}@{realm}", gssapi.NameType.kerberos_principal)

    def _credentials_now(self, gssapi: Any) -> Any:
        name = gssapi.Name(self._username, gssapi.NameType.kerberos_principal)
        if self._password is None:
            return gssapi.Credentials(name=name, mechs=[gssapi.MechType.kerberos], usage="initiate")
        # The credentials also hold the servers' tickets, so a further connection needs no KDC.
        with self._lock:
            if self._credentials is None or _lifetime(gssapi, self._credentials) < LEAST_LIFETIME_S:
                acquired = gssapi.raw.acquire_cred_with_password(
                    name, self._password.encode(), mechs=[gssapi.MechType.kerberos], usage="initiate"
                )
                self._credentials = gssapi.Credentials(acquired.creds)
            return self._credentials

    def _choose(self, context: Any, challenge: bytes) -> bytes:
        """Answer the server's offer of security layers: none, and the name of the user."""
        offer: bytes = context.unwrap(challenge).message
        if len(offer) != OFFER_SIZE or not offer[0] & NO_SECURITY_LAYER:
            raise ProtocolError(
                f"expected a GSSAPI offer of {OFFER_SIZE} bytes that allows no security layer, got {offer.hex()!r}"
            )
        choice = bytes([NO_SECURITY_LAYER, 0, 0, 0]) + self._username.encode()
        return context.wrap(choice, False).message

    def _explain(self, host: str, error: Exception) -> str:
        if self._password is None:
            remedy = f"`klist` shows the tickets, `kinit {self._username}` gets one"
        else:
            remedy = "check the password, and the realm in krb5.conf"
        return f"{host}: cannot authenticate {self._username!r} with GSSAPI: {error}; {remedy}"


def canonical_host(host: str, kind: bool | str) -> str:
    """Return the host name of the service's principal.

    Args:
        host: as in the connection string.
        kind: the value of CANONICALIZE_HOST_NAME.
    """
    if kind in (False, "none"):
        return host
    try:
        *_, name, address = socket.getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME
        )[0]
        if kind != "forward":
            name = socket.getnameinfo(address, socket.NI_NAMEREQD)[0]
    except socket.gaierror as error:
        raise OperationFailure(
            f"{host}: cannot look up the name that CANONICALIZE_HOST_NAME asks for: {error}"
        ) from error
    return (name or host).lower()


def _lifetime(gssapi: Any, credentials: Any) -> float:
    try:
        lifetime = credentials.lifetime
    except gssapi.exceptions.ExpiredCredentialsError:
        return 0
    return float("inf") if lifetime is None else float(lifetime)


def _gssapi() -> Any:
    try:
        import gssapi
        import gssapi.exceptions
        import gssapi.raw
    except ImportError as error:
        raise ConfigurationError(
            "GSSAPI authentication requires gssapi: install with: python -m pip install 'mangonel[gssapi]'"
        ) from error
    return gssapi
