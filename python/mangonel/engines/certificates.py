"""A certificate authority and a server's certificate for one run, made with trustme. Knows no server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Certificates:
    """The paths of the files.

    Attributes:
        ca: the authority's certificate.
        certificate, key: the server's, for localhost and 127.0.0.1.
        pair: certificate and key in one file.
    """

    ca: Path
    certificate: Path
    key: Path
    pair: Path

    def for_mongod(self) -> dict[str, Any]:
        """Return mongod's options for TLS without client certificates."""
        return {
            "certificateKeyFile": self.pair,
            "CAFile": self.ca,
            "allowConnectionsWithoutCertificates": True,
        }


def certify(folder: Path) -> Certificates:
    """Create the files in a folder.

    Raises:
        ModuleNotFoundError: trustme is not installed.
    """
    import trustme

    made = Certificates(folder / "ca.pem", folder / "crt", folder / "key", folder / "server.pem")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", common_name="localhost")
    authority.cert_pem.write_to_path(str(made.ca))
    issued.cert_chain_pems[0].write_to_path(str(made.certificate))
    issued.private_key_pem.write_to_path(str(made.key))
    issued.private_key_and_cert_chain_pem.write_to_path(str(made.pair))
    return made
