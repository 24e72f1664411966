"""Updates of a model's documents, whoever asks for them: the version is counted, and the times of change are set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel.odm.expressions.changes import Change, update_of


def update_for(cls: Any, changes: Any) -> Any:
    """Return the update document of changes, or the pipeline that they are."""
    if len(changes) != 1 or not isinstance(changes[0], list):
        return changes_of(cls, changes)
    also: dict[str, Any] = {key: now() for (key, is_update), now in cls.__stamps__().items() if is_update}
    for field in cls.__plan__.fields.values():
        if field.is_version:
            also[field.key] = {"$add": [{"$ifNull": [f"${field.key}", 0]}, 1]}
    return [*changes[0], {"$set": also}] if also else changes[0]


def changes_of(cls: Any, changes: Iterable[Change]) -> dict[str, Any]:
    """Return the update document of a query's changes: a versioned model's counts them too."""
    update = update_of(changes)
    for field in cls.__plan__.fields.values():
        if field.is_version and not any(field.key in group for group in update.values()):
            update.setdefault("$inc", {})[field.key] = 1
    for key, now in cls.__stamps__().items():
        if key[1] and not any(key[0] in group for group in update.values()):
            update.setdefault("$set", {})[key[0]] = now()
    return update
