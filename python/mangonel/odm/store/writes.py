"""Flows that store one document: hooks, the smallest update, versions, delete rules.

A save begins by removing the changes that it sends from the pending ones, and restores them if it fails; an instance
has one running save at a time. The server's result is compared with the command.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from mangonel import _core
from mangonel._shared.collection.write_support import COMMAND_OVERHEAD
from mangonel._shared.settings import BOUND
from mangonel.bson import encode
from mangonel.bson.errors import BSONError
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.common import MAX_BSON_SIZE
from mangonel.errors import (
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    WriteConcernError,
)
from mangonel.odm.connections.connection import connection, connections, overridden
from mangonel.odm.connections.context import current_sessions
from mangonel.odm.connections.identity import outside
from mangonel.odm.connections.place import Place, default_place, place_of
from mangonel.odm.connections.touched import Former, check_free, renewed, settled, storing, touch, under_way
from mangonel.odm.encryption.saving import is_queryable, key_filter, whole_lists
from mangonel.odm.errors import (
    DanglingReference,
    DeleteDenied,
    DocumentNotFound,
    ParallelSaveError,
    StaleDocument,
)
from mangonel.odm.expressions.changes import Change
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import codec_options, raw_collection
from mangonel.odm.model.convert import GUARDED, MODIFIES, NEW, PARTIAL, SAVING, UNCERTAIN
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.encrypted_trees import encrypted_tree
from mangonel.odm.model.held_references import documents_of, references_in
from mangonel.odm.model.hooks import around_flow, has_hooks, run_flow
from mangonel.odm.model.refs import stored_id
from mangonel.odm.query.events import (
    after_flow,
    before_flow,
    before_insert_flow,
    end_flow,
    is_plain,
    touch_targets_flow,
)
from mangonel.odm.query.query import Query
from mangonel.odm.query.rules import carry_out_flow, follow_flow, plan_rules_flow
from mangonel.odm.query.stamped import update_for
from mangonel.odm.query.targets import dangling, denying, ids_in, missing_flow, put_back_flow, wanted_of
from mangonel.odm.store.filters import filter_of, guarded_filter, id_filter, shard_filter
from mangonel.odm.store.lost import overtake_flow
from mangonel.odm.store.taken import take_over


async def insert_flow(
    document: Any,
    place: Place,
    validate: bool,
    is_inside: bool = False,
    is_save: bool = False,
    where: Any = None,
) -> Any:
    """Store a new document.

    Args:
        document: the document.
        place: where it is stored.
        validate: run the `validate` hooks.
        is_inside: its `around` hooks are running already.
        is_save: `save()` was called, on a document that was new. If it is stored by now, it is saved by `save_flow`.
        where: the condition of the save.
    """
    if is_save and not _core.odm_flags(document) & NEW:
        return await save_flow(document, place, validate, False, where)
    cls = type(document)
    # The same as `is_plain` and `storing`, inlined to save frames.
    is_simple = cls.__plan__.is_plain
    if is_simple is None:
        is_simple = is_plain(cls)
    if not (is_simple or is_inside) and has_hooks(cls, "around_insert", "around_save"):
        return await around_flow(
            [(document, "insert")], place.port, insert_flow, document, place, validate, True
        )
    if under_way:
        storing(document, place.session.get("session"))
    collection = place.collection
    wanted: list[Any] = []
    if not is_simple:
        await before_insert_flow(document, collection, validate)
        wanted = wanted_of(document, cls.__fields__, collection)
    port, operation = place.port, None
    data: bytes | None
    try:
        if place.written is not None and not BOUND:
            origin = None if wanted else place.connection
            operation = _core.odm_insert(document, place.written, MAX_INSERTED, origin)
        if operation is not None:
            data = await port.arun(operation)
        else:
            _core.odm_begin(document)
            data = _core.odm_encode(document)
            await port.call(collection.insert_one, RawBSONDocument(data), **place.session)
        if wanted:
            await _keep_inserted_flow(document, place, wanted)
    except ParallelSaveError:
        raise
    except BaseException as error:
        # Whether it was stored or not, the server refuses a second insert of the same id.
        _core.odm_settle(document, False, lost_write(error))
        if wanted and isinstance(error, WriteConcernError):
            await look_flow(error, _keep_inserted_flow, document, place, wanted)
        raise
    if wanted or operation is None:
        _core.odm_stored(document, data, place.connection)
    if under_way:
        settled(document, place.session.get("session"))
    if not is_simple:
        await after_flow(document, port, "insert", place)
    return document


def inserted(document: Any, is_async: bool, *options: Any) -> Any:
    """Store a new document without hooks: one exchange; the core builds its command and handles the reply.

    Args:
        document: a new document of a class that is not audited.
        is_async: True: use the asyncio client's collection, and return a coroutine.
        options: further arguments of `insert_flow`.

    Returns:
        The document or a coroutine; None: only a flow can store it.
    """
    if document.__plan__.is_plain and not under_way and current_sessions() is None and not BOUND:
        # The same as `place_of`, inlined to save a frame.
        alias = document.__connection__
        chosen = connections[alias] if overridden() is None else connection(alias)
        cls = type(document)
        place = chosen._places[is_async].get(cls) or default_place(chosen, cls, is_async)
        if place.written is not None:
            if is_async:
                # The flow starts when it is awaited, and checks then whether the document is still new.
                return place.port.flow(insert_flow(document, place, *options))
            try:
                operation = _core.odm_insert(document, place.written, MAX_INSERTED, chosen)
                if operation is not None:
                    return place.port.run(operation)
            except ParallelSaveError:
                raise
            except BaseException as error:
                # As in the flow. For a document that is already stored this does nothing.
                _core.odm_settle(document, False, lost_write(error))
                raise
    return None


async def _keep_inserted_flow(document: Any, place: Place, wanted: list[Any]) -> None:
    """Look for the targets of an inserted document's references; delete the document if one is gone.

    Raises:
        DanglingReference: one is gone.
    """
    missing = await missing_targets_flow(place, wanted)
    if missing:
        await place.port.call(place.collection.delete_one, id_filter(document), **place.session)
        raise dangling(document.__class__, document.id, missing, "it was deleted again")


async def look_flow(error: WriteConcernError, act_flow: Any, *arguments: Any) -> None:
    """Look for targets after a write whose write concern failed, since it may stay stored; note the result."""
    try:
        await act_flow(*arguments)
    except (DanglingReference, WriteConcernError) as found:
        error.add_note(str(found))


async def missing_targets_flow(place: Place, wanted: list[Any]) -> dict[str, list[Any]]:
    """Return the ids of references without a document, by key."""
    return await missing_flow(wanted, place.connection, place.port.is_async, place.session.get("session"))


async def save_flow(
    document: Any, place: Place, validate: bool, cascade: bool, where: Any, is_inside: bool = False
) -> Any:
    """Store the changes; `is_inside`: its `around` hooks are running already."""
    cls = type(document)
    port = place.port
    if cascade:
        await cascade_flow(document, place)
    # One test for both rare cases.
    if _core.odm_flags(document) & (NEW | UNCERTAIN):
        if _core.odm_flags(document) & NEW:
            return await insert_flow(document, place, validate)
        await overtake_flow(document, place)
    is_simple = cls.__plan__.is_plain
    if is_simple is None:
        is_simple = is_plain(cls)
    if not (is_simple or is_inside) and has_hooks(cls, "around_update", "around_save"):
        return await around_flow(
            [(document, "update")], port, save_flow, document, place, validate, False, where, True
        )
    if under_way:
        storing(document, place.session.get("session"))
    if not is_simple:
        await before_flow(document, port, validate, "update")
        if _core.odm_changes(document):
            document.__stamp__(False)
            document.__note_changes__()
    kept = None
    try:
        kept = None if is_simple else kept_of(document, place)
        matched, modified = await _send_flow(document, place, where)
        if matched is None:
            return document
        if not modified and not (matched and not _core.odm_flags(document) & MODIFIES):
            await _mend_flow(document, place, where)
    except WriteConcernError as error:
        if kept is not None:
            await look_flow(error, keep_flow, document, place, kept)
        raise
    finally:
        if under_way:
            settled(document, place.session.get("session"))
    _core.odm_settle(document, True)
    if kept is not None:
        await keep_flow(document, place, kept)
    if not is_simple:
        await after_flow(document, port, "update", place)
    return document


class Kept:
    """The references that a save of a document stores, and those stored before, by key.

    Attributes:
        wanted: the fields with their ids.
        before: the values stored until then.
        now: the values that the save stores.
    """

    __slots__ = ("before", "now", "wanted")

    def __init__(
        self, wanted: list[tuple[Any, list[Any]]], before: dict[str, Any], now: dict[str, Any]
    ) -> None:
        self.wanted = wanted
        self.before = before
        self.now = now


def kept_of(document: Any, place: Place) -> Kept | None:
    """Return the references under "deny" that a save of a document is about to store, or None.

    A deleted document that is restored refers to its targets again.
    """
    cls = document.__class__
    fields = denying(cls)
    if not fields:
        return None
    names = {field.name for field in fields}
    changes = _core.odm_changes(document)
    is_soft = cls.__soft_delete__()
    if is_soft and held(document, "deleted_at") is not None:
        return None
    is_restored = is_soft and changes.get("deleted_at") is not None
    if is_restored and (names & cls.__plan__.fields.keys()) - set(_core.odm_loaded(document)):
        raise ValueError(
            f"cannot restore a partly loaded {cls.__name__}, whose references deny deletions; reload it first"
        )
    changed = {name: old for name, old in changes.items() if name in names}
    wanted = wanted_of(document, names if is_restored else changed, place.collection)
    if not wanted:
        return None
    if is_restored:
        changed["deleted_at"] = changes["deleted_at"]
    plan = cls.__plan__.fields
    before = {plan[name].key: _stored(plan[name], old) for name, old in changed.items()}
    now = {plan[name].key: _stored(plan[name], held(document, name)) for name in changed}
    return Kept(wanted, before, now)


def _stored(field: Any, value: Any) -> Any:
    if field.info.on_delete != "deny":
        return value
    ids = ids_in(value)
    is_many = value is not None and (hasattr(value, "ids") or isinstance(value, (list, tuple, set)))
    return ids if is_many else ids[0] if ids else None


async def keep_flow(document: Any, place: Place, kept: Kept) -> None:
    """Look for the targets of saved references; revert those that lead to nothing.

    Raises:
        DanglingReference: one leads to nothing. The other changes are stored, this one is pending again.
    """
    missing = await missing_targets_flow(place, kept.wanted)
    if missing:
        await set_back_flow(document, place, kept, missing)


async def set_back_flow(document: Any, place: Place, kept: Kept, missing: dict[str, list[Any]]) -> None:
    """Revert saved references whose targets are missing.

    Raises:
        DanglingReference: always.
    """
    cls = document.__class__
    id = stored_id(document.id)
    stored = await put_back_flow(
        cls,
        place,
        {"_id": id, **kept.now},
        kept.before,
        place.session,
    )
    values = {key: held(document, cls.__plan__.by_key[key].name) for key in stored}
    _core.odm_note(document, encode(stored, codec_options=codec_options(False)))
    for key, value in values.items():
        setattr(document, cls.__plan__.by_key[key].name, value)
    raise dangling(cls, id, missing, "the reference was set back, the other changes are stored")


# The largest size of a document with its part of the command.
MAX_INSERTED = MAX_BSON_SIZE + COMMAND_OVERHEAD

# An update is sent again if the stored bytes differ from the known ones but mean the same; this may recur.
_REPETITIONS = 2

# These errors were raised before anything was sent, or are the server's refusal.
_REFUSALS = (OperationFailure, BSONError, InvalidOperation, TypeError, ValueError, OverflowError)
# These have the class of a refusal, but the update may have been stored.
_UNKNOWN = (WriteConcernError, ExecutionTimeout)


async def _send_flow(document: Any, place: Place, where: Any) -> tuple[int | None, int]:
    """Send the changes; return how many documents the server matched and modified. None: there are no changes."""
    cls, collection = document.__class__, place.collection
    seals = declared and encrypted_tree(cls) is not None
    needs_own_filter = where is not None or seals or document.__shard_key__ or document.__tenant__
    if place.written is not None and not (needs_own_filter or BOUND):
        try:
            operation = _core.odm_save(document, place.written)
            if operation is None:
                return None, 0
            counts: tuple[int, int] = await place.port.arun(operation)
            return counts
        except ParallelSaveError:
            raise
        except BaseException as error:
            give_back(document, error)
            raise
    try:
        update = _core.odm_update(document)
        if update is None:
            return None, 0
        if seals:
            update = whole_lists(document, update)
        query = guarded_filter(document, where)
        result = await place.port.call(collection.update_one, query, RawBSONDocument(update), **place.session)
    except ParallelSaveError:
        raise
    except BaseException as error:
        give_back(document, error)
        raise
    return (result.matched_count, result.modified_count) if result.acknowledged else (1, 1)


def begin(document: Any) -> None:
    """Begin to store a whole document; `odm_settle` or `odm_stored` must follow, also after an interrupt.

    A signal handler raises in the frame that called the core, so begin and clean up in the same frame.

    Raises:
        ParallelSaveError: another save is under way.
    """
    try:
        _core.odm_begin(document)
    except ParallelSaveError:
        raise
    except BaseException:
        _core.odm_settle(document, False)
        raise


def give_back(document: Any, error: BaseException) -> None:
    """Make the changes of a failed save pending again; called where the error is caught."""
    _core.odm_settle(document, outcome_of(error), lost_write(error))


def lost_write(error: BaseException) -> tuple[bytes, int] | None:
    """Return the write that the server may still carry out after an error which was caught just now, or None."""
    return _core.take_lost_write() if outcome_of(error) is None else None


def outcome_of(error: BaseException) -> bool | None:
    """Return False if a failed write was certainly not stored, None if that is unknown."""
    is_refusal = isinstance(error, _REFUSALS) and not isinstance(error, _UNKNOWN)
    if is_refusal and isinstance(error, OperationFailure):
        is_refusal = not (error.timeout or error.has_error_label("RetryableWriteError"))
    return False if is_refusal else None


async def _mend_flow(document: Any, place: Place, where: Any) -> None:
    """Send the update under way again, which changed nothing, or raise the error for it."""
    is_guarded = bool(_core.odm_flags(document) & GUARDED)
    try:
        if is_guarded and await stored_again_flow(document, place, where):
            return
    except BaseException as error:
        give_back(document, error)
        raise
    _core.odm_settle(document, False)
    await missing_document_flow(document, place, where, is_guarded)


async def stored_again_flow(
    document: Any, place: Place, where: Any = None, is_uncertain: bool = False
) -> bool:
    """Send the update under way again, if equal stored values have other bytes; return whether it was stored.

    It is under way still, also after an error. What the program has changed meanwhile is not part of it.

    Args:
        document: the document.
        place: where it is stored.
        where: the condition of the save.
        is_uncertain: the update may have been stored.
    """
    collection = place.collection
    find_one = raw_collection(collection).find_one
    seals = declared and encrypted_tree(document.__class__) is not None
    for _ in range(_REPETITIONS):
        stored = await place.port.call(find_one, id_filter(document), **place.session)
        update = None if stored is None else _core.odm_rebase(document, stored.raw, is_uncertain)
        # Whole lists would be sent as they are by now.
        if update is None or (seals and whole_lists(document, update) is not update):
            return False
        query = guarded_filter(document, where)
        result = await place.port.call(collection.update_one, query, RawBSONDocument(update), **place.session)
        must_modify = _core.odm_flags(document) & MODIFIES
        if result.modified_count or (result.matched_count and not must_modify):
            return True
    return False


async def missing_document_flow(
    document: Any, place: Place, where: Any = None, is_guarded: bool = False
) -> None:
    """Raise the error for a save or a deletion that matched nothing."""
    cls = document.__class__
    by_id = id_filter(document)
    has_version = len(filter_of(document)) > len(by_id)
    if has_version or where is not None or is_guarded:
        found = await place.port.call(place.collection.count_documents, by_id, **place.session)
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


async def cascade_flow(document: Any, place: Place) -> None:
    """Save the documents of a document's loaded references, each once, iteratively."""
    queue, seen = [document], {id(document)}
    for current in queue:
        for _, reference in references_in(current):
            for known in documents_of(reference):
                if id(known) not in seen:
                    seen.add(id(known))
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
            f"cannot replace a partly loaded {cls.__name__}; reload it first, or save its changes"
        )
    if _core.odm_flags(document) & UNCERTAIN:
        await overtake_flow(document, place)
    storing(document, place.session.get("session"))
    await before_flow(document, place.port, True, "update")
    document.__stamp__(bool(_core.odm_flags(document) & NEW))
    document.__note_changes__()
    query, version = filter_of(document), _core.odm_version(document)
    former = Former(document).with_references() if version is not None else None
    is_new, kept = bool(_core.odm_flags(document) & NEW), kept_of(document, place)
    every = wanted_of(document, cls.__fields__, place.collection)
    begin(document)
    try:
        if version is not None:
            # The stored version is the next one; a refusal reverts it.
            setattr(document, cls.__plan__.by_key[version[0]].name, version[1] + 1)
        data = _core.odm_encode(document)
        try:
            result = await place.port.call(
                place.collection.replace_one, query, RawBSONDocument(data), upsert, **place.session
            )
        except DuplicateKeyError:
            # No document matched id and version, so the upsert tried to insert the id again.
            if version is not None and upsert:
                await missing_document_flow(document, place)
            raise
        if result.acknowledged and not result.matched_count and result.upserted_id is None:
            await missing_document_flow(document, place)
        if every and result.upserted_id is not None:
            await _keep_inserted_flow(document, place, every)
    except BaseException as error:
        give_back(document, error)
        if former is not None:
            former.put_back()
        if kept is not None and not is_new and isinstance(error, WriteConcernError):
            await look_flow(error, keep_flow, document, place, kept)
        raise
    _core.odm_stored(document, data, place.connection)
    settled(document, place.session.get("session"))
    if not is_new and kept is not None and result.upserted_id is None:
        await keep_flow(document, place, kept)
    await after_flow(document, place.port, "update", place)
    return document


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
    if _core.odm_flags(document) & UNCERTAIN:
        await overtake_flow(document, place)
    storing(document, place.session.get("session"))
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
        query = query.find({version[0]: filter_of(document)[version[0]]})
    request = query._request("find_and_update", place.port.is_async)
    begin(document)
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
        await missing_document_flow(document, place)
    take_over(document, found)
    # After `take_over`, which reads the document.
    settled(document, place.session.get("session"))
    await end_flow(document, place.port)
    return document


