"""Lets applications open the connections to key services: `kms_connect_callback`, and one for an HTTP proxy.

The driver speaks TLS over the socket and verifies the key service itself, so a proxy sees no key. Knows no key vault.
Spec: RFC 9110 ("CONNECT"), RFC 7617 (credentials of a proxy).
"""

from __future__ import annotations

import re
import selectors
import socket
import ssl
import threading
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutinefunction
from urllib.parse import unquote, urlsplit

from mangonel._faces.sockets import open_socket
from mangonel._light import Any, Mapping
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

_PIECE = 16384
# So that a proxy cannot fill the memory with its answer.
_LONGEST_HEAD = 8192
_PORTS = {"http": 80, "https": 443}
# A header's name: a token of RFC 9110.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_EXPECTED = "expected kms_connect_callback to return a connected, unwrapped TCP socket"


@dataclass(frozen=True)
class KMSConnectContext:
    """The connection that a `kms_connect_callback` has to open.

    Args:
        host, port: the key service's address. The driver verifies the service's certificate for this host.
        timeout: seconds for connecting.
    """

    host: str
    port: int
    timeout: float


def check_callback(callback: Any, is_async: bool) -> None:
    """Check that `callback` fits the face, or is None.

    Raises:
        TypeError: it cannot be called.
        ConfigurationError: a plain function on asyncio would block the event loop; a coroutine function needs a loop.
    """
    if callback is None:
        return
    if not callable(callback):
        raise TypeError(f"kms_connect_callback must be callable, not {type(callback)}")
    # An object counts as a coroutine function if its `__call__` is one; the check above ensures that it is callable.
    is_coroutine = iscoroutinefunction(callback) or iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004
    if is_coroutine is not is_async:
        expected, face = ("a coroutine function", "asynchronous") if is_async else ("a function", "blocking")
        raise ConfigurationError(
            f"kms_connect_callback must be {expected} for the {face} API, got {callback!r}"
        )


def checked_socket(found: Any) -> socket.socket:
    """Return a callback's result if TLS can be spoken over it; otherwise close it.

    Raises:
        ConfigurationError: the result is not a socket, speaks TLS already, is not connected or is not a stream.
    """
    if not isinstance(found, socket.socket) or isinstance(found, ssl.SSLSocket):
        problem = (
            f"got {type(found)}; HTTPProxyKMSConnect and AsyncHTTPProxyKMSConnect connect through a proxy"
        )
    elif found.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) != socket.SOCK_STREAM:
        problem = "got a datagram socket"
    else:
        try:
            found.getpeername()
        except OSError as error:
            problem = f"got one that is not connected ({error})"
        else:
            return found
    close = getattr(found, "close", None)
    if callable(close):
        close()
    raise ConfigurationError(f"{_EXPECTED}, {problem}")


