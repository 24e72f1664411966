"""A client's TLS: the context made from its options, session resumption, and remedies for failures. Opens no socket.

`ssl` is imported on demand. Spec: uri-options ("TLS Options"), auth ("MONGODB-X509" for client certificates).
"""

from __future__ import annotations

import _thread
import os

from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from typing import Any

    from mangonel.typings import _Address

# How often in a row a server may decline to resume a session before resumption is given up.
_MOST_DECLINED = 3

# OpenSSL's X509_V_ERR_* -> the remedy.
_REMEDIES = {
    3: "no revocation list of its issuer is at hand; add it to tlsCRLFile",
    9: "it is not valid yet; compare the clocks of both machines",
    10: "it has expired; renew it on the server",
    12: "the revocation list has expired; renew tlsCRLFile",
    23: "it was revoked; renew it on the server",
    62: "it is for other host names; connect by one of its names, or set tlsAllowInvalidHostnames=true",
    64: "it is for other IP addresses; connect by one of its names, or set tlsAllowInvalidHostnames=true",
    92: "let the server send OCSP answers along (stapling); its log says why it does not",
    94: "compare the clocks of both machines, and see the server's log",
    **dict.fromkeys(
        (2, 18, 19, 20, 21),
        "no authority that this client trusts has signed it; name the authority's certificate in tlsCAFile",
    ),
}

# OpenSSL's reason -> the remedy. An alert comes from the server.
_REASONS = {
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"),
        "the server does not seem to speak TLS on this port; remove tls=true, or switch TLS on in the server",
    ),
    **dict.fromkeys(
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        "the server may want a client certificate; name one in tlsCertificateKeyFile",
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"),
        "the server does not trust the client's certificate; let an authority of the server sign the one in "
        "tlsCertificateKeyFile",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client's certificate has expired; renew tlsCertificateKeyFile",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the client's certificate was revoked; renew tlsCertificateKeyFile",
    **dict.fromkeys(
        ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"),
        "client and server have no version of TLS in common",
    ),
}


class Security:
    """The TLS settings of one client. Safe to share between threads and faces.

    Args:
        options: checked options by lower-case name.
        checks_revocation: ask by OCSP whether certificates were revoked, if `mangonel[ocsp]` is installed.

    Raises:
        ConfigurationError: a file cannot be read, or options contradict each other.
    """

    def __init__(self, options: Mapping[str, Any], checks_revocation: bool = True) -> None:
        self.options = options
        self.checks_revocation = checks_revocation and _checks_revocation(options)
        # Makes TLS engines with OCSP; `mangonel._faces` sets it for the first connection.
        self.factory: Any = None
        self._context: ssl.SSLContext | None = options.get("ssl_context")
        self.lock = _thread.allocate_lock()
        # Address -> (session to resume, how often in a row the server declined).
        self._sessions: dict[_Address, tuple[Any, int]] = {}
        self._has_certificate = bool(options.get("tlscertificatekeyfile")) or self._context is not None
        if any(options.get(name) for name in ("tlscertificatekeyfile", "tlscafile", "tlscrlfile")):
            # Errors must be raised when the client is made, not later in a monitor.
            self._context = _make_context(options)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of all connections, made for the first of them."""
        if self._context is None:
            with self.lock:
                if self._context is None:
                    self._context = _make_context(self.options)
        return self._context

    def wrap(self, address: _Address) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
        """Return the client's TLS object for `address`, its input buffer and its output buffer."""
        import ssl

        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session, _ = self._sessions.get(address, (None, 0))
        made = self.context.wrap_bio(incoming, outgoing, server_hostname=address[0], session=session)
        return made, incoming, outgoing

    def remember(self, address: _Address, secured: ssl.SSLObject) -> None:
        """Store the session of a connection after its first reply, so that the next connection resumes it.

        No other thread may use `secured` at this moment.
        """
        if secured.session_reused:
            return
        _, declined = self._sessions.get(address, (None, -1))
        # Each access to `session` leaks a session on CPython 3.11, so servers that always decline are not offered one.
        if declined < _MOST_DECLINED:
            session = secured.session if declined + 1 < _MOST_DECLINED else None
            self._sessions[address] = (session, declined + 1)

    def explain(self, error: OSError, address: _Address) -> OSError:
        """Return an error of the same class with a remedy for `error`."""
        code: int | None = getattr(error, "verify_code", None)
        reason: str = getattr(error, "reason", None) or ""
        host = address[0]
        if code is not None:
            remedy = _REMEDIES.get(code, "see tlsCAFile and tlsAllowInvalidCertificates")
            why = getattr(error, "verify_message", None) or "certificate verify failed"
            text = f"the certificate of {host} was refused ({why}): {remedy}"
        elif reason in _REASONS:
            text = f"TLS failed with {reason.lower().replace('_', ' ')}: {_REASONS[reason]}"
        elif isinstance(error, ConnectionError) or "EOF" in type(error).__name__:
            text = (
                "the server closed the connection during the TLS handshake; it may not speak TLS on this port, or may "
                "want a client certificate (tlsCertificateKeyFile)"
            )
        else:
            return error
        plain = type(error)(error.errno, text)
        if code is not None:
            plain.verify_code, plain.verify_message = code, why  # type: ignore[attr-defined]
        if reason:
            plain.reason = reason  # type: ignore[attr-defined]
        return plain

    @property
    def closing_hint(self) -> str:
        """The likely reason for a server's closing a connection before its first reply."""
        if self._has_certificate:
            return "it may refuse the client's certificate; see the server's log"
        return "it may want a client certificate; name one in tlsCertificateKeyFile"


