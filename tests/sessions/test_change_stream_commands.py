"""Commands of change streams and their recovery from errors, beside PyMongo against the same script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from bson import Timestamp as PeerTimestamp

import mangonel
from mangonel.bson import Int64, Timestamp
from sessions.sent import deployment, failing, run, sent
from tools.scripted_server import Close

DRIVERS: dict[str, Any] = {"mangonel": mangonel, "pymongo": pymongo}
CURSOR = Int64(77)


def _timestamp(client: Any, seconds: int) -> Any:
    kind = PeerTimestamp if type(client).__module__.startswith("pymongo") else Timestamp
    return kind(seconds, 1)


def change(number: int) -> dict[str, Any]:
    """Return a change whose resume token is `t` and its number."""
    return {"_id": {"_data": f"t{number}"}, "operationType": "insert", "documentKey": {"_id": number}}


def first(*numbers: int, behind: int | None = None, id: int = CURSOR, **fields: Any) -> dict[str, Any]:
    """Return the reply that opens a stream; `behind` is the token after the batch."""
    return _batch("firstBatch", numbers, behind, id, fields)


def more(*numbers: int, behind: int | None = None, id: int = CURSOR, **fields: Any) -> dict[str, Any]:
    """Return the reply to a getMore."""
    return _batch("nextBatch", numbers, behind, id, fields)


def _batch(
    name: str, numbers: tuple[int, ...], behind: int | None, id: int, fields: dict[str, Any]
) -> dict[str, Any]:
    cursor: dict[str, Any] = {"id": id, "ns": "db.things", name: [change(number) for number in numbers]}
    if behind is not None:
        cursor["postBatchResumeToken"] = {"_data": f"t{behind}"}
    return {"ok": 1, "cursor": cursor, "operationTime": Timestamp(50, 1), **fields}


def numbers(stream: Any, asked: int) -> list[Any]:
    """Return the results of several calls of `try_next`: the numbers of changes, and the token after each."""
    found = []
    for _ in range(asked):
        got = stream.try_next()
        found.append((got and got["documentKey"]["_id"], stream.resume_token, stream.alive))
    return found


def plain(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(behind=1))
    server.once("getMore", more(2, 3, behind=5), more(behind=6), more(7))
    with things.watch() as stream:
        return stream.resume_token, numbers(stream, 4)


def all_options(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(1, 2, behind=9))
    server.once("getMore", more(3))
    with things.watch(
        [{"$match": {"a": 1}}, {"$changeStreamSplitLargeEvent": {}}],
        full_document="updateLookup",
        start_at_operation_time=_timestamp(client, 30),
        max_await_time_ms=70,
        batch_size=2,
        comment="mine",
        full_document_before_change="whenAvailable",
        show_expanded_events=True,
    ) as stream:
        return stream.resume_token, numbers(stream, 3)


def of_a_database(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(1))
    with client.db.watch([{"$match": {}}]) as stream:
        return numbers(stream, 1)


def of_the_deployment(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(1))
    with client.watch() as stream:
        return numbers(stream, 1)


def read_settings(client: Any, things: Any, server: Any) -> Any:
    concern = type(things.read_concern)("majority")
    server.once("aggregate", first(1))
    with things.with_options(read_concern=concern).watch() as stream:
        return numbers(stream, 1)


def in_a_session(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(behind=1), first(behind=1))
    server.once("getMore", more(2, behind=2), failing(10107, "ResumableChangeStreamError"), more(behind=2))
    with client.start_session() as session, things.watch(session=session) as stream:
        return numbers(stream, 2)


def lost(what: Any, *, before: int = 1, then: Any = None) -> Callable[..., Any]:
    """Return a scenario in which a getMore ends in `what` after several batches of one change."""

    def scenario(client: Any, things: Any, server: Any) -> Any:
        server.once("aggregate", first(behind=10), then or first(behind=40))
        server.once("getMore", *(more(20 + n, behind=30 + n) for n in range(before)), what, more(50))
        with things.watch() as stream:
            return numbers(stream, before + 2)

    return scenario


def started(option: str, *, changes: int, behind: int | None) -> Callable[..., Any]:
    """Return a scenario that starts at a token or a time and loses its cursor after some changes."""

    def scenario(client: Any, things: Any, server: Any) -> Any:
        given = _timestamp(client, 20) if option == "start_at_operation_time" else {"_data": "given"}
        server.once("aggregate", first(behind=behind), first(60, behind=None))
        server.once("getMore", *[more(n) for n in range(changes)], Close())
        with things.watch(**({option: given} if option else {})) as stream:
            return stream.resume_token, numbers(stream, changes + 1)

    return scenario


def opened_after_a_cut_line(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", Close(), first(1))
    with things.watch() as stream:
        return numbers(stream, 1)


def not_opened(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", failing(40573))
    things.watch()


def resumed_twice(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(behind=1), Close(), Close(), first(3))
    server.once("getMore", more(2, behind=2), Close())
    found = []
    with things.watch() as stream:
        for _ in range(3):
            try:
                found.append(numbers(stream, 1))
            except Exception as error:
                found.append([type(error).__name__, stream.alive])
    return found


def invalidated(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(behind=1))
    server.once("getMore", more(2, id=Int64(0), behind=2))
    with things.watch() as stream:
        return numbers(stream, 3), list(stream)


def without_tokens(client: Any, things: Any, server: Any) -> Any:
    reply = first(1)
    del reply["cursor"]["firstBatch"][0]["_id"]
    server.once("aggregate", reply)
    things.watch().next()


def closed(client: Any, things: Any, server: Any) -> Any:
    server.once("aggregate", first(behind=1))
    stream = things.watch()
    stream.close()
    stream.close()
    return stream.alive, stream.try_next(), list(stream), stream.resume_token


WRONG: dict[str, Callable[[Any], Any]] = {
    "pipeline": lambda things: things.watch({"$match": {}}),
    "full_document": lambda things: things.watch(full_document=5),
    "batch_size": lambda things: things.watch(batch_size=-1),
    "collation": lambda things: things.watch(collation="en"),
}

SCENARIOS: dict[str, Callable[..., Any]] = {
    value.__name__: value
    for value in (
        plain,
        all_options,
        of_a_database,
        of_the_deployment,
        read_settings,
        in_a_session,
        opened_after_a_cut_line,
        not_opened,
        resumed_twice,
        invalidated,
        without_tokens,
        closed,
    )
}
SCENARIOS |= {
    "line cut": lost(Close()),
    "line cut before the first change": lost(Close(), before=0),
    "line cut later": lost(Close(), before=3),
    "not primary": lost(failing(10107, "ResumableChangeStreamError")),
    "not primary without a label": lost(failing(10107)),
    "label alone": lost(failing(5, "ResumableChangeStreamError")),
    "cursor not found": lost(failing(43)),
    "refused": lost(failing(280, "NonResumableChangeStreamError")),
    "refused without labels": lost(failing(5)),
    "out of time": lost(failing(50)),
    "changes in the first batch after a loss": lost(Close(), then=first(40, 41, behind=42)),
    "refused when it goes on": lost(Close(), then=failing(286)),
}
for _option in ("resume_after", "start_after", "start_at_operation_time", ""):
    for _changes in (0, 1):
        for _behind in (None, 5):
            SCENARIOS[f"{_option or 'no option'}, {_changes} changes, token {_behind}"] = started(
                _option, changes=_changes, behind=_behind
            )


@pytest.mark.parametrize("name", SCENARIOS)
def test_stream_goes_on_as_in_pymongo(name: str) -> None:
    seen: dict[str, Any] = {}
    for driver, package in DRIVERS.items():
        with (
            deployment("replica set") as server,
            package.MongoClient(server.uri, serverSelectionTimeoutMS=60_000) as client,
        ):
            outcome = run(SCENARIOS[name], server, client)
            # A cursor that the server has forgotten need not be killed.
            commands = [command for command in sent(server) if "killCursors" not in command]
            for command in commands:
                # Each driver may choose the implicit session of an attempt.
                command["lsid"] = command.get("lsid") is not None
            seen[driver] = (outcome, commands)

    assert seen["mangonel"] == seen["pymongo"]


@pytest.mark.parametrize("label", ["ResumableChangeStreamError", "NonResumableChangeStreamError"])
def test_a_cursor_that_failed_is_killed_once(label: str) -> None:
    with deployment("replica set") as server, mangonel.MongoClient(server.uri) as client:
        server.once("aggregate", first(behind=1), first(2, id=Int64(0)))
        server.once("getMore", failing(5, label))
        stream = client.db.things.watch()
        run(lambda *_: stream.try_next(), server, client)
        # A closing client sends what it has left to do.
        client.close()

        assert [request.command["cursors"] for request in server.received("killCursors")] == [[CURSOR]]


def test_a_stream_resumes_within_a_limit_below_its_wait() -> None:
    with deployment("replica set") as server, mangonel.MongoClient(server.uri) as client:
        server.once("aggregate", first(behind=1), first(2))
        server.once("getMore", failing(43))
        stream = client.db.things.watch(max_await_time_ms=600_000)

        with mangonel.timeout(500):
            assert stream.try_next() == change(2)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_as_in_pymongo(name: str) -> None:
    seen: dict[str, Any] = {}
    for driver, package in DRIVERS.items():
        with package.MongoClient(connect=False) as client:
            try:
                WRONG[name](client.db.things)
            except Exception as error:
                seen[driver] = type(error).__name__

    assert seen["mangonel"] == seen["pymongo"]


def test_collation_is_sent() -> None:
    # PyMongo 4.20 accepts the collation and drops it.
    with deployment("replica set") as server, mangonel.MongoClient(server.uri) as client:
        server.once("aggregate", first(1))
        client.db.things.watch(collation={"locale": "en"})

        assert sent(server)[0]["collation"] == {"locale": "en"}
