"""Flows that store one document: hooks, the smallest update, versions, delete rules.

A save takes the changes that it sends from the pending ones when it begins, and restores them if it fails; an instance
has one running save at a time. The server's result is compared with what was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel import _core
from mangonel._shared.collection.write_support import COMMAND_OVERHEAD, write_codec
from mangonel._shared.settings import BOUND
from mangonel.bson import CodecOptions, decode, encode
from mangonel.bson.errors import BSONError
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.common import MAX_BSON_SIZE
from mangonel.errors import (
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    WriteConcernError,
    write_error,
)
from mangonel.odm.connections.identity import outside
from mangonel.odm.connections.place import Place, place_of
from mangonel.odm.connections.touched import Former, touch
from mangonel.odm.encryption.saving import findable_guard, is_queryable, key_filter, whole_lists
from mangonel.odm.errors import DocumentNotFound, StaleDocument
from mangonel.odm.expressions.changes import Change
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.expressions.values import dump
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import TOLERANT
from mangonel.odm.model.convert import GUARDED, MODIFIES, NEW, PARTIAL, UNCERTAIN
from mangonel.odm.model.describe import encrypted_tree
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.hooks import around_flow, has_hooks, run_flow
from mangonel.odm.model.refs import Ref, Refs, stored_id
from mangonel.odm.query.events import (
    after_flow,
    before_flow,
    before_insert_flow,
    end_flow,
    is_plain,
    touch_targets_flow,
)
from mangonel.odm.query.query import Query
from mangonel.odm.query.rules import carry_out_flow, plan_rules_flow
from mangonel.odm.query.stamped import update_for
from mangonel.odm.query.tenants import check_document, tenant_filter


async def insert_flow(document: Any, place: Place, validate: bool, is_inside: bool = False) -> Any:
    """Store a new document; `is_inside`: its `around` hooks are running already."""
    cls = document.__class__
    is_simple = is_plain(cls)
    if not (is_simple or is_inside) and has_hooks(cls, "around_insert", "around_save"):
        return await around_flow(
            [(document, "insert")], place.port, insert_flow, document, place, validate, True
        )
    touch(document)
    collection = place.collection
    if not is_simple:
        await before_insert_flow(document, collection, validate)
    data: bytes | None
    port, database, name, codec, _, concern = collection._context
    if place.session or BOUND or not concern._acknowledged:
        _core.odm_begin(document)
        try:
            data = _core.odm_encode(document)
            await port.call(_insert, collection, RawBSONDocument(data), place.session)
        except BaseException:
            _core.odm_settle(document, False)
            raise
    else:
        operation, data = _core.odm_insert(
            document, database, name, codec, concern._document or None, MAX_BSON_SIZE + COMMAND_OVERHEAD
        )
        try:
            await port.arun(operation)
        except BaseException:
            # The outcome is unknown: the server refuses a second insert of the same id.
            _core.odm_settle(document, False)
            raise
    _core.odm_stored(document, data, place.connection)
    if not is_simple:
        await after_flow(document, port, "insert", place)
    return document


def _insert(collection: Any, document: Any, options: dict[str, Any]) -> Any:
    return collection.insert_one(document, **options)


async def save_flow(
    document: Any, place: Place, validate: bool, cascade: bool, where: Any, is_inside: bool = False
) -> Any:
    """Store the changes; `is_inside`: its `around` hooks are running already."""
    cls = document.__class__
    port = place.port
    if cascade:
        await cascade_flow(document, place)
    if _core.odm_flags(document) & NEW:
        return await insert_flow(document, place, validate)
    is_simple = is_plain(cls)
    if not (is_simple or is_inside) and has_hooks(cls, "around_update", "around_save"):
        return await around_flow(
            [(document, "update")], port, save_flow, document, place, validate, False, where, True
        )
    touch(document)
    if not is_simple:
        await before_flow(document, port, validate, "update")
        if _core.odm_changes(document):
            document.__stamp__(False)
            document.__note_changes__()
    for _ in range(_TRIES):
        matched, modified = await _send_flow(document, place, where)
        if modified:
            break
        if matched is None:
            return document
        flags = _core.odm_flags(document)
        if matched and not flags & MODIFIES:
            break
        _core.odm_settle(document, False)
        if not flags & GUARDED or not await rebased_flow(document, place):
            await missing_flow(document, place, where, bool(flags & GUARDED))
    else:
        await missing_flow(document, place, where, True)
    _core.odm_settle(document, True)
    if not is_simple:
        await after_flow(document, port, "update", place)
    return document


# A save starts again if the stored bytes differ from the known ones but mean the same; this may recur.
_TRIES = 3

# These errors come from before anything was sent, or are the server's refusal.
_REFUSALS = (OperationFailure, BSONError, InvalidOperation, TypeError, ValueError, OverflowError)
# These are refusals only by class: the update may have been stored.
_UNKNOWN = (WriteConcernError, ExecutionTimeout)


async def _send_flow(document: Any, place: Place, where: Any) -> tuple[int | None, int]:
    """Send the changes; return how many documents the server matched and modified. None: there are no changes."""
    cls, collection = document.__class__, place.collection
    seals = declared and encrypted_tree(cls) is not None
    if where is None and not (place.session or BOUND or seals or cls.__shard_key__ or cls.__tenant__):
        _, database, name, _, _, concern = collection._context
        if concern._acknowledged:
            codec = write_codec(collection._codec_options)
            operation = _core.odm_save(document, database, name, codec, concern._document or None, _counts)
            if operation is None:
                return None, 0
            try:
                counts: tuple[int, int] = await place.port.arun(operation)
            except BaseException as error:
                _core.odm_settle(document, outcome_of(error))
                raise
            return counts
    update = _core.odm_update(document)
    if update is None:
        return None, 0
    try:
        if seals:
            update = whole_lists(document, update)
        query = guarded_filter(document, where)
        result = await place.port.call(_update_one, collection, query, RawBSONDocument(update), place.session)
    except BaseException as error:
        _core.odm_settle(document, outcome_of(error))
        raise
    return (result.matched_count, result.modified_count) if result.acknowledged else (1, 1)


def outcome_of(error: BaseException) -> bool | None:
    """Return False if a failed write was certainly not stored, None if that is unknown."""
    is_refusal = isinstance(error, _REFUSALS) and not isinstance(error, _UNKNOWN)
    if is_refusal and isinstance(error, OperationFailure):
        is_refusal = not (error.timeout or error.has_error_label("RetryableWriteError"))
    return False if is_refusal else None


async def rebased_flow(document: Any, place: Place) -> bool:
    """Take over stored bytes that mean the same as the known ones; return whether there were any."""
    raw = place.collection.with_options(codec_options=_RAW)
    stored = await place.port.call(_find_one, raw, id_filter(document), place.session)
    return stored is not None and _core.odm_rebase(document, stored.raw)


_RAW: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)


def _find_one(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.find_one(query, **options)


def id_filter(document: Any) -> dict[str, Any]:
    """Return the query for the stored document by its id, of this context's tenant."""
    query = {"_id": stored_id(document.id)}
    cls = document.__class__
    return query if cls.__tenant__ is None else query | tenant_filter(cls)