def _checks_revocation(options: Mapping[str, Any]) -> bool:
    """Return whether OCSP is used: its packages are installed, and the options leave TLS's checks on."""
    if options.get("ssl_context") is not None or options.get("tlsallowinvalidcertificates"):
        return False
    if os.environ.get("MANGONEL_OCSP") == "0":
        return False
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("OpenSSL", "service_identity"))


def _make_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    checks_certificates = not options.get("tlsallowinvalidcertificates")
    context.check_hostname = checks_certificates and not options.get("tlsallowinvalidhostnames")
    context.verify_mode = ssl.CERT_REQUIRED if checks_certificates else ssl.CERT_NONE
    if key_file := options.get("tlscertificatekeyfile"):
        _load_key(context, key_file, options.get("tlscertificatekeyfilepassword"))
    if revoked := options.get("tlscrlfile"):
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        _load(context, "tlsCRLFile", revoked)
    if authorities := options.get("tlscafile"):
        _load(context, "tlsCAFile", authorities)
    elif checks_certificates:
        context.load_default_certs()
    return context


def _load(context: ssl.SSLContext, option: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise ConfigurationError(f"expected {option} to be a PEM file, got {path}: {error}") from error


def _load_key(context: ssl.SSLContext, path: str, password: str | None) -> None:
    import ssl

    is_asked = False

    def answer() -> str:
        # Called for encrypted keys only; without it OpenSSL would prompt at the terminal.
        nonlocal is_asked
        is_asked = True
        return password or ""

    try:
        context.load_cert_chain(path, None, answer)
    except (ssl.SSLError, ValueError) as error:
        if is_asked and not password:
            text = f"the private key in {path} is encrypted; give tlsCertificateKeyFilePassword"
        elif is_asked:
            text = f"cannot decrypt the private key in {path}: tlsCertificateKeyFilePassword may be wrong ({error})"
        else:
            text = f"expected tlsCertificateKeyFile to hold a certificate and its private key, got {path}: {error}"
        raise ConfigurationError(text) from error
    except OSError as error:
        raise ConfigurationError(f"cannot read tlsCertificateKeyFile {path}: {error}") from error
