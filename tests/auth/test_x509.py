"""MONGODB-X509 against a real mongod: the certificate of the TLS handshake is the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from auth.conftest import ROOT
from mangonel import MongoClient
from mangonel.errors import OperationFailure
from mangonel.server import Server, start
from tls.certificates import Certificates
from tls.conftest import certificates
from tools.faces import Face

__all__ = ["certificates"]

SUBJECT = "CN=ada,OU=client,O=Tests"


@pytest.fixture(scope="module")
def guarded_by_certificates(certificates: Certificates) -> Iterator[Server]:
    """A server that knows the subject of the client's certificate, and no other."""
    tls = {"certificateKeyFile": str(certificates.server), "CAFile": str(certificates.authority)}
    with start(auth=ROOT, tls=tls) as server:
        with MongoClient(
            server.members[0].address,
            username=ROOT[0],
            password=ROOT[1],
            tls=True,
            tlsCAFile=str(certificates.authority),
            tlsCertificateKeyFile=str(certificates.client),
        ) as client:
            roles = [{"role": "readWriteAnyDatabase", "db": "admin"}]
            client["$external"].command("createUser", SUBJECT, roles=roles)
        yield server


def client_with(
    face: Face, server: Server, certificates: Certificates, certificate: Any, **options: Any
) -> Any:
    return face.client(
        server.members[0].address,
        authMechanism="MONGODB-X509",
        tls=True,
        tlsCAFile=str(certificates.authority),
        tlsCertificateKeyFile=str(certificate),
        **options,
    )


@pytest.mark.parametrize("user", [None, SUBJECT])
def test_a_certificate_is_its_user(
    face: Face, guarded_by_certificates: Server, certificates: Certificates, user: str | None
) -> None:
    client = client_with(face, guarded_by_certificates, certificates, certificates.client, username=user)
    status = face.run(lambda: client.admin.command("connectionStatus"))
    assert status["authInfo"]["authenticatedUsers"] == [{"user": SUBJECT, "db": "$external"}]
    face.run(lambda: client.shop.orders.insert_one({"_id": face.name + str(user)}))


@pytest.mark.parametrize("user", [None, SUBJECT])
def test_a_certificate_of_nobody_is_refused(
    face: Face, guarded_by_certificates: Server, certificates: Certificates, user: str | None
) -> None:
    client = client_with(face, guarded_by_certificates, certificates, certificates.elsewhere, username=user)
    with pytest.raises(OperationFailure, match="MONGODB-X509") as caught:
        face.run(lambda: client.shop.orders.find_one())
    # UserNotFound or AuthenticationFailed: a server reports the first to a client that named no user.
    assert caught.value.code in (11, 18)
