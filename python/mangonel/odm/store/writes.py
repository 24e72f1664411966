"""Flows that store documents: hooks, the smallest update, versions, delete rules, bulk writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel import _core
from mangonel._shared.collection.write_support import write_codec
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import write_error
from mangonel.odm.connections.context import session_options
from mangonel.odm.connections.transactions import after_commit_flow
from mangonel.odm.errors import DocumentNotFound, StaleDocument
from mangonel.odm.expressions.changes import Change
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.model.convert import NEW, PARTIAL
from mangonel.odm.model.hooks import has_hooks, run_flow
from mangonel.odm.model.refs import Ref, Refs, fetch_flow
from mangonel.odm.query.query import Query
from mangonel.odm.query.rules import apply_rules_flow

_SAVE_EVENTS = tuple(
    f"{when}_{event}"
    for when in ("before", "after")
    for event in ("validate", "insert", "update", "save", "commit")
    if (when, event) != ("before", "commit")
)


def _is_plain(cls: Any) -> bool:
    """Whether saving a document runs no hooks, stamps no times and counts nothing."""
    found = cls.__dict__.get("__is_plain__")
    if found is None:
        found = not has_hooks(cls, *_SAVE_EVENTS) and not cls.__stamps__() and not sequences(cls)
        type.__setattr__(cls, "__is_plain__", found)
    return bool(found)


def sequences(cls: Any) -> dict[str, str]:
    """Return the fields that counters fill, each with its counter's name."""
    return {
        name: field.sequence.name or f"{cls.__collection_name__()}.{field.key}"
        for name, field in cls.__plan__.fields.items()
        if field.sequence is not None
    }


async def insert_flow(document: Any, collection: Any, validate: bool) -> Any:
    """Store a new document."""
    cls = document.__class__
    port = collection._port
    is_plain = _is_plain(cls)
    if not is_plain:
        await before_flow(document, port, validate, "insert")
        await count_flow(document, collection, cls)
        document.__stamp__(True)
    data = _core.odm_encode(document)
    await port.call(_insert, collection, RawBSONDocument(data), session_options(cls.__connection__))
    _core.odm_stored(document, data)
    if not is_plain:
        await after_flow(document, port, "insert")
    return document


def _insert(collection: Any, document: Any, options: dict[str, Any]) -> Any:
    return collection.insert_one(document, **options)


async def before_flow(document: Any, port: Any, validate: bool, event: str) -> None:
    """Run the hooks before a document is stored."""
    if validate:
        await run_flow(document, "before_validate", port)
        await run_flow(document, "after_validate", port)
    await run_flow(document, "before_save", port)
    await run_flow(document, f"before_{event}", port)


async def after_flow(document: Any, port: Any, event: str) -> None:
    """Run the hooks after a document was stored."""
    await run_flow(document, f"after_{event}", port)
    await run_flow(document, "after_save", port)
    if has_hooks(type(document), "after_commit"):
        await after_commit_flow(port, lambda: port.flow(run_flow(document, "after_commit", port)))


async def count_flow(document: Any, collection: Any, cls: Any) -> None:
    """Give empty sequence fields their numbers."""
    for name, counter in sequences(cls).items():
        if getattr(document, name) is None:
            setattr(document, name, await next_number_flow(collection, counter))


async def next_number_flow(collection: Any, counter: str) -> int:
    """Return the next number of a counter; outside any transaction, so that nobody waits for its end."""
    counters = collection.database["counters"]
    found = await collection._port.call(_next_number, counters, counter)
    return int(found["next"])


def _next_number(counters: Any, counter: str) -> Any:
    return counters.find_one_and_update(
        {"_id": counter}, {"$inc": {"next": 1}}, upsert=True, return_document=True
    )


async def save_flow(document: Any, collection: Any, validate: bool, cascade: bool, where: Any) -> Any:
    """Store what changed."""
    cls = document.__class__
    port = collection._port
    if cascade:
        await cascade_flow(document, port.is_async)
    if _core.odm_flags(document) & NEW:
        return await insert_flow(document, collection, validate)
    is_plain = _is_plain(cls)
    if not is_plain:
        await before_flow(document, port, validate, "update")
        if _core.odm_changes(document):
            document.__stamp__(False)
    options = session_options(cls.__connection__)
    if where is None and not options:
        concern = collection._write_concern
        if not concern.acknowledged:
            return await unacknowledged_flow(document, collection)
        operation = _core.odm_save(
            document,
            collection._database_name,
            collection._name,
            write_codec(collection._codec_options),
            None if concern.is_server_default else concern.document,
            _matched,
        )
        if operation is None:
            return document
        try:
            matched = await port.arun(operation)
        except BaseException:
            _core.odm_settle(document, False)
            raise
    else:
        update = _core.odm_update(document)
        if update is None:
            return document
        query = _filter_of(document, where)
        try:
            result = await port.call(_update_one, collection, query, RawBSONDocument(update), options)
        except BaseException:
            _core.odm_settle(document, False)
            raise
        matched = result.matched_count if result.acknowledged else 1
    if not matched:
        _core.odm_settle(document, False)
        await missing_flow(document, collection, where)
    _core.odm_settle(document, True)
    if not is_plain:
        await after_flow(document, port, "update")
    return document


