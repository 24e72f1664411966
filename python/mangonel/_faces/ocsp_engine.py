"""TLS over memory with pyOpenSSL, since the standard library's does not expose a server's OCSP answer.

Has the methods that `secure.py` and `_core` call on the standard library's objects, and raises the same errors.
Sessions are not resumed: a resumed one carries no answer. Needs `mangonel[ocsp]`.
"""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from OpenSSL import SSL, crypto
from service_identity import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address

from mangonel._faces.ocsp import Answers

if TYPE_CHECKING:
    from mangonel._options.tls import Security
    from mangonel.typings import _Address

_PIECE = 64 * 1024
_WRONG_HOST, _WRONG_ADDRESS = 62, 64  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


class Factory:
    """Makes the engines of one client, from the same options as its checked context."""

    def __init__(self, security: Security) -> None:
        options = security.options
        self.answers = Answers(not options.get("tlsdisableocspendpointcheck"))
        self._checks_host = not options.get("tlsallowinvalidhostnames")
        context = self._context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
        context.set_verify(SSL.VERIFY_PEER, _note_verification)
        context.set_ocsp_client_callback(_note_staple)
        if path := options.get("tlscertificatekeyfile"):
            password = options.get("tlscertificatekeyfilepassword")
            if password:
                context.set_passwd_cb(lambda *_: password.encode())
            context.use_certificate_chain_file(path)
            context.use_privatekey_file(path)
        if revoked := options.get("tlscrlfile"):
            context.load_verify_locations(revoked)
            store = context.get_cert_store()
            assert store is not None
            store.set_flags(crypto.X509StoreFlags.CRL_CHECK)
        if authorities := options.get("tlscafile"):
            context.load_verify_locations(authorities)
        else:
            self._trust_the_system()

    def _trust_the_system(self) -> None:
        # The standard library's paths: pyOpenSSL's own OpenSSL was built with the paths of another system.
        places = ssl.get_default_verify_paths()
        if places.cafile or places.capath:
            self._context.load_verify_locations(places.cafile, places.capath)
        store = self._context.get_cert_store()
        assert store is not None
        for certificate in ssl.create_default_context().get_ca_certs(binary_form=True):
            store.add_cert(crypto.load_certificate(crypto.FILETYPE_ASN1, certificate))

    def make(self, address: _Address) -> Engine:
        """Return the engine of a new connection."""
        return Engine(self._context, address[0], self._checks_host)


class Engine:
    """The TLS of one connection, with its memory buffers of encrypted bytes."""

    # Then callers store no session.
    session_reused = True

    def __init__(self, context: SSL.Context, host: str, checks_host: bool) -> None:
        self.staple = b""
        self.refusal: int | None = None
        self._host, self._checks_host = host, checks_host
        made = self._connection = SSL.Connection(context, None)
        made.set_app_data(self)
        if not _is_ip_address(host):
            made.set_tlsext_host_name(host.encode("idna"))
        made.request_ocsp()
        made.set_connect_state()

    def do_handshake(self) -> None:
        """Continue the handshake.

        Raises:
            SSLWantReadError: the peer must answer first.
            SSLError: the handshake failed.
        """
        try:
            self._connection.do_handshake()
        except SSL.Error as error:
            raise self._translated(error) from error
        if self._checks_host:
            self._check_host()

    def evidence(self) -> tuple[Any, list[Any], bytes]:
        """Return the server's certificate, the verified chain, and the server's OCSP answer or nothing."""
        connection = self._connection
        certificate = connection.get_peer_certificate(as_cryptography=True)
        chain = connection.get_verified_chain(as_cryptography=True)
        return certificate, list(chain or ()), self.staple

    def read(self, size: int, buffer: Any) -> int:
        """Decrypt into `buffer`; return the number of bytes, 0 at the end of the connection.

        Raises:
            SSLWantReadError: not enough was received.
            SSLError: the received bytes are no valid TLS.
        """
        try:
            # A link is not a sequence, but it is a buffer.
            with memoryview(buffer) as view:
                return self._connection.recv_into(view, size)
        except SSL.ZeroReturnError:
            return 0
        except SSL.Error as error:
            raise self._translated(error) from error

    def write(self, data: Any) -> int:
        """Encrypt `data`; return its length."""
        try:
            return self._connection.send(data)
        except SSL.Error as error:
            raise self._translated(error) from error

    def _check_host(self) -> None:
        is_address = _is_ip_address(self._host)
        verify = verify_ip_address if is_address else verify_hostname
        try:
            verify(self._connection, self._host)
        except (CertificateError, VerificationError) as error:
            text = f"certificate is not valid for {self._host!r}"
            raise _refused(text, _WRONG_ADDRESS if is_address else _WRONG_HOST) from error

    def _translated(self, error: SSL.Error) -> ssl.SSLError:
        """Return the standard library's error for one of pyOpenSSL."""
        if isinstance(error, SSL.WantReadError):
            return ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "more bytes are needed")
        if isinstance(error, (SSL.SysCallError, SSL.ZeroReturnError)):
            return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol")
        if self.refusal is not None:
            return _refused("certificate verify failed", self.refusal)
        stack = error.args[0] if error.args else ()
        reason = str(stack[0][2]) if stack else "unknown"
        made = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
        # The reason's former name in OpenSSL, which the standard library still uses.
        made.reason = reason.upper().replace("SSL/TLS ALERT", "SSLV3 ALERT").replace(" ", "_")
        return made


class Incoming:
    """The received bytes, with the methods of `ssl.MemoryBIO`."""

    # The number of bytes left is not known, so callers read until a read fails.
    pending = 1

    def __init__(self, engine: Engine) -> None:
        self._connection = engine._connection

    def write(self, data: Any) -> int:
        return self._connection.bio_write(bytes(data))

    def write_eof(self) -> None:
        self._connection.bio_shutdown()


class Outgoing:
    """The bytes to send, with the methods of `ssl.MemoryBIO`."""

    def __init__(self, engine: Engine) -> None:
        self._connection = engine._connection
        self._pieces: list[bytes] = []

    @property
    def pending(self) -> int:
        self._collect()
        return sum(map(len, self._pieces))

    def read(self) -> bytes:
        self._collect()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def _collect(self) -> None:
        while True:
            try:
                self._pieces.append(self._connection.bio_read(_PIECE))
            except SSL.WantReadError:
                return


def _note_verification(
    connection: SSL.Connection, _certificate: Any, code: int, _depth: int, is_good: int
) -> bool:
    if not is_good:
        connection.get_app_data().refusal = code
    return bool(is_good)


def _note_staple(connection: SSL.Connection, staple: bytes, _data: object) -> bool:
    # Checked after the handshake, where waiting is possible.
    connection.get_app_data().staple = staple
    return True


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refused(text: str, code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, text)
    error.verify_code, error.verify_message = code, text
    return error
