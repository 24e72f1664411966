"""Websessions in MongoDB, with this driver: one document each, whose `_id` is the key.

    {_id: key, v: version, d: data, c: created, i: issued, e: expires, l: deadline, s: sid, w: writes,
     u: user, n: next, p: prev, b: label, r: epoch}

A TTL index on `e` removes expired records; the flows check times before that. Reads go to the primary. Ending a
websession is acknowledged by a majority, so that a failover cannot revive it. Spec: none but the driver's own API.

A client that is opened for a URL does not use the driver's retryable writes, for which the server updates one more
document: a quarter of its time for an insert. Each record lists its last writes, so the store repeats a write once, and
the record shows whether the first one had arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from mangonel.websessions.errors import StoreError, UsageError
from mangonel.websessions.record import Record
from mangonel.websessions.stores._documents import LOOK, Documents, Write, date_of
from mangonel.websessions.stores._sharing import Shared
from mangonel.websessions.stores._threads import FlowsOfMethods, NeverSuspends, PurgesOnThreads
from mangonel.websessions.stores.urls import StoreURL, flag

__all__ = ["BlockingMongoStore", "MongoStore"]

COLLECTION = "websessions"
TIMEOUT_MS = "5000"

DUPLICATE = 11000


class _Flows:
    """The flows of both faces, in a collection whose methods are awaited.

    The two calls of most requests use the collection directly: in threads its results need not be awaited.
    """

    waits = True

    def __init__(
        self,
        collection: Any,
        *,
        durable: bool = False,
        documents: bool = False,
        client: Any = None,
        repeats: bool = False,
        sets_up: bool = True,
    ) -> None:
        self._documents = Documents(collection, durable=durable, documents=documents)
        self._client = client
        self._repeats = repeats
        self._plain, self._sure = self._documents.plain, self._documents.sure
        self._duplicate = self._documents.duplicate
        self._failures = self._documents.failures
        self._is_set_up = not sets_up
        self._record = self._documents.record

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        found = self._documents.plain.find_one({"_id": key})
        document = await found if self.waits else found
        return self._record(document) if document is not None else None

    async def put(self, record: Record, expected: int, *, is_again: bool = False) -> bool:
        """Write if the stored version is `expected`: an insert, or a replacement with the version in its filter.

        Args:
            is_again: the write was sent before, so it may be refused because it had arrived.
        """
        if not self._is_set_up:
            await self._set_up()
        documents = self._documents
        document = documents.document(record)
        # Ending a websession must survive a failover. The first condition is a shortcut for records that go on.
        is_final = (record.next is not None or not record.sid) and record.is_final
        collection = documents.sure if is_final else documents.plain
        was_put: bool
        while True:
            try:
                if not expected:
                    done = collection.insert_one(document)
                    if self.waits:
                        await done
                    return True
                selector = {"_id": record.key, "v": expected}
                if documents.is_peer:
                    done = collection.replace_one(selector, document)
                    was_put = (await done if self.waits else done).matched_count == 1
                else:
                    done = collection._replace_checked(selector, document)
                    was_put = (await done if self.waits else done)["n"] == 1
            except self._duplicate:
                was_put = False
            except self._failures as error:
                if is_again or not self._repeats or not documents.may_repeat(error):
                    raise
                is_again = True
                continue
            if was_put or not is_again:
                return was_put
            found = await self._plain.find_one({"_id": record.key}, LOOK)
            return documents.arrived(record, found)

    async def _set_up(self) -> None:
        # Once for each process, by the first request; the others need not wait, since records work without indexes.
        self._is_set_up = True
        try:
            await self.setup()
        except self._documents.refusal as error:
            self._documents.judge_setup(error)
        except BaseException:
            self._is_set_up = False
            raise

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `e`."""
        selector, change = {"_id": key}, {"$set": {"e": date_of(expires)}}
        result = await self._repeating(lambda: self._plain.update_one(selector, change))
        return bool(result.matched_count)

    async def delete(self, *keys: bytes) -> int:
        """Remove records, acknowledged by a majority."""
        selector = {"_id": keys[0] if len(keys) == 1 else {"$in": list(keys)}}
        result = await self._repeating(lambda: self._sure.delete_many(selector))
        return int(result.deleted_count)

    async def find(self, user: str) -> list[Record]:
        """Return the user's records."""
        return [
            self._record(document) for document in await self._all(self._plain.find({"u": {"$eq": user}}))
        ]

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records now, instead of at the next run of the server's TTL monitor, within a minute."""
        dead = await self._all(self._plain.find({"e": {"$lt": date_of(now)}}, {"_id": 1}).limit(limit))
        if not dead:
            return 0
        result = await self._plain.delete_many({"_id": {"$in": [document["_id"] for document in dead]}})
        return int(result.deleted_count)

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        return {
            "records": await self._plain.count_documents({}),
            "expired": await self._plain.count_documents({"e": {"$lt": date_of(now)}}),
            "users": len(await self._plain.distinct("u")),
        }

    async def setup(self) -> None:
        """Create the indexes: for expiry by the server, and for users."""
        await self._plain.create_index("e", expireAfterSeconds=0, name="expiry")
        await self._plain.create_index("u", sparse=True, name="user")
        self._is_set_up = True

    async def _repeating(self, send: Callable[[], Any]) -> Any:
        """Return the result of a write, which is sent twice after a network error or a step-down."""
        try:
            return await send()
        except self._failures as error:
            if not self._repeats or not self._documents.may_repeat(error):
                raise
        return await send()

    async def _all(self, cursor: Any) -> list[Any]:
        raise NotImplementedError


