"""A command as it would be sent through a model's collection, with each encrypted value as an empty one."""

from __future__ import annotations

from typing import Any

from mangonel import bson
from mangonel.odm.encryption.commands import Analysis
from mangonel.odm.encryption.elements import Group, Pending, put_together
from mangonel.odm.encryption.encrypting_port import tree_of_collection

__all__ = ["look"]


def look(model: Any, command: dict[str, Any]) -> tuple[bytes, list[Pending]]:
    """Return a command's bytes with its secret values emptied, and those values."""
    name, data = model.__collection_name__(), bson.encode(command)
    found = Analysis(model.__name__, name, tree_of_collection(name, model), tree_of_collection).look(data)
    if found is None:
        return data, []
    _seal(found[0])
    return put_together(found[0])[1], found[1].pending


def _seal(value: Any) -> None:
    if isinstance(value, Pending):
        value.done = (5, b"\x00\x00\x00\x00\x06")
    elif isinstance(value, Group):
        for _, inner in value.items:
            _seal(inner)
