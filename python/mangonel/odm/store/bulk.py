"""Flows that store many documents with few commands, and find out which of them were stored."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._shared.sessions.session import bound_session
from mangonel._shared.settings import BOUND
from mangonel.bson import decode
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import BulkWriteError, PyMongoError, WriteConcernError
from mangonel.odm.connections.place import Place
from mangonel.odm.connections.touched import settled, storing
from mangonel.odm.encryption.saving import is_queryable, whole_lists
from mangonel.odm.errors import (
    DanglingReference,
    ParallelSaveError,
    StaleDocument,
    UnsupportedOption,
)
from mangonel.odm.model.convert import GUARDED, MODIFIES, NEW, UNCERTAIN
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.hooks import around_flow, has_hooks
from mangonel.odm.model.refs import stored_id
from mangonel.odm.query.events import after_flow, before_flow, before_insert_flow, is_plain
from mangonel.odm.query.targets import dangling, wanted_of
from mangonel.odm.query.tenants import tenant_filter
from mangonel.odm.store.filters import guarded_filter, id_filter
from mangonel.odm.store.lost import overtake_flow
from mangonel.odm.store.writes import (
    Kept,
    kept_of,
    lost_write,
    missing_targets_flow,
    outcome_of,
    set_back_flow,
    stored_again_flow,
)
from mangonel.operations import InsertOne, UpdateOne


class _Write:
    """One document of a bulk write: its operation, and the bytes of an insert or of an update."""

    __slots__ = (
        "document",
        "insert",
        "is_guarded",
        "is_stored",
        "kept",
        "lost",
        "must_modify",
        "update",
        "wanted",
    )

    def __init__(self, document: Any) -> None:
        self.document = document
        self.insert: bytes | None = None
        self.update: bytes | None = None
        # The references under "deny" that the write stores.
        self.wanted: list[Any] = []
        self.kept: Kept | None = None
        # Whether the update depends on the stored values.
        self.is_guarded = False
        # Whether an update certainly changes a document that it finds.
        self.must_modify = False
        # False: it was certainly not stored. None: unknown.
        self.is_stored: bool | None = True
        # Its update by itself, if the server may still carry that out.
        self.lost: tuple[bytes, int] | None = None

    @property
    def event(self) -> str:
        """The name of its event for hooks."""
        return "update" if self.insert is None else "insert"

    def gone(self, missing: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Return the missing ids that its references name, by field."""
        found: dict[str, list[Any]] = {}
        for field, ids in self.wanted:
            known = set(map(repr, missing.get(field.key, ())))
            if gone := [id for id in ids if repr(id) in known]:
                found[field.key] = gone
        return found

    def begin(self, is_new: bool) -> Any:
        """Begin the document's save; return the driver's request, or None without changes."""
        document = self.document
        try:
            if is_new:
                _core.odm_begin(document)
                self.insert = _core.odm_encode(document)
                request: Any = InsertOne(RawBSONDocument(self.insert))
            else:
                self.update = _core.odm_update(document)
                if self.update is None:
                    return None
                flags = _core.odm_flags(document)
                self.is_guarded, self.must_modify = bool(flags & GUARDED), bool(flags & MODIFIES)
                update = whole_lists(document, self.update) if declared else self.update
                request = UpdateOne(guarded_filter(document), RawBSONDocument(update))
        except ParallelSaveError:
            raise
        except BaseException:
            _core.odm_settle(document, False)
            raise
        return request


def _note_progress(writes: list[_Write], error: BaseException, place: Place, ordered: bool) -> None:
    """Mark what a failed bulk write has stored, according to the answered commands and those never sent."""
    outcome, progress = outcome_of(error), getattr(error, "bulk_progress", None)
    session = place.session.get("session") or (bound_session() if BOUND else None)
    if progress is None or (session is not None and session.in_transaction):
        # The transaction decides whether its writes are stored.
        for write in writes:
            write.is_stored = outcome
        return
    answered, sent = progress[:2]
    matched, modified = _note_answers(writes, progress, ordered)
    writes = _in_order(writes, ordered)
    updates = [write for write in writes[:answered] if write.insert is None and write.is_stored]
    are_done = matched >= len(updates) and modified >= sum(write.must_modify for write in updates)
    for at, write in enumerate(writes):
        if at >= answered:
            write.is_stored = outcome if at < sent else False
        elif write.is_stored and (write.wanted or not (write.insert or are_done)):
            # Not asked now: the server might not answer that either.
            write.is_stored = None