async def reload_flow(document: Any, place: Place, keep_changes: bool = False) -> Any:
    """Load a document again."""
    if _core.odm_flags(document) & UNCERTAIN:
        await overtake_flow(document, place)
    touch(document)
    query = _by_id(document, place)
    begin(document)
    try:
        # After `begin`, no transaction can store it.
        check_free(document)
        with outside():
            found = await query._single_flow(query._request("one", place.port.is_async))
    finally:
        _core.odm_settle(document, False)
    if not keep_changes:
        renewed(document)
    take_over(document, found, keep_changes, True)
    return document


async def delete_flow(document: Any, place: Place, where: Any = None) -> None:
    """Delete a document, following the delete rules of references to it."""
    await around_flow([(document, "delete")], place.port, _delete_flow, document, place, where)


async def _delete_flow(document: Any, place: Place, where: Any) -> None:
    cls = document.__class__
    port = place.port
    # Also for a lost insert, which would store the document again; it may have been repeated since.
    if _core.odm_lost(document) is not None:
        await overtake_flow(document, place)
    storing(document, place.session.get("session"))
    await run_flow(document, "before_delete", port)
    # The rules change nothing before the document itself is deleted, since it may be stale.
    request = _by_id(document, place)._request("delete", port.is_async)
    plan = await plan_rules_flow(cls, [stored_id(document.id)], request)
    flags = _core.odm_flags(document)
    if flags & NEW and flags & SAVING:
        # The deletion could come first, and the document would stay stored.
        raise ParallelSaveError(
            f"expected to delete a {cls.__name__} of which no save is under way, got one that is being inserted; wait "
            "for it, then delete it"
        )
    if cls.__soft_delete__():
        former = held(document, "deleted_at") if "deleted_at" in _core.odm_loaded(document) else None
        mark = await _mark_flow(document, place, where)
        if plan.taken is not None:
            plan.taken.append(
                (cls, place.collection, [(stored_id(document.id), mark, former)], {**place.session})
            )
    else:
        await _erase_flow(document, place, plan, where)
    try:
        await carry_out_flow(plan, request)
    except DeleteDenied:
        if cls.__soft_delete__():
            # The former mark was stored again, which made another version.
            _note(document, {document.__plan__.fields["deleted_at"].key: former})
        raise
    if plan.denials:
        # A deletion in a transaction can be denied after the commit.
        plan.put_back = _put_back_of(document, former if cls.__soft_delete__() else None)
    await follow_flow(plan, request)
    if not cls.__soft_delete__():
        _core.odm_mark_deleted(document)
    settled(document, place.session.get("session"))
    await touch_targets_flow(document, place)
    await run_flow(document, "after_delete", port)
    await end_flow(document, port)


