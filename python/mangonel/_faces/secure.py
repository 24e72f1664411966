"""TLS over an open plain socket: the handshake, and the socket methods that a port calls.

The engine is the standard library's over memory, so that it serves every face: here through the socket object, which
is the specification of the fused paths, and in `_core` without one. Knows no MongoDB.
"""

from __future__ import annotations

from ssl import SSLError, SSLWantReadError
from time import monotonic

from mangonel._faces.sockets import wait_readable
from mangonel._options.tls import Security

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from ssl import MemoryBIO, SSLObject
    from typing import Any

    from mangonel import _core
    from mangonel._faces.port import Address

_CHUNK = 64 * 1024

# How many bytes to encrypt before sending them, so that a large message is not in memory twice.
_MOST_AHEAD = 256 * 1024


class Secured:
    """One connection's TLS: the engine, and the peer's address."""

    __slots__ = ("_address", "_engine", "_incoming", "_outgoing", "_security")

    def __init__(self, security: Security, address: Address) -> None:
        self._security = security
        self._address = address
        self._engine: SSLObject
        self._incoming: MemoryBIO
        self._outgoing: MemoryBIO
        wrap = _wrap_with_ocsp if security.checks_revocation else Security.wrap
        try:
            self._engine, self._incoming, self._outgoing = wrap(security, address)
        except ValueError as error:
            # IDNA refuses the host's name, or the path of the socket.
            raise OSError(str(error)) from None

    def shake(self, received: bytes | None) -> tuple[bytes, bool]:
        """Process the peer's bytes (None at the start); return the bytes to send, and whether the peer must answer.

        Raises:
            SSLError: the peer's identity is wrong, or the peer requires a certificate that this side lacks.
        """
        if received is not None:
            # No bytes mean the end of the connection.
            if received:
                self._incoming.write(received)
            else:
                self._incoming.write_eof()
        try:
            self._engine.do_handshake()
        except SSLWantReadError:
            return self._outgoing.read(), True
        except OSError as error:
            raise self.explain(error) from error
        return self._outgoing.read(), False

    @property
    def checks_revocation(self) -> bool:
        """Whether `check_revocation` must be called after the handshake."""
        return self._security.checks_revocation

    def check_revocation(self, seconds: float | None) -> None:
        """Check with OCSP that the peer's certificate was not revoked. May block for `seconds`, at most for five.

        Raises:
            SSLCertVerificationError: it was revoked, or the peer's own OCSP answer is missing or wrong.
        """
        if not self.checks_revocation:
            return
        engine: Any = self._engine
        try:
            self._security.factory.answers.check(*engine.evidence(), seconds)
        except OSError as error:
            raise self.explain(error) from error

    def farewell(self) -> bytes:
        """Return the engine's last bytes for the peer, such as the reason for refusing it."""
        return self._outgoing.read()

    def explain(self, error: OSError) -> OSError:
        return self._security.explain(error, self._address)

    def remember(self) -> None:
        """Store the session for later connections, once the first reply was read."""
        self._security.remember(self._address, self._engine)

    def attach(self, link: _core.Link) -> None:
        """Make the fused paths encrypt and decrypt for `link`."""
        # The engine below the standard library's wrapper saves a Python frame for each call.
        engine: Any = getattr(self._engine, "_sslobj", self._engine)
        link.secure(engine, self._incoming, self._outgoing, self)

    def encrypt(self, data: memoryview) -> tuple[int, bytes]:
        """Encrypt a part of `data`; return its length, and the bytes to send."""
        taken = 0
        while taken < len(data) and self._outgoing.pending < _MOST_AHEAD:
            # Released at once: a view kept by a traceback would prevent stamping the message again.
            with data[taken:] as rest:
                taken += self._engine.write(rest)
        return taken, self._outgoing.read()

    def decrypt_into(self, buffer: Any) -> int | None:
        """Fill `buffer` with decrypted bytes; None if there is not enough for a single byte."""
        try:
            # The buffer is a link: this asks for its length, not for its bytes.
            count: Any = self._engine.read(len(buffer), buffer)
        except SSLWantReadError:
            return None
        except SSLError as error:
            raise self.explain(error) from error
        # With a buffer, `read` returns a count, although its stub says otherwise.
        return int(count)

    @property
    def is_behind(self) -> bool:
        """Whether received bytes are not yet decrypted or not yet read; also True where that is not known."""
        return bool(self._incoming.pending) or self._engine.pending() > 0

    def take(self, received: bytes | memoryview) -> None:
        self._incoming.write(received)

    @property
    def closing_hint(self) -> str:
        return self._security.closing_hint


def _wrap_with_ocsp(security: Security, address: Address) -> tuple[Any, Any, Any]:
    """Do the same as `Security.wrap`, with an engine that exposes the peer's OCSP answer."""
    from mangonel._faces.ocsp_engine import Factory, Incoming, Outgoing

    if security.factory is None:
        with security.lock:
            security.factory = security.factory or Factory(security)
    engine = security.factory.make(address)
    return engine, Incoming(engine), Outgoing(engine)


class SecureSocket:
    """A blocking socket with TLS, with the methods that the blocking loop uses."""

    __slots__ = ("_plain", "secured")

    def __init__(self, plain: socket, secured: Secured) -> None:
        self._plain = plain
        self.secured = secured

    def shake_hands(self) -> None:
        """Do the whole TLS handshake within the socket's timeout."""
        received = None
        limit = self._plain.gettimeout()
        until = None if limit is None else monotonic() + limit
        try:
            while True:
                saying, is_answered = self.secured.shake(received)
                if saying:
                    self._plain.sendall(saying)
                if not is_answered:
                    self.secured.check_revocation(None if until is None else until - monotonic())
                    return
                received = self._receive(until)
        except ConnectionError as error:
            raise self.secured.explain(error) from error
        except SSLError:
            self._say_why()
            raise

    def _say_why(self) -> None:
        try:
            self._plain.sendall(self.secured.farewell())
        except OSError:
            return

    def sendall(self, data: Any) -> None:
        with memoryview(data) as view:
            start = 0
            while start < len(view):
                with view[start:] as rest:
                    taken, saying = self.secured.encrypt(rest)
                start += taken
                self._plain.sendall(saying)

    def recv_into(self, buffer: Any) -> int:
        count = self.secured.decrypt_into(buffer)
        if count is not None:
            return count
        limit = self._plain.gettimeout()
        until = None if limit is None else monotonic() + limit
        try:
            while count is None:
                received = self._receive(until)
                if not received:
                    return 0
                self.secured.take(received)
                count = self.secured.decrypt_into(buffer)
        finally:
            self._plain.settimeout(limit)
        return count

    def wait_readable(self) -> None:
        """Wait as `sockets.wait_readable` does, unless bytes are left already, perhaps a part of a reply."""
        if not self.secured.is_behind:
            wait_readable(self._plain)

    def _receive(self, until: float | None) -> bytes:
        """Receive bytes before the time `until`, which covers several calls: a peer may send a record byte by byte."""
        if until is not None:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._plain.settimeout(left)
        return self._plain.recv(_CHUNK)

    def gettimeout(self) -> float | None:
        return self._plain.gettimeout()

    def settimeout(self, timeout: float | None) -> None:
        self._plain.settimeout(timeout)

    def fileno(self) -> int:
        return self._plain.fileno()

    def shutdown(self, how: int) -> None:
        self._plain.shutdown(how)

    def close(self) -> None:
        # Without a TLS close_notify, which would block; message lengths distinguish a truncated reply from a whole one.
        self._plain.close()
