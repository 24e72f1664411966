"""Encrypted fields: PyMongo's `encryption` and `encryption_options`, on both faces. Needs `mangonel[encryption]`.

from mangonel import MongoClient
from mangonel.bson import CodecOptions
from mangonel.encryption import Algorithm, ClientEncryption

keys = ClientEncryption({"local": {"key": master_key}}, "keys.vault", MongoClient(), CodecOptions())
key_id = keys.create_data_key("local")
secret = keys.encrypt("457-55-5462", Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_id)
keys.decrypt(secret)
"""

from __future__ import annotations

from mangonel._faces.kms_connect import AsyncHTTPProxyKMSConnect, HTTPProxyKMSConnect, KMSConnectContext
from mangonel.encryption._auto import AutoEncryptionOpts
from mangonel.encryption._names import (
    Algorithm,
    PrefixOpts,
    QueryType,
    RangeOpts,
    StringOpts,
    SubstringOpts,
    SuffixOpts,
)
from mangonel.encryption._results import RewrapManyDataKeyResult
from mangonel.encryption.api import AsyncClientEncryption, ClientEncryption

__all__ = [
    "Algorithm",
    "AsyncClientEncryption",
    "AsyncHTTPProxyKMSConnect",
    "AutoEncryptionOpts",
    "ClientEncryption",
    "HTTPProxyKMSConnect",
    "KMSConnectContext",
    "PrefixOpts",
    "QueryType",
    "RangeOpts",
    "RewrapManyDataKeyResult",
    "StringOpts",
    "SubstringOpts",
    "SuffixOpts",
]