def _note_answers(writes: list[_Write], progress: Any, ordered: bool) -> tuple[int, int]:
    """Mark the writes that the server refused, and as unknown those of a command whose write concern failed.

    Returns:
        how many documents the updates of the other commands matched and modified.
    """
    _, _, matched, modified, refused, unconfirmed = progress
    in_order = _in_order(writes, ordered)
    for start, end, of_these, of_those in unconfirmed:
        matched, modified = matched - of_these, modified - of_those
        for write in in_order[start:end]:
            write.is_stored = None
    for index in refused:
        writes[index].is_stored = False
    if ordered and refused:
        for write in writes[min(refused) :]:
            write.is_stored = False
    return matched, modified


async def _end_failed_flow(writes: list[_Write], place: Place, error: BaseException, ordered: bool) -> None:
    """End the saves of a failed bulk write, and list in the error the documents that may not be stored."""
    lost = _core.take_lost_write() if outcome_of(error) is None else None
    _note_progress(writes, error, place, ordered)
    _settle(writes, place, lost)
    if isinstance(error, PyMongoError):
        _name(error, writes)
        await _after_flow(writes, place)


def _settle(writes: list[_Write], place: Place, lost: tuple[bytes, int] | None = None) -> None:
    for write in writes:
        if write.insert is not None and write.is_stored:
            _core.odm_stored(write.document, write.insert, place.connection)
        else:
            own = write.lost or lost
            _core.odm_settle(write.document, write.is_stored, own if write.is_stored is None else None)


def _give_back(writes: list[_Write], outcome: bool | None) -> None:
    """Make the changes of a bulk write pending again; `outcome` None: those that were not refused may be stored."""
    lost = _core.take_lost_write() if outcome is None else None
    for write in writes:
        _core.odm_settle(write.document, outcome if write.is_stored else write.is_stored, write.lost or lost)


def _forget(writes: list[_Write], place: Place) -> None:
    """Drop the states of documents that other transactions recorded while they were stored."""
    for write in writes:
        settled(write.document, place.session.get("session"))


async def insert_many_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    """Store new documents."""
    return await _inside_flow(place, documents, _insert_many_flow, place, documents, ordered)


async def _inside_flow(place: Place, documents: list[Any], act_flow: Any, *arguments: Any) -> int:
    """Store documents inside their `around` hooks."""
    events = ("around_insert", "around_update", "around_save")
    concerned: list[tuple[Any, str]] = []
    if any(has_hooks(kind, *events) for kind in set(map(type, documents))):
        concerned = [
            (document, "insert" if _core.odm_flags(document) & NEW else "update") for document in documents
        ]
    return await around_flow(concerned, place.port, act_flow, *arguments)


async def _insert_many_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    writes: list[_Write] = []
    requests: list[Any] = []
    error: BulkWriteError | None = None
    is_answered = False
    try:
        for document in documents:
            storing(document, place.session.get("session"))
            await before_insert_flow(document, place.collection, True)
            write = _Write(document)
            write.wanted = wanted_of(document, document.__fields__, place.collection)
            request = write.begin(True)
            # Done first, so that an interrupt in between gives it back.
            writes.append(write)
            requests.append(request._doc)
    except BaseException:
        _give_back(writes, False)
        raise
    if not writes:
        return 0
    try:
        try:
            await place.port.call(place.collection.insert_many, requests, ordered, **place.session)
        except BulkWriteError as found:
            error = found
            _note_failures(writes, found, ordered)
        is_answered = True
        _, left = await _end_flow(writes, place, None)
    except BaseException as failure:
        if is_answered:
            _give_back(writes, None)
        else:
            await _end_failed_flow(writes, place, failure, ordered)
        raise
    finally:
        _forget(writes, place)
    await _after_flow(writes, place)
    if error is not None:
        raise _name(error, writes)
    if left is not None:
        raise left
    return len(writes)


async def save_all_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    """Save documents with one bulk write."""
    return await _inside_flow(place, documents, _save_all_flow, place, documents, ordered)