def _counts(reply: Any) -> tuple[int, int]:
    if "writeErrors" in reply or "writeConcernError" in reply:
        error = write_error(reply)
        if error is not None:
            raise error
    return reply["n"], reply["nModified"]


def _update_one(collection: Any, query: Any, update: Any, options: dict[str, Any]) -> Any:
    return collection.update_one(query, update, **options)


def guarded_filter(document: Any, where: Any = None) -> dict[str, Any]:
    """Return the query for the stored document, if it is still what the running update depends on."""
    query, guard = filter_of(document, where), _core.odm_guard(document)
    if guard is None:
        return query
    conditions = decode(guard, TOLERANT)
    if declared:
        conditions = findable_guard(document, conditions)
    return {"$and": [query, conditions]} if conditions else query


def filter_of(document: Any, where: Any = None) -> dict[str, Any]:
    """Return the query for the stored document, in the loaded version and of this context's tenant.

    Raises:
        WrongTenant: the document has another tenant.
    """
    query: dict[str, Any] = dict(_core.odm_filter(document))
    if document.__tenant__ is not None:
        check_document(document)
        query |= tenant_filter(document.__class__)
    if document.__shard_key__:
        query |= shard_filter(document)
    if declared:
        query |= key_filter(document)
    return query_of(query, where) if where is not None else query


def shard_filter(document: Any) -> dict[str, Any]:
    """Return the loaded fields of a document's shard key."""
    fields, loaded = document.__plan__.fields, set(_core.odm_loaded(document))
    return {
        fields[name].key: dump(document.__class__, fields[name], held(document, name))
        for name in document.__shard_key__
        if name in loaded and fields[name].key != "_id"
    }