async def unacknowledged_flow(document: Any, collection: Any) -> Any:
    """Send what changed without waiting for an answer."""
    update = _core.odm_update(document)
    if update is not None:
        await collection._port.call(
            _update_one, collection, _filter_of(document), RawBSONDocument(update), {}
        )
        _core.odm_settle(document, True)
    return document


def _matched(reply: Any) -> int:
    if "writeErrors" in reply or "writeConcernError" in reply:
        error = write_error(reply)
        if error is not None:
            raise error
    return int(reply["n"])


def _update_one(collection: Any, query: Any, update: Any, options: dict[str, Any]) -> Any:
    return collection.update_one(query, update, **options)


def _filter_of(document: Any, where: Any = None) -> dict[str, Any]:
    """The query for the stored document, of the version that was loaded."""
    query: dict[str, Any] = dict(_core.odm_filter(document))
    return query_of(query, where) if where is not None else query


async def missing_flow(document: Any, collection: Any, where: Any = None) -> None:
    """Say why nothing matched a document's save."""
    cls = document.__class__
    if len(_filter_of(document)) > 1 or where is not None:
        found = await collection._port.call(
            _count, collection, document.id, session_options(cls.__connection__)
        )
        if found:
            what = (
                "does not fulfil the condition"
                if where is not None
                else "was saved by somebody else since it was loaded"
            )
            raise StaleDocument(f"the {cls.__name__} {document.id!r} {what}; reload it and try again")
    raise DocumentNotFound(f"no {cls.__name__} has the _id {document.id!r} any more")


def _count(collection: Any, id: Any, options: dict[str, Any]) -> Any:
    return collection.count_documents({"_id": id}, **options)


async def cascade_flow(document: Any, is_async: bool) -> None:
    """Save the documents that loaded references of a document lead to, each once, iteratively."""
    queue = [document]
    for current in queue:
        for name, field in current.__plan__.fields.items():
            if field.target is None or name not in _core.odm_loaded(current):
                continue
            value = getattr(current, name)
            for ref in value if isinstance(value, (Refs, list)) else [value]:
                known = ref._known() if isinstance(ref, Ref) else None
                if known is not None and not any(known is seen for seen in queue):
                    queue.append(known)
    for current in reversed(queue[1:]):
        await save_flow(current, current._bind(is_async), True, False, None)


async def replace_flow(document: Any, collection: Any, upsert: bool) -> Any:
    """Store the whole document."""
    cls = document.__class__
    if _core.odm_flags(document) & PARTIAL:
        raise ValueError(
            f"cannot replace a partly loaded {cls.__name__}; reload it first, or save what changed"
        )
    port = collection._port
    await before_flow(document, port, True, "update")
    document.__stamp__(bool(_core.odm_flags(document) & NEW))
    data = _core.odm_encode(document)
    options = session_options(cls.__connection__)
    result = await port.call(
        _replace_one, collection, _filter_of(document), RawBSONDocument(data), upsert, options
    )
    if result.acknowledged and not result.matched_count and result.upserted_id is None:
        await missing_flow(document, collection)
    _core.odm_stored(document, data)
    await after_flow(document, port, "update")
    return document


def _replace_one(collection: Any, query: Any, data: Any, upsert: bool, options: dict[str, Any]) -> Any:
    return collection.replace_one(query, data, upsert, **options)


async def update_flow(document: Any, collection: Any, changes: Iterable[Change]) -> Any:
    """Send changes for one document and take over the answer."""
    query: Query[Any] = Query(document.__class__)._by_id(document.id)
    found = await query._find_and_update_flow(collection, changes, True, False, None)
    if found is None:
        raise DocumentNotFound(f"no {document.__class__.__name__} has the _id {document.id!r} any more")
    _core.odm_take(document, found)
    return document


async def reload_flow(document: Any, collection: Any) -> Any:
    """Load a document again."""
    query: Query[Any] = Query(document.__class__)._by_id(document.id)
    found = await query._one_flow(collection)
    if type(document) is not type(found):
        # It was partly loaded; its hidden class has the same shape.
        _core.odm_take(document, found)
        return document
    _core.odm_take(document, found)
    return document


