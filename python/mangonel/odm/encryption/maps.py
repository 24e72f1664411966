"""The maps for automatic encryption, made from models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mangonel.bson.binary import UUID_SUBTYPE, Binary
from mangonel.odm.model.encrypted import ALGORITHMS, QUERYABLE, Encrypted, Node
from mangonel.odm.model.encrypted_trees import encrypted_tree

_TYPES = {
    "str": "string",
    "int": "int",
    "float": "double",
    "bool": "bool",
    "bytes": "binData",
    "datetime": "date",
    "date": "date",
    "object_id": "objectId",
    "decimal": "decimal",
}


def schema_map(
    database: str, *models: Any, key_ids: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return `schema_map` of `AutoEncryptionOpts` for models with "deterministic" and "random" fields.

    Args:
        database: the name of the models' database.
        models: document classes.
        key_ids: ids of data keys by alternative name, for fields that give a name.

    Raises:
        ValueError: a key's id is unknown, or a field is in a list or a map, which no schema can encrypt.

    Example:
        >>> from uuid import UUID
        >>> class Guest(Document):
        ...     ssn: Annotated[str, Encrypted(key=UUID(int=1))]
        >>> schema_map("hotel", Guest)["hotel.guest"]["properties"]["ssn"]["encrypt"]["bsonType"]
        'string'
    """
    made: dict[str, dict[str, Any]] = {}
    for model in models:
        plan = model.__plan__
        for path, node, rule in _rules(model, is_queryable=False):
            properties = made.setdefault(
                f"{database}.{model.__collection_name__()}", {"bsonType": "object", "properties": {}}
            )["properties"]
            *parents, last = path.split(".")
            for part in parents:
                properties = properties.setdefault(part, {"bsonType": "object", "properties": {}})[
                    "properties"
                ]
            key: Any = (
                [_id_of(rule, model, path, key_ids)]
                if rule.key_field is None
                else "/" + (plan.fields.get(rule.key_field) or plan.by_key[rule.key_field]).key
            )
            found = {"algorithm": ALGORITHMS[rule.algorithm], "keyId": key}
            kind = _type_of(node)
            if kind is not None:
                found["bsonType"] = kind
            properties[last] = {"encrypt": found}
    return made


def encrypted_fields_map(
    database: str, *models: Any, key_ids: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return `encrypted_fields_map` of `AutoEncryptionOpts` for models with fields of Queryable Encryption.

    `create_encrypted_collection` and `create_collection(encryptedFields=…)` accept each entry too.

    Args:
        database: the name of the models' database.
        models: document classes.
        key_ids: ids of data keys by alternative name, for fields that give a name. None: these fields get None, for
            which `create_encrypted_collection` makes a key.

    Raises:
        ValueError: a name is not in `key_ids`, or a field has no single BSON type.

    Example:
        >>> from uuid import UUID
        >>> class Member(Document):
        ...     ssn: Annotated[str, Encrypted("indexed", key=UUID(int=1))]
        >>> encrypted_fields_map("club", Member)["club.member"]["fields"][0]["path"]
        'ssn'
    """
    made: dict[str, dict[str, Any]] = {}
    for model in models:
        for path, node, rule in _rules(model, is_queryable=True):
            kind = _type_of(node)
            if kind is None:
                raise ValueError(f"expected one BSON type for {model.__name__}.{path}, got several")
            is_made = isinstance(rule.key, str) and key_ids is None
            found: dict[str, Any] = {
                "path": path,
                "bsonType": kind,
                "keyId": None if is_made else _id_of(rule, model, path, key_ids),
            }
            if rule.algorithm == "indexed":
                found["queries"] = [{"queryType": "equality", "contention": rule.contention_factor}]
            elif rule.algorithm == "range":
                options = rule.range.document
                found["queries"] = [{"queryType": "range", "contention": rule.contention_factor, **options}]
            made.setdefault(f"{database}.{model.__collection_name__()}", {"fields": []})["fields"].append(
                found
            )
    return made


def _rules(model: Any, *, is_queryable: bool) -> list[tuple[str, Node, Encrypted]]:
    tree = encrypted_tree(model)
    found: list[tuple[str, Node, Encrypted]] = []
    for path, node in tree.rules() if tree is not None else ():
        if node.rule is None or (node.rule.algorithm in QUERYABLE) is not is_queryable:
            continue
        if "[]" in path or "*" in path:
            raise ValueError(
                f"cannot write {model.__name__}.{path} into a map: MongoDB encrypts nothing inside lists and maps by "
                "itself; set bypass_query_analysis=True"
            )
        found.append((path, node, node.rule))
    return found


def _id_of(rule: Encrypted, model: Any, path: str, key_ids: Mapping[str, Any] | None) -> Any:
    key = rule.key() if callable(rule.key) else rule.key
    if isinstance(key, str):
        known = key_ids or {}
        if key not in known:
            raise ValueError(
                f"expected the id of the key {key!r} of {model.__name__}.{path} in key_ids, got "
                f"{', '.join(map(repr, known)) or 'none'}; ask the key vault: get_key_by_alt_name({key!r})"
            )
        key = known[key]
    return key if isinstance(key, Binary) else Binary(key.bytes, UUID_SUBTYPE)  # type: ignore[union-attr]  # a UUID


def _type_of(node: Node) -> str | None:
    """Return the BSON type of a field, or None if it may have several."""
    spec = node.types
    kind = _TYPES.get(spec["op"])
    if spec["op"] in ("enum", "literal"):
        values = [one.value for one in spec["argument"][0]] if spec["op"] == "enum" else spec["argument"]
        names = {type(value).__name__ for value in values}
        kind = _TYPES.get(names.pop()) if len(names) == 1 else None
    return kind
