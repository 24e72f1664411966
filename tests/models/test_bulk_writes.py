"""Bulk writes in any mixture: results, errors and stored data equal PyMongo's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from models.twins import Side, TwinMachine, Twins, play

# Hundreds of steps on a busy machine.
pytestmark = [pytest.mark.plays_a_sample, pytest.mark.timeout(1200)]

IDS = st.integers(0, 5)
VALUES = st.sampled_from(["x", "X", 1, None])
DOCUMENT = st.one_of(
    st.builds(lambda key, a: {"_id": key, "a": a}, IDS, VALUES),
    st.builds(lambda key, a: {"_id": key, "a": a}, IDS, VALUES),
    st.sampled_from(
        [
            {"_id": {"$nope": 1}},
            {"_id": [1]},
            {"a": object()},
            {5: "a"},
            {"_id": 9, "$set": 1},
            {"_id": 1, "a": 2**70},
            {"_id": 8, "\0": 1},
            {},
            5,
            None,
        ]
    ),
)
FILTER = st.one_of(
    st.builds(lambda key: {"_id": key}, IDS),
    st.builds(lambda a: {"a": a}, VALUES),
    st.sampled_from([{}, {"$nope": 1}, {"a": object()}, 5, None]),
)
UPDATE = st.one_of(
    st.builds(lambda a: {"$set": {"a": a}}, VALUES),
    st.sampled_from(
        [
            {"$inc": {"n": 1}},
            {"$set": {"_id": 3}},
            {"$nope": 1},
            {"a": 1},
            {},
            [],
            [{"$set": {"b": "$a"}}],
            {"$set": {"a": object()}},
            {"$push": {"a": 1}},
            5,
        ]
    ),
)
REPLACEMENT = st.one_of(
    st.builds(lambda a: {"a": a}, VALUES),
    st.sampled_from([{"_id": 4, "a": 1}, {"$set": {"a": 1}}, {}, {"a": object()}, 5]),
)
COLLATION = st.sampled_from([None, None, {"locale": "en", "strength": 2}])
HINT = st.sampled_from([None, None, "_id_", [("_id", 1)], "nope"])
FILTERS = st.sampled_from([None, None, None, [{"i": 1}]])
UPSERT = st.booleans()

MODEL = st.one_of(
    st.tuples(st.just("InsertOne"), st.fixed_dictionaries({"document": DOCUMENT})),
    st.tuples(
        st.sampled_from(["UpdateOne", "UpdateMany"]),
        st.fixed_dictionaries(
            {"filter": FILTER, "update": UPDATE, "upsert": UPSERT},
            optional={"collation": COLLATION, "hint": HINT, "array_filters": FILTERS},
        ),
    ),
    st.tuples(
        st.just("ReplaceOne"),
        st.fixed_dictionaries(
            {"filter": FILTER, "replacement": REPLACEMENT, "upsert": UPSERT},
            optional={"collation": COLLATION, "hint": HINT},
        ),
    ),
    st.tuples(
        st.sampled_from(["DeleteOne", "DeleteMany"]),
        st.fixed_dictionaries({"filter": FILTER}, optional={"collation": COLLATION, "hint": HINT}),
    ),
)
CONCERNS = st.sampled_from([{}, {}, {"w": 1}, {"w": "majority"}, {"w": 0}])
FAILURES: list[dict[str, Any]] = [
    {"errorCode": 11602, "errorLabels": ["RetryableWriteError"]},
    {"errorCode": 2},
    {"closeConnection": True},
    {"writeConcernError": {"code": 64, "errmsg": "waited", "errInfo": {"wtimeout": True}}},
    {"writeConcernError": {"code": 91, "errmsg": "ends", "errorLabels": ["RetryableWriteError"]}},
]


class Mine(Exception):
    """The exception that a generator of documents raises."""


def copied(value: Any) -> Any:
    """A copy of a document, since a driver adds an `_id`; other values stay the same."""
    return copy.copy(value) if isinstance(value, dict) else value


class Bulks(TwinMachine):
    """A collection on each side."""

    own_words = ("TypeError", "ValueError", "OverflowError", "InvalidDocument", "AutoReconnect")

    def __init__(self) -> None:
        super().__init__()
        self.twins.fail_never()
        self.twins.behind(
            lambda c: (c.delete_many({}), c.insert_many([{"_id": 1, "a": "x"}, {"_id": 2, "a": "X"}]))
        )
        self.sessions: dict[int, Any] | None = None

    def teardown(self) -> None:
        """End the session; its transaction goes with it."""
        self.twins.fail_never()
        if self.sessions is not None:
            sessions = self.sessions
            self.twins.each(lambda side: sessions[id(side)].end_session())

    def write(self, call: Any, concern: dict[str, Any], failure: int = 99) -> None:
        """Make a write on both sides, each with the same failure of the server."""
        sessions = self.sessions

        def act(side: Side) -> Any:
            if failure < len(FAILURES):
                names = ["insert", "update", "delete"]
                self.twins.fail_once(side, failCommands=names, **FAILURES[failure])
            things = side.things
            if concern:
                made = side.driver.write_concern.WriteConcern(**concern)
                things = things.with_options(write_concern=made)
            return call(side, things, None if sessions is None else sessions[id(side)])

        try:
            self.both(act)
        finally:
            self.twins.fail_never()

    @rule(models=st.lists(MODEL, max_size=6), ordered=st.booleans(), concern=CONCERNS)
    def bulk_write(self, models: list[Any], ordered: bool, concern: dict[str, Any]) -> None:
        self.write(lambda *of: bulk(*of, models, ordered), concern)

    @precondition(lambda self: self.sessions is None)
    @rule(
        # One command that is not retryable keeps PyMongo from retrying the others.
        models=st.lists(MODEL.filter(lambda model: not model[0].endswith("Many")), min_size=1, max_size=4),
        ordered=st.booleans(),
        failure=st.integers(0, len(FAILURES) - 1),
    )
    def bulk_write_on_a_server_that_fails(self, models: list[Any], ordered: bool, failure: int) -> None:
        self.write(lambda *of: bulk(*of, models, ordered), {}, failure)

    @rule(
        documents=st.lists(DOCUMENT, max_size=6),
        ordered=st.booleans(),
        concern=CONCERNS,
        kind=st.sampled_from(["list", "tuple", "generator", "generator that raises", "dict"]),
    )
    def insert_many(self, documents: list[Any], ordered: bool, concern: dict[str, Any], kind: str) -> None:
        def call(side: Side, things: Any, session: Any) -> Any:
            return things.insert_many(given(documents, kind), ordered=ordered, session=session)

        self.write(call, concern)

    @precondition(lambda self: self.sessions is None)
    @rule()
    def start_transaction(self) -> None:
        sessions = self.pair(lambda side: side.client.start_session())
        assert sessions is not None
        self.twins.each(lambda side: started(sessions[id(side)]))
        self.sessions = sessions

    @precondition(lambda self: self.sessions is not None)
    @rule(commits=st.booleans())
    def end_transaction(self, commits: bool) -> None:
        sessions, self.sessions = self.sessions, None
        assert sessions is not None
        name = "commit_transaction" if commits else "abort_transaction"
        self.both(lambda side: getattr(sessions[id(side)], name)())
        self.twins.each(lambda side: sessions[id(side)].end_session())

    @invariant()
    def the_same_is_stored(self) -> None:
        stored = [
            sorted(
                (without_generated(d) for d in self.twins.admin[side.database.name].things.find()), key=repr
            )
            for side in self.twins.sides
            # After everything that this side sent without waiting for a reply.
            if self.twins.face.run(lambda side=side: side.database.command("ping"))
        ]
        assert stored[0] == stored[1]


def started(session: Any) -> None:
    """Start a transaction: on either face, in either driver."""
    made = session.start_transaction()
    if hasattr(made, "__await__") and not hasattr(made, "__aenter__"):
        return made
    return None


def bulk(side: Side, things: Any, session: Any, models: list[Any], ordered: bool) -> Any:
    """Make the models of the side's driver, and write them."""
    made = [
        getattr(side.operations, name)(**{key: copied(value) for key, value in arguments.items()})
        for name, arguments in models
    ]
    return things.bulk_write(made, ordered=ordered, session=session)


def given(documents: list[Any], kind: str) -> Any:
    """The documents as this kind of iterable."""
    copies = [copied(document) for document in documents]

    def made() -> Iterator[Any]:
        if kind != "generator that raises":
            yield from copies
            return
        # Each driver may choose which of two mistakes it reports first.
        yield from (document for document in copies if isinstance(document, dict))
        raise Mine("no more documents")

    if kind == "dict":
        return {"a": copies}
    return {"list": copies, "tuple": tuple(copies)}.get(kind) or made()


def without_generated(document: dict[str, Any]) -> dict[str, Any]:
    """A stored document whose id was not made by a driver."""
    return {
        key: type(value).__name__ if type(value).__name__ == "ObjectId" else value
        for key, value in document.items()
    }


def test_any_mixture_of_bulk_writes_ends_as_in_pymongo(twins: Twins) -> None:
    play(Bulks, twins=twins)
