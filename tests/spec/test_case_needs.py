"""The requirements of an encryption case are read from the case: query analysis, a key service, a library, or none."""

from __future__ import annotations

from typing import Any

import pytest

from spec.unified.encryption import ANALYSIS, SERVICE, missing_for_encryption, missing_library, numbers_of

VAULT = "keyvault.datakeys"
AWS_KEY = {"key": "arn", "region": "us-east-1"}


def needs(operation: dict[str, Any], providers: tuple[str, ...] = ("local",), **options: Any) -> str | None:
    """Return the unmet requirements of a case with one operation; its key vault has a key of each provider, named after
    it.
    """
    operation = {"object": "collection", **operation}
    keys = [{"keyAltNames": [name], "masterKey": {"provider": name}} for name in providers]
    encryption = {"keyVaultNamespace": VAULT, "kmsProviders": {}, **options}
    shared = {
        "createEntities": [
            {"client": {"id": "plain"}},
            {"client": {"id": "client", "autoEncryptOpts": encryption}},
            {"database": {"id": "database", "client": "client"}},
            {"collection": {"id": "collection", "database": "database"}},
            {"clientEncryption": {"id": "encryption", "clientEncryptionOpts": encryption}},
        ],
        "initialData": [{"databaseName": "keyvault", "collectionName": "datakeys", "documents": keys}],
    }
    requirements = operation.pop("requirements", [])
    return missing_for_encryption(shared, {"operations": [operation], "runOnRequirements": requirements})


def rewrap(provider: str, condition: Any) -> dict[str, Any]:
    arguments = {"filter": {"keyAltNames": condition}, "opts": {"provider": provider}}
    return {"name": "rewrapManyDataKey", "object": "encryption", "arguments": arguments}


def new_key(provider: str, master: dict[str, str]) -> dict[str, Any]:
    arguments = {"kmsProvider": provider, "opts": {"masterKey": master}}
    return {"name": "createDataKey", "object": "encryption", "arguments": arguments}


def command(document: dict[str, Any]) -> dict[str, Any]:
    arguments = {"command": document, "commandName": next(iter(document))}
    return {"name": "runCommand", "object": "database", "arguments": arguments}


FIND = {"name": "find", "arguments": {"filter": {}}}
UPDATE = {"name": "updateOne", "arguments": {"filter": {}, "update": {"$set": {"name": 1}}}}
PLAIN_UPDATE = {"name": "updateOne", "arguments": {"filter": {}, "update": {"name": 1}}}
CREATE = {"name": "createCollection", "object": "database", "arguments": {"collection": "people"}}
MAP = {"default.people": {"fields": []}}


@pytest.mark.parametrize(
    ("operation", "options", "expected"),
    [
        (FIND, {}, ANALYSIS),
        (UPDATE, {}, ANALYSIS),
        (CREATE, {"encryptedFieldsMap": MAP}, ANALYSIS),
        (command({"find": "people"}), {}, ANALYSIS),
        (FIND, {"bypassAutoEncryption": True}, None),
        (FIND, {"bypassQueryAnalysis": True}, None),
        (FIND, {"bypassAutoEncryption": True, "providers": ("aws",)}, SERVICE),
        (FIND | {"object": "plain"}, {"providers": ("aws",)}, None),
        (PLAIN_UPDATE, {}, None),
        (command({"ping": 1}), {}, None),
        ({"name": "aggregate", "object": "database", "arguments": {"pipeline": []}}, {}, None),
        ({"name": "dropCollection", "object": "database", "arguments": {"collection": "people"}}, {}, None),
        (CREATE | {"requirements": [{"maxServerVersion": "6.3.99"}]}, {"encryptedFieldsMap": MAP}, None),
        (new_key("local", {}), {}, None),
        (new_key("aws", AWS_KEY), {}, SERVICE),
        (new_key("aws:name1", AWS_KEY), {}, SERVICE),
        (new_key("aws", {}), {}, None),
        (new_key("kmip", {}), {}, SERVICE),
        (rewrap("local", "local"), {"providers": ("aws", "local")}, None),
        (rewrap("local", {"$ne": "local"}), {"providers": ("aws", "local")}, SERVICE),
        (rewrap("local:b", {"$eq": "local:a"}), {"providers": ("aws", "local:a")}, None),
        (rewrap("aws", "local"), {}, SERVICE),
        (rewrap("aws", "nobody"), {}, None),
    ],
)
def test_needs_of_encryption_follow_from_what_a_case_does(
    operation: dict[str, Any], options: dict[str, Any], expected: str | None
) -> None:
    assert needs(operation, **options) == expected


def test_a_case_that_asks_for_a_newer_library_says_so() -> None:
    asked = {"minLibmongocryptVersion": "1.15.1"}
    assert missing_library(None, None) is None
    assert missing_library(True, (1, 0)) is None
    assert missing_library(asked, (1, 15, 1)) is None
    assert missing_library(asked, (1, 15, 0)) == "needs libmongocrypt 1.15.1 or newer"
    assert missing_library(asked, None) == "needs libmongocrypt"
    assert missing_library(False, (1, 15, 1)) == "needs no libmongocrypt"
    assert numbers_of("1.21.0-dev+2") == (1, 21, 0)
