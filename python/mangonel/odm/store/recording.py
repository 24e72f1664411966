"""Records the changes of audited models: each write runs in a transaction that also stores its changes.

Every write of such a model comes here: the flows of documents, `query_flow` for queries, and `filtered_flow` for
delete rules. The changed documents are read before and after the write, inside the
transaction, so the record is of real changes, and a write that cannot be recorded does not happen.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from mangonel import _core
from mangonel.bson import MaxKey, MinKey, ObjectId, decode, encode
from mangonel.bson.codec_options import CodecOptions
from mangonel.errors import PyMongoError
from mangonel.odm.connections.context import session_for, sessions
from mangonel.odm.connections.place import Place
from mangonel.odm.connections.transactions import Transaction, run_flow
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.model.codec import TOLERANT, raw_collection
from mangonel.odm.model.convert import NEW
from mangonel.odm.model.encrypted_trees import encrypted_tree
from mangonel.odm.model.fields import now
from mangonel.odm.query.request import Request, ids_flow, in_parts
from mangonel.odm.query.tenants import key_of_tenant, tenant_filter
from mangonel.odm.store import bulk, writes

T = TypeVar("T")

# Who changes documents in this context.
actor: ContextVar[Any] = ContextVar("mangonel_odm_actor", default=None)

# For how many documents one command fetches the last entries.
_AT_ONCE = 500
# Types of ids that are compared without encoding them.
_OF_ONE_FORM = frozenset((ObjectId, int, str))
# Operations that change one document.
_OF_ONE = ("find_and_update", "find_and_replace", "find_and_delete", "upsert", "get_or_create")


class Recorder:
    """Records the changes of one audited model's documents."""

    __slots__ = ()

    # Flows of documents.

    async def insert_flow(self, document: Any, place: Place, validate: bool) -> Any:
        return await _documents_flow(place, [document], writes.insert_flow, (document,), (validate,), True)

    async def save_flow(self, document: Any, place: Place, validate: bool, cascade: bool, where: Any) -> Any:
        # A cascade may store the document first.
        is_new = not cascade and bool(_core.odm_flags(document) & NEW)
        arguments = (validate, cascade, where)
        return await _documents_flow(place, [document], writes.save_flow, (document,), arguments, is_new)

    async def replace_flow(self, document: Any, place: Place, upsert: bool) -> Any:
        return await _document_flow(document, place, writes.replace_flow, upsert)

    async def update_flow(self, document: Any, place: Place, changes: Iterable[Any]) -> Any:
        return await _document_flow(document, place, writes.update_flow, list(changes))

    async def delete_flow(self, document: Any, place: Place, where: Any = None) -> None:
        await _document_flow(document, place, writes.delete_flow, where)

    async def insert_many_flow(self, place: Place, documents: list[Any], ordered: bool) -> int:
        return await _bulk_flow(place, documents, bulk.insert_many_flow, ordered, True)

    async def save_all_flow(self, place: Place, documents: list[Any], ordered: bool) -> int:
        return await _bulk_flow(place, documents, bulk.save_all_flow, ordered)

    # Flows of queries.

    async def query_flow(self, request: Request, act_flow: Callable[..., Any], *arguments: Any) -> Any:
        """Run the flow of a query's write, and record the changes.

        Args:
            request: the request of the query.
            act_flow: the flow, a method of the query.
            arguments: those of the flow.

        Raises:
            UnsupportedOption: the mapper could not tell which document it inserts.
        """
        query, name, is_async = request.query, request.terminal.name, request.port.is_async
        check_recordable(query._model)
        if query._is_none:
            return await act_flow(request, *arguments)
        if name == "update" and arguments[2]:
            raise UnsupportedOption(
                f"update(upsert=True) cannot record an insert into the audited {query._model.__name__}: use "
                "upsert()"
            )
        concern = query._options.get("write_concern")
        if concern is not None:
            query = query._with(write_concern=None)

        async def attempt_flow() -> Any:
            wanted = query._with(limit=1) if name in _OF_ONE else query
            ids = await ids_flow(Request(wanted._bare(), "dicts", is_async))
            chosen = query
            if ids or name not in _OF_ONE:
                chosen = query._with(limit=None, skip=None).find({"_id": {"$in": ids}})
            step = Request(chosen, name, is_async)

            def inserted(made: Any) -> list[Any]:
                document = made[0] if isinstance(made, tuple) else made
                if ids or name not in _OF_ONE or document is None:
                    return []
                if query._shape is not None:
                    raise UnsupportedOption(
                        f"{name}() cannot record an insert into the audited {query._model.__name__} with as_()"
                    )
                return [_id_of(document)]

            # The same method of the narrower query.
            narrow_flow = getattr(chosen, act_flow.__name__)
            return await _recorded_flow(
                query._model, step.collection, step.session, ids, inserted, narrow_flow, step, *arguments
            )

        session = request.keywords.get("session")
        return await _transaction_flow(request.connection, is_async, session, concern, attempt_flow)

    async def filtered_flow(
        self,
        model: Any,
        place: Request,
        query: Mapping[str, Any],
        act_flow: Callable[..., Coroutine[Any, Any, Any]],
        what: Any,
    ) -> None:
        """Run a write of all matching documents, and record the changes.

        Args:
            model: the documents' model.
            place: a request with their collection.
            query: the filter.
            act_flow: the write, called with the collection, the filter, `what` and the session keyword.
            what: the change.
        """
        check_recordable(model)
        collection, connection, session = place.collection, place.connection, place.session.get("session")

        async def attempt_flow() -> None:
            keywords = {"session": session if session is not None else session_for(connection)}
            rows = await collection.find(query, projection={"_id": 1}, **keywords)._to_list_flow(None)
            ids = [row["_id"] for row in rows]
            await _recorded_flow(
                model, collection, keywords, ids, lambda made: [], act_flow, collection, query, what, keywords
            )

        await _transaction_flow(connection, place.port.is_async, session, None, attempt_flow)

    async def restored_flow(
        self, connection: Any, model: Any, collection: Any, id: Any, act: Callable[..., Any], arguments: Any
    ) -> None:
        """Store a deleted document again by a method of its collection, and record that.

        Args:
            connection: its connection.
            model: its model.
            collection: its collection.
            id: its id.
            act: the method.
            arguments: those of the method.
        """
        port = collection._port

        async def attempt_flow() -> None:
            keywords = {"session": session_for(connection)}

            async def act_flow() -> None:
                await port.call(act, *arguments, **keywords)

            await _recorded_flow(model, collection, keywords, [id], lambda made: [], act_flow)

        await _transaction_flow(connection, port.is_async, None, None, attempt_flow)