class MongoStore(_Flows):
    """Websessions in a collection of an `AsyncMongoClient`, which the application may share.

    Args:
        collection: `client.app.websessions`.
        durable: a majority journals every write; otherwise only ending a websession waits for a majority.
        documents: store the data as a document readable in the shell; for `codec="bson"` without `seal`.
        client: a client to close with the store.
        sets_up: create the indexes before the first write. False: call `setup()` where that is allowed.
        repeats: repeat a write after a network error or a step-down, for a client with `retryWrites=false`.
    """

    _loop: Any = None
    _loads: Shared[[bytes], bytes, Record | None]
    _inserts: Shared[[Record, int], Write, bool]
    _writes: Shared[[Record, int], Write, bool]
    _touches: Shared[[bytes, float], tuple[bytes, float], bool]

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        if self._loop is not asyncio.get_running_loop():
            self._enter()
        return await self._loads.call(key)

    async def put(self, record: Record, expected: int, *, is_again: bool = False) -> bool:
        """As for threads, but combined with other requests' writes."""
        if self._loop is not asyncio.get_running_loop():
            self._enter()
        if is_again or record.is_final:
            # Sent alone: the outcome of ending a websession must be known, and it waits for a majority.
            return await super().put(record, expected, is_again=is_again)
        return await (self._writes if expected else self._inserts).call(record, expected)

    def _enter(self) -> None:
        # The shared state belongs to a loop, as do its waiters.
        self._loop = asyncio.get_running_loop()
        self._loads = Shared(super().get, self._load_many, lambda key: key)
        self._inserts = Shared(super().put, self._insert_many, self._documents.write)
        self._writes = Shared(super().put, self._write_many, self._documents.write)
        self._touches = Shared(super().touch, self._touch_many, lambda key, expires: (key, expires))

    async def _load_many(self, keys: list[bytes]) -> list[Record | None]:
        # A batch of the requested size, so that one reply has all documents.
        found = await self._plain.find({"_id": {"$in": keys}}, batch_size=len(keys) + 1).to_list()
        records = {document["_id"]: self._record(document) for document in found}
        return [records.get(key) for key in keys]

    async def _each(self, writes: list[Write]) -> Sequence[bool | BaseException]:
        """Write each record separately, because the server refused one of them; some have arrived."""
        puts = (self.put(each.record, each.expected, is_again=True) for each in writes)
        return await asyncio.gather(*puts, return_exceptions=True)

    async def _insert_many(self, writes: list[Write]) -> Sequence[bool | BaseException]:
        try:
            refused = await self._refused(writes)
        except self._documents.bulk_failure:
            return await self._each(writes)
        except self._failures as error:
            if not self._repeats or not self._documents.may_repeat(error):
                raise
            refused = await self._refused(writes)
            if refused:
                # Some of them were refused because they had arrived before.
                return await self._arrived(writes)
        return [number not in refused for number in range(len(writes))]

    async def _refused(self, writes: list[Write]) -> set[int]:
        """Insert; return the positions of records whose key exists already."""
        try:
            await self._plain.insert_many([write.document for write in writes], ordered=False)
        except self._documents.bulk_failure as error:
            details = getattr(error, "details", None) or {}
            errors = details.get("writeErrors", [])
            if details.get("writeConcernErrors") or any(each["code"] != DUPLICATE for each in errors):
                raise
            return {each["index"] for each in errors}
        return set()

    async def _write_many(self, writes: list[Write]) -> Sequence[bool | BaseException]:
        try:
            return await self._repeating(lambda: self._replaced(writes))
        except self._documents.bulk_failure:
            return await self._each(writes)

    async def _replaced(self, writes: list[Write]) -> Sequence[bool | BaseException]:
        """Replace the records with one command; if its count is too small, look up which writes arrived."""
        replace_one = self._documents.replace_one
        commands = [
            replace_one({"_id": write.record.key, "v": write.expected}, write.document) for write in writes
        ]
        result = await self._plain.bulk_write(commands, ordered=False)
        if result.matched_count == len(writes):
            return [True] * len(writes)
        return await self._arrived(writes)

    async def _arrived(self, writes: list[Write]) -> list[bool | BaseException]:
        """Return for each write whether the stored record contains it; an error if that is unknown."""
        selector = {"_id": {"$in": [write.record.key for write in writes]}}
        documents = await self._plain.find(selector, LOOK, batch_size=len(writes) + 1).to_list()
        stored = {document["_id"]: document for document in documents}
        found: list[bool | BaseException] = []
        for write in writes:
            try:
                found.append(self._documents.arrived(write.record, stored.get(write.record.key)))
            except StoreError as error:
                found.append(error)
        return found

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `e`."""
        if self._loop is not asyncio.get_running_loop():
            self._enter()
        return await self._touches.call(key, expires)

    async def _touch_many(self, touches: list[tuple[bytes, float]]) -> Sequence[bool | BaseException]:
        commands = [
            self._documents.update_one({"_id": key}, {"$set": {"e": date_of(at)}}) for key, at in touches
        ]
        try:
            result = await self._repeating(lambda: self._plain.bulk_write(commands, ordered=False))
        except self._documents.bulk_failure:
            alone = (super(MongoStore, self).touch(key, at) for key, at in touches)
            return await asyncio.gather(*alone, return_exceptions=True)
        if result.matched_count == len(touches):
            return [True] * len(touches)
        # The server counts them together; existing records were touched.
        keys = [key for key, _ in touches]
        found = await self._plain.find({"_id": {"$in": keys}}, {"_id": 1}, batch_size=len(keys) + 1).to_list()
        there = {document["_id"] for document in found}
        return [key in there for key in keys]

    async def aclose(self) -> None:
        """Close the client, if this store opened it."""
        if self._client is not None:
            await self._client.close()

    async def _all(self, cursor: Any) -> list[Any]:
        return await cursor.to_list()


class _Awaited(FlowsOfMethods):
    """A blocking collection whose methods are awaited."""

    def __init__(self, collection: Any) -> None:
        super().__init__(collection)
        self.name = collection.name
        self.find = collection.find  # gives a cursor at once


class _InThreads(NeverSuspends, _Flows):
    waits = False

    def __init__(self, collection: Any, **options: Any) -> None:
        super().__init__(collection, **options)
        self._plain, self._sure = _Awaited(self._plain), _Awaited(self._sure)

    async def aclose(self) -> None:
        """Close the client, if this store opened it."""
        if self._client is not None:
            self._client.close()

    async def _all(self, cursor: Any) -> list[Any]:
        return list(cursor)


class BlockingMongoStore(PurgesOnThreads):
    """The same for threads, in a collection of `MongoClient`."""

    def __init__(
        self,
        collection: Any,
        *,
        durable: bool = False,
        documents: bool = False,
        client: Any = None,
        repeats: bool = False,
        sets_up: bool = True,
    ) -> None:
        options = {"durable": durable, "documents": documents, "repeats": repeats, "sets_up": sets_up}
        super().__init__(_InThreads(collection, client=client, **options))


def from_url(url: StoreURL) -> MongoStore:
    """Return a store for `mongodb://host/database?collection=…&durable=…&documents=…` and the driver's options."""
    from mangonel import AsyncMongoClient

    text, database, collection, own = _parts(url)
    client: Any = _strictly(AsyncMongoClient, text)
    return MongoStore(client[database][collection], client=client, **own)


