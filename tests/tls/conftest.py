"""Certificates made once, on every face."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from faces.conftest import face
from tls.certificates import Certificates

__all__ = ["certificates", "face", "server_context"]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def server_context(certificates: Certificates) -> Callable[..., ssl.SSLContext]:
    """Makes a server's context with one of the certificates."""

    def make(certificate: Path | None = None, *, demands_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate or certificates.server)
        if demands_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificates.authority)
        return context

    return make