def check_recordable(model: Any) -> None:
    """Refuse a model whose history would reveal fields that it hides.

    Args:
        model: the audited model.

    Raises:
        TypeError: it has encrypted fields.
    """
    if encrypted_tree(model) is not None:
        raise TypeError(
            f"cannot record changes of {model.__name__}: its history would hold encrypted fields unencrypted; leave "
            "Audited or Encrypted out"
        )


async def _document_flow(document: Any, place: Place, act_flow: Any, *arguments: Any) -> Any:
    return await _documents_flow(place, [document], act_flow, (document,), arguments)


async def _bulk_flow(
    place: Place, documents: list[Any], act_flow: Any, ordered: bool, is_new: bool = False
) -> int:
    if not documents:
        return 0
    try:
        count: int = await _documents_flow(place, documents, act_flow, (), (documents, ordered), is_new)
    except PyMongoError as error:
        if hasattr(error, "not_stored"):
            # Documents stored before the error are rolled back with the rest.
            error.not_stored = documents  # the mapper's addition
        raise
    return count


async def _documents_flow(
    place: Place,
    documents: list[Any],
    act_flow: Any,
    first: tuple[Any, ...],
    arguments: tuple[Any, ...],
    is_new: bool = False,
) -> Any:
    """Run a write of these documents, called with `first`, the place and the arguments; record the changes.

    `is_new`: it inserts them all, so they are not stored before.
    """
    model, is_async, session = documents[0].__class__, place.port.is_async, place.session.get("session")
    check_recordable(model)

    def ids(made: Any = None) -> list[Any]:
        return [_id_of(document) for document in documents]

    async def attempt_flow() -> Any:
        at = Place(place.connection, model, is_async, session)
        before = [] if is_new else ids()
        return await _recorded_flow(
            model, at.collection, at.session, before, ids, act_flow, *first, at, *arguments
        )

    return await _transaction_flow(place.connection, is_async, session, place.write_concern, attempt_flow)


