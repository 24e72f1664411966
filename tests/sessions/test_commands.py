"""Commands of sessions and transactions, beside PyMongo against the same scripted deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from bson import Timestamp as PeerTimestamp

import mangonel
from mangonel.bson import Timestamp
from sessions.sent import deployment, failing, lines, run, sent, uri_of
from tools.scripted_server import Close, Reply

DRIVERS: dict[str, Any] = {"mangonel": mangonel, "pymongo": pymongo}


def _of(client: Any) -> Any:
    """Return the package of a client."""
    return DRIVERS[type(client).__module__.partition(".")[0]]


def _concern(client: Any, **document: Any) -> Any:
    return _of(client).WriteConcern(**document)


def _read_concern(client: Any, level: str) -> Any:
    return (
        pymongo.read_concern.ReadConcern(level)
        if _of(client) is pymongo
        else mangonel.read_concern.ReadConcern(level)
    )


def reads_after_writes(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        things.find_one({}, session=session)
        things.insert_one({}, session=session)
        list(things.find({}, session=session))
        things.count_documents({}, session=session)
        things.distinct("x", session=session)
        list(things.aggregate([], session=session))
        things.update_one({}, {"$set": {"a": 1}}, session=session)
        things.delete_one({}, session=session)
        things.find_one_and_delete({}, session=session)
        client.db.command("ping", session=session)
        client.db.command("find", "things", session=session)


def majority_reads(client: Any, things: Any, server: Any) -> None:
    majority = things.with_options(read_concern=_read_concern(client, "majority"))
    with client.start_session() as session:
        majority.find_one({}, session=session)
        majority.find_one({}, session=session)
        list(majority.aggregate([], session=session))
        majority.count_documents({}, session=session)


def own_read_concern_in_a_command(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        things.insert_one({}, session=session)
        client.db.command(
            {"aggregate": "x", "pipeline": [], "cursor": {}, "readConcern": {"level": "local"}},
            session=session,
        )


def written_aggregation(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        things.insert_one({}, session=session)
        things.aggregate([{"$out": "x"}], session=session)
        with session.start_transaction():
            things.aggregate([{"$out": "x"}], session=session)


def without_causal_consistency(client: Any, things: Any, server: Any) -> None:
    with client.start_session(causal_consistency=False) as session:
        things.find_one({}, session=session)
        things.find_one({}, session=session)


def advanced_operation_time(client: Any, things: Any, server: Any) -> None:
    timestamp = PeerTimestamp if _of(client) is pymongo else Timestamp
    with client.start_session() as session:
        session.advance_operation_time(timestamp(5000, 3))
        session.advance_operation_time(timestamp(4000, 3))
        things.find_one({}, session=session)


def snapshot_reads(client: Any, things: Any, server: Any) -> None:
    with client.start_session(snapshot=True) as session:
        things.find_one({}, session=session)
        things.find_one({}, session=session)
        list(things.aggregate([], session=session))
        things.count_documents({}, session=session)
        things.distinct("x", session=session)


def administration(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        things.find_one({}, session=session)
        client.db.create_collection("new", session=session)
        things.create_index("a", session=session)
        list(things.list_indexes(session=session))
        client.db.list_collection_names(session=session)
        things.drop(session=session)
        client.drop_database("db", session=session)


def committed(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        things.find_one({}, session=session)
        with session.start_transaction():
            things.insert_one({}, session=session)
            things.find_one({}, session=session)
            things.bulk_write([_of(client).UpdateOne({}, {"$set": {"a": 1}})], session=session)
            list(things.aggregate([], session=session))
        things.insert_one({}, session=session)


def interleaved(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)
        things.find_one({})
        things.find_one({}, session=session)
        things.insert_one({})


def committed_with_concerns(client: Any, things: Any, server: Any) -> None:
    concern = _concern(client, w="majority", wtimeout=50)
    unacknowledged = things.with_options(
        write_concern=_concern(client, w=0), read_concern=_read_concern(client, "local")
    )
    with client.start_session() as session:
        session.start_transaction(_read_concern(client, "snapshot"), concern, max_commit_time_ms=70)
        unacknowledged.insert_one({}, session=session)
        unacknowledged.find_one({}, session=session)
        unacknowledged.find_one_and_delete({}, session=session)
        session.commit_transaction()
        session.commit_transaction()


def aborted(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        with session.start_transaction():
            things.insert_one({}, session=session)
            session.abort_transaction()
        things.find_one({}, session=session)
        session.start_transaction()
        things.update_one({}, {"$set": {"a": 1}}, session=session)


def empty_transactions(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        session.start_transaction()
        session.commit_transaction()
        session.commit_transaction()
        session.start_transaction()
        session.abort_transaction()
        things.find_one({}, session=session)


def wrong_order(what: str) -> Callable[..., Any]:
    """Return a scenario that calls methods in a meaningless order; `what` holds their first letters."""

    def scenario(client: Any, things: Any, server: Any) -> None:
        with client.start_session() as session:
            for letter in what:
                if letter == "s":
                    session.start_transaction()
                elif letter == "i":
                    things.insert_one({}, session=session)
                elif letter == "c":
                    session.commit_transaction()
                elif letter == "a":
                    session.abort_transaction()

    scenario.__name__ = what
    return scenario


def commit_retried_after_a_cut_line(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", Close())
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_cut_twice(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", Close(), Close())
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_refused_with_a_label(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", failing(91, "RetryableWriteError"))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_out_of_time(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", failing(50))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_refused(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", failing(251, "TransientTransactionError"))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_not_confirmed(client: Any, things: Any, server: Any) -> None:
    error = {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}
    server.once("commitTransaction", {"ok": 1, "writeConcernError": error})
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_concern_unknown(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", {"ok": 1, "writeConcernError": {"code": 79, "errmsg": "what"}})
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_refused_and_not_confirmed(client: Any, things: Any, server: Any) -> None:
    error = {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}
    server.once("commitTransaction", failing(251, writeConcernError=error))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_refused_and_concern_unknown(client: Any, things: Any, server: Any) -> None:
    error = {"code": 79, "errmsg": "what"}
    server.once("commitTransaction", failing(251, "TransientTransactionError", writeConcernError=error))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def commit_on_no_primary(client: Any, things: Any, server: Any) -> None:
    server.once("commitTransaction", failing(10058, "TransientTransactionError"))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def abort_retried_after_a_cut_line(client: Any, things: Any, server: Any) -> None:
    server.once("abortTransaction", Close())
    with client.start_session() as session:
        session.start_transaction()
        things.insert_one({}, session=session)
        session.abort_transaction()


def abort_refused(client: Any, things: Any, server: Any) -> None:
    server.once("abortTransaction", failing(251, "TransientTransactionError"))
    with client.start_session() as session:
        session.start_transaction()
        things.insert_one({}, session=session)
        session.abort_transaction()


def write_cut_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("insert", Close())
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)


def read_cut_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("find", Close())
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)
        things.find_one({}, session=session)


def write_refused_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("update", failing(112, "TransientTransactionError"))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)
        things.update_one({}, {"$set": {"a": 1}}, session=session)


def write_on_no_primary_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("update", failing(10107))
    with client.start_session() as session, session.start_transaction():
        things.insert_one({}, session=session)
        things.update_one({}, {"$set": {"a": 1}}, session=session)


def read_on_no_primary_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("find", Reply({"ok": 0, "errmsg": "node is recovering"}))
    with client.start_session() as session, session.start_transaction():
        things.find_one({}, session=session)


def collection_made_on_no_primary_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("create", failing(10107))
    with client.start_session() as session, session.start_transaction():
        client.db.create_collection("new", session=session, check_exists=False)


def command_on_no_primary_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    server.once("insert", failing(10107))
    with client.start_session() as session, session.start_transaction():
        client.db.command("insert", "things", documents=[{}], session=session, allowable_errors=["yes"])


def write_on_no_primary_outside(client: Any, things: Any, server: Any) -> None:
    server.once("update", failing(10107))
    with client.start_session() as session:
        things.update_one({}, {"$set": {"a": 1}}, session=session)


def transaction_run_again_without_a_primary(client: Any, things: Any, server: Any) -> Any:
    server.once("update", failing(11600), failing(189))
    with client.start_session() as session:

        def callback(session: Any) -> int:
            return int(things.update_one({}, {"$set": {"a": 1}}, session=session).matched_count)

        return session.with_transaction(callback)


def aggregation_refused_and_not_confirmed(client: Any, things: Any, server: Any) -> None:
    error = {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}
    server.once("aggregate", failing(20, writeConcernError=error))
    things.aggregate([{"$out": "copies"}])


def write_retried_in_a_session(client: Any, things: Any, server: Any) -> None:
    server.once("insert", failing(91, "RetryableWriteError"))
    with client.start_session() as session:
        things.insert_one({}, session=session)
        things.insert_one({}, session=session)


def transaction_run_again(client: Any, things: Any, server: Any) -> Any:
    server.once("update", failing(112, "TransientTransactionError"))
    server.once("commitTransaction", failing(11600, "RetryableWriteError"), Close(), Close())
    with client.start_session() as session:

        def callback(session: Any) -> int:
            things.insert_one({}, session=session)
            return int(things.update_one({}, {"$set": {"a": 1}}, session=session).matched_count)

        return session.with_transaction(callback)


def callback_that_raises(client: Any, things: Any, server: Any) -> Any:
    with client.start_session() as session:

        def callback(session: Any) -> None:
            things.insert_one({}, session=session)
            raise KeyError("mine")

        session.with_transaction(callback)


def callback_that_stops(client: Any, things: Any, server: Any) -> Any:
    with client.start_session() as session:

        def callback(session: Any) -> None:
            things.insert_one({}, session=session)
            raise StopIteration("mine")

        session.with_transaction(callback)


def callback_that_runs_a_coroutine_that_stops(client: Any, things: Any, server: Any) -> Any:
    async def stop() -> None:
        raise StopIteration("not mine")

    with client.start_session() as session:
        session.with_transaction(lambda _: stop().send(None))


def callback_that_commits(client: Any, things: Any, server: Any) -> Any:
    with client.start_session() as session:

        def callback(session: Any) -> int:
            things.insert_one({}, session=session)
            session.commit_transaction()
            return 5

        return session.with_transaction(callback)


def bound(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        with session.bind(end_session=False):
            things.insert_one({})
            things.find_one({})
            list(things.find({}))
            with session.start_transaction():
                things.insert_many([{}, {}])
                things.count_documents({})
        things.find_one({})


def secondary_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    preference = _of(client).ReadPreference.SECONDARY
    with client.start_session() as session:
        session.start_transaction(read_preference=preference)
        things.insert_one({}, session=session)
        things.find_one({}, session=session)


def secondary_command_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    preference = _of(client).ReadPreference.SECONDARY
    with client.start_session() as session, session.start_transaction():
        client.db.command("find", "things", session=session, read_preference=preference)


def secondary_collection_in_a_transaction(client: Any, things: Any, server: Any) -> None:
    elsewhere = things.with_options(read_preference=_of(client).ReadPreference.SECONDARY)
    with client.start_session() as session, session.start_transaction():
        elsewhere.find_one({}, session=session)


def unacknowledged(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        things.with_options(write_concern=_concern(client, w=0)).insert_one({}, session=session)


def unacknowledged_transaction(client: Any, things: Any, server: Any) -> None:
    with client.start_session() as session:
        session.start_transaction(write_concern=_concern(client, w=0))


def ended(client: Any, things: Any, server: Any) -> None:
    session = client.start_session()
    session.end_session()
    session.end_session()
    assert session.has_ended
    things.find_one({}, session=session)


def foreign(client: Any, things: Any, server: Any) -> None:
    with type(client)(server.uri) as other, other.start_session() as session:
        things.find_one({}, session=session)


def snapshot_transaction(client: Any, things: Any, server: Any) -> None:
    with client.start_session(snapshot=True) as session:
        session.start_transaction()


def causal_snapshot(client: Any, things: Any, server: Any) -> None:
    client.start_session(causal_consistency=True, snapshot=True)


def defaults(client: Any, things: Any, server: Any) -> None:
    package = pymongo.client_session if _of(client) is pymongo else mangonel.client_session
    options = package.TransactionOptions(
        _read_concern(client, "majority"), _concern(client, w=1), max_commit_time_ms=9
    )
    with client.start_session(default_transaction_options=options) as session:
        with session.start_transaction():
            things.insert_one({}, session=session)
        with session.start_transaction(write_concern=_concern(client, j=True)):
            things.insert_one({}, session=session)


SCENARIOS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and name[0] != "_"
    and name != "wrong_order"
] + [
    wrong_order(what)
    for what in ("c", "a", "ss", "sac", "saa", "sica", "sia", "siaa", "siac", "sicc", "scc", "sca")
]


KINDS = ("replica set", "mongos", "replica set of 4.4", "load balancer")
CASES = [(scenario, kind) for kind in KINDS for scenario in SCENARIOS]
# This driver reports some mistakes before PyMongo reports that there are no sessions.
CASES += [
    (scenario, "without sessions") for scenario in (reads_after_writes, committed, bound, empty_transactions)
]


@pytest.mark.parametrize(("scenario", "kind"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_commands_and_outcome_are_those_of_pymongo(scenario: Callable[..., Any], kind: str) -> None:
    seen: dict[str, Any] = {}
    for name, package in DRIVERS.items():
        with (
            deployment(kind) as server,
            package.MongoClient(uri_of(server, kind), serverSelectionTimeoutMS=60_000) as client,
        ):
            outcome = run(scenario, server, client)
            seen[name] = (outcome, sent(server), lines(server))

    assert seen["mangonel"] == seen["pymongo"]
