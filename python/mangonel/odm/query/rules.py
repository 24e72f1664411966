"""Delete rules: the effect of deleting a document on the documents that refer to it."""

from __future__ import annotations

from typing import Any

from mangonel.odm._registry import models
from mangonel.odm.encryption.saving import update_all_flow
from mangonel.odm.errors import DeleteDenied
from mangonel.odm.query.request import MOST_IDS, dicts_flow
from mangonel.odm.query.stamped import update_for
from mangonel.odm.query.tenants import check_shared, tenant_filter


def rules_of(model: Any) -> list[tuple[Any, Any, str]]:
    """Return the references to a model that have a rule: their model, the field, the rule."""
    found: list[tuple[Any, Any, str]] = []
    for other in models:
        if not other.__is_document__ or not any(info.on_delete for info in other.__fields__.values()):
            continue
        for field in other.__plan__.fields.values():
            target = field.target
            if field.info.on_delete and isinstance(target, type) and issubclass(model, target):
                found.append((other, field, field.info.on_delete))
    return found


def has_rules(model: Any) -> bool:
    """Whether deleting documents of a model affects others."""
    return bool(rules_of(model))


class Plan:
    """The planned effects of delete rules."""

    __slots__ = ("cascades", "updates")

    def __init__(self) -> None:
        self.cascades: list[tuple[Any, list[Any]]] = []
        self.updates: list[tuple[Any, Any, str, list[Any]]] = []


async def plan_rules_flow(model: Any, ids: list[Any], request: Any) -> Plan:
    """Plan the effects of deleting these documents; rules that deny are checked first.

    A soft deletion can be undone, so it spreads only along cascading references from models with soft deletion, and
    leaves all other documents alone.

    Raises:
        DeleteDenied: a rule forbids it. Nothing was changed.
    """
    plan = Plan()
    if model.__tenant__ is None:
        check_shared(model, [other for other, _, _ in rules_of(model)])
    queue: list[tuple[Any, list[Any]]] = [(model, ids)]
    seen: set[tuple[str, str]] = {(model.__collection_name__(), repr(id)) for id in ids}
    for current, current_ids in queue:
        if not current_ids:
            continue
        is_marked = current.__soft_delete__()
        for other, field, rule in rules_of(current):
            if rule not in ("deny", "cascade"):
                if not is_marked:
                    plan.updates.append((other, field, rule, current_ids))
                continue
            if rule == "cascade" and is_marked and not other.__soft_delete__():
                continue
            place = _place(other, request)
            query = place.query.find({field.key: {"$in": current_ids}})._bare(projection={"_id": 1})
            found = [row["_id"] for row in await dicts_flow(place.of(query, "dicts"))]
            fresh = [id for id in found if (other.__collection_name__(), repr(id)) not in seen]
            if rule == "deny" and fresh:
                raise DeleteDenied(
                    f"{len(fresh)} {other.__name__} refer to the {current.__name__} by {field.name!r}, "
                    "which denies it"
                )
            if rule == "cascade" and fresh:
                seen.update((other.__collection_name__(), repr(id)) for id in fresh)
                plan.cascades.append((other, fresh))
                queue.append((other, fresh))
    return plan


async def carry_out_flow(plan: Plan, request: Any) -> None:
    """Carry out the planned effects."""
    for other, field, rule, ids in plan.updates:
        place = _place(other, request)
        change = {"$unset": {field.key: ""}} if rule == "nullify" else {"$pullAll": {field.key: ids}}
        change = update_for(other, [change])
        query = {field.key: {"$in": ids}}
        if other.__tenant__ is not None:
            query |= tenant_filter(other)
        await _changed_flow(other, place, query, change)
    for other, found in reversed(plan.cascades):
        place = _place(other, request)
        for start in range(0, len(found), MOST_IDS):
            query = {"_id": {"$in": found[start : start + MOST_IDS]}}
            if other.__tenant__ is not None:
                query |= tenant_filter(other)
            await _changed_flow(other, place, query)


async def _changed_flow(other: Any, place: Any, query: dict[str, Any], change: Any = None) -> None:
    """Change documents that refer to deleted ones, or erase them; record it if their model is audited."""
    if other.__recorder__ is None:
        await _change_flow(place.collection, query, (other, change), place.session)
        return
    await other.__recorder__.filtered_flow(other, place, query, _change_flow, (other, change))


async def _change_flow(collection: Any, query: dict[str, Any], what: Any, session: dict[str, Any]) -> None:
    model, change = what
    if change is None:
        await erase_flow(model, collection, query, session)
    else:
        await update_all_flow(collection, query, change, session)


def _place(other: Any, request: Any) -> Any:
    """Build the query for documents of `other` that reference these, within its default scope."""
    query = other.find()._from(request.connection).session(request.query._session)
    query = query.options(write_concern=request.query._options.get("write_concern"))
    return query._request("dicts", request.port.is_async)


async def erase_flow(model: Any, collection: Any, query: Any, keywords: dict[str, Any]) -> int:
    """Delete the matching documents, or mark them if the model has soft deletion; return how many."""
    if model.__soft_delete__():
        return await update_all_flow(collection, query, model.__soft_delete_update__(), keywords)
    result = await collection._port.call(_delete, collection, query, keywords)
    return int(result.deleted_count) if result.acknowledged else 0


def _delete(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.delete_many(query, **options)