def blocking_from_url(url: StoreURL) -> BlockingMongoStore:
    """Return the same for threads."""
    from mangonel import MongoClient

    text, database, collection, own = _parts(url)
    client: Any = _strictly(MongoClient, text)
    return BlockingMongoStore(client[database][collection], client=client, **own)


def _strictly(client: Any, text: str) -> Any:
    """Open a client; what the driver only warns about, like PyMongo, is an error in a store's URL."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Unknown option")
        try:
            return client(text)
        except UserWarning as warning:
            raise UsageError(f"{warning}; docs/websessions/stores.md lists the store's own") from None


def _parts(url: StoreURL) -> tuple[str, str, str, dict[str, bool]]:
    collection = url.take("collection", COLLECTION)
    own = {name: url.take(name, False, flag) for name in ("durable", "documents")}
    own["sets_up"] = url.take("setup", True, flag)
    database = url.path.strip("/") or "app"
    names = {name.lower() for name in url.options}
    # An unreachable server must not make a visitor wait for ever.
    for name in ("socketTimeoutMS", "serverSelectionTimeoutMS", "connectTimeoutMS"):
        if name.lower() not in names:
            url.options[name] = TIMEOUT_MS
    if "retrywrites" not in names:
        url.options["retryWrites"] = "false"
        own["repeats"] = True
    # The driver checks the rest, and refuses unknown options.
    text = url.without_query()
    if not url.path:
        text += "/"
    return f"{text}?{urlencode(url.options, quote_via=quote)}", database, collection, own
