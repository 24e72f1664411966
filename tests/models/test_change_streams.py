"""Change streams through failures, drops, renames and reopening: no change is lost or doubled, and their order holds.

The model is the list of changes that the run's writes must have made, and each stream's position in it.
"""

from __future__ import annotations

import itertools
from typing import Any

import pymongo
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from mangonel import errors
from mangonel.server import Server
from models.twins import Steps, play
from tools.faces import Face, eventually

pytestmark = [pytest.mark.plays_a_sample, pytest.mark.timeout(1200)]

IDS = st.integers(0, 3)
# After these a stream resumes by itself: by label, as servers set it since 4.4, or after a broken connection.
RESUMABLE: list[dict[str, Any]] = [
    {"errorCode": 91, "errorLabels": ["ResumableChangeStreamError"]},
    {"errorCode": 43},
    {"errorCode": 280, "errorLabels": ["ResumableChangeStreamError"]},
    {"closeConnection": True},
]
FATAL: list[dict[str, Any]] = [
    {"errorCode": 2},
    {"errorCode": 136},
    {"errorCode": 280, "errorLabels": ["NonResumable"]},
]
ENDS = ("drop", "rename")


class Streams(Steps):
    """One collection, the changes made to it, and streams that follow it."""

    # In a tuple, since hypothesis searches all attributes for rules, and a client has every attribute.
    given: tuple[Face, Any, Any, str]
    runs = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        # Each run has a database of its own, so that it sees no changes of others.
        self.face, client, self.admin, name = self.given
        self.database = f"{name}_{next(self.runs)}"
        self.ours = client[self.database].things
        self.theirs = self.admin[self.database].things
        self.fail("off")
        self.made: list[tuple[str, Any]] = []
        self.rows: set[int] = set()
        # The stream, and how many of the changes it returned; None without one.
        self.stream: Any = None
        self.at = 0
        # Where a stream may be reopened: a token, and how many changes had come by then.
        self.places: list[tuple[str, Any, int]] = []
        self.theirs.insert_one({"_id": -1})
        self.open({}, 0)

    def teardown(self) -> None:
        """Clean up."""
        self.fail("off")
        if self.stream is not None:
            self.face.run(self.stream.close)
        self.admin.drop_database(self.database)

    def fail(self, mode: Any, **data: Any) -> None:
        """Make the server fail, or stop that."""
        point = {"configureFailPoint": "failCommand", "mode": mode}
        self.admin.admin.command({**point, "data": data} if data else point)

    def open(self, options: dict[str, Any], at: int) -> None:
        """Watch the collection from here."""
        if self.stream is not None:
            self.face.run(self.stream.close)
        self.stream = self.face.run(lambda: self.ours.watch(max_await_time_ms=50, **options))
        self.at, self.size = at, options.get("batch_size")

    # Changes to the collection.

    @rule(number=IDS)
    def insert(self, number: int) -> None:
        if number not in self.rows:
            self.theirs.insert_one({"_id": number, "n": 0})
            self.rows.add(number)
            self.made.append(("insert", number))

    @rule(number=IDS)
    def update(self, number: int) -> None:
        if self.theirs.update_one({"_id": number}, {"$inc": {"n": 1}}).modified_count:
            self.made.append(("update", number))

    @rule(number=IDS)
    def replace(self, number: int) -> None:
        if self.theirs.replace_one({"_id": number}, {"n": len(self.made)}).modified_count:
            self.made.append(("replace", number))

    @rule(number=IDS)
    def delete(self, number: int) -> None:
        if self.theirs.delete_one({"_id": number}).deleted_count:
            self.rows.discard(number)
            self.made.append(("delete", number))

    @rule(numbers=st.lists(st.integers(100, 120), min_size=3, max_size=12, unique=True))
    def write_many(self, numbers: list[int]) -> None:
        numbers = [number for number in numbers if number not in self.rows]
        if numbers:
            self.theirs.insert_many([{"_id": number, "n": 0} for number in numbers])
            self.rows.update(numbers)
            self.made += [("insert", number) for number in numbers]

    @rule(how=st.sampled_from(ENDS))
    def end_the_collection(self, how: str) -> None:
        if how == "drop":
            self.theirs.drop()
        else:
            self.theirs.rename("elsewhere", dropTarget=True)
        self.made += [(how, None), ("invalidate", None)]
        self.rows.clear()
        # There is always a collection to write to.
        self.admin[self.database].create_collection("things")

    # Actions on the stream.

    @rule(failure=st.sampled_from(RESUMABLE), times=st.integers(1, 2))
    def fail_and_go_on(self, failure: dict[str, Any], times: int) -> None:
        if self.stream is not None:
            self.fail({"times": times}, failCommands=["getMore"], **failure)
            self.read(1)
            self.fail("off")

    @precondition(lambda self: self.stream is not None)
    @rule(failure=st.sampled_from(FATAL))
    def fail_for_good(self, failure: dict[str, Any]) -> None:
        token, at, began = self.stream.resume_token, self.at, self.at
        self.fail({"times": 1}, failCommands=["getMore"], **failure)
        try:
            while not self.is_over(began) and (change := self.face.run(self.stream.try_next)) is not None:
                self.check(change)
                token, at = self.stream.resume_token, self.at
        except errors.OperationFailure:
            assert not self.stream.alive
            self.open({"resume_after": token}, at)
        finally:
            self.fail("off")
        if self.is_over(began):
            self.go_on()

    @precondition(lambda self: self.stream is not None)
    @rule()
    def kill_its_cursor(self) -> None:
        cursor = self.stream._cursor
        if cursor is not None and cursor.cursor_id:
            self.admin[self.database].command("killCursors", "things", cursors=[cursor.cursor_id])

    @rule(count=st.integers(1, 5))
    def read(self, count: int) -> None:
        """Read as many changes as were made; after that nothing may come."""
        for _ in range(count):
            if self.at == len(self.made):
                assert self.face.run(self.stream.try_next) is None
                return
            self.next_change()

    @rule()
    def read_all(self) -> None:
        while self.at < len(self.made):
            self.next_change()

    def next_change(self) -> None:
        """The next change must come, and be the expected one."""
        found: list[Any] = []

        def comes() -> bool:
            change = self.face.run(self.stream.try_next)
            if change is not None:
                found.append(change)
            return bool(found)

        began = self.at
        eventually(comes, f"{self.made[began]}")
        self.check(found[0])
        if self.is_over(began):
            self.go_on()

    def check(self, change: Any) -> None:
        """This change must be the next expected one."""
        assert self.at < len(self.made), f"expected no change, got {change}"
        kind, number = self.made[self.at]
        key = change.get("documentKey", {}).get("_id")
        assert (change["operationType"], key) == (kind, number), (
            f"expected {self.made[self.at :][:3]}, got {change}"
        )
        self.at += 1
        assert self.stream.resume_token == change["_id"] or kind != "invalidate"
        # After an invalidation only start_after can resume.
        name = "start_after" if kind == "invalidate" else "resume_after"
        self.places = [*self.places[-5:], (name, change["_id"], self.at)]

    def is_over(self, began: int) -> bool:
        """Return whether the stream has passed the end of its collection since change number `began`."""
        is_over = self.at > began and self.made[self.at - 1][0] == "invalidate"
        # For a full batch, the server reports only in the next one that it was the last.
        assert not is_over or self.size is not None or not self.stream.alive
        return is_over

    def go_on(self) -> None:
        """After the end of a collection, watch the next one with the same name."""
        name, token, at = self.places[-1]
        assert name == "start_after"
        with pytest.raises(errors.OperationFailure):
            self.face.run(lambda: self.ours.watch(resume_after=token, max_await_time_ms=50))
        self.open({"start_after": token}, at)

    @precondition(lambda self: self.places)
    @rule(index=st.integers(0, 5), starts=st.booleans(), size=st.sampled_from([None, 1, 3]))
    def reopen(self, index: int, starts: bool, size: int | None) -> None:
        name, token, at = self.places[index % len(self.places)]
        options: dict[str, Any] = {"start_after" if starts else name: token}
        if size is not None:
            options["batch_size"] = size
        self.open(options, at)

    @rule()
    def reopen_at_a_time(self) -> None:
        # The time of the last write; the next write has a later one.
        session = self.admin.start_session()
        self.admin[self.database].things.find_one(session=session)
        time = session.operation_time
        self.open(
            {"start_at_operation_time": pymongo_time_after(time), "full_document": "updateLookup"},
            len(self.made),
        )


def pymongo_time_after(time: Any) -> Any:
    """Return the moment after this one, for this driver."""
    from mangonel.bson.timestamp import Timestamp

    return Timestamp(time.time, time.inc + 1)


def test_no_change_is_lost_or_doubled_whatever_happens_to_the_stream(
    face: Face, server: Server, database_name: str
) -> None:
    with pymongo.MongoClient(server.uri) as admin:
        play(Streams, given=(face, face.client(server.uri), admin, database_name))
