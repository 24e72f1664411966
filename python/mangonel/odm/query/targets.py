"""References under the rule "deny": after storing one, the mapper looks for its target; if it is gone, it undoes that.

A deletion looks for references after it in the same way (`rules`). If two programs each write and then look, at least
one look comes after both writes, so one of them sees the other. Inside a transaction, a look sees only the snapshot of
the transaction; there both sides also write to a lock document, so that one of them fails.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from typing import Any

from mangonel import bson
from mangonel.errors import WriteConcernError
from mangonel.odm.errors import DanglingReference, UnsupportedOption
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.refs import stored_id
from mangonel.odm.query.request import in_parts
from mangonel.operations import UpdateOne

# The collection of lock documents, in the database of the targets. Never deleted: a fixed number for each collection.
LOCKS = "reference_locks"
# A target has the locks of its bucket. A reference takes one of them, so two references seldom wait for each other.
_BUCKETS, _PARTS = 8, 8


def denying(model: Any) -> list[Any]:
    """Return the fields of a model that deny the deletion of their targets."""
    return [
        field
        for field in model.__plan__.fields.values()
        if field.info.on_delete == "deny" and isinstance(field.target, type)
    ]


def ids_in(value: Any) -> list[Any]:
    """Return the stored ids of a value of references: one, several, or None."""
    if value is None:
        return []
    if isinstance(value, dict):
        value = list(value.values())
    if hasattr(value, "ids"):
        return [stored_id(id) for id in value.ids]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [id for item in value for id in ids_in(item)]
    return [stored_id(getattr(value, "id", value))]


def wanted_of(document: Any, names: Iterable[str], collection: Any) -> list[tuple[Any, list[Any]]]:
    """Return the fields among these that deny a deletion, with the ids that a document has there.

    Raises:
        UnsupportedOption: the write is not acknowledged, so its references cannot be checked.
    """
    names = set(names)
    found = [
        (field, ids)
        for field in denying(document.__class__)
        if field.name in names and (ids := ids_in(held(document, field.name)))
    ]
    if found:
        check_acknowledged(document.__class__, collection)
    return found


def check_acknowledged(model: Any, collection: Any) -> None:
    """Refuse a write with w=0 of a model with references under "deny".

    Raises:
        UnsupportedOption: it is not acknowledged.
    """
    if not collection.write_concern.acknowledged:
        raise UnsupportedOption(
            f'a write of {model.__name__} cannot honour w=0: its references with on_delete="deny" are checked after it'
        )


async def missing_flow(
    wanted: list[tuple[Any, list[Any]]], connection: Any, is_async: bool, session: Any
) -> dict[str, list[Any]]:
    """Return the ids without a document, by the key of the field; references in a transaction are locked first."""
    missing: dict[str, list[Any]] = {}
    # References to one model are looked for together.
    by_target: dict[Any, list[tuple[Any, list[Any]]]] = {}
    for field, ids in wanted:
        by_target.setdefault(field.target, []).append((field, ids))
    for target, some in by_target.items():
        request = target.find()._from(connection)._request("dicts", is_async)
        collection, options = request.collection, {}
        ids = [id for _, of_field in some for id in of_field]
        is_here = session is not None and request.connection.clients is connection.clients
        if is_here:
            options["session"] = session
        if is_here and session.in_transaction:
            await lock_flow(collection, collection.name, ids, session, is_whole=False)
        else:
            collection = on_primary(collection)
        unique = list({repr(id): id for id in ids}.values())
        found: set[str] = set()
        for part in in_parts(unique):
            query = query_of(request.filter, part)
            rows = await collection.find(query, projection={"_id": 1}, **options)._to_list_flow(None)
            found.update(repr(row["_id"]) for row in rows)
        for field, ids in some:
            gone = [id for id in {repr(id): id for id in ids}.values() if repr(id) not in found]
            if gone:
                missing[field.key] = gone
    return missing


def on_primary(collection: Any) -> Any:
    """Return a collection whose reads see every acknowledged write."""
    from mangonel.read_concern import ReadConcern
    from mangonel.read_preferences import ReadPreference

    return collection.with_options(read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local"))


async def lock_flow(collection: Any, name: str, ids: Iterable[Any], session: Any, *, is_whole: bool) -> None:
    """Write to lock documents of targets; no two transactions can do so at the same time.

    Args:
        collection: a collection of the database.
        name: name of the collection of the targets.
        ids: their ids.
        session: the session of a transaction; None: outside. Then this waits until no transaction has them.
        is_whole: all locks of each target, to delete it. False: one of them, to refer to it.
    """
    options = codec_options(False)
    buckets = {zlib.crc32(bson.encode({"": id}, codec_options=options)) % _BUCKETS for id in ids}
    parts = range(_PARTS) if is_whole else [random.randrange(_PARTS)]
    # Always in the same order, so that no two transactions wait for each other.
    requests = [
        UpdateOne({"_id": f"{name}/{bucket}/{part}"}, {"$inc": {"n": 1}}, upsert=True)
        for bucket in sorted(buckets)
        for part in parts
    ]
    if requests:
        locks = collection.database.get_collection(LOCKS)
        keywords = {} if session is None else {"session": session}
        await collection._port.call(locks.bulk_write, requests, **keywords)


def dangling(model: Any, id: Any, missing: dict[str, list[Any]], outcome: str) -> DanglingReference:
    """Return the error for a document whose references lead to nothing."""
    by_key = model.__plan__.by_key
    what = "; ".join(
        f"no {by_key[key].target.__name__} has the _id {', '.join(map(repr, ids[:3]))}, to which "
        f"{by_key[key].name!r} refers"
        for key, ids in missing.items()
    )
    return DanglingReference(f"cannot store the {model.__name__} {id!r}: {what}; {outcome}")


class Rows:
    """The documents of an update by a query, with their references before it.

    Args:
        model: a model with references under "deny".
        request: the request of the update.
    """

    __slots__ = ("_collection", "_keywords", "_model", "_request", "_wanted", "before")

    def __init__(self, model: Any, request: Any) -> None:
        self._model = model
        self._request = request
        session = request.keywords.get("session")
        self._keywords: dict[str, Any] = request.session
        in_transaction = session is not None and session.in_transaction
        self._collection = request.collection if in_transaction else on_primary(request.collection)
        self._wanted = denying(model)
        self.before: dict[str, dict[str, Any]] = {}

    @property
    def ids(self) -> list[Any]:
        """The ids of the documents."""
        return [row["_id"] for row in self.before.values()]

    async def read_flow(self, ids: list[Any] | None = None, **keywords: Any) -> dict[str, dict[str, Any]]:
        """Return the references of documents; without ids, those of the query's documents."""
        projection = dict.fromkeys(("_id", *(field.key for field in self._wanted), *_marks(self._model)), 1)
        found: list[Any] = []
        for query in [self._request.filter] if ids is None else in_parts(ids):
            cursor = self._collection.find(query, projection=projection, **keywords, **self._keywords)
            found += await cursor._to_list_flow(None)
        return {repr(row["_id"]): row for row in found}

    async def check_flow(self, inserted: Any = None) -> None:
        """Look for the targets of the documents as they are now, and revert references that lead to nothing.

        Args:
            inserted: the id of a document that the update inserted; None: none.

        Raises:
            DanglingReference: a target does not exist.
        """
        ids = self.ids if inserted is None else [*self.ids, inserted]
        after = await self.read_flow(ids) if ids else {}
        marks = _marks(self._model)
        rows = [row for row in after.values() if not any(row.get(mark) is not None for mark in marks)]
        wanted = [
            (field, [id for row in rows for id in ids_in(row.get(field.key))]) for field in self._wanted
        ]
        request = self._request
        missing = await missing_flow(
            [(field, found) for field, found in wanted if found],
            request.connection,
            request.port.is_async,
            self._keywords.get("session"),
        )
        if not missing:
            return
        gone = {key: set(map(repr, found)) for key, found in missing.items()}
        wrong = [
            row
            for row in rows
            if any(repr(id) in of_key for key, of_key in gone.items() for id in ids_in(row.get(key)))
        ]
        for row in wrong:
            before = self.before.get(repr(row["_id"]))
            if before is None:
                await request.port.call(request.collection.delete_one, {"_id": row["_id"]}, **self._keywords)
            else:
                await put_back_flow(self._model, request, row, before, self._keywords)
        raise dangling(
            self._model,
            wrong[0]["_id"] if wrong else None,
            missing,
            f"the references of {len(wrong)} documents were put back",
        )


