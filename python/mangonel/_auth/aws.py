"""MONGODB-AWS: the server asks AWS who signed a request that is never sent. Spec: auth, "MONGODB-AWS".

botocore, the extra `mangonel[aws]`, finds credentials and signs.
"""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel.bson.binary import Binary
from mangonel.errors import ConfigurationError, ProtocolError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

NONCE_SIZE = 32
# The "gs2-cb-flag" of the first message: the letter n, no channel binding.
NO_CHANNEL_BINDING = ord("n")
BODY = "Action=GetCallerIdentity&Version=2011-06-15"
MOST_HOST = 255


class AWSResponder:
    """The AWS identity of one client.

    Args:
        username, password: access key id and secret, or None to let botocore find them: environment, files, container,
            instance, web identity.
        session_token: belongs to temporary keys.
    """

    def __init__(self, username: str | None, password: str | None, session_token: str | None) -> None:
        self._given = (username, password, session_token) if username else None
        self._session: Any = None

    def __repr__(self) -> str:
        return "AWSResponder(...)"

    def respond(
        self,
        challenge: bytes | None,
        state: bytes | None,
        refused: int | None,
        timeout: float | None,
        loop: AbstractEventLoop | None,
        host: str,
    ) -> tuple[bytes, int, bool, bytes | None]:
        """Return the client's next message and its nonce; the message contains no reusable token."""
        if challenge is None or state is None:
            # Raised before anything is sent.
            _botocore()
            ours = os.urandom(NONCE_SIZE)
            return _core.encode({"r": Binary(ours, 0), "p": NO_CHANNEL_BINDING}), 0, False, ours
        said = _core.decode(challenge)
        nonce, service = _check(said.get("s"), said.get("h"), state)
        return _core.encode(self._sign(nonce, service)), 0, False, None

    def after_fork(self) -> None:
        """Do nothing: a fork breaks no state."""

    def _sign(self, nonce: bytes, host: str) -> dict[str, Any]:
        auth, request_class, credentials = self._prepare()
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Content-Length": str(len(BODY)),
            "Host": host,
            "X-MongoDB-Server-Nonce": b64encode(nonce).decode(),
            "X-MongoDB-GS2-CB-Flag": "n",
        }
        request = request_class(method="POST", url=f"https://{host}/", data=BODY, headers=headers)
        auth.SigV4Auth(credentials, "sts", region(host)).add_auth(request)
        word = {"a": request.headers["Authorization"], "d": request.headers["X-Amz-Date"]}
        if credentials.token:
            word["t"] = credentials.token
        return word

    def _prepare(self) -> tuple[Any, Any, Any]:
        botocore = _botocore()
        if self._given is not None:
            return (
                botocore.auth,
                botocore.awsrequest.AWSRequest,
                botocore.credentials.Credentials(*self._given),
            )
        if self._session is None:
            self._session = botocore.session.Session()
        # botocore caches them and renews them before they expire.
        found = self._session.get_credentials()
        if found is None:
            raise ConfigurationError(
                "no AWS credentials for MONGODB-AWS: expected them in the options, or in the environment, files, "
                "container or instance that botocore looks at, got none"
            )
        # Frozen together, so that a renewal cannot mix old and new values; the object's repr does not show them.
        credentials = botocore.credentials.Credentials(*found.get_frozen_credentials()[:3])
        return botocore.auth, botocore.awsrequest.AWSRequest, credentials


def region(host: str) -> str:
    """Return the region of a host of the security token service."""
    parts = host.split(".")
    return "us-east-1" if host == "sts.amazonaws.com" or len(parts) == 1 else parts[1]


def _check(nonce: Any, host: Any, ours: bytes) -> tuple[bytes, str]:
    """Return the server's nonce and host; they decide what the signature is valid for.

    Raises:
        ProtocolError: the specification does not allow them. Nothing was signed.
    """
    if not isinstance(nonce, bytes) or len(nonce) != 2 * NONCE_SIZE or nonce[:NONCE_SIZE] != ours:
        raise ProtocolError(
            "expected the server's AWS nonce to be 64 bytes that continue the client's, got another"
        )
    if not isinstance(host, str) or not 0 < len(host) <= MOST_HOST or "" in host.split("."):
        raise ProtocolError("expected the host of the AWS security token service, got another text")
    return nonce, host


def _botocore() -> Any:
    try:
        import botocore.auth
        import botocore.awsrequest
        import botocore.credentials
        import botocore.session
    except ImportError as error:
        raise ConfigurationError(
            "MONGODB-AWS authentication requires botocore: install with: python -m pip install 'mangonel[aws]'"
        ) from error
    return botocore
