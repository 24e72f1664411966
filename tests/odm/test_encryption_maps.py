"""The maps for automatic encryption that are made of models with fields marked `Encrypted`."""

from __future__ import annotations

import uuid
from typing import Annotated

import pytest

from mangonel.bson import Binary
from mangonel.odm import Document, Embedded, Encrypted, encrypted_fields_map, schema_map

pytest.importorskip("pymongocrypt")

from mangonel.encryption import RangeOpts


class Queryable(Document):
    __collection__ = "encrypted_queryable"
    code: Annotated[str, Encrypted("indexed", key=uuid.UUID(int=7), contention_factor=0)]
    age: Annotated[
        int, Encrypted("range", key="ages", contention_factor=0, range=RangeOpts(sparsity=1, min=0, max=200))
    ] = 0
    note: Annotated[str | None, Encrypted("unindexed", key=uuid.UUID(int=8))] = None


class Home(Embedded):
    street: Annotated[str, Encrypted(key="pay")]


class Tagged(Document):
    __collection__ = "encrypted_tagged"
    words: list[Annotated[str, Encrypted("deterministic", key="people")]]


class Simple(Document):
    __collection__ = "encrypted_simple"
    code: Annotated[str, Encrypted("deterministic", key=uuid.UUID(int=7))]
    pay: Annotated[float, Encrypted(key="pay")] = 0.0
    home: Home | None = None


def test_maps_for_automatic_encryption_are_made_of_models() -> None:
    pay = Binary(uuid.UUID(int=9).bytes, 4)
    key, note = Binary(uuid.UUID(int=7).bytes, 4), Binary(uuid.UUID(int=8).bytes, 4)
    prefix = "AEAD_AES_256_CBC_HMAC_SHA_512-"
    assert schema_map("shop", Simple, key_ids={"pay": pay}) == {
        "shop.encrypted_simple": {
            "bsonType": "object",
            "properties": {
                "code": {
                    "encrypt": {"algorithm": prefix + "Deterministic", "keyId": [key], "bsonType": "string"}
                },
                "pay": {"encrypt": {"algorithm": prefix + "Random", "keyId": [pay], "bsonType": "double"}},
                "home": {
                    "bsonType": "object",
                    "properties": {
                        "street": {
                            "encrypt": {"algorithm": prefix + "Random", "keyId": [pay], "bsonType": "string"}
                        }
                    },
                },
            },
        }
    }
    assert encrypted_fields_map("shop", Queryable, key_ids={"ages": pay})["shop.encrypted_queryable"] == {
        "fields": [
            {
                "path": "code",
                "bsonType": "string",
                "keyId": key,
                "queries": [{"queryType": "equality", "contention": 0}],
            },
            {
                "path": "age",
                "bsonType": "int",
                "keyId": pay,
                "queries": [{"queryType": "range", "contention": 0, "sparsity": 1, "min": 0, "max": 200}],
            },
            {"path": "note", "bsonType": "string", "keyId": note},
        ]
    }
    with pytest.raises(ValueError, match="get_key_by_alt_name"):
        schema_map("shop", Simple)
    with pytest.raises(ValueError, match="inside lists"):
        schema_map("shop", Tagged, key_ids={"people": key})
