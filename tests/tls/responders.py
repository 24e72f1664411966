"""Authorities with OCSP responders of our own, which reply as a test says."""

from __future__ import annotations

import contextlib
import datetime
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

HOUR = datetime.timedelta(hours=1)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Owner:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def both(self) -> bytes:
        return (
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + self.pem
        )


def issue(
    name: str,
    issuer: Owner | None,
    *extensions: x509.ExtensionType,
    is_rsa: bool = False,
    until: datetime.timedelta = 24 * HOUR,
    is_authority: bool = False,
) -> Owner:
    """Issue a certificate; without an issuer, a self-signed one of an authority."""
    key: Any = rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - 48 * HOUR)
        .not_valid_after(now() + until)
        .add_extension(x509.BasicConstraints(is_authority or issuer is None, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return Owner(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)


def intermediate(authority: Owner, *urls: str) -> Owner:
    """Issue the certificate of an authority below another one; it names responders."""
    return issue("an intermediate authority", authority, *_named(urls), is_authority=True)


def _named(urls: tuple[str, ...]) -> list[x509.ExtensionType]:
    if not urls:
        return []
    method = AuthorityInformationAccessOID.OCSP
    access = [x509.AccessDescription(method, x509.UniformResourceIdentifier(url)) for url in urls]
    return [x509.AuthorityInformationAccess(access)]


def server(authority: Owner, *urls: str, must_staple: bool = False, is_rsa: bool = False) -> Owner:
    """Issue a server's certificate that names responders."""
    extensions: list[x509.ExtensionType] = [
        x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        *_named(urls),
    ]
    if must_staple:
        extensions.append(x509.TLSFeature([x509.TLSFeatureType.status_request]))
    return issue("server", authority, *extensions, is_rsa=is_rsa)


def delegate(authority: Owner, *, is_meant: bool = True, until: datetime.timedelta = 24 * HOUR) -> Owner:
    """Issue the certificate of a responder, with or without the key usage for it."""
    usage = ExtendedKeyUsageOID.OCSP_SIGNING if is_meant else ExtendedKeyUsageOID.SERVER_AUTH
    return issue("responder", authority, x509.ExtendedKeyUsage([usage]), until=until)


@dataclass(frozen=True)
class Answer:
    """Return a response about `about`, issued by `authority`, signed by `signer` (None: the authority)."""

    about: Owner
    authority: Owner
    status: ocsp.OCSPCertStatus = ocsp.OCSPCertStatus.GOOD
    signer: Owner | None = None
    by_hash: bool = True
    sends_certificate: bool = True
    this_update: datetime.timedelta = -HOUR
    next_update: datetime.timedelta | None = HOUR

    def of(self, **changes: Any) -> Answer:
        return replace(self, **changes)

    def der(self) -> bytes:
        """Sign and encode the response."""
        signer = self.signer or self.authority
        is_revoked = self.status is ocsp.OCSPCertStatus.REVOKED
        encoding = ocsp.OCSPResponderEncoding.HASH if self.by_hash else ocsp.OCSPResponderEncoding.NAME
        builder = (
            ocsp.OCSPResponseBuilder()
            .add_response(
                self.about.certificate,
                self.authority.certificate,
                hashes.SHA1(),
                self.status,
                now() + self.this_update,
                None if self.next_update is None else now() + self.next_update,
                now() - HOUR if is_revoked else None,
                x509.ReasonFlags.key_compromise if is_revoked else None,
            )
            .responder_id(encoding, signer.certificate)
        )
        if self.signer is not None and self.sends_certificate:
            builder = builder.certificates([signer.certificate])
        return builder.sign(signer.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def refusal() -> bytes:
    """Return the response of a responder that is busy."""
    made = ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER)
    return made.public_bytes(serialization.Encoding.DER)


def over_http(body: bytes, status: int = 200) -> bytes:
    head = f"HTTP/1.0 {status} X\r\nContent-Type: application/ocsp-response\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Responder:
    """A responder on loopback. `plan` returns the bytes of the next response; `asked` counts requests."""

    def __init__(self) -> None:
        self.plan: Callable[[], bytes | None] = lambda: b""
        self.asked: list[bytes] = []
        self.pause = 0.0
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/ocsp"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            self.asked.append(sock.recv(65536))
            answer = self.plan()
            if answer is None:
                # Silent.
                self._ended.wait(60)
                return
            if self.pause:
                for byte in answer:
                    sock.sendall(bytes([byte]))
                    time.sleep(self.pause)
            else:
                sock.sendall(answer)


@contextlib.contextmanager
def responder() -> Iterator[Responder]:
    """Run a responder during a block."""
    made = Responder()
    try:
        yield made
    finally:
        made.close()


def write(owner: Owner, path: Path) -> Path:
    """Write certificate and key to a file."""
    path.write_bytes(owner.both)
    return path
