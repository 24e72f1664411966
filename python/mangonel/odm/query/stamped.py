"""Update documents for a model, from any caller: they increase the version and set the times of change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel.odm.expressions.changes import Change, update_of
from mangonel.odm.expressions.computed import is_computing, pipeline_of
from mangonel.odm.query.tenants import check_update


def update_for(cls: Any, changes: Any, upsert: bool = False) -> Any:
    """Return the update document or pipeline of changes.

    Args:
        cls: the model.
        changes: results of `inc(User.age)` and the like, update documents, or one pipeline.
        upsert: a document may be inserted by it, which needs the tag of its class to be found again.

    Raises:
        WrongTenant: it would change the tenant of documents.
    """
    update = _stamped(cls, changes, upsert)
    return update if cls.__tenant__ is None else check_update(cls, update)


def _stamped(cls: Any, changes: Any, upsert: bool) -> Any:
    tag = cls.__tag_value__ if upsert else None
    taken: set[str] = set()
    if is_computing(changes):
        changes = [pipeline_of(changes)]
        taken.update(changes[0][0]["$set"])
    if len(changes) != 1 or not isinstance(changes[0], list):
        update = changes_of(cls, changes)
        if tag is not None and not any(cls.__tag__ in group for group in update.values()):
            update.setdefault("$setOnInsert", {})[cls.__tag__] = tag
        return update
    also: dict[str, Any] = {key: now() for (key, is_update), now in cls.__stamps__().items() if is_update}
    for field in cls.__plan__.fields.values():
        if field.is_version:
            also[field.key] = {"$add": [{"$ifNull": [f"${field.key}", 0]}, 1]}
    if tag is not None:
        also[cls.__tag__] = {"$ifNull": [f"${cls.__tag__}", tag]}
    # The changes may set such a key themselves.
    also = {key: value for key, value in also.items() if key not in taken}
    return [*changes[0], {"$set": also}] if also else changes[0]


def changes_of(cls: Any, changes: Iterable[Change]) -> dict[str, Any]:
    """Return the update document of a query's changes; for a versioned model it also counts the version."""
    update = update_of(changes)
    for field in cls.__plan__.fields.values():
        if field.is_version and not any(field.key in group for group in update.values()):
            update.setdefault("$inc", {})[field.key] = 1
    for key, now in cls.__stamps__().items():
        if key[1] and not any(key[0] in group for group in update.values()):
            update.setdefault("$set", {})[key[0]] = now()
    return update
