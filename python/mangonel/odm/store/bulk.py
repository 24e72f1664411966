"""Flows that store many documents by few commands, and know afterwards which of them are stored."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel.bson import decode
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import BulkWriteError
from mangonel.odm.connections.place import Place
from mangonel.odm.connections.touched import touch
from mangonel.odm.encryption.saving import is_queryable, whole_lists
from mangonel.odm.errors import StaleDocument, UnsupportedOption
from mangonel.odm.model.convert import NEW
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.hooks import around_flow, has_hooks
from mangonel.odm.model.refs import stored_id
from mangonel.odm.query.events import after_flow, before_flow, before_insert_flow, is_plain
from mangonel.odm.store.writes import filter_of
from mangonel.operations import InsertOne, UpdateOne


class _Write:
    """One document of a bulk write: what is done to it, and the bytes of an insert."""

    __slots__ = ("data", "document", "is_stored")

    def __init__(self, document: Any, data: bytes | None) -> None:
        self.document = document
        self.data = data
        self.is_stored = True

    @property
    def event(self) -> str:
        """The name of its hooks."""
        return "update" if self.data is None else "insert"


async def insert_many_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    """Store new documents."""
    return await _inside_flow(place, documents, _insert_many_flow, place, documents, ordered)


async def _inside_flow(place: Place, documents: list[Any], act_flow: Any, *arguments: Any) -> int:
    """Store documents inside their hooks around that."""
    events = ("around_insert", "around_update", "around_save")
    concerned: list[tuple[Any, str]] = []
    if any(has_hooks(kind, *events) for kind in set(map(type, documents))):
        concerned = [
            (document, "insert" if _core.odm_flags(document) & NEW else "update") for document in documents
        ]
    count: int = await around_flow(concerned, place.port, act_flow, *arguments)
    return count


async def _insert_many_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    writes: list[_Write] = []
    for document in documents:
        touch(document)
        await before_insert_flow(document, place.collection, True)
        writes.append(_Write(document, _core.odm_encode(document)))
    if not writes:
        return 0
    raw = [RawBSONDocument(write.data or b"") for write in writes]
    error: BulkWriteError | None = None
    try:
        await place.port.call(_insert_many, place.collection, raw, ordered, place.session)
    except BulkWriteError as found:
        error = found
        _note_failures(writes, found, ordered)
    await _settle_flow(writes, place)
    if error is not None:
        raise _naming(error, writes)
    return len(writes)


def _insert_many(collection: Any, documents: list[Any], ordered: bool, options: dict[str, Any]) -> Any:
    return collection.insert_many(documents, ordered, **options)


async def save_all_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    """Save documents by one bulk write."""
    return await _inside_flow(place, documents, _save_all_flow, place, documents, ordered)


async def _save_all_flow(place: Place, documents: list[Any], ordered: bool) -> int:
    writes: list[_Write] = []
    requests: list[Any] = []
    error: BulkWriteError | None = None
    try:
        for document in documents:
            touch(document)
            write = await _prepared_flow(document, place)
            if write is None:
                continue
            if write.data is not None:
                requests.append(InsertOne(RawBSONDocument(write.data)))
                writes.append(write)
                continue
            update = _core.odm_update(document)
            if update is not None:
                if declared:
                    update = whole_lists(document, update)
                requests.append(UpdateOne(filter_of(document), RawBSONDocument(update)))
                writes.append(write)
        if not requests:
            return 0
        updates = sum(isinstance(request, UpdateOne) for request in requests)
        if updates > 1 and is_queryable(place.collection):
            raise UnsupportedOption(
                f"save_all() cannot change {updates} documents of {type(documents[0]).__name__}: MongoDB changes one "
                "at a time in a collection of Queryable Encryption; save() each"
            )
        try:
            result = await place.port.call(_bulk_write, place.collection, requests, ordered, place.session)
            matched = result.matched_count if result.acknowledged else len(writes)
        except BulkWriteError as found:
            error = found
            matched = int((found.details or {}).get("nMatched", 0))
            _note_failures(writes, found, ordered)
    except BaseException:
        for write in writes:
            if write.data is None:
                _core.odm_settle(write.document, False)
        raise
    expected = sum(1 for write in writes if write.data is None and write.is_stored)
    stale = expected - matched
    if stale > 0:
        await _find_stale_flow(writes, place)
    await _settle_flow(writes, place)
    if error is not None:
        raise _naming(error, writes)
    if stale > 0:
        lost = [write.document.id for write in writes if not write.is_stored]
        raise StaleDocument(
            f"{stale} of the documents were saved or deleted by somebody else since they were loaded: {lost[:10]!r}"
        )
    return len(writes)


async def _prepared_flow(document: Any, place: Place) -> _Write | None:
    """Run what comes before a document is stored; return its write, without an update's changes."""
    is_new = bool(_core.odm_flags(document) & NEW)
    if is_new:
        await before_insert_flow(document, place.collection, True)
        return _Write(document, _core.odm_encode(document))
    if not is_plain(document.__class__):
        await before_flow(document, place.port, True, "update")
        if _core.odm_changes(document):
            document.__stamp__(False)
            document.__note_changes__()
    return _Write(document, None)


