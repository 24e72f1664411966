"""The events around saving a document: hooks, numbers of sequences, times of creation and change."""

from __future__ import annotations

from typing import Any

from mangonel.odm.connections.transactions import after_commit_flow, after_rollback
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.hooks import has_hooks, run_flow
from mangonel.odm.model.refs import flat_ids
from mangonel.odm.query.targets import denying
from mangonel.odm.query.tenants import check_document

_SAVE_EVENTS = tuple(
    f"{when}_{event}"
    for when in ("before", "after", "around")
    for event in ("validate", "insert", "update", "save", "commit", "rollback")
    if when == "after" or event not in ("commit", "rollback")
)


def is_plain(cls: Any) -> bool:
    """Whether saving a document runs no hooks, sets no times and counts nothing."""
    plan = cls.__plan__
    found: bool | None = plan.is_plain
    if found is None:
        found = plan.is_plain = not (
            has_hooks(cls, *_SAVE_EVENTS)
            or cls.__stamps__()
            or sequences(cls)
            or cls.__keeps_changes__
            or touching(cls)
            or denying(cls)
            or (cls.__is_document__ and cls.__tenant__ is not None)
        )
    return found


def sequences(cls: Any) -> dict[str, str]:
    """Return the fields filled by counters, each with its counter's name."""
    return {
        name: field.sequence.name or f"{cls.__collection_name__()}.{field.key}"
        for name, field in cls.__plan__.fields.items()
        if field.sequence is not None
    }


def touching(cls: Any) -> list[Any]:
    """Return the references whose targets are touched when a document of a class is saved."""
    return [field for field in cls.__plan__.fields.values() if field.info.touch]


async def touch_targets_flow(document: Any, place: Any) -> None:
    """Set the times of change of the documents that a saved one touches."""
    for field in touching(document.__class__):
        target, value = field.target, held(document, field.name)
        ids = flat_ids(value if isinstance(value, list) else [value])
        if not ids:
            continue
        stamps = {key: now() for (key, is_update), now in target.__stamps__().items() if is_update}
        query = target.unscoped({"_id": {"$in": ids}})._from(place.connection)
        query = query.session(place.session.get("session")).options(write_concern=place.write_concern)
        request = query._request("update", place.port.is_async)
        arguments = ([{"$set": stamps}], None, False)
        if target.__recorder__ is not None:
            await target.__recorder__.query_flow(request, query._update_flow, *arguments)
        else:
            await query._update_flow(request, *arguments)


async def before_flow(document: Any, port: Any, validate: bool, event: str) -> None:
    """Run the hooks before a document is saved."""
    if validate:
        await run_flow(document, "before_validate", port)
        await run_flow(document, "after_validate", port)
    await run_flow(document, "before_save", port)
    await run_flow(document, f"before_{event}", port)


async def before_insert_flow(document: Any, collection: Any, validate: bool) -> None:
    """Prepare a document for its first save: hooks, sequence numbers, times."""
    cls = document.__class__
    if not is_plain(cls):
        await before_flow(document, collection._port, validate, "insert")
        await count_flow(document, collection, cls)
        document.__stamp__(True)
        document.__note_changes__()
        if cls.__tenant__ is not None:
            check_document(document)


async def after_flow(document: Any, port: Any, event: str, place: Any = None) -> None:
    """Run the hooks after a document was saved; pass its place unless a query saved it."""
    if place is not None:
        document.__keep_changes__()
        await touch_targets_flow(document, place)
    await run_flow(document, f"after_{event}", port)
    await run_flow(document, "after_save", port)
    await end_flow(document, port)


async def end_flow(document: Any, port: Any) -> None:
    """Schedule the hooks for the end of the transaction; without a transaction, run the `commit` hooks now."""
    if has_hooks(type(document), "after_rollback"):
        after_rollback(lambda: port.flow(run_flow(document, "after_rollback", port)))
    if has_hooks(type(document), "after_commit"):
        await after_commit_flow(port, lambda: port.flow(run_flow(document, "after_commit", port)))


async def count_flow(document: Any, collection: Any, cls: Any) -> None:
    """Give empty sequence fields their numbers."""
    for name, counter in sequences(cls).items():
        if getattr(document, name) is None:
            setattr(document, name, await next_number_flow(collection, counter))


async def next_number_flow(collection: Any, counter: str) -> int:
    """Return the next number of a counter; outside any transaction, so that other inserts need not wait."""
    counters = collection.database["counters"]
    found = await collection._port.call(
        counters.find_one_and_update,
        {"_id": counter},
        {"$inc": {"next": 1}},
        upsert=True,
        return_document=True,
    )
    return int(found["next"])
