"""The flows to interrupt at every step: those of the driver and of the packages above it, each with its judge.

A flow is written once for both faces: `wait` awaits what can be awaited. `run` returns what the caller was told, and
`judge` holds the server's data against it. Spec: none; the promises are those of the docstrings.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from mangonel import InsertOne, UpdateOne
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket
from mangonel.odm import Document, connect
from mangonel.operations import DeleteOne
from mangonel.websessions import RequestView, WebSessions
from mangonel.websessions.answer import headers_of
from mangonel.websessions.stores.mongodb import BlockingMongoStore, MongoStore

FLOWS: dict[str, type[Flow]] = {}
# Never retried: a getMore would lose the cursor's position, and createIndexes is not a retryable write.
NOT_REPEATED = frozenset(["getMore", "createIndexes"])


async def wait(value: Any) -> Any:
    """Return the value, or the result of the awaitable."""
    return await value if inspect.isawaitable(value) else value


class Flow:
    """One program.

    Args:
        client: of the face under test, behind the proxy.
        admin: a blocking client of the server itself.
        database: the name of a database for this flow alone.
    """

    def __init_subclass__(cls) -> None:
        FLOWS[cls.__name__.lower()] = cls

    def __init__(self, client: Any, admin: Any, database: str) -> None:
        self.client, self.is_async = client, client._port.is_async
        self.database, self.seen = client[database], admin[database]
        self.things, self.stored = self.database.things, self.seen.things
        self.start()

    def start(self) -> None:
        """Set up what all runs share."""

    async def prepare(self) -> None:
        """Restore the server's data, undisturbed."""
        self.stored.delete_many({})

    async def run(self) -> Any:
        """Run the flow."""
        raise NotImplementedError

    def survives(self, command: str) -> bool:
        """Return whether a fault at this command must go unnoticed."""
        return command not in NOT_REPEATED

    def may_leave_cursor(self, command: str, kind: str) -> bool:
        """Return whether a cursor may stay open on the server after a fault at this command."""
        # If the server gets no killCursors, its own timeout closes the cursor.
        return command == "killCursors" and kind in ("unsent", "refused")

    async def judge(self, told: Any, is_done: bool) -> None:
        """Raise AssertionError if the server's data contradict the caller's result."""
        raise NotImplementedError


class Bulk(Flow):
    """An ordered bulk write of five commands, in which a second execution of any would show."""

    STATES: ClassVar = [
        [{"_id": 0}],
        [{"_id": 0}, {"_id": 1, "n": 0}],
        [{"_id": 0}, {"_id": 1, "n": 1}],
        [{"_id": 0}, {"_id": 1, "n": 1}, {"_id": 2, "n": 0}],
        [{"_id": 1, "n": 1}, {"_id": 2, "n": 0}],
        [{"_id": 1, "n": 1}, {"_id": 2, "n": 1}],
    ]

    async def prepare(self) -> None:
        await super().prepare()
        self.stored.insert_one({"_id": 0})

    async def run(self) -> Any:
        result = await wait(
            self.things.bulk_write(
                [
                    InsertOne({"_id": 1, "n": 0}),
                    UpdateOne({"_id": 1}, {"$inc": {"n": 1}}),
                    InsertOne({"_id": 2, "n": 0}),
                    DeleteOne({"_id": 0}),
                    UpdateOne({"_id": 2}, {"$inc": {"n": 1}}),
                ]
            )
        )
        return (result.inserted_count, result.modified_count, result.deleted_count)

    async def judge(self, told: Any, is_done: bool) -> None:
        found = self.stored.find().sort("_id").to_list()
        assert found in (self.STATES[-1:] if is_done else self.STATES), found
        assert not is_done or told == (2, 2, 1), told


class Cursor(Flow):
    """A query of four batches."""

    async def prepare(self) -> None:
        await super().prepare()
        self.stored.insert_many({"_id": number} for number in range(7))
        self.read: list[int] = []

    def options(self) -> dict[str, Any]:
        return {}

    async def run(self) -> Any:
        cursor = self.things.find(batch_size=2, sort={"_id": 1}, **self.options())
        if self.is_async:
            async for document in cursor:
                self.read.append(document["_id"])
        else:
            self.read.extend(document["_id"] for document in cursor)
        return self.read

    async def judge(self, told: Any, is_done: bool) -> None:
        assert self.read == list(range(7 if is_done else len(self.read))), self.read


class SessionCursor(Cursor):
    """The same query in an explicit session, which is used afterwards."""

    def start(self) -> None:
        self.session = self.client.start_session()

    def options(self) -> dict[str, Any]:
        return {"session": self.session}

    def may_leave_cursor(self, command: str, kind: str) -> bool:
        # The cursor's id is unknown, and killing the session would end its other operations: it stays until the session
        # ends.
        return command == "find" or super().may_leave_cursor(command, kind)