class HTTPProxyKMSConnect:
    """Connects to key services through an HTTP proxy, on the blocking face: a `kms_connect_callback`.

    Args:
        proxy_url: `http://proxy:8080`, or `https://` to speak TLS with the proxy too; it may have a percent-encoded
            user name and password before the host.
        ssl_context: for TLS with the proxy of an `https` URL. None: trust the system's authorities.
        headers: more headers of the CONNECT request, except `Host`.

    Raises:
        TypeError: `proxy_url` or a header is no str.
        ConfigurationError: the URL is not that of a proxy, or a header cannot be sent. No message contains a password.

    Example:
        >>> via_proxy = HTTPProxyKMSConnect("http://proxy.example.com:8080")
        >>> providers = {"local": {"key": bytes(96)}}
        >>> AutoEncryptionOpts(providers, "keys.vault", bypass_auto_encryption=True, kms_connect_callback=via_proxy)
        AutoEncryptionOpts(kms_providers=['local'], ...)
    """

    def __init__(
        self,
        proxy_url: str,
        ssl_context: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(proxy_url, str):
            raise TypeError(f"proxy_url must be a string, not {type(proxy_url)}")
        # Drops user name and password, wherever a malformed URL has them.
        shown = re.sub(r"^([^:/@]+:(?://)?)?.*@", r"\1***@", proxy_url, flags=re.DOTALL)
        try:
            url = urlsplit(proxy_url)
            host, port = url.hostname, url.port
        except ValueError:
            url, host, port = urlsplit(""), None, None
        if (
            url.scheme not in _PORTS
            or not host
            or port == 0
            or url.path.strip("/")
            or url.query
            or url.fragment
        ):
            # Not chained to the parser's error, which quotes the URL.
            raise ConfigurationError(
                f"expected proxy_url to be http://host:port or https://host:port, got {shown!r}"
            ) from None
        if ssl_context is not None and url.scheme != "https":
            raise ConfigurationError(f"ssl_context requires an https proxy_url, got {shown!r}")
        self.host = host
        self.port = port or _PORTS[url.scheme]
        self.ssl_context = None
        if url.scheme == "https":
            self.ssl_context = ssl.create_default_context() if ssl_context is None else ssl_context
        self.headers = dict(headers or {})
        self._check_headers()
        if url.username is not None:
            if "proxy-authorization" in map(str.lower, self.headers):
                raise ConfigurationError(
                    "proxy_url has a user name and headers has Proxy-Authorization; remove one of them"
                )
            login = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
            self.headers["Proxy-Authorization"] = f"Basic {b64encode(login).decode()}"

    def __call__(self, context: KMSConnectContext) -> socket.socket:
        """Return a socket that the proxy has connected to the key service.

        Raises:
            TimeoutError: `context.timeout` seconds are over.
            OSError: the proxy was not reached, or refused.
            ConfigurationError: the host or a header cannot be sent.
        """
        until = time.monotonic() + context.timeout
        return self._connect(context, lambda: _left(until))

    def _connect(self, context: KMSConnectContext, limit: Callable[[], float]) -> socket.socket:
        if any(not char.isprintable() or char.isspace() for char in context.host):
            raise ConfigurationError(f"expected a host name without spaces, got {context.host!r}")
        # The mapping is public, so it may have changed.
        self._check_headers()
        # The native class of a client's own sockets is no `socket.socket`.
        plain = open_socket((self.host, self.port), limit)
        sock = socket.socket(fileno=plain.detach())
        try:
            if self.ssl_context is None:
                self._tunnel(sock, context, limit)
                sock.settimeout(None)
                return sock
            sock.settimeout(limit())
            sock = secure = self.ssl_context.wrap_socket(sock, server_hostname=self.host)
            self._tunnel(secure, context, limit)
            return _bridged(secure)
        except BaseException:
            sock.close()
            raise

    def _tunnel(self, sock: socket.socket, context: KMSConnectContext, limit: Callable[[], float]) -> None:
        host = f"[{context.host}]" if ":" in context.host else context.host
        target = f"{host}:{context.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        sock.settimeout(limit())
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        # Read byte by byte: the bytes after the empty line come from the key service.
        while not head.endswith(b"\r\n\r\n"):
            sock.settimeout(limit())
            byte = sock.recv(1)
            head += byte
            if not byte or len(head) > _LONGEST_HEAD:
                problem = "sent too long an answer" if byte else "closed the connection"
                raise OSError(
                    f"the proxy {self.host}:{self.port} {problem} instead of connecting to {target}"
                )
        status = head.split(b"\r\n", 1)[0]
        if not re.match(rb"HTTP/\S+ 2\d\d(?: |$)", status):
            raise OSError(f"the proxy {self.host}:{self.port} refused to connect to {target}: {status!r}")

    def _check_headers(self) -> None:
        for name, value in self.headers.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(
                    f"expected names and values of headers to be str, got {type(name)}, {type(value)}"
                )
            if not _TOKEN.fullmatch(name) or name.lower() == "host" or "\r" in value or "\n" in value:
                # Without the value, which may be a password.
                raise ConfigurationError(
                    f"expected a header other than Host, of one line, got one with the name {name!r}"
                )


class AsyncHTTPProxyKMSConnect(HTTPProxyKMSConnect):
    __doc__ = (HTTPProxyKMSConnect.__doc__ or "").replace("the blocking face", "asyncio")

    async def __call__(self, context: KMSConnectContext) -> socket.socket:  # type: ignore[override]
        """Return a socket that the proxy has connected to the key service; connecting takes place in a thread."""
        from asyncio import get_running_loop, shield

        until = time.monotonic() + context.timeout
        running = get_running_loop().run_in_executor(
            None, lambda: self._connect(context, lambda: _left(until))
        )
        try:
            return await shield(running)
        except BaseException:
            # The thread cannot be stopped; a connection that it opens is not needed.
            running.add_done_callback(_close_late)
            raise


def _close_late(connecting: Future[socket.socket]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out while connecting through the proxy")
    return left


def _bridged(proxy: ssl.SSLSocket) -> socket.socket:
    """Return a plain socket for TLS inside of TLS: a thread carries its bytes to and from a TLS socket."""
    ours, theirs = socket.socketpair()
    threading.Thread(target=_carry, args=(proxy, theirs), daemon=True).start()
    return ours


def _carry(proxy: ssl.SSLSocket, plain: socket.socket) -> None:
    """Carry bytes both ways until either side ends. In one thread, since OpenSSL allows only one per connection."""
    with proxy, plain, selectors.DefaultSelector() as selector:
        selector.register(proxy, selectors.EVENT_READ)
        selector.register(plain, selectors.EVENT_READ)
        try:
            while True:
                ready = [] if proxy.pending() else [key.fileobj for key, _ in selector.select()]
                if plain in ready:
                    data = plain.recv(_PIECE)
                    if not data:
                        return
                    proxy.settimeout(None)
                    proxy.sendall(data)
                # The bytes may be an incomplete record, or a session ticket.
                proxy.settimeout(0)
                with suppress(ssl.SSLWantReadError):
                    data = proxy.recv(_PIECE)
                    if not data:
                        return
                    plain.sendall(data)
        except OSError:
            return
