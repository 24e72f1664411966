"""A mongocryptd that follows the simplest schemas: it marks a property that says `encrypt`, at any place."""

from __future__ import annotations

from typing import Any

from mangonel.bson import Binary, encode
from tools.scripted_server import Request, ScriptedServer

COMMANDS = (
    "createIndexes",
    "insert",
    "find",
    "update",
    "delete",
    "aggregate",
    "findAndModify",
    "count",
    "distinct",
)
_ALGORITHMS = {"AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic": 1, "AEAD_AES_256_CBC_HMAC_SHA_512-Random": 2}
_OF_THE_DRIVER = {"$db", "lsid", "$readPreference", "jsonSchema", "isRemoteSchema"}


class ScriptedMongocryptd(ScriptedServer):
    """Answers commands as mongocryptd does."""

    def __init__(self) -> None:
        super().__init__(hello={"iscryptd": True})
        for name in COMMANDS:
            self.on(name, self._mark)

    def _mark(self, request: Request) -> dict[str, Any]:
        command = {**request.command, **request.sequences}
        schema = command.get("jsonSchema", {})
        kept = {name: value for name, value in command.items() if name not in _OF_THE_DRIVER}
        marked = _marked(kept, schema.get("properties", {}), {})
        return {
            "ok": 1,
            "result": marked,
            "schemaRequiresEncryption": "encrypt" in str(schema),
            "hasEncryptedPlaceholders": marked != kept,
        }


def _marked(value: Any, properties: dict[str, Any], whole: dict[str, Any]) -> Any:
    """Return a value with its marked parts. Operators and lists, which are no properties, are searched."""
    if isinstance(value, list):
        return [_marked(part, properties, part if isinstance(part, dict) else whole) for part in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, part in value.items():
        rule = properties.get(name)
        if rule is None:
            made[name] = _marked(part, properties, whole)
        elif "encrypt" in rule:
            made[name] = _placeholder(part, rule["encrypt"], whole)
        else:
            made[name] = _marked(part, rule.get("properties", {}), whole)
    return made


def _placeholder(value: Any, rule: dict[str, Any], whole: dict[str, Any]) -> Binary:
    # The key's id, or a pointer to the field with its name.
    key = rule["keyId"]
    named = {"ka": whole[key.removeprefix("/")]} if isinstance(key, str) else {"ki": key[0]}
    return Binary(b"\0" + encode({"a": _ALGORITHMS[rule["algorithm"]], **named, "v": value}), 6)
