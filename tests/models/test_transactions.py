"""Transactions with every operation, and failing commits and aborts: as in PyMongo, and as in a model of documents."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from models.twins import Side, TwinMachine, Twins, play

# Hundreds of steps on a machine that does other things too.
pytestmark = [pytest.mark.plays_a_sample, pytest.mark.timeout(1200)]

IDS = st.integers(0, 5)


async def _list(cursor: Any) -> list[Any]:
    """All documents of a cursor that may have to be awaited first."""
    if inspect.isawaitable(cursor):
        cursor = await cursor
    return [document async for document in cursor]


def listed(side: Side, cursor: Any) -> Any:
    """All documents of a cursor, on either face."""
    is_async = type(side.client).__name__.startswith("Async")
    return _list(cursor) if is_async else list(cursor)


# Reads, and writes of which the model says nothing: they are compared only.
OTHERS: dict[str, Any] = {
    "find": lambda s, session: listed(s, s.things.find({}, session=session, sort=[("_id", 1)])),
    "find in batches": lambda s, session: listed(
        s, s.things.find({}, session=session, batch_size=1, sort=[("_id", 1)])
    ),
    "find_one": lambda s, session: s.things.find_one({"_id": 1}, session=session),
    "aggregate": lambda s, session: listed(s, s.things.aggregate([{"$sort": {"_id": 1}}], session=session)),
    "count_documents": lambda s, session: s.things.count_documents({}, session=session),
    "estimated_document_count": lambda s, session: s.things.estimated_document_count(),
    "distinct": lambda s, session: s.things.distinct("_id", session=session),
    "out": lambda s, session: s.things.aggregate([{"$out": "copies"}], session=session),
    "create_index": lambda s, session: s.things.create_index([("n", 1)], session=session),
    "index of a new collection": lambda s, session: s.database.fresh.create_index("n", session=session),
    "drop": lambda s, session: s.database.other.drop(session=session),
    "list_collection_names": lambda s, session: s.database.list_collection_names(session=session),
    "rename": lambda s, session: s.things.rename("renamed", session=session),
    "command": lambda s, session: s.database.command("distinct", "things", key="_id", session=session),
    "write concern": lambda s, session: s.things.with_options(
        write_concern=s.driver.WriteConcern(w=1)
    ).update_one({"_id": 99}, {"$set": {"n": 1}}, session=session),
    "w=0": lambda s, session: s.things.with_options(write_concern=s.driver.WriteConcern(w=0)).delete_one(
        {"_id": 99}, session=session
    ),
    "secondary": lambda s, session: s.things.with_options(
        read_preference=s.driver.ReadPreference.SECONDARY
    ).find_one({}, session=session),
    "a mistake": lambda s, session: s.things.update_one({"_id": 1}, {"$nope": 1}, session=session),
    "read of the server": lambda s, session: s.things.find_one({"$nope": 1}, session=session),
    "watch": lambda s, session: s.things.watch(session=session),
}
# Writes that the model repeats on a dict of documents.
WRITES: dict[str, tuple[Any, Any]] = {
    "insert_one": (
        lambda s, session, n: s.things.insert_one({"_id": n, "n": 0}, session=session),
        lambda rows, n: rows.setdefault(n, 0) if n not in rows else "refused",
    ),
    "insert_many": (
        lambda s, session, n: s.things.insert_many(
            [{"_id": n + 10, "n": 1}, {"_id": n, "n": 1}], session=session
        ),
        None,
    ),
    "update_one": (
        lambda s, session, n: s.things.update_one({"_id": n}, {"$inc": {"n": 1}}, session=session),
        lambda rows, n: rows.update({n: rows[n] + 1}) if n in rows else None,
    ),
    "upsert": (
        lambda s, session, n: s.things.update_one(
            {"_id": n}, {"$set": {"n": 7}}, upsert=True, session=session
        ),
        lambda rows, n: rows.update({n: 7}),
    ),
    "replace_one": (
        lambda s, session, n: s.things.replace_one({"_id": n}, {"n": 9}, session=session),
        lambda rows, n: rows.update({n: 9}) if n in rows else None,
    ),
    "delete_one": (
        lambda s, session, n: s.things.delete_one({"_id": n}, session=session),
        lambda rows, n: rows.pop(n, None),
    ),
    "find_one_and_update": (
        lambda s, session, n: s.things.find_one_and_update({"_id": n}, {"$inc": {"n": 5}}, session=session),
        lambda rows, n: rows.update({n: rows[n] + 5}) if n in rows else None,
    ),
    "bulk_write": (
        lambda s, session, n: s.things.bulk_write(
            [
                s.operations.UpdateOne({"_id": n}, {"$inc": {"n": 2}}, upsert=True),
                s.operations.DeleteMany({"_id": {"$gt": 9}}),
            ],
            session=session,
        ),
        lambda rows, n: (
            rows.update({n: rows.get(n, 0) + 2}),
            [rows.pop(key) for key in list(rows) if key > 9],
        ),
    ),
}
FAILURES: list[dict[str, Any]] = [
    {"errorCode": 112, "errorLabels": ["TransientTransactionError"]},
    {"closeConnection": True},
    {"errorCode": 251},
    {"errorCode": 189, "errorLabels": []},
]
COMMIT_FAILURES: list[dict[str, Any]] = [
    *FAILURES,
    {"errorCode": 50},
    {"writeConcernError": {"code": 64, "errmsg": "waited", "errInfo": {"wtimeout": True}}},
    {"writeConcernError": {"code": 91, "errmsg": "ends"}, "errorLabels": ["RetryableWriteError"]},
    {"writeConcernError": {"code": 100, "errmsg": "cannot"}},
]


class Mine(Exception):
    """Raised by the callback of `with_transaction`."""


class Transactions(TwinMachine):
    """One session on each side, and another that looks from outside."""

    # Of an `ExecutionTimeout`: this driver names the configured time limits after every command, PyMongo after a find.
    own_words = ("TypeError", "ValueError", "AutoReconnect", "NetworkTimeout", "ExecutionTimeout")

    def __init__(self) -> None:
        super().__init__()
        self.twins.fail_never()
        for side in self.twins.sides:
            database = self.twins.admin[side.database.name]
            for name in database.list_collection_names():
                database.drop_collection(name)
            for name in ("things", "other"):
                database.create_collection(name)
            database.things.insert_many([{"_id": n, "n": 0} for n in range(3)])
        self.rows = dict.fromkeys(range(3), 0)
        self.inside: dict[int, int] | None = None
        # Whether the model still knows what is stored: not after what only the server can tell.
        self.is_known = True
        self.sessions: Any = None
        self.new_session()

    def new_session(self) -> None:
        """Go on with another session."""
        self.sessions = self.pair(lambda side: side.client.start_session())

    def teardown(self) -> None:
        """Nothing stays open."""
        self.twins.fail_never()
        self.twins.each(lambda side: self.sessions[id(side)].end_session())

    def session(self, side: Side) -> Any:
        """The session of a side."""
        return self.sessions[id(side)]

    def act(self, call: Any, names: list[str] | None = None, failure: dict[str, Any] | None = None) -> Any:
        """Make the call on both sides, each with the same failure of the server."""

        def done(side: Side) -> Any:
            if failure is not None:
                self.twins.fail_once(side, failCommands=names, **failure)
            return call(side)

        try:
            return self.both(done)
        finally:
            if failure is not None:
                self.twins.fail_never()

    def act_at_the_end(self, call: Any, name: str, failure: dict[str, Any] | None) -> Any:
        """As `act`, for the end of a transaction, which the server may miss: then it would keep others waiting."""
        told = self.act(call, [name], failure)
        if failure is not None:
            self.twins.forget_transactions()
        return told

    @rule()
    def start(self) -> None:
        told = self.act(lambda side: begun(self.session(side)))
        if told is None:
            assert self.inside is None
            self.inside = dict(self.rows)

    @rule(failure=st.sampled_from([None, None, None, *COMMIT_FAILURES]))
    def commit(self, failure: dict[str, Any] | None) -> None:
        told = self.act_at_the_end(
            lambda side: self.session(side).commit_transaction(), "commitTransaction", failure
        )
        if self.inside is not None:
            if told is None:
                self.rows = self.inside
            else:
                self.is_known = False
            self.inside = None

    @rule(failure=st.sampled_from([None, None, None, *FAILURES]))
    def abort(self, failure: dict[str, Any] | None) -> None:
        told = self.act_at_the_end(
            lambda side: self.session(side).abort_transaction(), "abortTransaction", failure
        )
        if told is None:
            self.inside = None

    @rule(name=st.sampled_from(list(WRITES)), number=IDS, with_session=st.booleans())
    def write(self, name: str, number: int, with_session: bool) -> None:
        if self.inside is not None and not with_session:
            # It would wait for the transaction.
            return
        call, model = WRITES[name]
        told = self.act(lambda side: call(side, self.session(side) if with_session else None, number))
        rows = self.inside if self.inside is not None else self.rows
        if isinstance(told, tuple) or model is None:
            self.is_known = False
        else:
            model(rows, number)

    @rule(name=st.sampled_from(list(OTHERS)))
    def operate(self, name: str) -> None:
        if name in ("secondary", "w=0") and self.inside is None:
            # There is no secondary to wait for; and what sessions refuse is refused here before a server is looked for.
            return
        told = self.act(lambda side: shown(OTHERS[name](side, self.session(side)), name))
        if isinstance(told, tuple) or name == "rename":
            self.is_known = False
        if name == "find" and isinstance(told, list) and self.is_known:
            rows = self.inside if self.inside is not None else self.rows
            assert told == [{"_id": key, "n": rows[key]} for key in sorted(rows)]

    @precondition(lambda self: self.inside is not None)
    @rule(
        failure=st.sampled_from(FAILURES),
        name=st.sampled_from(["insert_one", "update_one", "bulk_write"]),
        number=IDS,
    )
    def write_on_a_server_that_fails(self, failure: dict[str, Any], name: str, number: int) -> None:
        self.is_known = False
        call = WRITES[name][0]
        self.act(lambda side: call(side, self.session(side), number), ["insert", "update", "delete"], failure)

    @rule(ends=st.sampled_from(["return", "raise", "abort", "transient", "unknown"]), number=IDS)
    def with_transaction(self, ends: str, number: int) -> None:
        try:
            told = self.act(lambda side: run_inside(self.twins, side, self.session(side), ends, number))
        finally:
            # A callback that did not run met none of the server's failures.
            self.twins.fail_never()
        self.is_known = self.is_known and isinstance(told, tuple)

    @rule()
    def end_session(self) -> None:
        self.act(lambda side: self.session(side).end_session())
        self.inside = None

    @rule()
    def begin_another_session(self) -> None:
        self.act(lambda side: self.session(side).end_session())
        self.inside = None
        self.new_session()

    @invariant()
    def outside_is_what_was_committed(self) -> None:
        stored = [
            {row["_id"]: row["n"] for row in self.twins.admin[side.database.name].things.find()}
            for side in self.twins.sides
        ]
        assert stored[0] == stored[1]
        if self.is_known:
            assert stored[0] == self.rows
        else:
            self.rows = stored[0]
            self.is_known = self.inside is None

    @invariant()
    def sessions_say_the_same_of_themselves(self) -> None:
        self.both(lambda side: [self.session(side).in_transaction, self.session(side).has_ended])


def begun(session: Any) -> Any:
    """Start a transaction; the result is only a context."""
    made = session.start_transaction()
    if not inspect.isawaitable(made):
        return None

    async def wait() -> None:
        await made

    return wait()


def shown(value: Any, name: str) -> Any:
    """Return the part of an answer that must be the same in two runs."""
    if name not in ("watch", "out", "command", "list_collection_names"):
        return value

    def only(value: Any) -> Any:
        if name == "command":
            return value["values"]
        return sorted(value) if name == "list_collection_names" else type(value).__name__ and "done"

    if not inspect.isawaitable(value):
        return only(value)

    async def wait() -> Any:
        return only(await value)

    return wait()


def run_inside(twins: Twins, side: Side, session: Any, ends: str, number: int) -> Any:
    """A `with_transaction` whose callback, or whose commit, goes wrong."""
    tries = []
    twins.fail_never()
    if ends == "transient":
        twins.fail_once(
            side, failCommands=["update"], errorCode=112, errorLabels=["TransientTransactionError"]
        )
    if ends == "unknown":
        twins.fail_once(
            side,
            failCommands=["commitTransaction"],
            writeConcernError={"code": 91, "errmsg": "ends"},
            errorLabels=["RetryableWriteError"],
        )

    def after() -> Any:
        if ends == "raise":
            raise Mine("not this")
        return session.abort_transaction() if ends == "abort" else None

    def work(session: Any) -> Any:
        tries.append(1)
        change = {"$inc": {"n": 100}}
        written = side.things.update_one({"_id": number}, change, session=session)
        if not inspect.isawaitable(written):
            after()
            return len(tries)

        async def wait() -> int:
            await written
            ended = after()
            if ended is not None:
                await ended
            return len(tries)

        return wait()

    return session.with_transaction(work)


def test_transactions_with_every_operation_end_as_in_pymongo(twins: Twins) -> None:
    play(Transactions, twins=twins)