def _marks(model: Any) -> list[str]:
    """Return the key of a model's deletion mark, if it has one."""
    return [model.__plan__.fields["deleted_at"].key] if model.__soft_delete__() else []


def touches(model: Any, update: Any) -> bool:
    """Whether an update may store a reference under "deny", or restore a document that was marked as deleted."""
    fields = denying(model)
    if not fields:
        return False
    keys = {field.key for field in fields} | set(_marks(model))
    if isinstance(update, list):
        return True
    return any(
        path.partition(".")[0] in keys or (operator == "$rename" and str(new).partition(".")[0] in keys)
        for operator, group in update.items()
        for path, new in group.items()
    )


async def put_back_flow(
    model: Any,
    place: Any,
    now: dict[str, Any],
    before: dict[str, Any],
    keywords: dict[str, Any],
) -> dict[str, Any]:
    """Store former references again, unless another writer has changed them since; return the stored values.

    If the former target is gone too, the reference becomes None.

    Raises:
        DanglingReference: it cannot be None: the document refers to nothing until the program changes it.
        WriteConcernError: they are stored again, but perhaps not for good.
    """
    fields = {field.key: field for field in denying(model)}
    keys = [key for key in (*fields, *_marks(model)) if now.get(key) != before.get(key)]
    changed = {key: before.get(key) for key in keys}
    failed = await _change_flow(place, now["_id"], {key: now.get(key) for key in keys}, changed, keywords)
    wanted = [
        (fields[key], ids_in(value)) for key, value in changed.items() if key in fields and value is not None
    ]
    wanted = [(field, ids) for field, ids in wanted if ids]
    missing = await missing_flow(wanted, place.connection, place.port.is_async, keywords.get("session"))
    for key, gone in missing.items():
        rest = changed[key]
        if isinstance(rest, list):
            rest = [id for id in rest if repr(id) not in set(map(repr, gone))]
        elif fields[key].nullable:
            rest = None
        else:
            raise dangling(model, now["_id"], missing, "its former target is gone too, and it cannot be None")
        failed = await _change_flow(place, now["_id"], {key: changed[key]}, {key: rest}, keywords) or failed
        changed[key] = rest
    if failed is not None:
        raise failed
    return changed


async def _change_flow(
    place: Any, id: Any, now: dict[str, Any], values: dict[str, Any], keywords: dict[str, Any]
) -> WriteConcernError | None:
    if values:
        try:
            await place.port.call(
                place.collection.update_one, {"_id": id, **now}, {"$set": values}, **keywords
            )
        except WriteConcernError as error:
            return error
    return None
