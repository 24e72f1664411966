"""Both faces, a fresh key vault for each test, and PyMongo beside it as the oracle."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mangonel
import tools.faces
from encryption import scripted_kms as scripted
from encryption.scripted_kms import ScriptedKms, scripted_kms, server_context
from mangonel import encryption
from mangonel.bson import CodecOptions
from mangonel.server import Server
from tls.certificates import Certificates


class Face(tools.faces.Face):
    """A face with its class of explicit encryption."""

    @property
    def encryption_class(self) -> Any:
        """The class of this face."""
        return encryption.AsyncClientEncryption if self.is_async else encryption.ClientEncryption

    def within(self, seconds: float | None, call: Callable[[], Any]) -> Any:
        """Run a call to its end within a time limit."""

        def limited() -> Any:
            with mangonel.timeout(seconds):
                return call()

        async def limited_on_loop() -> Any:
            with mangonel.timeout(seconds):
                return await call()

        return self.run(limited_on_loop if self.is_async else limited)


face = tools.faces.faces("blocking", "asyncio", kind=Face)


@pytest.fixture
def providers() -> dict[str, Any]:
    """A new master key."""
    return {"local": {"key": os.urandom(96)}}


@pytest.fixture
def vault(standalone: Server) -> str:
    """The namespace of a key vault that only this test uses."""
    return f"keys_{uuid.uuid4().hex[:12]}.vault"


@pytest.fixture
def make_keys(face: Face, standalone: Server, vault: str, providers: dict[str, Any]) -> Callable[..., Any]:
    """Make the object under test; each has its own cache of data keys."""

    def make(providers: dict[str, Any] = providers, **options: Any) -> Any:
        client = options.pop("client", None) or face.client(standalone.uri)
        codec = options.pop("codec_options", CodecOptions())
        return face.encryption_class(providers, vault, client, codec, **options)

    return make


@pytest.fixture
def keys(make_keys: Callable[..., Any]) -> Any:
    """The object under test with a local master key."""
    return make_keys()


@pytest.fixture
def peer(standalone: Server, vault: str, providers: dict[str, Any]) -> Iterator[Any]:
    """PyMongo's object with the same master key and vault."""
    pymongo = pytest.importorskip("pymongo")
    pytest.importorskip("pymongocrypt")
    from bson.codec_options import CodecOptions as PeerOptions
    from pymongo.encryption import ClientEncryption

    with (
        pymongo.MongoClient(standalone.uri) as client,
        ClientEncryption(providers, vault, client, PeerOptions()) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The `kms_providers` of key services."""
    return Certificates(tmp_path_factory.mktemp("kms"))


@pytest.fixture
def kms(certificates: Certificates) -> Iterator[ScriptedKms]:
    """A key service of all providers."""
    with scripted_kms(server_context(certificates.server)) as made:
        yield made


@pytest.fixture
def keys_of(make_keys: Callable[..., Any], certificates: Certificates) -> Callable[..., Any]:
    """Make the object under test for a provider at a service, and its master key."""

    def make(kind: str, service: ScriptedKms, **options: Any) -> tuple[Any, Any]:
        given, master = scripted.providers(kind, service.address)
        options.setdefault("kms_tls_options", {kind: {"tlsCAFile": str(certificates.authority)}})
        return make_keys(given, **options), master

    return make
