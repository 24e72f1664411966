"""Delete rules: what deleting a document does to those that refer to it."""

from __future__ import annotations

from typing import Any

from mangonel.odm._registry import registry
from mangonel.odm.connections.context import session_options
from mangonel.odm.errors import DeleteDenied


def rules_of(model: Any) -> list[tuple[Any, Any, str]]:
    """Return the fields that refer to a model and have a rule: their model, the field, the rule."""
    found: list[tuple[Any, Any, str]] = []
    for other in registry.values():
        if not other.__is_document__ or not any(info.on_delete for info in other.__fields__.values()):
            continue
        for field in other.__plan__.fields.values():
            target = field.target
            if field.info.on_delete and isinstance(target, type) and issubclass(model, target):
                found.append((other, field, field.info.on_delete))
    return found


def has_rules(model: Any) -> bool:
    """Whether deleting documents of a model concerns others."""
    return bool(rules_of(model))


async def apply_rules_flow(model: Any, ids: list[Any], is_async: bool) -> None:
    """Do to other documents what their references to these ask for; those that deny are asked first.

    Raises:
        DeleteDenied: a rule forbids it. Nothing was changed.
    """
    queue: list[tuple[Any, list[Any]]] = [(model, ids)]
    cascades: list[tuple[Any, list[Any]]] = []
    updates: list[tuple[Any, Any, str, list[Any]]] = []
    seen: set[tuple[str, str]] = {(model.__collection_name__(), repr(id)) for id in ids}
    # All that would go is known, and nobody denied, before anything is changed.
    for current, current_ids in queue:
        if not current_ids:
            continue
        for other, field, rule in rules_of(current):
            collection = other._bind(is_async)
            query = {field.key: {"$in": current_ids}}
            if rule in ("deny", "cascade"):
                rows = await collection._port.call(
                    _ids, collection, query, session_options(other.__connection__)
                )
                found = [row["_id"] for row in rows]
                fresh = [id for id in found if (other.__collection_name__(), repr(id)) not in seen]
                if rule == "deny" and fresh:
                    raise DeleteDenied(
                        f"{len(fresh)} {other.__name__} refer to the {current.__name__} by {field.name!r}, "
                        "which denies it"
                    )
                if rule == "cascade" and fresh:
                    seen.update((other.__collection_name__(), repr(id)) for id in fresh)
                    cascades.append((other, fresh))
                    queue.append((other, fresh))
            else:
                updates.append((other, field, rule, current_ids))
    for other, field, rule, current_ids in updates:
        collection = other._bind(is_async)
        change = {"$unset": {field.key: ""}} if rule == "nullify" else {"$pullAll": {field.key: current_ids}}
        await collection._port.call(
            _update,
            collection,
            {field.key: {"$in": current_ids}},
            change,
            session_options(other.__connection__),
        )
    for other, found in reversed(cascades):
        collection = other._bind(is_async)
        await collection._port.call(_delete, collection, found, session_options(other.__connection__))


def _ids(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.find(query, {"_id": 1}, **options).to_list()


def _update(collection: Any, query: Any, change: Any, options: dict[str, Any]) -> Any:
    return collection.update_many(query, change, **options)


def _delete(collection: Any, ids: list[Any], options: dict[str, Any]) -> Any:
    return collection.delete_many({"_id": {"$in": ids}}, **options)