async def _save_all_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    writes: list[_Write] = []
    requests: list[Any] = []
    error: BulkWriteError | None = None
    is_answered = False
    overtaken: set[tuple[bytes, int]] = set()
    try:
        # By identity: different documents may be equal.
        for document in {id(document): document for document in documents}.values():
            storing(document, place.session.get("session"))
            write = _Write(document)
            is_new = await _prepare_flow(document, place, overtaken)
            if is_new:
                write.wanted = wanted_of(document, document.__fields__, place.collection)
            else:
                write.kept = kept_of(document, place)
                write.wanted = [] if write.kept is None else write.kept.wanted
            request = write.begin(is_new)
            if request is not None:
                # Done first, so that an interrupt in between gives it back.
                writes.append(write)
                requests.append(request)
        updates = sum(isinstance(request, UpdateOne) for request in requests)
        if updates > 1 and is_queryable(place.collection):
            raise UnsupportedOption(
                f"save_all() cannot change {updates} documents of {type(documents[0]).__name__}: MongoDB changes one "
                "at a time in a collection of Queryable Encryption; save() each"
            )
    except BaseException:
        _give_back(writes, False)
        raise
    if not requests:
        return 0
    try:
        try:
            result = await place.port.call(place.collection.bulk_write, requests, ordered, **place.session)
            counts = (result.matched_count, result.modified_count) if result.acknowledged else None
        except BulkWriteError as found:
            error, counts = found, _note_failures(writes, found, ordered)
        is_answered = True
        missing, left = await _end_flow(writes, place, counts)
    except BaseException as failure:
        if is_answered:
            _give_back(writes, None)
        else:
            await _end_failed_flow(writes, place, failure, ordered)
        raise
    finally:
        _forget(writes, place)
    await _after_flow(writes, place)
    for write in writes:
        gone = write.gone(missing)
        if gone and write.kept is not None and write.is_stored is not False:
            try:
                await set_back_flow(write.document, place, write.kept, gone)
            except (DanglingReference, WriteConcernError) as found:
                left = left or found
    if error is not None:
        raise _name(error, writes)
    if left is not None:
        raise left if isinstance(left, DanglingReference) else _name(left, writes)
    stale = [write.document.id for write in writes if not write.is_stored]
    if stale:
        raise StaleDocument(
            f"{len(stale)} of the documents were changed or deleted by another writer since they were loaded: "
            f"{stale[:10]!r}"
        )
    return len(writes)


async def _send_again_flow(writes: list[_Write], place: Place) -> PyMongoError | None:
    """Send updates again that matched nothing, since equal stored values have other bytes; return an error."""
    failed: PyMongoError | None = None
    for write in writes:
        if write.is_stored or not write.is_guarded:
            continue
        try:
            if await stored_again_flow(write.document, place, is_uncertain=write.is_stored is None):
                write.is_stored = True
        except BaseException as error:
            write.lost = lost_write(error)
            if write.is_stored is False:
                write.is_stored = outcome_of(error)
            if not isinstance(error, PyMongoError):
                raise
            failed = error
    return failed


async def _prepare_flow(document: Any, place: Place, overtaken: set[tuple[bytes, int]]) -> bool:
    """Run the hooks before a document is stored, and overtake its lost save; return whether it is new."""
    if _core.odm_flags(document) & (NEW | UNCERTAIN):
        if _core.odm_flags(document) & NEW:
            await before_insert_flow(document, place.collection, True)
            return True
        await overtake_flow(document, place, overtaken)
    if not is_plain(document.__class__):
        await before_flow(document, place.port, True, "update")
        if _core.odm_changes(document):
            document.__stamp__(False)
            document.__note_changes__()
    return False


def _note_failures(writes: list[_Write], error: BulkWriteError, ordered: bool) -> tuple[int, int]:
    """Mark the documents that a bulk write did not store, or may not have stored; return as `_note_answers`."""
    progress = error.bulk_progress  # type: ignore[attr-defined]  # the driver's note
    counts = _note_answers(writes, progress, ordered)
    # After a reply of a server that shuts down, the driver sends nothing more.
    for write in _in_order(writes, ordered)[progress[1] :]:
        write.is_stored = False
    return counts


def _in_order(writes: list[_Write], ordered: bool) -> list[_Write]:
    """Return writes in the order in which the driver sends them."""
    return writes if ordered else sorted(writes, key=lambda write: write.insert is None)


