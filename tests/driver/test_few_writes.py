"""A few writes are sent without a bulk's runner: every outcome is the one that a runner has, and the same was sent.

A scripted server answers: plain replies, refusals of single writes, write concern errors, replies that lack fields, a
closed connection. Each is played with the usual limit for a few writes and with none, so that a runner sends all.
"""

from __future__ import annotations

import copy
import itertools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from driver.outcomes import shape
from mangonel import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
    WriteConcern,
    client_options,
)
from mangonel._shared.collection import bulk, writes
from mangonel.bson import Decimal128
from mangonel.errors import AutoReconnect
from tools.faces import Face
from tools.scripted_server import Close, Hang, Reply, ScriptedServer

_ERROR = {"index": 1, "code": 11000, "errmsg": "E11000 duplicate key", "keyPattern": {"_id": 1}}
_CONCERN = {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting timed out"}
_HALTING = {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "stepping down"}

ANSWERS: dict[str, Any] = {
    "plain": {"ok": 1, "n": 2},
    "with counts": {"ok": 1, "n": 2, "nModified": 1},
    "an upsert": {"ok": 1, "n": 2, "nModified": 1, "upserted": [{"index": 1, "_id": 9}]},
    "a refused write": {"ok": 1, "n": 1, "writeErrors": [_ERROR]},
    "two refused writes": {"ok": 1, "n": 0, "writeErrors": [{**_ERROR, "index": 0}, _ERROR]},
    "a write concern error": {"ok": 1, "n": 2, "writeConcernError": _CONCERN},
    "both": {"ok": 1, "n": 1, "writeErrors": [_ERROR], "writeConcernError": _HALTING},
    "no count": {"ok": 1},
    "an index that no write has": {"ok": 1, "n": 1, "writeErrors": [{**_ERROR, "index": 7}]},
    "writeErrors of a wrong type": {"ok": 1, "n": 1, "writeErrors": 3},
    "a refused command": {"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not authorized"},
    "a command to retry": {"ok": 0, "code": 91, "errmsg": "shutdown", "errorLabels": ["RetryableWriteError"]},
    "a closed connection": Close(),
    "half a reply": Reply({"ok": 1, "n": 2}, cut=20),
}

Call = Callable[[Any, list[Any]], Any]
# What is called, with the documents of the call.
CALLS: dict[str, tuple[Call, list[Any]]] = {
    "insert_many": (lambda things, given: things.insert_many(given), [{"n": 1}, {"_id": 2}]),
    "insert_many, not ordered": (lambda things, given: things.insert_many(given, ordered=False), [{"n": 1}, {"n": 2}]),
    "insert_many with empty options": (
        lambda things, given: things.insert_many(given, bypass_document_validation=False, comment=""),
        [{"n": 1}, {"n": 2}],
    ),
    "bulk_write of updates with empty options": (
        lambda things, given: things.bulk_write(
            [UpdateOne(each, {"$set": {"a": 1}}) for each in given],
            bypass_document_validation=False,
            comment="",
            let={},
        ),
        [{"_id": 1}, {"_id": 2}],
    ),
    "insert_many of a set": (lambda things, given: things.insert_many(given), [{"n": 1}, {"n": {1}}]),
    "insert_many of a key of a wrong type": (lambda things, given: things.insert_many(given), [{"n": 1}, {3: 1}]),
    "insert_many of one that is no document": (lambda things, given: things.insert_many(given), [{"n": 1}, 3]),
    "bulk_write of inserts": (
        lambda things, given: things.bulk_write([InsertOne(each) for each in given]),
        [{"n": 1}, {"n": Decimal128("1")}],
    ),
    "bulk_write of updates": (
        lambda things, given: things.bulk_write(
            [UpdateOne(given[0], {"$set": {"a": 1}}), ReplaceOne(given[1], {"a": 1}, upsert=True)]
        ),
        [{"_id": 1}, {"_id": 2}],
    ),
    "bulk_write of updates that are not retried": (
        lambda things, given: things.bulk_write(
            [UpdateMany(each, {"$set": {"a": 1}}) for each in given], ordered=False
        ),
        [{"_id": 1}, {"_id": 2}],
    ),
    "bulk_write of deletions": (
        lambda things, given: things.bulk_write([DeleteOne(given[0]), DeleteMany(given[1])]),
        [{"_id": 1}, {"_id": 2}],
    ),
    "bulk_write of deletions by a set": (
        lambda things, given: things.bulk_write([DeleteOne(each) for each in given]),
        [{"_id": 1}, {"_id": {1}}],
    ),
}  # fmt: skip
CONCERNS = {"the default": None, "w=1": WriteConcern(w=1)}
LIMITS = {"usual limits": {}, "one write in a command": {"maxWriteBatchSize": 1}}


def _told(error: BaseException) -> dict[str, Any]:
    """All that a caller can read of an error, its cause and context included."""
    partial = getattr(error, "partial_result", None)
    return {
        "class": type(error).__name__,
        "text": re.sub("[0-9a-f]{24}", "…", str(error)),
        "details": shape(getattr(error, "details", None)),
        "labels": sorted(getattr(error, "_error_labels", ())),
        "partial": None if partial is None else shape(partial.bulk_api_result),
        "progress": shape(getattr(error, "bulk_progress", None)),
        "context": type(error.__context__).__name__,
    }


def _play(face: Face, server: ScriptedServer, things: Any, call: str, answer: Any) -> tuple[Any, ...]:
    """Return what came of two calls, of which the first gets the answer, what was sent, and the documents after it."""
    method, documents = CALLS[call]
    given = copy.deepcopy(documents)
    begin = len(server.received())
    command = "insert" if "insert" in call else "delete" if "delet" in call else "update"
    server.once(command, answer)
    outcomes = []
    for _ in range(2):
        try:
            outcomes.append(shape(face.wait(method(things, given))))
        except Exception as error:
            outcomes.append(_told(error))
    sent = [
        {
            name: shape(value)
            for name, value in request.command.items()
            if name not in ("lsid", "$clusterTime")
        }
        for request in server.received()[begin:]
    ]
    server.forget(command)
    return outcomes, sent, shape(given)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_outcome_is_that_of_a_runner(
    face: Face, answer: str, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After a broken connection the monitor looks again soon.
    monkeypatch.setattr(client_options, "MIN_HEARTBEAT_INTERVAL", 0.01)
    with ScriptedServer(hello=LIMITS[limits]) as server:
        for name in ("insert", "update", "delete"):
            server.on(name, {"ok": 1, "n": 1})
        client = face.client(server.uri, retryWrites=False, heartbeatFrequencyMS=10)
        for concern, call in itertools.product(CONCERNS, CALLS):
            things = client["shop"].get_collection("things", write_concern=CONCERNS[concern])
            # Makes the codec of replies; without it, a runner sends even a few writes.
            face.wait(things.delete_one({}))
            seen = []
            for limit in (100, 0):
                for module in (writes, bulk):
                    monkeypatch.setattr(module, "FEW_WRITES", limit)
                seen.append(_play(face, server, things, call, ANSWERS[answer]))
            assert seen[0] == seen[1], (concern, call)


@pytest.mark.parametrize("call", ["insert_many", "bulk_write of updates"])
def test_a_server_that_is_gone_is_told_at_once_and_nothing_is_sent_again(face: Face, call: str) -> None:
    method, documents = CALLS[call]
    with ScriptedServer() as server:
        for name in ("insert", "update"):
            server.on(name, Close())
        client = face.client(server.uri, retryWrites=False)
        things = client["shop"]["things"]
        server.on("delete", {"ok": 1, "n": 1})
        face.wait(things.delete_one({}))
        # No server is known after the write: a runner that asked for its limits would wait for one.
        server.on("hello", Hang())
        server.on("isMaster", Hang())
        began = time.monotonic()
        with pytest.raises(AutoReconnect) as told:
            face.wait(method(things, copy.deepcopy(documents)))
        assert type(told.value) is AutoReconnect
        assert time.monotonic() - began < 15
        assert [request.name for request in server.received()] == [
            "delete",
            "insert" if "insert" in call else "update",
        ]


def test_a_few_writes_make_no_runner(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server:
        for name in ("insert", "update"):
            server.on(name, {"ok": 1, "n": 1})
        things = face.client(server.uri)["shop"]["things"]
        face.wait(things.update_one({}, {"$set": {"a": 1}}))
        monkeypatch.setattr(type(things), "_bulk_runner", None)
        for _ in range(2):
            assert face.wait(things.insert_many([{"_id": 1}])).inserted_ids == [1]
        with pytest.raises(AttributeError):
            face.wait(things.insert_many([{"_id": number} for number in range(101)]))
