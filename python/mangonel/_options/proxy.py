"""A client's SOCKS5 proxy (RFC 1928, RFC 1929): the client's half of the conversation, as a flow that each face runs.

Spec: socks5-support. The proxy resolves the host name.
"""

from __future__ import annotations

from _socket import AF_INET, AF_INET6, inet_pton

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from mangonel.typings import _Address

_VERSION, _PASSWORD_VERSION = b"\x05", b"\x01"
_NO_AUTHENTICATION, _USERNAME_PASSWORD = 0x00, 0x02
_CONNECT = b"\x01\x00"
_NAME = b"\x03"
# Families of addresses with their types in a request.
_LITERALS = ((AF_INET, b"\x01"), (AF_INET6, b"\x04"))
# The type of the address in a reply -> its size in bytes. A name is missing here: it carries its own length.
_ADDRESS_SIZES = {0x01: 4, 0x04: 16}
_REFUSALS = {
    0x01: "general failure",
    0x02: "connection not allowed by its rules",
    0x03: "network unreachable",
    0x04: "host unreachable",
    0x05: "connection refused",
    0x06: "time to live expired",
    0x07: "command not supported",
    0x08: "address type not supported",
}


class ProxyError(OSError):
    """The proxy refused the connection, or the server that answered is not a SOCKS5 proxy."""


class Proxy:
    """A SOCKS5 proxy of a client, with the user name and password for it.

    Args:
        host, port: the proxy's address.
        username, password: both or neither.
    """

    __slots__ = ("_credentials", "address", "name")

    def __init__(self, host: str, port: int, username: str | None, password: str | None) -> None:
        self.address: tuple[str, int] = (host, port)
        self.name = f"{host}:{port}"
        self._credentials = None
        if username is not None and password is not None:
            name, secret = username.encode(), password.encode()
            self._credentials = b"".join(bytes([len(text)]) + text for text in (name, secret))

    async def connect_flow(
        self,
        target: _Address,
        send: Callable[[bytes], Awaitable[Any]],
        receive: Callable[[int], Awaitable[bytes]],
    ) -> None:
        """Make the proxy at the other end of a socket connect to a server.

        Args:
            target: the server to reach. A Unix socket is on this machine and never reached through a proxy.
            send: sends all of the bytes.
            receive: returns at most the given number of the proxy's bytes; none once it has closed the connection.

        Raises:
            ProxyError: the proxy refused, or does not speak SOCKS5.
            ConnectionResetError: the proxy closed the connection.
        """

        async def ask(message: bytes, size: int) -> bytes:
            if message:
                await send(message)
            answer = b""
            while len(answer) < size:
                piece = await receive(size - len(answer))
                if not piece:
                    raise ConnectionResetError("the proxy closed the connection")
                answer += piece
            return answer

        methods = (
            [_NO_AUTHENTICATION] if self._credentials is None else [_NO_AUTHENTICATION, _USERNAME_PASSWORD]
        )
        chosen = await ask(_VERSION + bytes([len(methods), *methods]), 2)
        self._check_version(chosen)
        if chosen[1] == _USERNAME_PASSWORD and self._credentials is not None:
            answer = await ask(_PASSWORD_VERSION + self._credentials, 2)
            if answer[1] != 0:
                raise self._error("refused proxyUsername and proxyPassword")
        elif chosen[1] != _NO_AUTHENTICATION:
            raise self._error(
                "wants an authentication that was not offered; set proxyUsername and proxyPassword"
            )
        host, port = target
        head = await ask(_VERSION + _CONNECT + _place(host) + (port or 0).to_bytes(2), 4)
        self._check_version(head)
        if head[1] != 0:
            reason = _REFUSALS.get(head[1], f"reply {head[1]}")
            raise self._error(f"did not connect to {host}:{port}: {reason}")
        size = _ADDRESS_SIZES.get(head[3])
        if size is None:
            size = (await ask(b"", 1))[0]
        await ask(b"", size + 2)

    def named(self, error: OSError) -> OSError:
        """Return an error of the same class with the proxy's name, for a failed connection to the proxy itself."""
        *numbers, text = error.args or ("",)
        return type(error)(*numbers, f"the proxy {self.name}: {text}")

    def silence(self) -> TimeoutError:
        """Return the error for a proxy that has not answered in time."""
        return TimeoutError(
            f"the proxy {self.name}: no answer in the SOCKS5 handshake; expected a SOCKS5 proxy there"
        )

    def _check_version(self, answer: bytes) -> None:
        if answer[:1] != _VERSION:
            raise self._error(f"expected SOCKS version 5, got {answer[0]}")

    def _error(self, reason: str) -> ProxyError:
        return ProxyError(f"the proxy {self.name}: {reason}")


def _place(host: str) -> bytes:
    """Return a host in the form of a request: the bytes of an IP address, or a name."""
    for family, kind in _LITERALS:
        try:
            return kind + inet_pton(family, host)
        except (OSError, ValueError):
            continue
    try:
        name = host.encode("ascii" if host.isascii() else "idna")
        return _NAME + bytes([len(name)]) + name
    except ValueError:
        raise OSError("the name has more than 255 bytes, or is none that IDNA knows") from None
