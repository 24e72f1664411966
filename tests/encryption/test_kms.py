"""Key management services over TLS: the values kept there, and the effects of their failures."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import pytest

from encryption.scripted_kms import PROVIDERS, ScriptedKms, providers, scripted_kms, server_context
from encryption.seen import shown
from mangonel import errors
from mangonel.encryption import Algorithm
from tls.certificates import Certificates

RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_data_key_is_kept_with_the_service(face: Any, kms: ScriptedKms, keys_of: Any, kind: str) -> None:
    keys, master = keys_of(kind, kms)
    key_id = face.wait(keys.create_data_key(kind, master))
    secret = face.wait(keys.encrypt("457-55-5462", RANDOM, key_id))

    # Another object has no key in its cache, so it asks the service.
    other, _ = keys_of(kind, kms)
    before = len(kms.requests)
    assert face.wait(other.decrypt(secret)) == "457-55-5462"
    assert len(kms.requests) > before
    assert face.wait(keys.get_key(key_id))["masterKey"]["provider"] == kind


def test_a_decrypted_data_key_is_kept_for_a_while(face: Any, kms: ScriptedKms, keys_of: Any) -> None:
    keys, master = keys_of("aws", kms)
    key_id = face.wait(keys.create_data_key("aws", master))
    face.wait(keys.encrypt(1, RANDOM, key_id))
    before = len(kms.requests)

    face.wait(keys.encrypt(2, RANDOM, key_id))

    assert len(kms.requests) == before


def test_pymongo_decrypts_with_the_same_service(
    face: Any, kms: ScriptedKms, keys_of: Any, certificates: Certificates, standalone: Any, vault: str
) -> None:
    pymongo = pytest.importorskip("pymongo")
    from bson.binary import Binary as PeerBinary
    from bson.codec_options import CodecOptions as PeerOptions
    from pymongo.encryption import ClientEncryption

    keys, master = keys_of("aws", kms)
    secret = face.wait(keys.encrypt(1, RANDOM, face.wait(keys.create_data_key("aws", master))))
    given, _ = providers("aws", kms.address)
    tls = {"aws": {"tlsCAFile": str(certificates.authority)}}

    with (
        pymongo.MongoClient(standalone.uri) as client,
        ClientEncryption(given, vault, client, PeerOptions(), kms_tls_options=tls) as peer,
    ):
        assert peer.decrypt(PeerBinary(bytes(secret), 6)) == 1


@pytest.mark.parametrize("failure", [429, 500, "cut"])
def test_a_passing_failure_is_tried_again(face: Any, kms: ScriptedKms, keys_of: Any, failure: Any) -> None:
    keys, master = keys_of("aws", kms)
    kms.plan = [failure]

    assert face.wait(keys.create_data_key("aws", master)).subtype == 4
    assert len(kms.requests) == 2


def test_a_service_that_is_always_cut_is_given_up(face: Any, kms: ScriptedKms, keys_of: Any) -> None:
    keys, master = keys_of("aws", kms)
    kms.plan = ["cut"] * 20

    with pytest.raises(errors.EncryptionError, match=f"no answer from the aws service {kms.address}"):
        face.wait(keys.create_data_key("aws", master))
    assert 1 < len(kms.requests) < 10


def test_an_expired_token_is_an_error_with_the_services_words(
    face: Any, kms: ScriptedKms, keys_of: Any
) -> None:
    keys, master = keys_of("aws", kms)
    kms.plan = [400]

    with pytest.raises(errors.EncryptionError, match="the token has expired") as caught:
        face.wait(keys.create_data_key("aws", master))
    assert "HTTP status=400" in str(caught.value)
    assert len(kms.requests) == 1


def test_a_silent_service_costs_no_more_than_the_time_limit(
    face: Any, kms: ScriptedKms, keys_of: Any
) -> None:
    keys, master = keys_of("aws", kms)
    kms.plan = ["silent"]

    with pytest.raises(errors.EncryptionError, match=r"did not answer within|no time is left") as caught:
        face.within(0.3, lambda: keys.create_data_key("aws", master))
    assert caught.value.timeout
    assert isinstance(caught.value.cause, errors.NetworkTimeout)
    # There was no response, so the request was given up.
    assert not kms.ended.is_set()


def test_a_service_that_asks_for_a_certificate_gets_one(
    face: Any, certificates: Certificates, keys_of: Any
) -> None:
    context = server_context(certificates.server)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.authority)
    with scripted_kms(context) as service:
        tls = {"tlsCAFile": str(certificates.authority), "tlsCertificateKeyFile": str(certificates.client)}
        keys, master = keys_of("kmip", service, kms_tls_options={"kmip": tls})

        assert face.wait(keys.create_data_key("kmip", master)).subtype == 4


def test_an_endpoint_that_is_no_address_is_refused(face: Any, kms: ScriptedKms, keys_of: Any) -> None:
    keys, master = keys_of("aws", kms)
    for endpoint in ("/tmp/kms.sock", "127.0.0.1:none"):
        with pytest.raises(errors.EncryptionError):
            face.wait(keys.create_data_key("aws", {**master, "endpoint": endpoint}))


@pytest.mark.parametrize(
    ("kind", "secret"), [("aws", "an-aws-secret"), ("azure", "an-azure-secret"), ("kmip", "mmmm")]
)
@pytest.mark.parametrize("failure", [400, "cut"])
def test_no_secret_is_in_errors_logs_or_repr(
    face: Any,
    kms: ScriptedKms,
    keys_of: Any,
    kind: str,
    secret: str,
    failure: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys, master = keys_of(kind, kms)
    kms.plan = [failure] * 20
    with caplog.at_level(logging.DEBUG), pytest.raises(errors.EncryptionError) as caught:
        face.wait(keys.create_data_key(kind, master))

    assert secret not in shown(caught.value) + caplog.text + repr(keys)


def test_credentials_are_found_where_the_program_runs(
    face: Any, kms: ScriptedKms, make_keys: Any, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id-of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-environment")
    keys = make_keys({"aws": {}}, kms_tls_options={"aws": {"tlsCAFile": str(certificates.authority)}})
    _, master = providers("aws", kms.address)

    face.wait(keys.create_data_key("aws", master))

    assert b"an-id-of-the-environment" in kms.requests[0]
