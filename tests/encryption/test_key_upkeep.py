"""How long data keys stay in memory, and which of them are rewrapped; compared with PyMongo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from encryption.scripted_kms import ScriptedKms, providers
from encryption.seen import Seen
from mangonel import errors
from mangonel.encryption import Algorithm
from tls.certificates import Certificates
from tools.faces import eventually

RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
MISSING = "not all keys requested were satisfied"


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.mark.parametrize("milliseconds", [None, 0, 60_000])
def test_a_key_that_is_kept_is_asked_for_once(
    face: Any, make_keys: Callable[..., Any], standalone: Any, seen: Seen, milliseconds: int | None
) -> None:
    client = face.client(standalone.uri, event_listeners=[seen])
    keys = make_keys(client=client, key_expiration_ms=milliseconds)
    key_id = face.wait(keys.create_data_key("local"))
    secret = face.wait(keys.encrypt(1, RANDOM, key_id))
    assert face.wait(keys.delete_key(key_id)).deleted_count == 1

    assert face.wait(keys.decrypt(secret)) == 1
    assert face.wait(keys.decrypt(face.wait(keys.encrypt(2, RANDOM, key_id)))) == 2
    assert seen.names.count("find") == 1


def test_a_key_whose_time_is_over_is_asked_for_again(
    face: Any, make_keys: Callable[..., Any], standalone: Any, seen: Seen
) -> None:
    client = face.client(standalone.uri, event_listeners=[seen])
    keys = make_keys(client=client, key_expiration_ms=1)
    key_id = face.wait(keys.create_data_key("local"))
    secret = face.wait(keys.encrypt(1, RANDOM, key_id))

    def is_asked_for_again() -> bool:
        assert face.wait(keys.decrypt(secret)) == 1
        return seen.names.count("find") > 1

    eventually(is_asked_for_again)


def test_a_deleted_key_opens_nothing_once_its_time_is_over(
    face: Any, make_keys: Callable[..., Any], peer_of: Any, providers: dict[str, Any]
) -> None:
    keys = make_keys(key_expiration_ms=1)
    peer = peer_of(providers, key_expiration_ms=1)
    key_id = face.wait(keys.create_data_key("local"))
    secret = face.wait(keys.encrypt(1, RANDOM, key_id))
    peer_secret = peer.encrypt(1, RANDOM, key_id=_peer_binary(key_id, 4))
    face.wait(keys.delete_key(key_id))

    for decrypt in (lambda: face.wait(keys.decrypt(secret)), lambda: peer.decrypt(peer_secret)):
        eventually(lambda decrypt=decrypt: _error_of(decrypt).startswith(f"EncryptionError: {MISSING}"))


def test_a_service_is_asked_again_when_a_keys_time_is_over(
    face: Any, kms: ScriptedKms, keys_of: Callable[..., Any]
) -> None:
    keys, master = keys_of("aws", kms, key_expiration_ms=1)
    secret = face.wait(keys.encrypt(1, RANDOM, face.wait(keys.create_data_key("aws", master))))
    before = len(kms.requests)

    def is_asked_again() -> bool:
        assert face.wait(keys.decrypt(secret)) == 1
        return len(kms.requests) > before

    eventually(is_asked_again)
    kms.plan = [400] * 100
    eventually(lambda: "the token has expired" in _error_of(lambda: face.wait(keys.decrypt(secret))))
    kms.plan = []
    assert face.wait(keys.decrypt(secret)) == 1


# Rewrapping


def _peer_binary(value: bytes, subtype: int) -> Any:
    from bson.binary import Binary

    return Binary(bytes(value), subtype)


def _error_of(call: Callable[[], Any]) -> str:
    """Return the kind of an error and its message; nothing when there is none."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.fixture
def peer_of(standalone: Any, vault: str) -> Iterator[Callable[..., Any]]:
    """Make PyMongo's object with the same vault, or another."""
    pymongo = pytest.importorskip("pymongo")
    from bson.codec_options import CodecOptions
    from pymongo.encryption import ClientEncryption

    with pymongo.MongoClient(standalone.uri) as client:
        yield lambda providers, namespace=vault, **options: ClientEncryption(
            providers, namespace, client, CodecOptions(), **options
        )


