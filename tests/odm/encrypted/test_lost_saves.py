"""A late save of encrypted fields, which reaches the server after its repetition, is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mangonel.encryption import AutoEncryptionOpts
from mangonel.odm import Connection, connect
from mangonel.server import Server
from odm.encrypted.people import Owned, Person, make
from odm.encrypted.test_queryable import NEEDS_SERVER, Patient, ada
from odm.test_lost_saves import lose, refused
from tools.message_proxy import MessageProxy


@pytest.fixture
def line(server: Server, db: Connection, providers: dict[str, Any], face: Any) -> Iterator[MessageProxy]:
    """A proxy between the models' connection and the server, which can deliver a command late."""
    with MessageProxy(server.members[0].port) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"
        options = AutoEncryptionOpts(providers, f"{db.name}.vault", bypass_query_analysis=True)
        made = connect(uri, database=db.name, auto_encryption_opts=options)
        yield proxy
        made.close()
        face.wait(made.aclose())


@pytest.mark.parametrize("model", [Person, Owned, pytest.param(Patient, marks=NEEDS_SERVER)])
def test_a_save_that_arrives_after_its_repetition_is_refused(
    model: Any, line: MessageProxy, face: Any
) -> None:
    if model is Patient:
        face.call(Patient, "create_collection")
    document = make() if model is Person else ada() if model is Patient else Owned(owner="ada", text="x")
    face.save(document)
    changed = {Person: "pay", Owned: "text", Patient: "ssn"}[model]
    setattr(document, changed, 1.5 if model is Person else "first")
    late = lose(face, line, [document])
    setattr(document, changed, 2.5 if model is Person else "second")
    face.save(document)
    refused(line, late[0])
    assert getattr(face.call(model, "get", document.id), changed) in (2.5, "second")
