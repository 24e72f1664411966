"""Delete rules: the effect of deleting a document on the documents that refer to it.

Searches for references that deny a deletion before and after it (`targets` explains why that suffices), and undoes a
deletion that is denied afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mangonel.errors import DuplicateKeyError
from mangonel.odm._registry import models
from mangonel.odm.connections.transactions import after_commit_flow
from mangonel.odm.encryption.saving import update_all_flow
from mangonel.odm.errors import DeleteDenied
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.model.codec import raw_collection
from mangonel.odm.query.request import ids_flow, in_parts
from mangonel.odm.query.stamped import update_for
from mangonel.odm.query.targets import lock_flow, on_primary
from mangonel.odm.query.tenants import check_shared, tenant_filter

# The list of a block of `erased_documents`, in its thread or task.
_erased: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("mangonel_erased", default=None)


@contextmanager
def erased_documents() -> Iterator[list[tuple[Any, Any]]]:
    """Collect the documents that deletions inside the block erase, directly or by rules, for a caller that cleans up.

    Yields:
        A list that gets models with their documents as they were stored. Documents that are only marked as deleted, and
        those whose deletion was undone, are not among them. What a transaction erases is gone once it is committed.
    """
    found: list[tuple[Any, Any]] = []
    token = _erased.set(found)
    try:
        yield found
    finally:
        _erased.reset(token)


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


def needs_plan(model: Any) -> bool:
    """Whether deleting documents of a model affects others, or a caller collects them."""
    return bool(rules_of(model)) or _erased.get() is not None


class Plan:
    """The planned effects of delete rules, and the documents that they deleted.

    Attributes:
        cascades: models with the ids of their documents to delete.
        followed: a model that is deleted from, a model whose references to it cascade, the field, the ids.
        updates: models, fields, rules and the ids that references to these lose.
        denials: a model that is deleted from, the request for documents that may refer to it, the field, the ids.
        taken: the documents deleted so far, if a rule can still deny that or a caller collects them; None otherwise.
        put_back: called when they are stored again, to reset the deleted instance; None: there is none.
    """

    __slots__ = ("cascades", "denials", "followed", "put_back", "taken", "updates")

    def __init__(self) -> None:
        self.cascades: list[tuple[Any, list[Any]]] = []
        self.followed: list[tuple[Any, Any, Any, list[Any]]] = []
        self.updates: list[tuple[Any, Any, str, list[Any]]] = []
        self.denials: list[tuple[Any, Any, Any, list[Any]]] = []
        self.taken: list[tuple[Any, Any, Any, dict[str, Any]]] | None = None
        self.put_back: Callable[[], None] | None = None


async def plan_rules_flow(model: Any, ids: list[Any], request: Any) -> Plan:
    """Plan the effects of deleting these documents; rules that deny are checked first.

    A soft deletion can be undone, so it spreads only along cascading references from models with soft deletion, and
    leaves all other documents alone.

    Raises:
        DeleteDenied: a rule forbids it. Nothing was changed.
    """
    plan = Plan()
    if _erased.get() is not None:
        plan.taken = []
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
            place = _place(other, request, request.query._session)
            query = place.query.find({field.key: {"$in": current_ids}})
            found = await ids_flow(place.of(query, "dicts"))
            fresh = [id for id in found if (other.__collection_name__(), repr(id)) not in seen]
            if rule == "deny":
                plan.taken = []
                plan.denials.append((current, place, field, current_ids))
                if fresh:
                    raise _denied(current, place, field, len(fresh), "nothing was changed")
                continue
            plan.followed.append((current, other, field, current_ids))
            if fresh:
                seen.update((other.__collection_name__(), repr(id)) for id in fresh)
                plan.cascades.append((other, fresh))
                queue.append((other, fresh))
    return plan


def _denied(current: Any, place: Any, field: Any, count: int, outcome: str) -> DeleteDenied:
    return DeleteDenied(
        f"{count} {place.query._model.__name__} refer to the {current.__name__} by {field.name!r}, which denies its "
        f"deletion; {outcome}"
    )


async def carry_out_flow(plan: Plan, request: Any) -> None:
    """Carry out the planned effects, after the deletion itself.

    Raises:
        DeleteDenied: a document that refers to a deleted one was stored meanwhile. The deletions were undone.
    """
    for other, found in reversed(plan.cascades):
        place = _place(other, request, request.query._session)
        for query in in_parts(found):
            await _changed_flow(other, place, query | tenant_filter(other), None, plan.taken)
    if plan.denials:
        await _ask_again_flow(plan, request)
    for other, field, rule, ids in plan.updates:
        place = _place(other, request, request.query._session)
        change = {"$unset": {field.key: ""}} if rule == "nullify" else {"$pullAll": {field.key: ids}}
        change, reach = update_for(other, [change]), place.filter
        if other.__soft_delete__():
            # A document that is marked as deleted may be restored, and would refer to nothing.
            marked = _place(other, request, request.query._session, other.deleted())
            reach = {"$or": [reach, marked.filter]}
        await _changed_flow(other, place, query_of(reach, {field.key: {"$in": ids}}), change)


async def follow_flow(plan: Plan, request: Any) -> None:
    """Delete the documents that a cascade missed: they were stored meanwhile and refer to deleted ones.

    Inside a transaction, this waits for its end, since the transaction does not see them.

    Raises:
        DeleteDenied: a rule forbids deleting one of them, which now refers to nothing.
    """
    collected = _erased.get()
    if collected is not None:
        erased = [(model, known) for model, _, known, _ in plan.taken or () if not model.__soft_delete__()]
        collected += [(model, document) for model, known in erased for _, document, _ in known]
    session, port = request.keywords.get("session"), request.port
    if session is None or not session.in_transaction:
        await _delete_late_flow(plan, request, request.query._session)
        return

    async def after_flow() -> None:
        # In a transaction started with the driver this runs at once: the mapper does not know when it ends.
        if not session.in_transaction:
            await _delete_late_flow(plan, request, None)

    if plan.followed:
        await after_commit_flow(port, lambda: port.flow(after_flow()))


async def _delete_late_flow(plan: Plan, request: Any, session: Any) -> None:
    for current, other, field, ids in plan.followed:
        await _delete_referring_flow(current, _place(other, request, session), field, ids)


async def _delete_referring_flow(current: Any, place: Any, field: Any, ids: list[Any]) -> None:
    for query in in_parts(ids, field.key):
        late = place.query.find(query)
        found = on_primary(place.collection).find(late.query, projection={"_id": 1}, limit=1)
        if not await found._to_list_flow(None):
            continue
        try:
            await place.port.call(late.adelete if place.port.is_async else late.delete)
        except DeleteDenied as error:
            raise DeleteDenied(
                f"{error}; the {current.__name__} to which it refers by {field.name!r} is deleted"
            ) from None


async def _ask_again_flow(plan: Plan, request: Any) -> None:
    session = request.keywords.get("session")
    is_inside = session is not None and session.in_transaction
    # Several references to one model have the same ids.
    locked = {current.__collection_name__(): ids for current, _, _, ids in plan.denials}
    for name, ids in sorted(locked.items()):
        await lock_flow(request.collection, name, ids, session if is_inside else None, is_whole=True)
    await _look_flow(plan, session if is_inside else None)
    if is_inside:
        # The transaction does not see documents stored since it began, and their writers do not see its deletion.
        port = request.port
        await after_commit_flow(port, lambda: port.flow(_after_commit_flow(plan, session)))


async def _after_commit_flow(plan: Plan, session: Any) -> None:
    if session.in_transaction:
        # A transaction started with the driver: the mapper does not know when it ends.
        return
    for taken in plan.taken or ():
        taken[3].pop("session", None)
    await _look_flow(plan, None, "the transaction is committed without them")


async def _look_flow(plan: Plan, session: Any, also: str = "") -> None:
    """Look for documents that refer to deleted ones.

    Args:
        plan: the plan, whose deletions are undone if there are any.
        session: look inside this transaction. None: look at committed documents.
        also: a further sentence of the error.
    """
    for current, place, field, ids in plan.denials:
        collection = place.collection if session is not None else on_primary(place.collection)
        options = {"session": session} if session is not None else {}
        count = 0
        for part in in_parts(ids, field.key):
            cursor = collection.find(query_of(place.filter, part), projection={"_id": 1}, **options)
            count += len(await cursor._to_list_flow(None))
        if count:
            lost = await _restore_flow(plan, place.connection)
            outcome = "the deletions were undone"
            if lost:
                outcome += (
                    f", but for {len(lost)} documents that collide with one that another program has stored meanwhile: "
                    f"{', '.join(lost[:3])}"
                )
            raise _denied(current, place, field, count, f"{outcome}{also and '; '}{also}")


async def _restore_flow(plan: Plan, connection: Any) -> list[str]:
    """Store deleted documents again, and remove marks; return those that could not be stored."""
    lost: list[str] = []
    for model, collection, known, keywords in reversed(plan.taken or []):
        port = collection._port
        if keywords and not keywords["session"].in_transaction:
            # The transaction was that of the deletion alone, and is committed.
            keywords = {}
        for id, taken, former in known:
            if model.__soft_delete__():
                key = model.__plan__.fields["deleted_at"].key
                change = update_for(model, [{"$set": {key: former}}])
                act, arguments = collection.update_one, [{"_id": id, key: taken}, change]
            else:
                act, arguments = collection.insert_one, [taken]
            try:
                if keywords or model.__recorder__ is None:
                    await port.call(act, *arguments, **keywords)
                else:
                    await model.__recorder__.restored_flow(connection, model, collection, id, act, arguments)
            except DuplicateKeyError as error:
                # Another program may have stored a document with this id.
                if (error.details or {}).get("keyPattern") != {"_id": 1}:
                    lost.append(f"{model.__name__} {id!r}")
    plan.taken = []
    if plan.put_back is not None and not lost:
        plan.put_back()
    return lost


async def _changed_flow(
    other: Any, place: Any, query: dict[str, Any], change: Any = None, taken: list[Any] | None = None
) -> None:
    """Change documents that refer to deleted ones, or erase them; record it if their model is audited."""
    what = other, change, taken
    if other.__recorder__ is None:
        await _change_flow(place.collection, query, what, place.session)
        return
    await other.__recorder__.filtered_flow(other, place, query, _change_flow, what)


async def _change_flow(collection: Any, query: dict[str, Any], what: Any, session: dict[str, Any]) -> None:
    model, change, taken = what
    if change is None:
        await erase_flow(model, collection, query, session, taken)
    else:
        await update_all_flow(collection, query, change, session)


def _place(other: Any, request: Any, session: Any, query: Any = None) -> Any:
    """Build the query for documents of `other` that reference these, within its default scope or a query."""
    query = (other.find() if query is None else query)._from(request.connection).session(session)
    query = query.options(write_concern=request.query._options.get("write_concern"))
    return query._request("dicts", request.port.is_async)


async def erase_flow(
    model: Any, collection: Any, query: Any, keywords: dict[str, Any], taken: list[Any] | None = None
) -> int:
    """Delete the matching documents, or mark them if the model has soft deletion; return how many.

    Args:
        model: their model.
        collection: their collection.
        query: the query.
        keywords: options of the driver's operation.
        taken: the list to which deleted documents are added one by one, so that they can be stored again. None: none.
    """
    if taken is not None:
        return await _take_flow(model, collection, query, keywords, taken)
    if model.__soft_delete__():
        return await update_all_flow(collection, query, model.__soft_delete_update__(), keywords)
    result = await collection._port.call(collection.delete_many, query, **keywords)
    return int(result.deleted_count) if result.acknowledged else 0


async def _take_flow(
    model: Any, collection: Any, query: Any, keywords: dict[str, Any], taken: list[Any]
) -> int:
    session = {name: keywords[name] for name in ("session",) if name in keywords}
    options = {name: keywords[name] for name in ("session", "collation", "hint", "let") if name in keywords}
    mark_key = model.__plan__.fields["deleted_at"].key if model.__soft_delete__() else "_id"
    rows = await collection.find(query, projection={"_id": 1, mark_key: 1}, **options)._to_list_flow(None)
    known: list[tuple[Any, Any, Any]] = []
    # Recorded at once, so that a failure in between can be undone.
    taken.append((model, collection, known, session))
    raw = raw_collection(collection)
    for row in rows:
        one = {"$and": [{"_id": row["_id"]}, query]}
        if model.__soft_delete__():
            update = model.__soft_delete_update__()
            count = await update_all_flow(collection, one, update, keywords)
            if count:
                # The document may have been marked before.
                known.append((row["_id"], update["$set"][mark_key], row.get(mark_key)))
            continue
        found = await collection._port.call(raw.find_one_and_delete, one, **keywords)
        if found is not None:
            known.append((row["_id"], found, None))
    return len(known)
