"""OCSP: checks whether a server's certificate was revoked, from the server's stapled answer or the authority's.

Blocks while it queries a responder; asyncio's faces call it in another thread. Needs `mangonel[ocsp]`.
Spec: ocsp-support, RFC 6960, RFC 7633 (must-staple).
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID

from mangonel._faces.sockets import open_socket

# Seconds for all responders of a certificate.
_LONGEST_QUERY = 5.0
# Bytes of a responder's answer, with its head.
_LARGEST_ANSWER = 64 * 1024
# Cached answers of a client; an answer without nextUpdate is not cached, since a newer one may exist.
_MOST_KEPT = 1000
_REVOKED = 23  # OpenSSL's X509_V_ERR_CERT_REVOKED
_INVALID = 94  # X509_V_ERR_OCSP_VERIFY_FAILED
_MISSING = 92  # X509_V_ERR_OCSP_VERIFY_NEEDED
# Exceptions of parsing or verifying a peer's bytes.
_UNREADABLE = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound)


class Answers:
    """The answers of responders that are still valid, for all connections of a client."""

    def __init__(self, asks_responders: bool) -> None:
        self._asks_responders = asks_responders
        # (issuer's key, serial number) -> (status, time until which it is valid).
        self._kept: dict[tuple[bytes, int], tuple[ocsp.OCSPCertStatus, datetime]] = {}

    def check(
        self,
        certificate: x509.Certificate,
        chain: list[x509.Certificate],
        staple: bytes,
        seconds: float | None,
    ) -> None:
        """Check the certificate of a server whose chain was verified, and those of its authorities below the root.

        Args:
            certificate: the server's.
            chain: the verified chain, with its authorities.
            staple: the answer that the server sent along; empty for none.
            seconds: the time left for asking responders. None: five seconds.

        Raises:
            SSLCertVerificationError: a certificate was revoked; or the server's answer is not valid, or it sent none
                although its certificate promises one. A responder without a valid answer causes no error.
        """
        until = monotonic() + min(_LONGEST_QUERY, _LONGEST_QUERY if seconds is None else seconds)
        issuer, key = _issuer(certificate, chain)
        if staple:
            status = self._of_staple(certificate, issuer, staple, key)
        elif _must_staple(certificate):
            raise _refusal(
                "it must come with an OCSP answer of its authority (must-staple), and the server sent none",
                _MISSING,
            )
        else:
            status = self._known(key) or self._asked(certificate, issuer, until, key)
        if status is ocsp.OCSPCertStatus.REVOKED:
            raise _refusal("its authority has revoked it", _REVOKED)
        for one in chain:
            # A root is trusted because it is in the file of authorities. Only the server's own certificate is stapled.
            if one == certificate or one.subject == one.issuer:
                continue
            issuer, key = _issuer(one, chain)
            status = self._known(key) or self._asked(one, issuer, until, key)
            if status is ocsp.OCSPCertStatus.REVOKED:
                raise _refusal(
                    f"the certificate of its authority {one.subject.rfc4514_string()} was revoked", _REVOKED
                )

    def _of_staple(
        self,
        certificate: x509.Certificate,
        issuer: x509.Certificate | None,
        staple: bytes,
        key: tuple[bytes, int],
    ) -> ocsp.OCSPCertStatus | None:
        try:
            if issuer is None:
                raise ValueError("the chain lacks its issuer")
            return self._keep(key, verified(staple, certificate, issuer))
        except _UNREADABLE as error:
            raise _refusal(
                f"the OCSP answer that the server sent along is not valid: {error or type(error).__name__}",
                _INVALID,
            ) from error

    def _known(self, key: tuple[bytes, int]) -> ocsp.OCSPCertStatus | None:
        status, until = self._kept.get(key, (None, None))
        return status if until is not None and until > datetime.now(UTC) else None

    def _keep(self, key: tuple[bytes, int], answer: ocsp.OCSPResponse) -> ocsp.OCSPCertStatus:
        status, until = answer.certificate_status, answer.next_update_utc
        if until is not None and status is not ocsp.OCSPCertStatus.UNKNOWN:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (status, until)
        return status

    def _asked(
        self,
        certificate: x509.Certificate,
        issuer: x509.Certificate | None,
        until: float,
        key: tuple[bytes, int],
    ) -> ocsp.OCSPCertStatus | None:
        """Return a responder's answer, or None if none arrives before `until`, a time of `time.monotonic()`."""
        if issuer is None or not self._asks_responders:
            return None
        request = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA1()).build()
        for url in _responders(certificate):
            try:
                answer = _query(url, request.public_bytes(serialization.Encoding.DER), until)
                status = self._keep(key, verified(answer, certificate, issuer))
            except (OSError, HTTPException, *_UNREADABLE):
                # The specification's soft failure: a firewall before the responder must not stop all clients.
                continue
            if status is not ocsp.OCSPCertStatus.UNKNOWN:
                return status
        return None


def _issuer(
    certificate: x509.Certificate, chain: list[x509.Certificate]
) -> tuple[x509.Certificate | None, tuple[bytes, int]]:
    """Return the issuer's certificate, and the key of `certificate` in the cache of answers."""
    found = next((one for one in chain if one.subject == certificate.issuer and one != certificate), None)
    if found is None and certificate.issuer == certificate.subject:
        found = certificate
    return found, (b"" if found is None else _key_hash(found), certificate.serial_number)