# Name: filter, provider, master key. "aws" stands for the scripted service's.
REWRAPS: dict[str, tuple[Any, str | None, Any]] = {
    "none": ({"keyAltNames": "nobody"}, None, None),
    "all, the same": ({}, None, None),
    "one": ({"keyAltNames": "one"}, "local:new", None),
    "by a regular expression": ({"keyAltNames": {"$regex": "^t"}}, "local", None),
    "by provider": ({"masterKey.provider": "local"}, "local:new", None),
    "by two": ({"$or": [{"keyAltNames": "one"}, {"keyAltNames": "three"}]}, "local:new", None),
    "to a service": ({"keyAltNames": {"$ne": "three"}}, "aws", "aws"),
    "an operator that is none": ({"$nope": 1}, None, None),
    "no document": ([1], None, None),
    "no filter": (None, None, None),
    "an unknown provider": ({}, "gcp", {"projectId": "p"}),
    "a provider without a master key": ({}, "aws", None),
    "a master key without a provider": ({}, None, {"key": "x"}),
    "a wrong master key": ({}, "aws", {"key": 1, "region": 2}),
}


@pytest.mark.parametrize("name", REWRAPS)
def test_rewrapping_does_what_it_does_in_pymongo(
    face: Any,
    kms: ScriptedKms,
    make_keys: Callable[..., Any],
    peer_of: Any,
    providers: dict[str, Any],
    certificates: Certificates,
    name: str,
) -> None:
    filter, provider, master = REWRAPS[name]
    aws, aws_master = _service(kms)
    master = aws_master if master == "aws" else master
    given = {**providers, "local:new": {"key": os.urandom(96)}, **aws}
    tls = {"aws": {"tlsCAFile": str(certificates.authority)}}
    keys = make_keys(given, kms_tls_options=tls)
    for alias, kind in (("one", "local"), ("two", "local"), ("three", "local:new")):
        face.wait(keys.create_data_key(kind, key_alt_names=[alias]))
    before = {key["_id"]: key for key in face.collect(keys.get_keys())}
    secrets = {id: face.wait(keys.encrypt(1, RANDOM, id)) for id in before}

    told = []
    for rewrap in (
        lambda: face.wait(keys.rewrap_many_data_key(filter, provider, master)),
        lambda: peer_of(given, kms_tls_options=tls).rewrap_many_data_key(filter, provider, master),
    ):
        _restore(face, keys, before)
        told.append((_outcome(rewrap), _changes(face, keys, before)))
        fresh = make_keys(given, kms_tls_options=tls)
        assert [face.wait(fresh.decrypt(secret)) for secret in secrets.values()] == [1, 1, 1]

    assert told[0] == told[1]
    failed = isinstance(told[0][0], str)
    assert not (failed and any(changed for _, _, changed in told[0][1]))


def _service(kms: ScriptedKms) -> tuple[dict[str, Any], dict[str, Any]]:
    return providers("aws", kms.address)


def _restore(face: Any, keys: Any, before: dict[Any, Any]) -> None:
    for id, key in before.items():
        face.wait(keys._key_vault_coll.replace_one({"_id": id}, key))


def _outcome(rewrap: Callable[[], Any]) -> Any:
    """Return how many keys were changed, or the kind of the error and of its cause."""
    try:
        result = rewrap().bulk_write_result
    except Exception as error:
        return f"{type(error).__name__} {type(getattr(error, 'cause', None)).__name__}"
    return None if result is None else (result.matched_count, result.modified_count)


def _changes(face: Any, keys: Any, before: dict[Any, Any]) -> list[tuple[Any, str, bool]]:
    after = {key["_id"]: key for key in face.collect(keys.get_keys())}
    return [
        (
            key["keyAltNames"],
            key["masterKey"]["provider"],
            bytes(key["keyMaterial"]) != bytes(before[id]["keyMaterial"]),
        )
        for id, key in after.items()
    ]


def test_where_one_key_cannot_be_opened_none_is_changed(face: Any, make_keys: Callable[..., Any]) -> None:
    other = {"local:other": {"key": os.urandom(96)}}
    face.wait(make_keys(other).create_data_key("local:other"))
    keys = make_keys()
    face.wait(keys.create_data_key("local"))
    before = [key.raw for key in face.collect(keys.get_keys())]

    with pytest.raises(errors.EncryptionError, match="local:other"):
        face.wait(keys.rewrap_many_data_key({}))

    assert [key.raw for key in face.collect(keys.get_keys())] == before