class Stream(Flow):
    """A change stream that reads three changes, one in each batch."""

    async def run(self) -> Any:
        changes: list[int] = []
        options = {"batch_size": 1, "max_await_time_ms": 20}
        if self.is_async:
            async with await wait(self.things.watch(**options)) as stream:
                self._change()
                while len(changes) < 3:
                    changes.append((await stream.next())["documentKey"]["_id"])
        else:
            with self.things.watch(**options) as stream:
                self._change()
                while len(changes) < 3:
                    changes.append(stream.next()["documentKey"]["_id"])
        return changes

    def _change(self) -> None:
        for number in range(3):
            self.stored.insert_one({"_id": number})

    def survives(self, command: str) -> bool:
        return True

    async def judge(self, told: Any, is_done: bool) -> None:
        assert not is_done or told == [0, 1, 2], told


class Transaction(Flow):
    """Two inserts and an increment, all or nothing."""

    async def prepare(self) -> None:
        await super().prepare()
        self.stored.insert_one({"_id": 0, "n": 0})

    async def run(self) -> Any:
        session = self.client.start_session()

        async def body(session: Any) -> None:
            await wait(self.things.insert_one({"_id": 1}, session=session))
            await wait(self.things.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session))
            await wait(self.things.insert_one({"_id": 2}, session=session))

        def plain_body(session: Any) -> None:
            self.things.insert_one({"_id": 1}, session=session)
            self.things.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
            self.things.insert_one({"_id": 2}, session=session)

        if self.is_async:
            async with session:
                await session.with_transaction(body)
        else:
            with session:
                session.with_transaction(plain_body)

    async def judge(self, told: Any, is_done: bool) -> None:
        found = self.stored.find().sort("_id").to_list()
        all_of_it = [{"_id": 0, "n": 1}, {"_id": 1}, {"_id": 2}]
        assert found in ([all_of_it] if is_done else [all_of_it, [{"_id": 0, "n": 0}]]), found


class Files(Flow):
    """A file of three chunks is stored and read."""

    DATA = bytes(range(250)) * 10

    def start(self) -> None:
        kind = AsyncGridFSBucket if self.is_async else GridFSBucket
        self.bucket = kind(self.database, chunk_size_bytes=1000)

    async def prepare(self) -> None:
        for name in ("files", "chunks"):
            self.seen.fs[name].delete_many({})

    async def run(self) -> Any:
        await wait(self.bucket.upload_from_stream_with_id(1, "file", self.DATA))
        source = await wait(self.bucket.open_download_stream(1))
        return bytes(await wait(source.read()))

    def survives(self, command: str) -> bool:
        # A reader that has lost its cursor queries again from its next chunk.
        return command != "createIndexes"

    async def judge(self, told: Any, is_done: bool) -> None:
        files = self.seen.fs.files.find().to_list()
        chunks = self.seen.fs.chunks.find().sort("n").to_list()
        assert not is_done or told == self.DATA
        if files:
            assert b"".join(chunk["data"] for chunk in chunks) == self.DATA
        else:
            assert not is_done
            assert not chunks, f"{len(chunks)} chunks of no file"


class Guest(Document):
    """Saved by the flow `Save`."""

    name: str
    visits: int = 0


class Save(Flow):
    """A changed document of the mapper is saved."""

    def start(self) -> None:
        clients = {"aclient" if self.is_async else "client": self.client}
        connect(database=self.database.name, **clients)
        self.stored = self.seen.guest

    async def prepare(self) -> None:
        await super().prepare()
        self.guest = Guest(name="ada")
        await self._save()

    async def _save(self) -> None:
        await wait(self.guest.asave() if self.is_async else self.guest.save())

    async def run(self) -> Any:
        self.guest.name = "eve"
        self.guest.visits += 1
        await self._save()

    async def judge(self, told: Any, is_done: bool) -> None:
        values = {"_id": self.guest.id, "name": "eve", "visits": 1}
        before = {"_id": self.guest.id, "name": "ada", "visits": 0}
        found = self.stored.find_one() or {}
        assert found in ([values] if is_done else [values, before]), found
        assert not is_done or not self.guest.is_changed, "pending changes"
        # Interrupted after its end, the document is stored.
        assert self.guest.is_changed or found == values, found
        await self._save()
        found = self.stored.find_one() or {}
        assert found == values, found
        assert not self.guest.is_changed


class WebSession(Flow):
    """A web session gets two keys in one request."""

    def start(self) -> None:
        store = (MongoStore if self.is_async else BlockingMongoStore)(self.things)
        self.sessions: WebSessions[Any] = WebSessions(store)
        self.face = self.sessions.asynchronous if self.is_async else self.sessions.blocking

    async def prepare(self) -> None:
        await super().prepare()
        session = await wait(self.face.load(RequestView(None)))
        session["first"] = True
        await wait(self.face.commit(session))
        self.cookie = next(
            value.partition(";")[0] for name, value in headers_of(session) if name == "Set-Cookie"
        )

    async def run(self) -> Any:
        session = await wait(self.face.load(RequestView(self.cookie)))
        session["cart"], session["total"] = ["tea"], 3
        await wait(self.face.commit(session))

    async def judge(self, told: Any, is_done: bool) -> None:
        session = await wait(self.face.load(RequestView(self.cookie)))
        before, after = {"first": True}, {"first": True, "cart": ["tea"], "total": 3}
        assert dict(session) in ([after] if is_done else [before, after]), dict(session)
