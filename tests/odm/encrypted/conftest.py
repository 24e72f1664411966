"""A connection with encryption keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel.bson import CodecOptions
from mangonel.encryption import AsyncClientEncryption, AutoEncryptionOpts, ClientEncryption
from mangonel.odm import Connection, connect
from odm.encrypted.people import OPTIONS, face_client


@pytest.fixture
def providers() -> dict[str, Any]:
    return {"local": {"key": os.urandom(96)}}


@pytest.fixture
def db(
    request: Any, server: Any, database_name: str, face: Any, providers: dict[str, Any]
) -> Iterator[Connection]:
    """A connection with encryption keys."""
    vault = f"{database_name}.vault"
    if getattr(request, "param", OPTIONS) == OPTIONS:
        options = AutoEncryptionOpts(providers, vault, bypass_query_analysis=True)
        made = connect(server.uri, database=database_name, auto_encryption_opts=options)
    else:
        made = connect(
            server.uri,
            database=database_name,
            encryption=ClientEncryption(providers, vault, face_client(server, False), CodecOptions()),
            aencryption=AsyncClientEncryption(providers, vault, face_client(server, True), CodecOptions()),
        )
    with ClientEncryption(providers, vault, face_client(server, False), CodecOptions()) as keys:
        for name in ("people", "ada", "eve", "note", "street"):
            keys.create_data_key("local", key_alt_names=[name])
    yield made
    made.close()
    face.wait(made.aclose())
