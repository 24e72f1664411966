"""A mongocryptd that follows the simplest of schemas: a property that says `encrypt` is marked wherever it stands."""

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


class Analyst(ScriptedServer):
    """Answers commands as mongocryptd does."""

    def __init__(self) -> None:
        super().__init__(hello={"iscryptd": True})
        for name in COMMANDS:
            self.on(name, self._mark)

    def _mark(self, request: Request) -> dict[str, Any]:
        command = {**request.command, **request.sequences}
        wanted = {
            name: rule["encrypt"]
            for name, rule in command.get("jsonSchema", {}).get("properties", {}).items()
            if "encrypt" in rule
        }
        kept = {name: value for name, value in command.items() if name not in _OF_THE_DRIVER}
        marked = _marked(kept, wanted)
        return {
            "ok": 1,
            "result": marked,
            "schemaRequiresEncryption": bool(wanted),
            "hasEncryptedPlaceholders": marked != kept,
        }


def _marked(value: Any, wanted: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {
            name: _placeholder(part, wanted[name]) if name in wanted else _marked(part, wanted)
            for name, part in value.items()
        }
    return [_marked(part, wanted) for part in value] if isinstance(value, list) else value


def _placeholder(value: Any, rule: dict[str, Any]) -> Binary:
    marking = {"a": _ALGORITHMS[rule["algorithm"]], "ki": rule["keyId"][0], "v": value}
    return Binary(b"\0" + encode(marking), 6)