async def _transaction_flow(
    connection: Any,
    is_async: bool,
    session: Any,
    concern: Any,
    attempt_flow: Callable[[], Coroutine[Any, Any, T]],
) -> T:
    """Run a write in the transaction of its session, or in a new one, which is retried after a conflict."""
    given = session if session is not None else session_for(connection)
    if given is not None and given.in_transaction:
        return await attempt_flow()
    client = connection.clients.get(is_async)
    port, options = client._port, {} if concern is None else {"write_concern": concern}
    token = None
    if session is not None:
        # The transaction runs in the session of its context.
        token = sessions.set({**(sessions.get() or {}), connection.clients: session})
    try:
        made: T = await run_flow(
            lambda: Transaction(connection, options), lambda: port.flow(attempt_flow()), client
        )
    finally:
        if token is not None:
            sessions.reset(token)
    return made


async def _recorded_flow(
    model: Any,
    collection: Any,
    session: dict[str, Any],
    ids: list[Any],
    inserted: Callable[[Any], list[Any]],
    act_flow: Callable[..., Coroutine[Any, Any, Any]],
    *arguments: Any,
) -> Any:
    """Run a write inside a transaction and store an entry for each document that it changes.

    Args:
        model: the model of the documents.
        collection: their collection.
        session: the session keyword, with a transaction in it.
        ids: the ids of the documents that the write may change.
        inserted: returns the ids of the documents that it may have inserted, for its result.
        act_flow: the write.
        arguments: those of the write.
    """
    raw = raw_collection(collection)
    before = await _rows_flow(raw, ids, session)
    made = await act_flow(*arguments)
    options = collection.codec_options
    every = {_key(id, options): id for id in (*ids, *inserted(made))}
    entries = entries_of(collection, model)
    last: dict[Any, Any] | None = None
    if len(every) == 1 and _joins(collection):
        (id,) = every.values()
        after, last = await _states_flow(raw, entries, id, session)
    else:
        after = await _rows_flow(raw, list(every.values()), session)
    changed = {key: id for key, id in every.items() if _differ(before.get(key), after.get(key))}
    if changed:
        if last is None:
            last = await _last_flow(entries, list(changed.values()), session)
        rows = [
            _entry(model, id, last.get(key), before.get(key), after.get(key)) for key, id in changed.items()
        ]
        await collection._port.call(entries.insert_many, rows, **session)
    return made


def entries_of(collection: Any, model: Any) -> Any:
    """Return the driver's collection that holds the entries of a model.

    Args:
        collection: the collection of its documents.
        model: the audited model.
    """
    name = model.__history__ or f"{collection.name}_history"
    options = collection.codec_options.with_options(
        datetime_conversion=TOLERANT.datetime_conversion, unicode_decode_error_handler="surrogateescape"
    )
    return collection.database.get_collection(name, codec_options=options)


def range_of(id: Any) -> dict[str, Any]:
    """Return the filter for the entries of one document: an entry's `_id` is the document's and a number.

    Args:
        id: the document's id as it is stored.
    """
    return {
        "_id": {"$gte": {"document": id, "number": MinKey()}, "$lte": {"document": id, "number": MaxKey()}}
    }


def kept_filter(model: Any, id: Any) -> dict[str, Any]:
    """Return the filter for the entries of one document that the program may read: those of the context's tenant.

    Args:
        model: the audited model.
        id: the document's id as it is stored.

    Raises:
        NoTenant: the model keeps tenants apart, and none is set.
    """
    query = range_of(id)
    if condition := tenant_filter(model):
        query["tenant"] = condition[key_of_tenant(model)]
    return query


