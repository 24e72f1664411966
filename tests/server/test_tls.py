"""TLS: mongod gets the certificates, and the URI gets a client on this machine through."""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace

import pymongo
import pymongo.errors
import pytest

from mangonel import server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("tls")
    authority, key, request, certificate, names = (
        folder / name for name in ("ca.pem", "key.pem", "request.pem", "certificate.pem", "names")
    )
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")

    def openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes", "-days", 2)
    openssl(*new, "-x509", "-subj", "/CN=Test CA", "-keyout", folder / "ca.key", "-out", authority)
    openssl(*new[:4], "-subj", "/O=Tests/CN=localhost", "-keyout", key, "-out", request)
    openssl(
        *("x509", "-req", "-in", request, "-CA", authority, "-CAkey", folder / "ca.key", "-days", 2),
        *("-CAcreateserial", "-extfile", names, "-out", certificate),
    )
    both = folder / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    return SimpleNamespace(certificate_key_file=both, ca_file=authority)


def assert_serves_tls_only(deployment: server.Server) -> None:
    with pymongo.MongoClient(deployment.uri) as client:
        client.test.things.insert_one({})
    plain = f"mongodb://{deployment.members[0].address}/?directConnection=true"
    with (
        pymongo.MongoClient(plain, serverSelectionTimeoutMS=500) as client,
        pytest.raises(pymongo.errors.ServerSelectionTimeoutError),
    ):
        client.admin.command("ping")


@pytest.mark.parametrize("members", [0, 3])
def test_tls_takes_an_object_and_demands_a_client_certificate(
    certificates: SimpleNamespace, members: int
) -> None:
    with server.start(members, tls=certificates) as deployment:
        assert_serves_tls_only(deployment)


def test_tls_takes_a_mapping_of_mongod_names_together_with_auth(certificates: SimpleNamespace) -> None:
    tls = {
        "certificateKeyFile": certificates.certificate_key_file,
        "CAFile": str(certificates.ca_file),
        "allowConnectionsWithoutCertificates": True,
    }
    with server.start(1, tls=tls, auth=("ada", "secret")) as deployment:
        assert "tlsCertificateKeyFile" not in deployment.uri
        assert_serves_tls_only(deployment)
