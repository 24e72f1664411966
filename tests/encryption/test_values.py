"""Single values: encrypted, decrypted, exchanged with PyMongo, refused."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import errors
from mangonel.bson import Binary, CodecOptions, Int64
from mangonel.bson.binary import UuidRepresentation
from mangonel.encryption import Algorithm, QueryType, RangeOpts
from tools.frames import DRIVER, frames_below

RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
DETERMINISTIC = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic

VALUES = [
    "457-55-5462",
    4200,
    Int64(2**40),
    2.5,
    b"\x00\x01",
    datetime.datetime(2026, 1, 2, 3, 4, 5),
    {"street": "Main", "number": [1, 2, {"of": None}]},
    ["a", 1],
    True,
]


@pytest.fixture
def key_id(face: Any, keys: Any) -> Any:
    """A data key of the vault, named `salaries`."""
    return face.wait(keys.create_data_key("local", key_alt_names=["salaries"]))


def test_a_value_is_decrypted_to_what_it_was(face: Any, keys: Any, key_id: Any) -> None:
    for value in VALUES:
        secret = face.wait(keys.encrypt(value, RANDOM, key_id=key_id))

        assert isinstance(secret, Binary)
        assert secret.subtype == 6
        assert face.wait(keys.decrypt(secret)) == value


def test_pymongo_decrypts_what_is_encrypted_and_the_other_way_round(
    face: Any, keys: Any, key_id: Any, peer: Any
) -> None:
    from bson.binary import Binary as PeerBinary

    for value in VALUES:
        secret = face.wait(keys.encrypt(value, RANDOM, key_alt_name="salaries"))
        assert peer.decrypt(PeerBinary(bytes(secret), 6)) == value

        theirs = peer.encrypt(value, str(RANDOM.value), key_id=PeerBinary(bytes(key_id), 4))
        assert face.wait(keys.decrypt(Binary(bytes(theirs), 6))) == value


def test_deterministic_encryption_gives_what_pymongo_gives(
    face: Any, keys: Any, key_id: Any, peer: Any
) -> None:
    from bson.binary import Binary as PeerBinary

    ours = face.wait(keys.encrypt("457-55-5462", DETERMINISTIC, key_id=key_id))
    theirs = peer.encrypt("457-55-5462", str(DETERMINISTIC.value), key_id=PeerBinary(bytes(key_id), 4))

    assert bytes(ours) == bytes(theirs)


def test_a_key_is_named_by_a_uuid_too(face: Any, keys: Any, key_id: Any) -> None:
    named = uuid.UUID(bytes=bytes(key_id))

    assert face.wait(keys.decrypt(face.wait(keys.encrypt(1, RANDOM, key_id=named)))) == 1


def test_values_are_encoded_and_decoded_with_the_given_codec(
    face: Any, make_keys: Callable[..., Any]
) -> None:
    codec = CodecOptions(tz_aware=True, uuid_representation=UuidRepresentation.STANDARD)
    keys = make_keys(codec_options=codec)
    key_id = face.wait(keys.create_data_key("local"))
    value = {"who": uuid.uuid4(), "when": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}

    assert face.wait(keys.decrypt(face.wait(keys.encrypt(value, RANDOM, key_id)))) == value


def test_a_value_for_queryable_encryption_is_decrypted_by_pymongo(
    face: Any, keys: Any, key_id: Any, peer: Any
) -> None:
    from bson.binary import Binary as PeerBinary

    secret = face.wait(keys.encrypt("x", Algorithm.UNINDEXED, key_id))
    assert peer.decrypt(PeerBinary(bytes(secret), 6)) == "x"

    indexed = face.wait(keys.encrypt("x", Algorithm.INDEXED, key_id, contention_factor=0))
    assert (indexed.subtype, face.wait(keys.decrypt(indexed))) == (6, "x")
    query = face.wait(
        keys.encrypt("x", Algorithm.INDEXED, key_id, query_type=QueryType.EQUALITY, contention_factor=0)
    )
    assert query.subtype == 6


def test_an_expression_keeps_its_shape_and_loses_its_bounds(face: Any, keys: Any, key_id: Any) -> None:
    bounds = RangeOpts(sparsity=1, trim_factor=1, min=0, max=200)
    asked = {"$and": [{"age": {"$gte": 18}}, {"age": {"$lt": 65}}]}

    found = face.wait(
        keys.encrypt_expression(
            asked, Algorithm.RANGE, key_id, query_type="range", contention_factor=0, range_opts=bounds
        )
    )

    first, second = (clause["age"] for clause in found["$and"])
    assert first["$gte"].subtype == 6
    assert second["$lt"].subtype == 6


def test_without_its_key_a_value_is_not_decrypted(face: Any, keys: Any, key_id: Any, make_keys: Any) -> None:
    secret = face.wait(keys.encrypt(1, RANDOM, key_id))
    face.wait(keys.delete_key(key_id))

    with pytest.raises(errors.EncryptionError, match="not all keys requested were satisfied"):
        face.wait(make_keys().decrypt(secret))


def test_another_master_key_does_not_open_a_data_key(
    face: Any, keys: Any, key_id: Any, make_keys: Callable[..., Any]
) -> None:
    secret = face.wait(keys.encrypt(1, RANDOM, key_id))

    with pytest.raises(errors.EncryptionError, match="HMAC"):
        face.wait(make_keys({"local": {"key": bytes(96)}}).decrypt(secret))


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda keys, key: keys.encrypt(1, "none", key), errors.EncryptionError, "unsupported algorithm"),
        (lambda keys, key: keys.encrypt(1, RANDOM), errors.EncryptionError, "key"),
        (lambda keys, key: keys.encrypt(1, RANDOM, Binary(b"1")), TypeError, "subtype 4"),
        (lambda keys, key: keys.encrypt(object(), RANDOM, key), errors.InvalidDocument, "object"),
        (
            lambda keys, key: keys.encrypt(1, RANDOM, key_alt_name="no"),
            errors.EncryptionError,
            "keys requested",
        ),
        (
            lambda keys, key: keys.encrypt(1, "Indexed", key, query_type=1),
            errors.EncryptionError,
            "query_type",
        ),
        (
            lambda keys, key: keys.encrypt(1, "Indexed", key, contention_factor="1"),
            errors.EncryptionError,
            "contention_factor",
        ),
        (lambda keys, key: keys.decrypt(b"1"), TypeError, "subtype 6"),
        (lambda keys, key: keys.decrypt(Binary(b"", 6)), errors.EncryptionError, "payload"),
        (lambda keys, key: keys.decrypt(Binary(b"\x01junk", 6)), errors.EncryptionError, "malformed"),
    ],
)
def test_what_cannot_be_done_says_why(
    face: Any, keys: Any, key_id: Any, call: Callable[[Any, Any], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        face.wait(call(keys, key_id))


def locals_of_the_driver(error: BaseException | None) -> str:
    """Return the local variables of the driver's frames, as tools show them."""
    shown = []
    while error is not None:
        shown += [repr(frame.f_locals) for frame in frames_below(DRIVER, error)]
        error = error.__cause__ or error.__context__
    return "".join(shown)


def test_the_cause_of_an_error_has_no_frames_in_which_keys_are(face: Any, keys: Any, providers: Any) -> None:
    material = b"K" * 95
    with pytest.raises(errors.EncryptionError) as caught:
        face.wait(keys.create_data_key("local", key_material=material))

    shown = locals_of_the_driver(caught.value)
    assert "_ClientEncryption" in shown or "ClientEncryption object" in shown
    assert repr(material) not in shown
    assert repr(providers["local"]["key"]) not in repr(keys) + shown
    assert type(caught.value.cause).__name__ == "MongoCryptError"


def test_a_constructor_that_fails_keeps_no_frames_with_keys(face: Any, make_keys: Callable[..., Any]) -> None:
    master = b"M" * 95
    with pytest.raises(Exception, match="96 bytes") as caught:
        make_keys({"local": {"key": master}})

    assert repr(master) not in locals_of_the_driver(caught.value)
