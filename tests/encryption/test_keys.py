"""Data keys: made, named, found, rewrapped, deleted; and their configuration."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import mangonel.bson
from mangonel import errors
from mangonel.bson import Binary, CodecOptions
from mangonel.encryption import Algorithm, RewrapManyDataKeyResult

MATERIAL = (
    "xPTAjBRG5JiPm+d3fj6XLi2q5DMXUS/f1f+SMAlhhwkhDRL0kr8r9GDLIGTAGlvC+HVjSIgdL+RKwZCvpXSyxTICWSXTUYsWYPyu3IoHbuBZ"
    "dmw2faM3WhcRIgbMReU5"
)
ENCRYPTED = (
    "AQAAAAAAAAAAAAAAAAAAAAACz0ZOLuuhEYi807ZXTdhbqhLaS2/t9wLifJnnNYwiw79d75QYIZ6M/aYC1h9nCzCjZ7pGUpAuNnkUhnIXM3Pj"
    "rA=="
)
RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random


def test_a_key_is_found_by_id_and_by_name(face: Any, keys: Any) -> None:
    key_id = face.wait(keys.create_data_key("local", key_alt_names=["one", "two"]))
    found = face.wait(keys.get_key(key_id))

    assert found["_id"] == key_id
    assert key_id.subtype == 4
    assert found["masterKey"]["provider"] == "local"
    assert face.wait(keys.get_key_by_alt_name("two")).raw == found.raw
    assert [key.raw for key in face.collect(keys.get_keys())] == [found.raw]
    assert face.wait(keys.get_key_by_alt_name("three")) is None


def test_names_are_added_and_removed(face: Any, keys: Any) -> None:
    key_id = face.wait(keys.create_data_key("local", key_alt_names=["one"]))

    assert face.wait(keys.add_key_alt_name(key_id, "two"))["keyAltNames"] == ["one"]
    assert face.wait(keys.remove_key_alt_name(key_id, "one"))["keyAltNames"] == ["one", "two"]
    assert face.wait(keys.get_key(key_id))["keyAltNames"] == ["two"]
    face.wait(keys.remove_key_alt_name(key_id, "two"))
    assert "keyAltNames" not in face.wait(keys.get_key(key_id))
    assert face.wait(keys.add_key_alt_name(b"none", "two")) is None


def test_a_deleted_key_is_gone(face: Any, keys: Any) -> None:
    key_id = face.wait(keys.create_data_key("local"))

    assert face.wait(keys.delete_key(key_id)).deleted_count == 1
    assert face.wait(keys.get_key(key_id)) is None


def test_given_material_encrypts_as_in_every_driver(face: Any, keys: Any) -> None:
    """The values are those of the specification's prose test "Custom Key Material"."""
    made = face.wait(keys.create_data_key("local", key_material=base64.b64decode(MATERIAL)))
    vault = keys._key_vault_coll
    document = mangonel.bson.decode(face.wait(keys.get_key(made)).raw)
    document["_id"] = key_id = Binary(bytes(16), 4)
    face.wait(vault.insert_one(document))

    secret = face.wait(keys.encrypt("test", "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic", key_id))

    assert base64.b64encode(secret).decode() == ENCRYPTED


def test_rewrapped_keys_open_with_the_new_master_key_alone(
    face: Any, make_keys: Callable[..., Any], providers: dict[str, Any]
) -> None:
    both = {**providers, "local:new": {"key": os.urandom(96)}}
    keys = make_keys(both)
    key_id = face.wait(keys.create_data_key("local", key_alt_names=["one"]))
    secret = face.wait(keys.encrypt(1, RANDOM, key_id))

    result = face.wait(keys.rewrap_many_data_key({"keyAltNames": "one"}, provider="local:new"))

    assert result.bulk_write_result.modified_count == 1
    alone = make_keys({"local:new": both["local:new"]})
    assert face.wait(alone.decrypt(secret)) == 1
    none = face.wait(keys.rewrap_many_data_key({"keyAltNames": "none"}))
    assert isinstance(none, RewrapManyDataKeyResult)
    assert none.bulk_write_result is None


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda keys: keys.create_data_key("aws"), errors.EncryptionError, "unknown kms_provider 'aws'"),
        (lambda keys: keys.create_data_key("local", key_material=b"1"), errors.EncryptionError, "length 96"),
        (lambda keys: keys.create_data_key("local", key_alt_names=[1]), errors.EncryptionError, "UTF8"),
        (lambda keys: keys.rewrap_many_data_key({}, master_key={}), errors.ConfigurationError, "provider"),
        (lambda keys: keys.create_encrypted_collection(1, "x", {"fields": []}), TypeError, "database"),
    ],
)
def test_what_cannot_be_done_with_keys_says_why(
    face: Any, keys: Any, call: Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        face.wait(call(keys))


@pytest.mark.parametrize(
    ("given", "options", "kind", "text"),
    [
        ([], {}, ValueError, "to be a dict"),
        ({}, {}, ValueError, "at least one provider"),
        ({"local": {}}, {}, ValueError, "expected key in"),
        ({"local": {"key": 1}}, {}, TypeError, "bytes"),
        ({"aws": {"accessKeyId": "a"}}, {}, ValueError, "secretAccessKey"),
        ({"aws:name": {}}, {}, ValueError, "accessKeyId"),
        ({"local": 1}, {}, ValueError, "to be a dict"),
        ({"none": {}}, {}, Exception, "none"),
        (None, {"codec_options": 1}, TypeError, "CodecOptions"),
        (None, {"client": 1}, TypeError, "MongoClient"),
        (None, {"kms_tls_options": {"kmip": 1}}, TypeError, "dict"),
        (None, {"kms_tls_options": {"kmip": {"tls": False}}}, errors.ConfigurationError, "TLS is required"),
        (
            None,
            {"kms_tls_options": {"kmip": {"tlsInsecure": True}}},
            errors.ConfigurationError,
            "Insecure TLS",
        ),
        (None, {"kms_tls_options": {"kmip": {"none": 1}}}, errors.ConfigurationError, "Unknown option"),
        (None, {"key_expiration_ms": -1}, ValueError, "got -1"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    make_keys: Callable[..., Any], given: Any, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        make_keys(**({} if given is None else {"providers": given}), **options)


def test_a_vault_needs_database_and_collection(face: Any, providers: dict[str, Any]) -> None:
    client = face.client("mongodb://localhost", connect=False)
    with pytest.raises(ValueError, match=r"database\.collection"):
        face.encryption_class(providers, "vault", client, CodecOptions())


def test_after_close_nothing_is_done(face: Any, make_keys: Callable[..., Any]) -> None:
    keys = make_keys()
    key_id = face.inside(keys, lambda entered: entered.create_data_key("local"))

    for call in (lambda: keys.encrypt(1, RANDOM, key_id), lambda: keys.get_key(key_id), keys.get_keys):
        with pytest.raises(errors.InvalidOperation, match="closed"):
            face.wait(call())
    face.wait(keys.close())


def test_clients_load_nothing_of_encryption() -> None:
    program = (
        "import sys, mangonel; mangonel.MongoClient(connect=False); "
        "sys.exit(any('crypt' in name.rpartition('.')[2] and 'bcrypt' not in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("call", ["ClientEncryption({}, 'a.b', None, None)", "AutoEncryptionOpts({}, 'a.b')"])
def test_without_the_library_the_remedy_is_named(call: str) -> None:
    program = (
        "import sys; sys.modules['pymongocrypt'] = None; from mangonel.encryption import *\n"
        f"try: {call}\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout.startswith("ConfigurationError")
    assert "pip install 'mangonel[encryption]'" in done.stdout
