"""The specification's corpus of encrypted values and its limits of size, with the local master key.

Spec: client-side-encryption ("Corpus Test", "BSON size limits and batch splitting"). The scripted mongocryptd stands in
for the one in the prose.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from encryption.scripted_mongocryptd import ScriptedMongocryptd
from encryption.seen import Seen
from mangonel import errors
from mangonel.bson import Binary, CodecOptions, json_util
from mangonel.bson.binary import UuidRepresentation
from mangonel.encryption import AutoEncryptionOpts
from spec.unified.suites import NO_FOLDER, folder
from spec.unified.values import LOCAL_KEY

pytestmark = pytest.mark.skipif(folder() is None, reason=NO_FOLDER)

ALGORITHMS = {
    "det": "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic",
    "rand": "AEAD_AES_256_CBC_HMAC_SHA_512-Random",
}
LOCAL_ID = Binary(base64.b64decode("LOCALAAAAAAAAAAAAAAAAA=="), 4)
# Read as a str and a DBRef, so they are written as other types than they were.
CHANGED_BY_PYTHON = ("symbol", "dbPointer")
MIB2, MIB16 = 2_097_152, 16_777_216
CODEC: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.UNSPECIFIED)


def read(name: str) -> Any:
    """Return a file of the specification."""
    where = folder()
    assert where is not None
    # Each number keeps its type, which the ciphertexts depend on.
    options = json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, uuid_representation=0)
    return json_util.loads((where / "client-side-encryption" / name).read_text(), json_options=options)


def is_local(name: str, value: Any) -> bool:
    return name in ("_id", "altname_local") or (isinstance(value, dict) and value.get("kms") == "local")


@pytest.fixture(scope="session")
def corpus() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The plain values, their encrypted forms, and the schema for automatic encryption."""
    plain = {name: value for name, value in read("corpus/corpus.json").items() if is_local(name, value)}
    encrypted = {name: value for name, value in read("corpus/corpus-encrypted.json").items() if name in plain}
    schema = read("corpus/corpus-schema.json")
    schema["properties"] = {name: rule for name, rule in schema["properties"].items() if name in plain}
    return plain, encrypted, schema


@pytest.fixture
def providers() -> dict[str, Any]:
    return {"local": {"key": base64.b64decode(LOCAL_KEY)}}


@pytest.fixture
def filled(face: Any, standalone: Any, vault: str) -> Any:
    """A database whose vault has the specification's local key; of a client without encryption."""
    database, _, name = vault.partition(".")
    found = face.client(standalone.uri)[database]
    face.wait(found[name].insert_one(read("corpus/corpus-key-local.json")))
    return found


@pytest.fixture
def open_client(
    face: Any, standalone: Any, vault: str, providers: dict[str, Any], filled: Any
) -> Iterator[Callable[..., Any]]:
    with ScriptedMongocryptd() as mongocryptd:

        def make(schema: dict[str, Any] | None, **more: Any) -> Any:
            options = AutoEncryptionOpts(
                providers,
                vault,
                schema_map=None if schema is None else {f"{filled.name}.coll": schema},
                bypass_auto_encryption=schema is None,
                mongocryptd_uri=mongocryptd.uri,
                mongocryptd_bypass_spawn=True,
            )
            return face.client(standalone.uri, auto_encryption_opts=options, **more)[filled.name].coll

        yield make


def test_corpus_of_single_values(face: Any, make_keys: Any, filled: Any, corpus: Any) -> None:
    plain, encrypted, _ = corpus
    keys = make_keys(codec_options=CODEC)
    for name, case in plain.items():
        if not isinstance(case, dict) or case["method"] != "explicit":
            continue
        given: dict[str, Any] = (
            {"key_id": LOCAL_ID} if case["identifier"] == "id" else {"key_alt_name": "local"}
        )
        algorithm, expected = ALGORITHMS[case["algo"]], encrypted[name]["value"]
        if not case["allowed"]:
            with pytest.raises(errors.EncryptionError):
                face.wait(keys.encrypt(case["value"], algorithm, **given))
            assert expected == case["value"], name
            continue
        assert face.wait(keys.decrypt(expected)) == case["value"], name
        if case["type"] in CHANGED_BY_PYTHON:
            continue
        made = face.wait(keys.encrypt(case["value"], algorithm, **given))
        if case["algo"] == "det":
            assert made == expected, name
        assert face.wait(keys.decrypt(made)) == case["value"], name


def test_corpus_is_decrypted_in_replies(filled: Any, face: Any, open_client: Any, corpus: Any) -> None:
    plain, encrypted, _ = corpus
    face.wait(filled.coll.insert_one(encrypted))
    assert face.wait(open_client(None).find_one()) == plain


def test_corpus_is_encrypted_in_commands(filled: Any, face: Any, open_client: Any, corpus: Any) -> None:
    plain, encrypted, schema = corpus
    face.wait(open_client(schema).insert_one(plain))
    stored = face.wait(filled.coll.find_one())
    for name, case in plain.items():
        if isinstance(case, dict) and case["method"] == "auto" and case["type"] not in CHANGED_BY_PYTHON:
            assert stored[name]["value"].subtype == 6, name
            if case["algo"] == "det":
                assert stored[name]["value"] == encrypted[name]["value"], name
    assert face.wait(open_client(schema).find_one()) == plain


def test_limits_of_size(filled: Any, face: Any, open_client: Any) -> None:
    seen = Seen()
    people = open_client(read("limits/limits-schema.json"), event_listeners=[seen])
    document = read("limits/limits-doc.json")

    face.wait(people.insert_one({"_id": "over_2mib_under_16mib", "unencrypted": "a" * MIB2}))
    face.wait(people.insert_one({**document, "_id": "exceeds_2mib", "unencrypted": "a" * (MIB2 - 2000)}))
    for several in (
        [{"_id": f"over_2mib_{n}", "unencrypted": "a" * MIB2} for n in (1, 2)],
        [{**document, "_id": f"exceeds_2mib_{n}", "unencrypted": "a" * (MIB2 - 2000)} for n in (1, 2)],
    ):
        seen.names.clear()
        face.wait(people.insert_many(several))
        assert seen.names == ["insert", "insert"]
    face.wait(people.insert_one({"_id": "under_16mib", "unencrypted": "a" * (MIB16 - 2000)}))
    with pytest.raises((errors.WriteError, errors.DocumentTooLarge, errors.OperationFailure)):
        face.wait(
            people.insert_one({**document, "_id": "exceeds_16mib", "unencrypted": "a" * (MIB16 - 2000)})
        )