async def missing_flow(document: Any, place: Place, where: Any = None, is_guarded: bool = False) -> None:
    """Raise the error for a save that matched nothing."""
    cls = document.__class__
    by_id = id_filter(document)
    has_version = len(filter_of(document)) > len(by_id)
    if has_version or where is not None or is_guarded:
        found = await place.port.call(_count, place.collection, by_id, place.session)
        if found:
            what = (
                "does not fulfil the condition"
                if where is not None
                else "was saved by another writer since it was loaded"
                if has_version
                else "has other values in a list, which this save changes by position or as a whole, than were loaded"
            )
            raise StaleDocument(
                f"the {cls.__name__} {document.id!r} {what}; reload(keep_changes=True) and try again"
            )
    raise DocumentNotFound(f"no {cls.__name__} has the _id {document.id!r} any more")


def _count(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.count_documents(query, **options)


async def cascade_flow(document: Any, place: Place) -> None:
    """Save the documents of a document's loaded references, each once, iteratively."""
    queue = [document]
    for current in queue:
        for name, field in current.__plan__.fields.items():
            if field.target is None or name not in _core.odm_loaded(current):
                continue
            value = held(current, name)
            for ref in value if isinstance(value, (Refs, list)) else [value]:
                known = ref._known() if isinstance(ref, Ref) else None
                if known is not None and not any(known is seen for seen in queue):
                    queue.append(known)
    session = place.session.get("session")
    for current in reversed(queue[1:]):
        at = place_of(current, place.port.is_async, session, place.write_concern)
        await current.__store__.save_flow(current, at, True, False, None)


async def replace_flow(document: Any, place: Place, upsert: bool) -> Any:
    """Store the whole document."""
    return await around_flow([(document, "update")], place.port, _replace_flow, document, place, upsert)


async def _replace_flow(document: Any, place: Place, upsert: bool) -> Any:
    cls = document.__class__
    if _core.odm_flags(document) & PARTIAL:
        raise ValueError(
            f"cannot replace a partly loaded {cls.__name__}; reload it first, or save what changed"
        )
    touch(document)
    await before_flow(document, place.port, True, "update")
    document.__stamp__(bool(_core.odm_flags(document) & NEW))
    document.__note_changes__()
    query, version = filter_of(document), _core.odm_version(document)
    former = Former(document) if version is not None else None
    _core.odm_begin(document)
    if version is not None:
        # The stored version is the next one; a refusal reverts it.
        setattr(document, cls.__plan__.by_key[version[0]].name, version[1] + 1)
    try:
        data = _core.odm_encode(document)
        try:
            result = await place.port.call(
                _replace_one, place.collection, query, RawBSONDocument(data), upsert, place.session
            )
        except DuplicateKeyError:
            # Nothing matched id and version, so an upsert tried to insert the id again.
            if version is not None and upsert:
                await missing_flow(document, place)
            raise
        if result.acknowledged and not result.matched_count and result.upserted_id is None:
            await missing_flow(document, place)
    except BaseException as error:
        _core.odm_settle(document, outcome_of(error))
        if former is not None:
            former.put_back()
        raise
    _core.odm_stored(document, data, place.connection)
    await after_flow(document, place.port, "update", place)
    return document


def _replace_one(collection: Any, query: Any, data: Any, upsert: bool, options: dict[str, Any]) -> Any:
    return collection.replace_one(query, data, upsert, **options)


def _by_id(document: Any, place: Place) -> Query[Any]:
    """Return the query for a document at its place, ignoring scopes."""
    query: Query[Any] = Query(document.__class__).find({"_id": stored_id(document.id)}).eager()
    if document.__shard_key__:
        query = query.find(shard_filter(document))
    if declared:
        query = query.find(key_filter(document))
    if place.write_concern is not None:
        query = query.options(write_concern=place.write_concern)
    return query.using(place.connection).session(place.session.get("session"))


async def update_flow(document: Any, place: Place, changes: Iterable[Change]) -> Any:
    """Send changes for one document and take over the result; other fields keep unsaved changes."""
    cls = document.__class__
    touch(document)
    changes = list(changes)
    unsaved = list(_core.odm_changes(document))
    update = update_for(cls, changes)
    if unsaved and isinstance(update, list):
        raise ValueError(
            f"cannot update a {cls.__name__} by a pipeline while {', '.join(unsaved)} have unsaved changes; save first"
        )
    taken = {key.partition(".")[0] for group in update.values() for key in group} if unsaved else set()
    both = [name for name in unsaved if cls.__plan__.fields[name].key in taken]
    if both:
        raise ValueError(
            f"cannot update {', '.join(both)} of a {cls.__name__}: there are unsaved changes; save or reload first"
        )
    query, version = _by_id(document, place), _core.odm_version(document) if unsaved else None
    if version is not None:
        # Unsaved changes are based on the loaded version, so the result's version must not replace it.
        query = query.find({version[0]: version[1]})
    request = query._request("find_and_update", place.port.is_async)
    _core.odm_begin(document)
    try:
        with outside():
            # For Queryable Encryption, the server returns only the old document.
            is_told = not is_queryable(place.collection)
            found = await query._find_and_update_flow(request, changes, is_told, False, None)
            if found is not None and not is_told:
                again = _by_id(document, place)
                found = await again._single_flow(again._request("one", place.port.is_async))
    finally:
        _core.odm_settle(document, False)
    if found is None:
        await missing_flow(document, place)
    _take_over(document, found)
    await end_flow(document, place.port)
    return document


async def reload_flow(document: Any, place: Place, keep_changes: bool = False) -> Any:
    """Load a document again."""
    touch(document)
    query = _by_id(document, place)
    _core.odm_begin(document)
    try:
        with outside():
            found = await query._single_flow(query._request("one", place.port.is_async))
    finally:
        _core.odm_settle(document, False)
    _take_over(document, found, keep_changes)
    return document


def _take_over(document: Any, found: Any, keep_changes: bool = True) -> None:
    """Give a document the found values, except where it has unsaved changes now."""
    is_uncertain = bool(_core.odm_flags(document) & UNCERTAIN)
    changes = _core.odm_changes(document) if keep_changes else {}
    kept = {name: (old, held(document, name)) for name, old in changes.items()}
    # A partly loaded document has a hidden class, with the same layout.
    _core.odm_take(document, found)
    for name, (old, value) in kept.items():
        setattr(document, name, _kept(old, value, held(document, name), is_uncertain))


def _kept(old: Any, value: Any, found: Any, is_uncertain: bool) -> Any:
    """What an unsaved value becomes beside the one that was found: what was appended to a list is appended to that.

    Args:
        old: what was stored when it was changed.
        value: what the program made of it.
        found: what is stored now.
        is_uncertain: the value may have been stored already.
    """
    # What is missing is an empty list, as a save has it, which pushes.
    old = [] if old is None else old
    are_lists = isinstance(old, list) and isinstance(value, list) and isinstance(found, list)
    if not are_lists or value[: len(old)] != old:
        return value
    if is_uncertain:
        return found if found[: len(value)] == value else value
    return found + value[len(old) :]


async def delete_flow(document: Any, place: Place) -> None:
    """Delete a document, following the delete rules of references to it."""
    await around_flow([(document, "delete")], place.port, _delete_flow, document, place)


async def _delete_flow(document: Any, place: Place) -> None:
    cls = document.__class__
    port = place.port
    touch(document)
    await run_flow(document, "before_delete", port)
    # The rules change nothing before the document itself is gone, since it may be stale.
    request = _by_id(document, place)._request("delete", port.is_async)
    plan = await plan_rules_flow(cls, [stored_id(document.id)], request)
    if cls.__soft_delete__():
        await _mark_flow(document, place)
    else:
        query = filter_of(document)
        result = await port.call(_delete_one, place.collection, query, place.session)
        if (
            result.acknowledged
            and not result.deleted_count
            and len(query) > len(by_id := id_filter(document))
        ):
            found = await port.call(_count, place.collection, by_id, place.session)
            if found:
                raise StaleDocument(
                    f"the {cls.__name__} {document.id!r} was saved by another writer; reload it"
                )
        _core.odm_mark_deleted(document)
    await touch_targets_flow(document, place)
    await carry_out_flow(plan, request)
    await run_flow(document, "after_delete", port)
    await end_flow(document, port)


async def _mark_flow(document: Any, place: Place) -> None:
    """Store only that a document is deleted, and no other changes."""
    update = document.__soft_delete_update__()
    result = await place.port.call(_update_one, place.collection, filter_of(document), update, place.session)
    if result.acknowledged and not result.matched_count:
        await missing_flow(document, place)
    stored, version = dict(update["$set"]), _core.odm_version(document)
    if version is not None:
        stored[version[0]] = version[1] + 1
    _core.odm_note(document, encode(stored))


def _delete_one(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.delete_one(query, **options)
