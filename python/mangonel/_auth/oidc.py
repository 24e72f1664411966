"""MONGODB-OIDC: tokens from a callback, cached until the server refuses them. Spec: auth, "MONGODB-OIDC".

A connection sends {"jwt": token}. The first connection for a human callback first sends {"n": user} to learn the
server's trusted identity provider, which the callback needs.
"""

from __future__ import annotations

import _thread
import time
from asyncio import run_coroutine_threadsafe
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult, OIDCIdPInfo
from mangonel.errors import NetworkTimeout

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

VERSION = 1
MACHINE_TIMEOUT_S = 60.0
HUMAN_TIMEOUT_S = 300.0
# The provider must not be called in a tight loop (specification).
LEAST_BETWEEN_CALLS_S = 0.1


class OIDCResponder:
    """The tokens of one client.

    Args:
        callback: the source of tokens.
        username: the user name of the connection string.
        is_human: the callback needs the identity provider, and may receive refresh tokens.
    """

    def __init__(self, callback: OIDCCallback, username: str | None, *, is_human: bool) -> None:
        self._callback = callback
        self._username = username or ""
        self._is_human = is_human
        self._lock = _thread.allocate_lock()
        self._called = float("-inf")
        self._token: _Token | None = None
        # Numbers tokens from 1 on, so that the refusal of an old token does not discard the newest.
        self._number = 0
        self._refresh_token: str | None = None
        self._is_refreshed = False
        self._provider: OIDCIdPInfo | None = None

    def __repr__(self) -> str:
        return f"OIDCResponder(username={self._username!r})"

    def respond(
        self,
        challenge: bytes | None,
        state: None,
        refused: int | None,
        timeout: float | None,
        loop: AbstractEventLoop | None,
        host: str,
    ) -> tuple[bytes, int, bool, None]:
        """Return the client's next message, the number of its token, whether another token may follow, and no state.

        Args:
            challenge: the server's message; None at the start.
            state: the state of the conversation; always None.
            refused: number of the token that the server refused.
            timeout: seconds left for the operation. None: no limit.
            loop: the event loop that runs the callback's coroutines. None on the blocking face.
            host: the server's name; tokens do not depend on it.
        """
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise NetworkTimeout(
                f"no token within {timeout} s: another operation still waits for the OIDC callback"
            )
        try:
            if refused is not None:
                self._forget(refused)
            if challenge is not None:
                self._take_provider(challenge)
            elif self._token is not None:
                return _jwt(self._token), self._number, True, None
            elif self._is_human and (self._refresh_token is None or self._provider is None):
                return _core.encode({"n": self._username} if self._username else {}), 0, False, None
            had_refresh_token = self._refresh_token is not None
            self._fetch(timeout, loop)
            assert self._token is not None
            self._is_refreshed = had_refresh_token
            return _jwt(self._token), self._number, had_refresh_token, None
        finally:
            self._lock.release()

    def after_fork(self) -> None:
        """Replace the lock that another thread of the parent may hold."""
        self._lock = _thread.allocate_lock()

    def _forget(self, refused: int) -> None:
        if refused == self._number and refused:
            self._token = None
            if self._is_refreshed:
                # The provider rejects the refresh token, or the server rejects the access token that it gave.
                self._refresh_token = None
                self._is_refreshed = False

    def _take_provider(self, challenge: bytes) -> None:
        self._token = self._refresh_token = None
        said = _core.decode(challenge)
        if "issuer" in said:
            self._provider = OIDCIdPInfo(said["issuer"], said.get("clientId"), said.get("requestScopes"))

    def _fetch(self, left: float | None, loop: AbstractEventLoop | None) -> None:
        wait = self._called + LEAST_BETWEEN_CALLS_S - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        timeout = HUMAN_TIMEOUT_S if self._is_human else MACHINE_TIMEOUT_S
        if left is not None and not self._is_human:
            # timeoutMS must not cut a human login short (specification).
            timeout = min(timeout, left)
        context = OIDCCallbackContext(timeout, self._username, VERSION, self._refresh_token, self._provider)
        try:
            result: Any = self._callback.fetch(context)
            if isawaitable(result):
                result = self._await(result, loop, timeout)
        finally:
            self._called = time.monotonic()
        if not isinstance(result, OIDCCallbackResult):
            raise TypeError(
                f"expected fetch() of the OIDC callback to return an OIDCCallbackResult, got {type(result).__name__}"
            )
        if not isinstance(result.access_token, str):
            raise TypeError(
                f"expected access_token of the OIDC callback to be a str, got {type(result.access_token).__name__}"
            )
        self._token = _Token(result.access_token)
        self._refresh_token = result.refresh_token
        self._number += 1

    def _await(self, result: Any, loop: AbstractEventLoop | None, timeout: float) -> Any:
        if loop is None:
            if hasattr(result, "close"):
                result.close()
            raise TypeError(
                "expected fetch() of the OIDC callback to be a plain function with MongoClient, got a coroutine "
                "function; use AsyncMongoClient"
            )
        return run_coroutine_threadsafe(result, loop).result(timeout)


class _Token:
    """A token that is not shown in tracebacks with locals."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "<hidden>"


def _jwt(token: _Token) -> bytes:
    return _core.encode({"jwt": token.text})
