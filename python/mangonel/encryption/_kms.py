"""Requests to key management services: address, TLS, time limits and failures.

Each attempt has its own connection and time limit; libmongocrypt decides how often and after which delay to repeat it.
Requests and responses hold credentials and keys, so errors keep no frames that hold those.
Must not know: the key vault. Spec: client-side-encryption ("KMS", "kmsTLSOptions").
"""

from __future__ import annotations

import math
import time

from mangonel._faces import single_request
from mangonel._faces.deadline import remaining
from mangonel._faces.kms_connect import KMSConnectContext, check_callback, checked_socket
from mangonel._light import Any
from mangonel._options.tls import Security
from mangonel.auth import without_frames
from mangonel.encryption import _credentials
from mangonel.encryption._library import MongoCryptError
from mangonel.errors import ConfigurationError, ConnectionFailure, NetworkTimeout
from mangonel.options import validate_keyword
from mangonel.uri_parser import parse_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from socket import socket

    from mangonel._faces.port import Port
    from mangonel.encryption._library import Context, KmsRequest

# Seconds for one attempt, from the name look-up to the end of the response.
ATTEMPT_SECONDS = 10.0
_HTTPS = 443

# Credentials and keys must not go to a service whose identity is unverified.
_PROHIBITED = ("tlsinsecure", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames")


class Kms:
    """Sends requests to the services of one set of providers.

    Args:
        port: the face's port, which does the waiting.
        tls_options: provider -> TLS options of a client, or None.
        callback: opens the connections, as for `kms_connect_callback`; None: the driver opens them.

    Raises:
        TypeError, ConfigurationError: the options are wrong, or would accept an unverified service; the callback does
            not fit the face.
    """

    def __init__(
        self,
        port: Port,
        tls_options: Mapping[str, Any] | None,
        callback: Callable[[KMSConnectContext], object] | None = None,
    ) -> None:
        check_callback(callback, port.is_async)
        self._port = port
        self._callback = callback
        self._connect = single_request.answer_on_loop if port.is_async else single_request.call
        self._ask = single_request.ask_on_loop if port.is_async else single_request.ask
        self._call = single_request.off_loop if port.is_async else single_request.call
        self._securities = {
            provider: _security(provider, options) for provider, options in (tls_options or {}).items()
        }
        self._default = Security({}, checks_revocation=False)

    async def answer_flow(self, context: Context) -> None:
        """Feed `context` every response that it waits for.

        Raises:
            MongoCryptError: a service refused, or all attempts to reach it failed.
            ConnectionFailure: the service's identity is wrong. Nothing was sent.
            NetworkTimeout: the service did not answer in time.
        """
        for request in context.kms_requests():
            await self._request_flow(request)
        context.end_kms()

    async def _request_flow(self, request: KmsRequest) -> None:
        provider, endpoint = request.provider, request.endpoint
        address = parse_host(endpoint, _HTTPS)
        host, port = address
        if port is None or host.endswith(".sock"):
            raise ConfigurationError(f"expected host and port of the {provider} service, got {endpoint!r}")
        delay = request.delay
        if delay:
            await self._port.pause(min(delay, _time_left(provider, endpoint)))
        seconds = min(ATTEMPT_SECONDS, _time_left(provider, endpoint))
        until = time.monotonic() + seconds
        security = self._securities.get(provider, self._default)
        sock: Any = None
        failure: Exception
        try:
            if self._callback is not None:
                sock = await self._connected_flow(KMSConnectContext(host, port, seconds))
            left = max(0.0, until - time.monotonic())
            await self._port.call(self._ask, request, (host, port), security, left, sock)
            return
        except MongoCryptError as error:
            without_frames(error)
            refusal = MongoCryptError(f"the {provider} service {endpoint}: {error}", error.code)
            raise refusal from error
        except _Unconnected as error:
            failure = error.failure
        except OSError as error:
            # The locals of these frames hold the request.
            without_frames(error)
            failure = error
        if isinstance(failure, TimeoutError):
            raise NetworkTimeout(
                f"the {provider} service {endpoint} did not answer within {seconds:.3g} s"
            ) from failure
        if hasattr(failure, "verify_code"):
            raise ConnectionFailure(f"the {provider} service {endpoint}: {failure}") from failure
        try:
            request.fail()
        except MongoCryptError as last:
            without_frames(last)
            raise MongoCryptError(
                f"no answer from the {provider} service {endpoint}, the last attempt: {failure}", last.code
            ) from failure

    async def _connected_flow(self, context: KMSConnectContext) -> socket:
        """Return a connected socket from the callback.

        Raises:
            ConfigurationError: the callback returned something else.
            _Unconnected: the callback failed, so the attempt counts as one that reached no service.
        """
        callback: Any = self._callback
        try:
            found = await self._port.call(self._connect, lambda: callback(context), context.timeout)
        except (ConfigurationError, MongoCryptError):
            raise
        except Exception as error:
            raise _Unconnected(error) from error
        return checked_socket(found)

    async def credentials_flow(self, providers: Mapping[str, Any]) -> bytes:
        """Return the encoded credentials of the providers that were passed without any."""
        left = remaining()
        until = time.monotonic() + (math.inf if left is None else left)
        # `find` may run in another thread, where this thread's limits do not apply.
        return await self._port.call(self._call, lambda: _credentials.find(providers, until))


class _Unconnected(Exception):
    """A callback's failure, of any class."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _time_left(provider: str, endpoint: str) -> float:
    left = remaining()
    if left is None:
        return ATTEMPT_SECONDS
    if left <= 0:
        raise NetworkTimeout(f"no time is left to ask the {provider} service {endpoint}")
    return left


def _security(provider: str, options: Any) -> Security:
    if not isinstance(options, dict):
        raise TypeError(f'expected kms_tls_options["{provider}"] to be a dict, got {type(options)}')
    prohibited = [name for name in options if name.lower() in _PROHIBITED]
    if prohibited:
        raise ConfigurationError(f"Insecure TLS options prohibited: {', '.join(prohibited)}")
    checked = {name.lower(): validate_keyword(name, value) for name, value in options.items()}
    if not checked.get("tls", checked.get("ssl", True)):
        raise ConfigurationError("TLS is required for KMS providers")
    return Security(checked, checks_revocation=False)