async def delete_flow(document: Any, collection: Any) -> None:
    """Delete a document, by the delete rules of the references to it."""
    cls = document.__class__
    port = collection._port
    await run_flow(document, "before_delete", port)
    await apply_rules_flow(cls, [document.id], port.is_async)
    if cls.__soft_delete__():
        document.__mark_deleted__()
        await save_flow(document, collection, False, False, None)
    else:
        options = session_options(cls.__connection__)
        result = await port.call(_delete_one, collection, _filter_of(document), options)
        if result.acknowledged and not result.deleted_count and len(_filter_of(document)) > 1:
            found = await port.call(_count, collection, document.id, options)
            if found:
                raise StaleDocument(
                    f"the {cls.__name__} {document.id!r} was saved by somebody else; reload it"
                )
    _core.odm_mark_deleted(document)
    await run_flow(document, "after_delete", port)


def _delete_one(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.delete_one(query, **options)


async def insert_many_flow(collection: Any, documents: list[Any], ordered: bool) -> int:
    """Store new documents."""
    if not documents:
        return 0
    port = collection._port
    encoded: list[tuple[Any, bytes]] = []
    for document in documents:
        cls = document.__class__
        if not _is_plain(cls):
            await before_flow(document, port, True, "insert")
            await count_flow(document, collection, cls)
            document.__stamp__(True)
        encoded.append((document, _core.odm_encode(document)))
    options = session_options(documents[0].__connection__)
    raw = [RawBSONDocument(data) for _, data in encoded]
    await port.call(_insert_many, collection, raw, ordered, options)
    for document, data in encoded:
        _core.odm_stored(document, data)
        if not _is_plain(document.__class__):
            await after_flow(document, port, "insert")
    return len(encoded)


def _insert_many(collection: Any, documents: list[Any], ordered: bool, options: dict[str, Any]) -> Any:
    return collection.insert_many(documents, ordered, **options)


async def save_all_flow(collection: Any, documents: list[Any], ordered: bool) -> int:
    """Save documents by one bulk write."""
    from mangonel.operations import InsertOne, UpdateOne

    port = collection._port
    work: list[tuple[Any, str, bytes | None]] = []
    requests: list[Any] = []
    try:
        for document in documents:
            cls = document.__class__
            is_new = bool(_core.odm_flags(document) & NEW)
            event = "insert" if is_new else "update"
            if not _is_plain(cls):
                await before_flow(document, port, True, event)
                if is_new:
                    await count_flow(document, collection, cls)
                if is_new or _core.odm_changes(document):
                    document.__stamp__(is_new)
            if is_new:
                data = _core.odm_encode(document)
                requests.append(InsertOne(RawBSONDocument(data)))
                work.append((document, event, data))
                continue
            update = _core.odm_update(document)
            if update is not None:
                requests.append(UpdateOne(_filter_of(document), RawBSONDocument(update)))
                work.append((document, event, None))
        if not requests:
            return 0
        options = session_options(documents[0].__connection__)
        result = await port.call(_bulk_write, collection, requests, ordered, options)
    except BaseException:
        for document, event, _ in work:
            if event == "update":
                _core.odm_settle(document, False)
        raise
    updates = sum(1 for _, event, _ in work if event == "update")
    if result.acknowledged and result.matched_count < updates:
        await stale_flow(collection, work, updates - result.matched_count)
    for document, event, inserted in work:
        if inserted is not None:
            _core.odm_stored(document, inserted)
        else:
            _core.odm_settle(document, True)
        if not _is_plain(document.__class__):
            await after_flow(document, port, event)
    return len(work)


def _bulk_write(collection: Any, requests: list[Any], ordered: bool, options: dict[str, Any]) -> Any:
    return collection.bulk_write(requests, ordered, **options)


async def stale_flow(collection: Any, work: list[tuple[Any, str, bytes | None]], count: int) -> None:
    """Find out which of a bulk write's documents were not matched, settle the others, and say so.

    A bulk write answers only how many matched, so versions are asked for: those that moved on were stored.
    """
    ids = [document.id for document, event, _ in work if event == "update"]
    found = await collection._port.call(_versions, collection, ids)
    stored = {repr(row["_id"]): row for row in found}
    lost: list[Any] = []
    for document, event, data in work:
        if data is not None:
            _core.odm_stored(document, data)
        if event != "update":
            continue
        expected = _core.odm_version(document)
        row = stored.get(repr(document.id))
        is_stored = row is not None and (expected is None or row.get(expected[0]) == expected[1] + 1)
        _core.odm_settle(document, is_stored)
        if not is_stored:
            lost.append(document.id)
    raise StaleDocument(
        f"{count} of the documents were saved or deleted by somebody else since they were loaded: {lost[:10]!r}"
    )


def _versions(collection: Any, ids: list[Any]) -> Any:
    return collection.find({"_id": {"$in": ids}}).to_list()


async def get_many_flow(collection: Any, cls: Any, ids: list[Any]) -> list[Any]:
    """Fetch documents by ids, in their order."""
    found = {repr(document.id): document for document in await fetch_flow(collection, cls, ids)}
    return [found[repr(id)] for id in ids if repr(id) in found]