async def cascades_flow(document: Any, place: Place) -> list[tuple[Any, list[Any]]]:
    """Return the models with the ids of the documents that rules would delete with a document. Changes nothing.

    Raises:
        DeleteDenied: a rule forbids the deletion.
    """
    request = _by_id(document, place)._request("delete", place.port.is_async)
    plan = await plan_rules_flow(document.__class__, [stored_id(document.id)], request)
    return plan.cascades


async def _erase_flow(document: Any, place: Place, plan: Any, where: Any) -> None:
    """Delete a document, and record it if a rule can still deny that. A missing document is no error."""
    query, id = filter_of(document, where), stored_id(document.id)
    if plan.taken is None:
        result = await place.port.call(place.collection.delete_one, query, **place.session)
        is_gone = bool(not result.acknowledged or result.deleted_count)
    else:
        find_one_and_delete = raw_collection(place.collection).find_one_and_delete
        found = await place.port.call(find_one_and_delete, query, **place.session)
        is_gone = found is not None
        if is_gone:
            plan.taken.append((document.__class__, place.collection, [(id, found, None)], {**place.session}))
    if not is_gone:
        with contextlib.suppress(DocumentNotFound):
            await missing_document_flow(document, place, where)


async def _mark_flow(document: Any, place: Place, where: Any) -> Any:
    """Store only that a document is deleted, and no other changes; return the mark."""
    update, query = document.__soft_delete_update__(), filter_of(document, where)
    result = await place.port.call(place.collection.update_one, query, update, **place.session)
    if result.acknowledged and not result.matched_count:
        await missing_document_flow(document, place, where)
    _note(document, dict(update["$set"]))
    return update["$set"][document.__plan__.fields["deleted_at"].key]


def _put_back_of(document: Any, former: Any) -> Callable[[], None]:
    """Return a function that marks a deleted instance as stored again, with its former mark."""
    if document.__class__.__soft_delete__():
        return lambda: _note(document, {document.__plan__.fields["deleted_at"].key: former})
    return Former(document).with_references().put_back


def _note(document: Any, stored: dict[str, Any]) -> None:
    version = _core.odm_version(document)
    if version is not None:
        stored[version[0]] = version[1] + 1
    _core.odm_note(document, encode(stored, codec_options=codec_options(False)))
