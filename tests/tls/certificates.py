"""An authority and certificates of every kind for the tests, made with trustme."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PASSWORD = "correct horse"
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
HERE = ("localhost", "127.0.0.1")


class Certificates:
    """Paths in one folder. `server` is good; `expired`, `elsewhere` and `revoked` are not.

    `client` is a client's; `strange_client` is one too, of `other_authority`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA(organization_name="Authority ca")
        stranger = trustme.CA(organization_name="Authority other")
        self.authority = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.authority))
        self.other_authority = folder / "other.pem"
        stranger.cert_pem.write_to_path(str(self.other_authority))
        self.server = self._signed("server", *HERE, not_after=datetime.datetime.now(datetime.UTC) + 2 * DAY)
        self.elsewhere = self._signed("elsewhere", "db.example.org")
        self.expired = self._signed("expired", *HERE, not_before=LONG_AGO, not_after=LONG_AGO + DAY)
        self.revoked = self._signed("revoked", *HERE)
        self.revocations = self._revocations(self.revoked)
        self.client = self._signed("client", "client", common_name="ada")
        self.locked_client = self._locked(self.client)
        self.strange_client = folder / "strange.pem"
        issued = stranger.issue_cert("client", common_name="ada")
        issued.private_key_and_cert_chain_pem.write_to_path(str(self.strange_client))

    def _signed(
        self,
        name: str,
        *identities: str,
        common_name: str = "localhost",
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
    ) -> Path:
        """Return a file with a certificate and its key."""
        issued = self._authority.issue_cert(
            *identities,
            common_name=common_name,
            organization_name="Tests",
            organization_unit_name=name,
            not_before=not_before,
            not_after=not_after,
        )
        both = self._folder / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(both))
        return both

    def _revocations(self, revoked: Path) -> Path:
        """Return a file with the authority's revocation list."""
        now = datetime.datetime.now(datetime.UTC)
        number = x509.load_pem_x509_certificate(revoked.read_bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now - DAY).build()
        issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes()).subject
        key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        builder = x509.CertificateRevocationListBuilder().issuer_name(issuer).add_revoked_certificate(entry)
        made = builder.last_update(now - DAY).next_update(now + DAY).sign(key, hashes.SHA256())
        path = self._folder / "revocations.pem"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return path

    def _locked(self, both: Path) -> Path:
        """Return the same file with an encrypted key."""
        content = both.read_bytes()
        key = serialization.load_pem_private_key(content, None)
        encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
        locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        path = both.with_suffix(".locked.pem")
        path.write_bytes(content[content.index(b"-----BEGIN CERTIFICATE") :] + locked)
        return path
