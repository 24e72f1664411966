"""An authority and a server's certificate for the length of a run, made with the openssl program.

For the lab and for tests. The certificate is for localhost and 127.0.0.1. Knows no server.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Certificates", "certify"]

DAYS = 2


@dataclass(frozen=True)
class Certificates:
    """Where they are.

    Attributes:
        ca: the authority's certificate.
        certificate, key: the server's.
        pair: both of these in one file.
    """

    ca: Path
    certificate: Path
    key: Path
    pair: Path

    def for_mongod(self) -> dict[str, Any]:
        """Return mongod's options: it encrypts, and asks nobody for a certificate."""
        return {
            "certificateKeyFile": self.pair,
            "CAFile": self.ca,
            "allowConnectionsWithoutCertificates": True,
        }


def certify(folder: Path) -> Certificates:
    """Make them in a folder.

    Raises:
        FileNotFoundError: there is no openssl.
        subprocess.CalledProcessError: it failed.
    """
    made = Certificates(folder / "ca.pem", folder / "crt", folder / "key", folder / "server.pem")
    ca_key, request, names = folder / "ca.key", folder / "request", folder / "names"
    key = ("req", "-newkey", "rsa:2048", "-nodes")
    _openssl(*key, "-x509", "-days", DAYS, "-subj", "/CN=lab", "-keyout", ca_key, "-out", made.ca)
    _openssl(*key, "-subj", "/CN=localhost", "-keyout", made.key, "-out", request)
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    sign = (
        "x509",
        "-req",
        "-days",
        DAYS,
        "-in",
        request,
        "-CA",
        made.ca,
        "-CAkey",
        ca_key,
        "-CAcreateserial",
    )
    _openssl(*sign, "-extfile", names, "-out", made.certificate)
    made.pair.write_bytes(made.certificate.read_bytes() + made.key.read_bytes())
    return made


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
