"""Repeats upserts that race with other programs inserting a matching document. Spec: crud (write).

The server repeats an upsert that lost such a race only if the filter has the fields of the unique index and no others,
and never an `updateMany`. A tag, a scope or a tenant adds a field to the filter, so the mapper repeats the upsert.
"""

from __future__ import annotations

from typing import Any

from mangonel._core import READ_APPLY
from mangonel.errors import DuplicateKeyError
from mangonel.odm.encryption.saving import update_all_flow
from mangonel.odm.model.codec import raw_collection
from mangonel.odm.query.request import Request

_OPTIONS = (
    "projection",
    "sort",
    "hint",
    "session",
    "let",
    "comment",
    "upsert",
    "return_document",
    "array_filters",
)


async def change_one_flow(
    request: Request, query: dict[str, Any], change: Any, keywords: dict[str, Any]
) -> tuple[Any, bool]:
    """Change or replace one document; return it undecoded, or None, and whether it was inserted.

    Args:
        request: the request; its collection is used.
        query: the filter.
        change: an update or a new document; the caller has checked which.
        keywords: those of the driver's `find_one_and_update`.
    """
    options = {**dict.fromkeys(_OPTIONS[:6]), **keywords}
    fields = {"update": change, **{name: options.pop(name) for name in options.keys() - set(_OPTIONS)}}
    act = raw_collection(request.collection)._find_and_modify
    reply = await request.port.call(act, query, fields, READ_APPLY, **options)
    return reply.get("value"), "upserted" in reply["lastErrorObject"]


async def change_beside_flow(request: Request, change: Any, keywords: dict[str, Any]) -> tuple[Any, bool]:
    """Change or replace the first document that matches, or insert one; return as `change_one_flow` does.

    Raises:
        DuplicateKeyError: the document collides with one that does not match.
    """
    try:
        return await change_one_flow(request, request.filter, change, keywords)
    except DuplicateKeyError:
        if not keywords["upsert"] or in_transaction(request):
            raise
        found = await change_one_flow(request, request.filter, change, {**keywords, "upsert": False})
        if found[0] is None:
            raise
        return found


async def update_beside_flow(
    request: Request, query: dict[str, Any], change: Any, keywords: dict[str, Any]
) -> int:
    """Update all documents that match a filter, or insert one; return how many were changed or inserted.

    Raises:
        DuplicateKeyError: a document collides with one that does not match.
    """
    collection = request.collection
    repeats = keywords["upsert"] and not in_transaction(request)

    async def finds_flow() -> bool:
        found = collection.find(query, projection={"_id": 1}, limit=1, **request.session)
        return bool(await found._to_list_flow(None))

    # An update of the filter's fields could collide too, so an upsert that would insert is sent to insert only.
    inserts = bool(repeats and _may_collide(query, change) and not await finds_flow())
    try:
        return await update_all_flow(collection, of_none(query) if inserts else query, change, keywords)
    except DuplicateKeyError as error:
        if not repeats or not (inserts or _is_of_insert(error, change)) or not await finds_flow():
            raise
        return await update_all_flow(collection, query, change, {**keywords, "upsert": False})


def in_transaction(request: Request) -> bool:
    """Whether a request is part of a transaction, which an error of the server ends."""
    session = request.keywords.get("session")
    return session is not None and session.in_transaction


def of_none(query: dict[str, Any]) -> dict[str, Any]:
    """Return a query with which an upsert always inserts, with the values that the query demands."""
    return {"$and": [query, {"_id": {"$exists": False}}]}


def _is_of_insert(error: DuplicateKeyError, update: Any) -> bool:
    """Whether only an insert can have collided, so nothing was changed: the update sets no field of the index."""
    keys = (error.details or {}).get("keyPattern")
    return bool(keys) and not _may_collide(keys, update)


def _may_collide(names: Any, update: Any) -> bool:
    """Whether an update may change one of these fields, of an index or a filter, in an existing document."""
    if isinstance(update, list):
        return True
    paths = [path for operator, group in update.items() if operator != "$setOnInsert" for path in group]
    paths += update.get("$rename", {}).values()
    return bool({path.partition(".")[0] for path in paths} & {name.partition(".")[0] for name in names})