async def _missing_flow(writes: list[_Write], place: Place) -> dict[str, list[Any]]:
    """Return the ids in stored references under "deny" that have no document, by key."""
    by_field: dict[str, tuple[Any, list[Any]]] = {}
    for write in writes:
        for field, ids in write.wanted if write.is_stored is not False else ():
            by_field.setdefault(field.key, (field, []))[1].extend(ids)
    return await missing_targets_flow(place, list(by_field.values())) if by_field else {}


async def _keep_flow(
    writes: list[_Write], place: Place, missing: dict[str, list[Any]]
) -> PyMongoError | None:
    """Delete inserted documents again if their references lead to nothing; return an error."""
    wrong = [
        write
        for write in writes
        if write.insert is not None and write.is_stored is not False and write.gone(missing)
    ]
    if not wrong:
        return None
    failed: WriteConcernError | None = None
    for write in wrong:
        write.is_stored = False
        try:
            await place.port.call(place.collection.delete_one, id_filter(write.document), **place.session)
        except WriteConcernError as error:
            failed = error
    first = wrong[0].document
    gone = wrong[0].gone(missing)
    return failed or dangling(first.__class__, first.id, gone, f"{len(wrong)} documents were deleted again")


async def _end_flow(
    writes: list[_Write], place: Place, counts: tuple[int, int] | None
) -> tuple[dict[str, list[Any]], PyMongoError | None]:
    """Compare the server's counts with the writes, look for missing targets, mark each document as stored or not.

    Returns:
        the ids of references that lead to nothing, by key, and an error: of an update that was sent again, or about
        these references.
    """
    failed: PyMongoError | None = None
    if counts is not None:
        sent = [write for write in writes if write.insert is None and write.is_stored]
        lacking = max(len(sent) - counts[0], sum(1 for write in sent if write.must_modify) - counts[1])
        if lacking > 0:
            await _find_stale_flow(sent, lacking, place)
            failed = await _send_again_flow(sent, place)
    missing = await _missing_flow(writes, place)
    left = await _keep_flow(writes, place, missing)
    _settle(writes, place)
    return missing, failed or left


async def _after_flow(writes: list[_Write], place: Place) -> None:
    """Run the hooks of the documents that were stored."""
    for write in writes:
        if write.is_stored and not is_plain(write.document.__class__):
            await after_flow(write.document, place.port, write.event, place)


def _name(error: PyMongoError, writes: list[_Write]) -> PyMongoError:
    """Add to the driver's error the documents that were not stored, or may not be; return it."""
    rest = [write.document for write in writes if not write.is_stored]
    error.not_stored = rest  # type: ignore[attr-defined]  # the mapper's addition
    ids = [document.id for document in rest]
    error.add_note(f"not stored: {len(rest)} of {len(writes)} documents, {ids[:10]!r}")
    return error


async def _find_stale_flow(updates: list[_Write], missing: int, place: Place) -> None:
    """Find out which updates of a bulk write changed nothing: the reply has only their number.

    To find out, the documents are read. An update was stored if its document has
    the next version and the values that were sent: another writer's save makes the next version too. If others
    changed the same values since, or stored equal ones, the outcome is unknown.
    """
    if missing >= len(updates):
        for write in updates:
            write.is_stored = False
        return
    query: dict[str, Any] = {"_id": {"$in": [stored_id(write.document.id) for write in updates]}}
    query |= tenant_filter(updates[0].document.__class__)
    found = await place.collection.find(query, **place.session)._to_list_flow(None)
    stored = {repr(row["_id"]): row for row in found}
    options = place.collection.codec_options
    for write in updates:
        version = _core.odm_version(write.document)
        row = stored.get(repr(stored_id(write.document.id)))
        if row is None or (version is None and not write.is_guarded):
            write.is_stored = row is not None
            continue
        sent = decode(_core.odm_encode(write.document), options)
        groups = decode(write.update or b"").values()
        touched = {path.partition(".")[0] for group in groups for path in group}
        if version is not None:
            sent[version[0]] = version[1] + 1
            touched.add(version[0])
        if any(row.get(key) != sent.get(key) for key in touched):
            write.is_stored = None
    if sum(1 for write in updates if not write.is_stored) < missing:
        for write in updates:
            if write.is_stored and write.must_modify:
                write.is_stored = None
