"""A cursor's methods in any order: values and exceptions equal PyMongo's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from models.twins import Side, TwinMachine, Twins, play

# Hundreds of steps on a busy machine.
pytestmark = [pytest.mark.plays_a_sample, pytest.mark.timeout(1200)]

DOCUMENTS = [{"_id": n, "n": n % 3, "tag": "aA"[n % 2]} for n in range(12)]

FIND = st.fixed_dictionaries(
    {},
    optional={
        "filter": st.sampled_from([None, {}, {"n": 1}, {"n": 99}, {"$nope": 1}]),
        "projection": st.sampled_from([None, ["n"], {"tag": 0}]),
        "skip": st.integers(0, 5),
        "limit": st.integers(-4, 8),
        "batch_size": st.integers(0, 4),
        "sort": st.sampled_from([[("_id", -1)], [("n", 1), ("_id", 1)]]),
        "hint": st.sampled_from(["_id_", [("_id", 1)], "nope"]),
        "comment": st.just("why"),
        "cursor_type": st.sampled_from([0, 64]),
        "max_time_ms": st.just(60_000),
    },
)

SETTINGS: dict[str, Any] = {
    "batch_size": lambda c: c.batch_size(2),
    "batch_size of a text": lambda c: c.batch_size("2"),
    "negative batch_size": lambda c: c.batch_size(-1),
    "limit": lambda c: c.limit(3),
    "negative limit": lambda c: c.limit(-3),
    "limit of a text": lambda c: c.limit("3"),
    "no limit": lambda c: c.limit(0),
    "skip": lambda c: c.skip(2),
    "negative skip": lambda c: c.skip(-2),
    "sort": lambda c: c.sort("_id", -1),
    "sort of a number": lambda c: c.sort(5),
    "sort of nothing": lambda c: c.sort([]),
    "hint": lambda c: c.hint("_id_"),
    "no hint": lambda c: c.hint(None),
    "comment": lambda c: c.comment("why"),
    "max_time_ms": lambda c: c.max_time_ms(60_000),
    "max_await_time_ms": lambda c: c.max_await_time_ms(5),
    "max_await_time_ms of a text": lambda c: c.max_await_time_ms("5"),
    "collation": lambda c: c.collation({"locale": "en", "strength": 2}),
    "no collation": lambda c: c.collation(None),
    "allow_disk_use": lambda c: c.allow_disk_use(True),
    "allow_disk_use of a number": lambda c: c.allow_disk_use(1),
    "add_option": lambda c: c.add_option(16),
    "add_option exhaust": lambda c: c.add_option(64),
    "add_option of a text": lambda c: c.add_option("16"),
    "remove_option": lambda c: c.remove_option(16),
    "remove_option exhaust": lambda c: c.remove_option(64),
    "where": lambda c: c.where("this.n == 1"),
    "where of a number": lambda c: c.where(5),
    "min": lambda c: c.min([("_id", 2)]),
    "max": lambda c: c.max([("_id", 9)]),
    "max of a number": lambda c: c.max(9),
    "slice": lambda c: c[2:6],
    "slice from": lambda c: c[3:],
    "empty slice": lambda c: c[4:4],
    "wrong slice": lambda c: c[6:2],
    "slice with a step": lambda c: c[0:6:2],
    "negative slice": lambda c: c[-2:],
    "position": lambda c: c[1],
    "position beyond": lambda c: c[50],
    "negative position": lambda c: c[-1],
    "position of a text": lambda c: c["1"],
}

READS: dict[str, Any] = {
    "next": lambda c: c.next(),
    "next, three times": lambda c: three(c),
    "to_list": lambda c: c.to_list(),
    "to_list of 2": lambda c: c.to_list(2),
    "to_list of None": lambda c: c.to_list(None),
    "to_list of 0": lambda c: c.to_list(0),
    "to_list of -1": lambda c: c.to_list(-1),
    "close": lambda c: c.close(),
    "rewind": lambda c: c.rewind(),
    "distinct": lambda c: c.distinct("n"),
    "distinct of a number": lambda c: c.distinct(5),
    "explain": lambda c: explained(c),
    "collection": lambda c: c.collection.name,
    "session": lambda c: c.session is None,
    "text": lambda c: hasattr(c, "__len__"),
}

COMMAND_READS: dict[str, Any] = {
    name: READS[name]
    for name in (
        "next",
        "next, three times",
        "to_list",
        "to_list of 2",
        "to_list of 0",
        "to_list of -1",
        "close",
    )
} | {
    "try_next": lambda c: c.try_next(),
    "batch_size": lambda c: c.batch_size(2),
    "negative batch_size": lambda c: c.batch_size(-1),
    "batch_size of a text": lambda c: c.batch_size("2"),
    "session": lambda c: c.session is None,
}


def three(cursor: Any) -> Any:
    """Read three documents."""
    first = cursor.next()
    if not hasattr(first, "__await__"):
        return [first, cursor.next(), cursor.next()]

    async def steps() -> list[Any]:
        return [await first, await cursor.next(), await cursor.next()]

    return steps()


def explained(cursor: Any) -> Any:
    """Return whether the server explained it; the plan has times in it."""
    plan = cursor.explain()
    if not hasattr(plan, "__await__"):
        return "queryPlanner" in plan

    async def steps() -> bool:
        return "queryPlanner" in await plan

    return steps()


class CursorOrder(TwinMachine):
    """Some cursors on both sides, in and out of sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.cursors: list[tuple[dict[int, Any], bool]] = []
        self.sessions: list[dict[int, Any]] = []
        self.twins.behind(lambda c: (c.delete_many({}), c.insert_many(DOCUMENTS)))

    def teardown(self) -> None:
        """Close everything of this run."""
        for cursors, _ in self.cursors:
            self.twins.each(lambda side, cursors=cursors: cursors[id(side)].close())
        for sessions in self.sessions:
            self.twins.each(lambda side, sessions=sessions: sessions[id(side)].end_session())

    def session(self, index: int) -> Any:
        """One of the sessions, or none: as a function of the side."""
        if index >= len(self.sessions):
            return lambda side: None
        sessions = self.sessions[index]
        return lambda side: sessions[id(side)]

    def keep(self, cursors: dict[int, Any] | None, is_command: bool = False) -> None:
        """Hold new cursors, of at most four pairs."""
        if cursors is not None:
            self.cursors.append((cursors, is_command))
            if len(self.cursors) > 4:
                old, _ = self.cursors.pop(0)
                self.twins.each(lambda side: old[id(side)].close())

    @rule()
    def start_session(self) -> None:
        if len(self.sessions) < 2:
            made = self.pair(lambda side: side.client.start_session())
            assert made is not None
            self.sessions.append(made)

    @precondition(lambda self: self.sessions)
    @rule(index=st.integers(0, 1))
    def end_session(self, index: int) -> None:
        sessions = self.sessions[index % len(self.sessions)]
        self.both(lambda side: sessions[id(side)].end_session())

    @rule(options=FIND, session=st.integers(0, 4))
    def find(self, options: dict[str, Any], session: int) -> None:
        chosen = self.session(session)
        self.keep(self.pair(lambda side: side.things.find(**copy.deepcopy(options), session=chosen(side))))

    @rule(
        batch=st.integers(0, 4),
        session=st.integers(0, 4),
        stages=st.sampled_from([[], [{"$sort": {"_id": -1}}]]),
    )
    def aggregate(self, batch: int, session: int, stages: list[Any]) -> None:
        chosen = self.session(session)
        self.keep(
            self.pair(lambda side: side.things.aggregate(stages, batchSize=batch, session=chosen(side))), True
        )

    @precondition(lambda self: any(not is_command for _, is_command in self.cursors))
    @rule(index=st.integers(0, 3), name=st.sampled_from(list(SETTINGS)))
    def change(self, index: int, name: str) -> None:
        self.call(index, SETTINGS, name)

    @precondition(lambda self: self.cursors)
    @rule(index=st.integers(0, 3), name=st.sampled_from(list(READS)))
    def read(self, index: int, name: str) -> None:
        self.call(index, READS, name)

    @precondition(lambda self: any(is_command for _, is_command in self.cursors))
    @rule(index=st.integers(0, 3), name=st.sampled_from(list(COMMAND_READS)))
    def read_command_cursor(self, index: int, name: str) -> None:
        held = [cursors for cursors, is_command in self.cursors if is_command]
        self.on(held[index % len(held)], COMMAND_READS[name])

    def call(self, index: int, table: dict[str, Any], name: str) -> None:
        """Call a method of a cursor that `find` made."""
        held = [cursors for cursors, is_command in self.cursors if not is_command]
        if held:
            self.on(held[index % len(held)], table[name])

    def on(self, cursors: dict[int, Any], method: Any) -> None:
        """Call a method of both cursors."""
        ours, theirs = (cursors[id(side)] for side in self.twins.sides)
        self.both(lambda side: method(cursors[id(side)]), (ours, theirs))

    @precondition(lambda self: any(not is_command for _, is_command in self.cursors))
    @rule(index=st.integers(0, 3), deep=st.booleans())
    def clone(self, index: int, deep: bool) -> None:
        held = [cursors for cursors, is_command in self.cursors if not is_command]
        cursors = held[index % len(held)]
        how = copy.deepcopy if deep else copy.copy
        self.keep(self.pair(lambda side: how(cursors[id(side)]) if deep else cursors[id(side)].clone()))

    @precondition(lambda self: self.cursors)
    @rule(index=st.integers(0, 3))
    def kill_on_the_server(self, index: int) -> None:
        cursors, _ = self.cursors[index % len(self.cursors)]
        if cursors[id(self.twins.sides[0])]._is_exhaust:
            # The server sends its batches unasked, so its progress may differ.
            return
        for side in self.twins.sides:
            number = cursors[id(side)].cursor_id
            if number and cursors[id(side)].session is None:
                self.twins.admin[side.database.name].command("killCursors", "things", cursors=[int(number)])

    @invariant()
    def all_cursors_say_the_same_of_themselves(self) -> None:
        for cursors, is_command in self.cursors:

            def state(side: Side, cursors: dict[int, Any] = cursors, is_command: bool = is_command) -> Any:
                cursor = cursors[id(side)]
                return [
                    cursor.alive,
                    None if is_command else cursor.retrieved,
                    cursor.cursor_id is None or bool(cursor.cursor_id),
                    cursor.address,
                    cursor.session is None,
                ]

            self.both(state)


def test_any_order_of_a_cursors_methods_ends_as_in_pymongo(twins: Twins) -> None:
    play(CursorOrder, twins=twins)