async def _rows_flow(collection: Any, ids: list[Any], session: dict[str, Any]) -> dict[Any, Any]:
    """Return the stored documents with these ids, raw, by `_key`."""
    found: dict[Any, Any] = {}
    for query in in_parts(ids):
        rows = await collection.find(query, **session)._to_list_flow(None)
        found.update((_key(row["_id"], collection.codec_options), row) for row in rows)
    return found


def _joins(collection: Any) -> bool:
    """Whether one command can read a document with its last entry: mongos refuses that in a transaction."""
    return any(kind == "RSPrimary" for _, kind in collection.database.client._core.servers())


async def _states_flow(
    collection: Any, entries: Any, id: Any, session: dict[str, Any]
) -> tuple[dict[Any, Any], dict[Any, Any] | None]:
    """Return the results of `_rows_flow` and `_last_flow` for one id, by one command; None if there is no document."""
    newest = [{"$match": range_of(id)}, {"$sort": {"_id": -1}}, {"$limit": 1}, {"$project": {"at": 1}}]
    stages = [
        {"$match": {"_id": {"$eq": id}}},
        {"$replaceWith": {"document": "$$ROOT"}},
        {"$lookup": {"from": entries.name, "pipeline": newest, "as": "last"}},
    ]
    cursor = await collection._port.call(collection.aggregate, stages, **session)
    rows = await cursor._to_list_flow(None)
    if not rows:
        return {}, None
    key, last = _key(id, entries.codec_options), rows[0]["last"]
    known = {"number": last[0]["_id"]["number"], "at": last[0]["at"]} if last else None
    return {key: rows[0]["document"]}, {key: known}


def _id_of(document: Any) -> Any:
    """Return the `_id` of a document as it is stored."""
    return dict(_core.odm_filter(document))["_id"]


def _key(id: Any, options: CodecOptions[Any]) -> Any:
    """Return a key for a stored id; all forms of the id in Python have the same key."""
    if type(id) in _OF_ONE_FORM:
        return id
    options = options.with_options(document_class=dict)
    value = decode(encode({"": id}, codec_options=options), options)[""]
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _differ(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is not other
    return bool(one.raw != other.raw)


async def _last_flow(entries: Any, ids: list[Any], session: dict[str, Any]) -> dict[Any, Any]:
    """Return the number and the time of each document's last entry, by `_key`."""
    found: dict[Any, Any] = {}
    for start in range(0, len(ids), _AT_ONCE):
        stages = [
            {"$match": {"$or": [range_of(id) for id in ids[start : start + _AT_ONCE]]}},
            {"$group": {"_id": "$_id.document", "number": {"$max": "$_id.number"}, "at": {"$max": "$at"}}},
        ]
        cursor = await entries._port.call(entries.aggregate, stages, **session)
        rows = await cursor._to_list_flow(None)
        found.update((_key(row["_id"], entries.codec_options), row) for row in rows)
    return found


def _entry(model: Any, id: Any, last: Any, before: Any, after: Any) -> dict[str, Any]:
    """Return the entry for one change of one document."""
    moment = now()
    old, new = (decode(row.raw, TOLERANT) if row is not None else {} for row in (before, after))
    changes = []
    for key in dict.fromkeys((*old, *new)):
        if key in old and key in new and encode({"": old[key]}) == encode({"": new[key]}):
            continue
        change = {"key": key}
        if key in old:
            change["old"] = old[key]
        if key in new:
            change["new"] = new[key]
        changes.append(change)
    entry: dict[str, Any] = {
        "_id": {"document": id, "number": last["number"] + 1 if last else 1},
        # The clock of another writer may be ahead.
        "at": max(moment, last["at"].replace(tzinfo=dt.UTC)) if last else moment,
        "by": model.__actor__() if model.__actor__ is not None else actor.get(),
        "operation": "insert" if before is None else "delete" if after is None else "update",
        "changes": changes,
    }
    if model.__tenant__ is not None:
        # A deleted document had one.
        entry["tenant"] = (new or old).get(key_of_tenant(model))
    if model.__snapshots__:
        entry["document"] = after
        if last is None and before is not None:
            # The document is older than its history.
            entry["before"] = before
    return entry
