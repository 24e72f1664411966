"""TLS: mongod gets the certificates, and a client on this machine connects by the URI."""

from __future__ import annotations

from types import SimpleNamespace

import pymongo
import pymongo.errors
import pytest

from mangonel import server
from mangonel.engines.certificates import certify


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    made = certify(tmp_path_factory.mktemp("tls"))
    return SimpleNamespace(certificate_key_file=made.pair, ca_file=made.ca)


def assert_serves_tls_only(deployment: server.Server) -> None:
    with pymongo.MongoClient(deployment.uri) as client:
        client.test.things.insert_one({})
    plain = f"mongodb://{deployment.members[0].address}/?directConnection=true"
    with (
        pymongo.MongoClient(plain, serverSelectionTimeoutMS=500) as client,
        pytest.raises(pymongo.errors.ServerSelectionTimeoutError),
    ):
        client.admin.command("ping")


@pytest.mark.parametrize("members", [0, pytest.param(3, marks=pytest.mark.no_sample)])
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