def _bulk_write(collection: Any, requests: list[Any], ordered: bool, options: dict[str, Any]) -> Any:
    return collection.bulk_write(requests, ordered, **options)


def _note_failures(writes: list[_Write], error: BulkWriteError, ordered: bool) -> None:
    """Mark what a bulk write did not store."""
    failed = [int(row["index"]) for row in (error.details or {}).get("writeErrors", ())]
    for index in failed:
        writes[index].is_stored = False
    if ordered and failed:
        for write in writes[min(failed) :]:
            write.is_stored = False


async def _settle_flow(writes: list[_Write], place: Place) -> None:
    """Let each document know whether it is stored, and run the hooks of those that are."""
    for write in writes:
        if write.data is None:
            _core.odm_settle(write.document, write.is_stored)
        elif write.is_stored:
            _core.odm_stored(write.document, write.data, place.connection)
    for write in writes:
        if write.is_stored and not is_plain(write.document.__class__):
            await after_flow(write.document, place.port, write.event, place)


def _naming(error: BulkWriteError, writes: list[_Write]) -> BulkWriteError:
    """The driver's error with the documents that were not stored."""
    rest = [write.document for write in writes if not write.is_stored]
    error.not_stored = rest  # type: ignore[attr-defined]  # the mapper's addition
    ids = [document.id for document in rest]
    error.add_note(f"not stored: {len(rest)} of {len(writes)} documents, {ids[:10]!r}")
    return error


async def _find_stale_flow(writes: list[_Write], place: Place) -> None:
    """Find out which of a bulk write's updates matched nothing.

    A bulk write answers only how many matched, so the documents are asked for. One was stored if it has the next
    version and the values that were sent: somebody else's save makes the next version too.
    """
    ids = [stored_id(write.document.id) for write in writes if write.data is None and write.is_stored]
    found = await place.port.call(_found, place.collection, ids, place.session)
    stored = {repr(row["_id"]): row for row in found}
    options = place.collection.codec_options
    for write in writes:
        if write.data is not None or not write.is_stored:
            continue
        version = _core.odm_version(write.document)
        row = stored.get(repr(stored_id(write.document.id)))
        if row is None or version is None:
            write.is_stored = row is not None
            continue
        sent = {**decode(_core.odm_encode(write.document), options), version[0]: version[1] + 1}
        write.is_stored = all(row.get(key) == value for key, value in sent.items())


def _found(collection: Any, ids: list[Any], options: dict[str, Any]) -> Any:
    return collection.find({"_id": {"$in": ids}}, **options).to_list()