def verified(answer: bytes, certificate: x509.Certificate, issuer: x509.Certificate) -> ocsp.OCSPResponse:
    """Return an answer about `certificate` that holds now, signed by its issuer or a responder of the issuer.

    Raises:
        ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm: `answer` is not such an answer.
    """
    found = ocsp.load_der_ocsp_response(answer)
    if found.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
        raise ValueError(f"the responder refused: {found.response_status.name.lower()}")
    algorithm = found.hash_algorithm
    asked = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, algorithm).build()
    about = (found.serial_number, found.issuer_key_hash, found.issuer_name_hash)
    if about != (asked.serial_number, asked.issuer_key_hash, asked.issuer_name_hash):
        raise ValueError("it is about another certificate")
    now = datetime.now(UTC)
    signer = _signer(found, issuer, now)
    _verify(signer.public_key(), found)
    if found.this_update_utc > now:
        raise ValueError("it is from the future")
    if found.next_update_utc is not None and found.next_update_utc < now:
        raise ValueError("it has expired")
    if found.next_update_utc is None and found.this_update_utc < now - timedelta(days=30):
        raise ValueError("it is older than 30 days")
    return found


def _signer(answer: ocsp.OCSPResponse, issuer: x509.Certificate, now: datetime) -> x509.Certificate:
    """Return the certificate that should have signed an answer: the issuer's, or one that the issuer made for OCSP."""
    name, key = answer.responder_name, answer.responder_key_hash

    def is_named(one: x509.Certificate) -> bool:
        return one.subject == name if name is not None else _key_hash(one) == key

    if is_named(issuer):
        return issuer
    for one in answer.certificates:
        if not is_named(one):
            continue
        one.verify_directly_issued_by(issuer)
        usage = one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        if ExtendedKeyUsageOID.OCSP_SIGNING not in usage:
            raise ValueError("its signer's certificate is not for signing OCSP answers")
        if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
            raise ValueError("its signer's certificate is not valid now")
        return one
    raise ValueError("its signer is unknown")


def _verify(key: Any, answer: ocsp.OCSPResponse) -> None:
    signature, data, algorithm = answer.signature, answer.tbs_response_bytes, answer.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and algorithm is not None:
        key.verify(signature, data, padding.PKCS1v15(), algorithm)
    elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm is not None:
        key.verify(signature, data, ec.ECDSA(algorithm))
    elif algorithm is None and hasattr(key, "verify"):
        # Ed25519 and other keys with a fixed algorithm.
        key.verify(signature, data)
    else:
        raise UnsupportedAlgorithm(f"a signature by {type(key).__name__}")


def _key_hash(certificate: x509.Certificate) -> bytes:
    """Return the SHA-1 of the public key, which identifies the key in answers. It protects nothing."""
    return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest


def _must_staple(certificate: x509.Certificate) -> bool:
    try:
        features = certificate.extensions.get_extension_for_class(x509.TLSFeature).value
    except _UNREADABLE:
        return False
    return x509.TLSFeatureType.status_request in features


def _responders(certificate: x509.Certificate) -> list[str]:
    try:
        access = certificate.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    except _UNREADABLE:
        return []
    return [
        str(one.access_location.value)
        for one in access
        if one.access_method == AuthorityInformationAccessOID.OCSP
    ]


def _query(url: str, request: bytes, until: float) -> bytes:
    """Return the body of a responder's answer.

    Raises:
        OSError, HTTPException, ValueError: no complete answer arrived before `until`, or its status is not 200.
    """
    target = urlsplit(url)
    if target.scheme != "http" or not target.hostname:
        raise ValueError(f"expected the http URL of a responder, got {url!r}")
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    lines = [
        f"POST {path} HTTP/1.0",
        f"Host: {target.netloc.rpartition('@')[2]}",
        "Content-Type: application/ocsp-request",
        f"Content-Length: {len(request)}",
        "",
        "",
    ]
    message = "\r\n".join(lines).encode("ascii") + request

    def left() -> float:
        seconds = until - monotonic()
        if seconds <= 0:
            raise TimeoutError("the responder did not answer in time")
        return seconds

    sock = open_socket((target.hostname, target.port or 80), left)
    try:
        sock.settimeout(left())
        sock.sendall(message)
        received = b""
        while len(received) <= _LARGEST_ANSWER:
            sock.settimeout(left())
            data = sock.recv(_LARGEST_ANSWER)
            if not data:
                break
            received += data
        else:
            raise ValueError(f"expected at most {_LARGEST_ANSWER} bytes of a responder, got more")
    finally:
        sock.close()
    answer = HTTPResponse(_Received(received))  # type: ignore[arg-type]
    answer.begin()
    if answer.status != 200:
        raise ValueError(f"expected status 200 of a responder, got {answer.status}")
    return answer.read()


class _Received:
    """The bytes of an answer, for `HTTPResponse` to read in place of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        return BytesIO(self._data)


def _refusal(why: str, code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, why)
    error.verify_code, error.verify_message = code, why
    return error
