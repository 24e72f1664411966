"""Makes an authority and certificates of every kind that the tests need, with the openssl program."""

from __future__ import annotations

import subprocess
from pathlib import Path

PASSWORD = "correct horse"

_CONFIGURATION = """
[ca]
default_ca = authority
[authority]
database = {folder}/index
serial = {folder}/serial
crlnumber = {folder}/crlnumber
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
default_md = sha256
default_days = 2
default_crl_days = 2
policy = anything
unique_subject = no
copy_extensions = copy
[anything]
commonName = supplied
organizationName = optional
organizationalUnitName = optional
[req]
distinguished_name = empty
[empty]
"""


class Certificates:
    """Paths in one folder. `server` is good; `expired`, `elsewhere` and `revoked` are not; `client` is a client's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._configuration = folder / "openssl.cnf"
        self._configuration.write_text(_CONFIGURATION.format(folder=folder))
        (folder / "index").touch()
        for counter in ("serial", "crlnumber"):
            (folder / counter).write_text("1000\n")
        self.authority = self._authority("ca")
        self.other_authority = self._authority("other")
        self.server = self._signed("server", "localhost", "DNS:localhost,IP:127.0.0.1")
        self.elsewhere = self._signed("elsewhere", "db.example.org", "DNS:db.example.org")
        self.expired = self._signed(
            "expired",
            "localhost",
            "DNS:localhost,IP:127.0.0.1",
            ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z"),
        )
        self.revoked = self._signed("revoked", "localhost", "DNS:localhost,IP:127.0.0.1")
        self._openssl("ca", "-config", self._configuration, "-revoke", folder / "revoked.crt")
        self.revocations = folder / "revocations.pem"
        self._openssl("ca", "-config", self._configuration, "-gencrl", "-out", self.revocations)
        self.client = self._signed("client", "ada", "DNS:client")
        self.locked_client = self._locked("client")

    def _openssl(self, *arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    def _authority(self, name: str) -> Path:
        certificate = self._folder / f"{name}.pem"
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", f"/CN=Authority {name}"),
            *("-keyout", self._folder / f"{name}.key", "-out", certificate),
        )
        return certificate

    def _signed(self, name: str, common_name: str, names: str, dates: tuple[str, ...] = ()) -> Path:
        """Return a file with a certificate and its key."""
        key, request, certificate, both = (
            self._folder / f"{name}.{kind}" for kind in ("key", "request", "crt", "pem")
        )
        self._openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-config", self._configuration),
            *("-subj", f"/O=Tests/OU={name}/CN={common_name}", "-addext", f"subjectAltName={names}"),
            *("-keyout", key, "-out", request),
        )
        self._openssl(
            *("ca", "-batch", "-notext", "-config", self._configuration, "-in", request, "-out", certificate),
            *dates,
        )
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        return both

    def _locked(self, name: str) -> Path:
        """Return the same with the key encrypted."""
        key, both = self._folder / f"{name}.locked.key", self._folder / f"{name}.locked.pem"
        self._openssl(
            *("rsa", "-aes256", "-passout", f"pass:{PASSWORD}", "-in", self._folder / f"{name}.key"),
            *("-out", key),
        )
        both.write_bytes((self._folder / f"{name}.crt").read_bytes() + key.read_bytes())
        return both
