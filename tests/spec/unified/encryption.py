"""The requirements of a case with encryption, read from the case alone: query analysis, a key service, or neither.

Runs nothing, and knows no case by its name.

Spec: client-side-encryption, unified-test-format ("autoEncryptOpts", "clientEncryption").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["ANALYSIS", "SERVICE", "entities_of", "missing_for_encryption", "missing_library"]

ANALYSIS = "needs automatic encryption: crypt_shared or mongocryptd"
SERVICE = "needs a key management service of a cloud"

# Operations whose update must have operators; the driver itself refuses a document without any.
_UPDATES = ("updateOne", "updateMany", "findOneAndUpdate")
# Commands that the library passes through unread.
_UNSEEN = ("dropCollection", "dropDatabase", "listCollections", "listCollectionNames", "listIndexes")
# Without these the library refuses a master key before it contacts any service.
_MASTER_KEYS = {
    "aws": ("key", "region"),
    "azure": ("keyVaultEndpoint", "keyName"),
    "gcp": ("projectId", "location", "keyRing", "keyName"),
}
# The first server with Queryable Encryption; the driver creates no such collection on an older one.
_QUERYABLE = 7


def entities_of(
    shared: Mapping[str, Any], test: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the kind and the description of each entity of a case."""
    for entity in shared.get("createEntities", ()):
        yield next(iter(entity.items()))
    for operation in test["operations"]:
        if operation["name"] == "createEntities":
            for entity in operation["arguments"]["entities"]:
                yield next(iter(entity.items()))


def missing_for_encryption(shared: Mapping[str, Any], test: Mapping[str, Any]) -> str | None:
    """Return the requirements of a case's encryption besides a server, or None."""
    entities = {wanted["id"]: (kind, wanted) for kind, wanted in entities_of(shared, test)}
    reasons = [_missing_for_operation(shared, test, operation, entities) for operation in test["operations"]]
    for reason in (ANALYSIS, SERVICE):
        if reason in reasons:
            return reason
    return None


def missing_library(asked: Any, version: tuple[int, ...] | None) -> str | None:
    """Return the unmet part of a requirement `csfle`, or None.

    Args:
        asked: its value; None: there is none.
        version: of libmongocrypt; None: there is none.
    """
    if asked is None:
        return None
    if asked is False:
        return None if version is None else "needs no libmongocrypt"
    if version is None:
        return "needs libmongocrypt"
    least = asked.get("minLibmongocryptVersion", "0") if isinstance(asked, Mapping) else "0"
    return None if version >= numbers_of(least) else f"needs libmongocrypt {least} or newer"


def numbers_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without a suffix such as "-dev"."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _missing_for_operation(
    shared: Mapping[str, Any],
    test: Mapping[str, Any],
    operation: Mapping[str, Any],
    entities: Mapping[str, tuple[str, Mapping[str, Any]]],
) -> str | None:
    kind, wanted = entities.get(operation["object"], ("", {}))
    if kind == "clientEncryption":
        return SERVICE if _asks_service(shared, operation, wanted["clientEncryptionOpts"]) else None
    place = wanted
    # From a collection to its database, and on to the client.
    for parent in ("database", "client"):
        if parent in place:
            place = entities[place[parent]][1]
    options = place.get("autoEncryptOpts")
    if options is None or not _is_seen(shared, test, operation, kind, options):
        return None
    if not options.get("bypassAutoEncryption") and not options.get("bypassQueryAnalysis"):
        return ANALYSIS
    is_local = all(_is_local(key["masterKey"]["provider"]) for key in _keys_of(shared, options))
    return None if is_local else SERVICE


def _is_seen(
    shared: Mapping[str, Any],
    test: Mapping[str, Any],
    operation: Mapping[str, Any],
    kind: str,
    options: Mapping[str, Any],
) -> bool:
    """Return whether a command with documents belongs to an operation that involves query analysis or a data key."""
    name, arguments = operation["name"], operation.get("arguments", {})
    if name in _UNSEEN or (kind == "database" and name == "aggregate"):
        return False
    if name == "runCommand":
        # A command that names no collection is passed or refused by its name.
        return not isinstance(arguments["command"][arguments["commandName"]], (int, float))
    if name in _UPDATES:
        update = arguments["update"]
        return isinstance(update, Sequence) or next(iter(update), "$")[:1] == "$"
    if name == "createCollection":
        is_queryable = any(
            namespace.partition(".")[2] == arguments["collection"]
            for namespace in options.get("encryptedFieldsMap", {})
        )
        return not (is_queryable and _is_for_servers_before(_QUERYABLE, shared, test))
    return True


def _is_for_servers_before(major: int, *parts: Mapping[str, Any]) -> bool:
    requirements = [one for part in parts for one in part.get("runOnRequirements", ())]
    return any(numbers_of(one.get("maxServerVersion", "999"))[0] < major for one in requirements)


def _asks_service(
    shared: Mapping[str, Any], operation: Mapping[str, Any], options: Mapping[str, Any]
) -> bool:
    """Return whether a data key goes to a service, or comes from one."""
    name, arguments = operation["name"], operation.get("arguments", {})
    master = arguments.get("opts", {}).get("masterKey", {})
    if name == "createDataKey":
        provider = arguments["kmsProvider"]
        needed = _MASTER_KEYS.get(provider.partition(":")[0], ())
        return not _is_local(provider) and all(part in master for part in needed)
    keys = [key for key in _keys_of(shared, options) if _is_chosen(key, arguments.get("filter", {}))]
    providers = [key["masterKey"]["provider"] for key in keys]
    if name == "rewrapManyDataKey" and keys:
        providers.append(arguments.get("opts", {}).get("provider", "local"))
    elif name not in ("rewrapManyDataKey", "encrypt", "decrypt"):
        return False
    return not all(_is_local(provider) for provider in providers)


def _is_chosen(key: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """Return whether a filter of the specification selects a data key: by equality with a name, or by inequality."""
    for field, wanted in condition.items():
        found = key.get(field, ())
        if isinstance(wanted, str):
            is_met = wanted in found
        else:
            ((operator, name),) = wanted.items()
            is_met = {"$eq": name in found, "$ne": name not in found}[operator]
        if not is_met:
            return False
    return True


def _keys_of(shared: Mapping[str, Any], options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the data keys in the key vault of a client."""
    return [
        document
        for data in shared.get("initialData", ())
        if f"{data['databaseName']}.{data['collectionName']}" == options["keyVaultNamespace"]
        for document in data["documents"]
    ]


def _is_local(provider: str) -> bool:
    return provider.partition(":")[0] == "local"
