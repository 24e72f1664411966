"""Record a real mongod's answers, which the simulated servers must match: `python tools/simulation_traces.py`.

Each line of the trace has a command as a driver sends it to a mongod, the same command in the form of the simulated
servers, and the relevant fields of the answer. `cargo test -p mangonel-simulation --test fidelity` plays it.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mangonel import server
from mangonel.bson import decode, encode
from mangonel.bson.binary import Binary
from mangonel.bson.int64 import Int64

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "crates/simulation/tests/traces/mongod.jsonl"
BODY = 21
# (real command, command of the simulation)
Step = tuple[dict[str, Any], dict[str, Any]]


class Line:
    """One connection to a mongod without a driver: it sends exactly the given commands."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return the answer."""
        body = encode(command)
        self._socket.sendall(struct.pack("<iiiiIB", BODY + len(body), 1, 0, 2013, 0, 0) + body)
        header = self._receive(4)
        return decode(self._receive(struct.unpack("<i", header)[0] - 4)[BODY - 4 :])

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise ConnectionError("the server closed the connection")
            received += more
        return received


def session(number: int) -> dict[str, Any]:
    """Return the id of a session; one number is one session."""
    return {"id": Binary(bytes([number] * 16), 4)}


def insert(*keys: int, **fields: Any) -> Step:
    """Insert documents with these ids."""
    documents = [{"_id": key, "value": key * 2} for key in keys]
    command = {"insert": "orders", "documents": documents, **fields}
    return command, command


def add(key: int, amount: int, **fields: Any) -> Step:
    """Add to the value of a document."""
    real = {"q": {"_id": key}, "u": {"$inc": {"value": amount}}, "upsert": True}
    return (
        {"update": "orders", "updates": [real], **fields},
        {"update": "orders", "updates": [{"q": key, "add": amount}], **fields},
    )


def find(key: int | None = None, **fields: Any) -> Step:
    """Read one document, or all in the order of their ids."""
    real = {"find": "orders", "filter": {} if key is None else {"_id": key}, "sort": {"_id": 1}, **fields}
    return real, {"find": "orders", "filter": {} if key is None else {"_id": key}, **fields}


def same(name: str, value: Any = 1, **fields: Any) -> Step:
    """Return a command that both understand."""
    return {name: value, **fields}, {name: value, **fields}


def fail(*commands: str, **met: Any) -> Step:
    """Make the next command with one of these names meet a fail point.

    `code`: it is refused. `concern`: it is done, and its write concern fails with this code. `close`: its connection is
    closed before it is done. `block`: it waits this many milliseconds first.
    """
    data: dict[str, Any] = {"failCommands": list(commands)}
    match met:
        case {"code": code}:
            data["errorCode"] = code
        case {"concern": code}:
            data["writeConcernError"] = {"code": code, "errmsg": "failed by a fail point"}
        case {"close": _}:
            data["closeConnection"] = True
        case {"block": milliseconds}:
            data |= {"blockConnection": True, "blockTimeMS": milliseconds}
    real = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data}
    return real, {"failPoint": next(iter(met)), **met}


def remove(key: int, **fields: Any) -> Step:
    """Delete a document."""
    return (
        {"delete": "orders", "deletes": [{"q": {"_id": key}, "limit": 1}], **fields},
        {"delete": "orders", "deletes": [{"q": key}], **fields},
    )


def watch(**options: Any) -> Step:
    """Open a change stream."""
    return same("aggregate", "orders", pipeline=[{"$changeStream": options}], cursor={}, lsid=session(3))


def more(**fields: Any) -> Step:
    """Ask for the next batch of the last cursor."""
    return same("getMore", "last", collection="orders", lsid=session(3), **fields)


def transaction(number: int, count: int, *, first: bool = False) -> dict[str, Any]:
    """Return the fields of a statement in a transaction."""
    fields: dict[str, Any] = {"lsid": session(number), "txnNumber": count, "autocommit": False}
    return {**fields, "startTransaction": True} if first else fields


# Fields whose values refer to an earlier answer.
REFERRING = ("atClusterTime", "afterClusterTime", "resumeAfter", "startAfter")
MAJORITY = {"writeConcern": {"w": "majority"}}


def steps() -> Iterator[Step]:
    """Yield the steps to record, in order."""
    yield insert(1, 2, 3)
    yield insert(3)
    yield insert(4, 5, **MAJORITY)
    yield find()
    yield find(2)
    yield find(99)
    # Retryable writes: a repetition is answered alike and does nothing.
    for count in range(1, 21):
        write = add(1, 10, lsid=session(1), txnNumber=count, **(MAJORITY if count % 2 else {}))
        yield write
        yield write
        yield find(1, readConcern={"level": "majority" if count % 3 else "local"})
    yield add(1, 10, lsid=session(1), txnNumber=3)
    yield insert(20, 21, lsid=session(2), txnNumber=1)
    yield insert(20, 21, lsid=session(2), txnNumber=1)
    yield insert(21, 22, lsid=session(2), txnNumber=2)
    yield find()
    # Cursors.
    for size in range(1, 7):
        yield find(batchSize=size, lsid=session(3))
        yield same("getMore", "last", collection="orders", batchSize=size, lsid=session(3))
        yield same("getMore", "last", collection="orders", batchSize=size, lsid=session(3))
        yield same("getMore", "last", collection="orders", lsid=session(3))
        yield same("getMore", "last", collection="orders", lsid=session(3))
    yield find(batchSize=1, lsid=session(3))
    yield same("killCursors", "orders", cursors="last", lsid=session(3))
    yield same("getMore", "last", collection="orders", lsid=session(3))
    yield find(batchSize=1, singleBatch=True)
    # Transactions: seen inside, not outside; committed, repeated, aborted, unknown, too old.
    for count in range(1, 13):
        yield add(2, 1, **transaction(4, count, first=True))
        yield find(2, **transaction(4, count))
        yield find(2)
        yield add(2, 1, **transaction(4, count))
        end = ("commitTransaction", "abortTransaction")[count % 2]
        concern = MAJORITY if count % 3 else {}
        yield same(end, **transaction(4, count), **concern)
        yield same(end, **transaction(4, count), **concern)
        yield find(2)
    yield same("commitTransaction", **transaction(5, 1), **MAJORITY)
    yield same("abortTransaction", **transaction(5, 1))
    yield add(2, 1, **transaction(4, 3))
    yield add(2, 1, **transaction(6, 1))
    yield add(2, 1, **transaction(4, 12))
    yield same("abortTransaction", **transaction(4, 12))
    # Two transactions on one document.
    for count in range(1, 6):
        yield add(3, 1, **transaction(7, count, first=True))
        yield add(3, 1, **transaction(8, count, first=True))
        yield same("commitTransaction", **transaction(8, count), **MAJORITY)
        yield same("commitTransaction", **transaction(7, count), **MAJORITY)
        yield find(3)

    yield from failures()
    yield from times()
    yield from streams()


def failures() -> Iterator[Step]:
    """Yield commands that meet fail points, and reads of the state after each."""
    count = 100
    for code in (10107, 13436, 91, 11602, 189, 11600, 50, 6, 112, 262):
        count += 1
        numbered = {"lsid": session(9), "txnNumber": count}
        yield fail("find", code=code)
        yield find(4)
        yield fail("insert", code=code)
        yield insert(1000 + code)
        yield insert(1000 + code)
        # A write that the session numbers is sent again.
        yield fail("update", code=code)
        yield add(4, 1, **numbered)
        yield add(4, 1, **numbered)
        yield add(4, 1, **numbered)
        yield find(4)
        yield find(batchSize=1, lsid=session(3))
        yield fail("getMore", code=code)
        yield more(batchSize=1)
        yield more(batchSize=1)
        yield same("killCursors", "orders", cursors="last", lsid=session(3))
        yield fail("update", code=code)
        yield add(2, 1, **transaction(10, count, first=True))
        yield same("abortTransaction", **transaction(10, count))
        yield add(2, 1, **transaction(11, count, first=True))
        yield fail("update", code=code)
        yield add(2, 1, **transaction(11, count))
        yield same("abortTransaction", **transaction(11, count))
        yield find(2)
        for number, end in ((12, "commitTransaction"), (15, "abortTransaction")):
            yield add(2, 1, **transaction(number, count, first=True))
            yield fail(end, code=code)
            yield same(end, **transaction(number, count), **MAJORITY)
            yield same(end, **transaction(number, count), **MAJORITY)
            yield find(2)
    for code in (91, 189, 64, 100, 11602):
        count += 1
        yield fail("update", concern=code)
        yield add(4, 1, lsid=session(9), txnNumber=count)
        yield add(4, 1, lsid=session(9), txnNumber=count)
        yield fail("update", concern=code)
        yield add(4, 1)
        yield fail("insert", concern=code)
        yield insert(4)
        yield find(4)
        yield add(2, 1, **transaction(13, count, first=True))
        yield fail("commitTransaction", concern=code)
        yield same("commitTransaction", **transaction(13, count), **MAJORITY)
        yield same("commitTransaction", **transaction(13, count), **MAJORITY)
        yield find(2)
    for name in ("find", "update"):
        count += 1
        for met in ({"close": 1}, {"block": 20}):
            yield fail(name, **met)
            yield find(4) if name == "find" else add(4, 1, lsid=session(9), txnNumber=count)
            yield find(4) if name == "find" else add(4, 1, lsid=session(9), txnNumber=count)
    yield find()


def times() -> Iterator[Step]:
    """Yield reads at points in time, and deletes."""
    yield find(1, readConcern={"level": "linearizable"})
    yield find(1, readConcern={"level": "snapshot"})
    for _ in range(4):
        yield add(1, 5, **MAJORITY)
        yield find(1, readConcern={"level": "snapshot", "atClusterTime": "moment"})
        yield find(1, readConcern={"level": "majority", "afterClusterTime": "operation"})
        yield find(1, readConcern={"level": "local", "afterClusterTime": "operation"})
    yield find(readConcern={"level": "snapshot"}, batchSize=2, lsid=session(3))
    yield remove(20, **MAJORITY)
    yield more(batchSize=100)
    yield find(20)
    yield remove(21, lsid=session(9), txnNumber=500, **MAJORITY)
    yield remove(21, lsid=session(9), txnNumber=500, **MAJORITY)
    yield insert(21, **MAJORITY)
    yield find(21)
    yield find(21, readConcern={"level": "snapshot", "atClusterTime": "moment"})


def streams() -> Iterator[Step]:
    """Yield change streams: resumed after each batch and each change, and after the end of their collection."""
    yield watch()
    yield insert(50, **MAJORITY)
    yield more(maxTimeMS=1000)
    yield insert(51, 52, **MAJORITY)
    yield add(52, 3, **MAJORITY)
    yield more(maxTimeMS=1000)
    yield more(maxTimeMS=20)
    yield same("killCursors", "orders", cursors="last", lsid=session(3))
    for how in ("resumeAfter", "startAfter"):
        for token in ("batch", "change"):
            yield watch(**{how: token})
            yield more(maxTimeMS=20)
            yield more(maxTimeMS=20)
    yield add(2, 1, **transaction(14, 1, first=True))
    yield add(50, 1, **transaction(14, 1))
    yield more(maxTimeMS=20)
    yield same("commitTransaction", **transaction(14, 1), **MAJORITY)
    yield more(maxTimeMS=1000)
    for code in (10107, 11600, 50, 6):
        yield fail("getMore", code=code)
        yield more(maxTimeMS=20)
        yield more(maxTimeMS=20)
    yield same("drop", "orders")
    yield more(maxTimeMS=1000)
    yield more(maxTimeMS=20)
    yield watch(resumeAfter="batch")
    yield watch(startAfter="batch")
    yield insert(70, **MAJORITY)
    yield more(maxTimeMS=1000)
    yield watch(resumeAfter="batch")
    yield more(maxTimeMS=20)


def outcome(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the relevant fields of an answer."""
    told: dict[str, Any] = {"ok": int(reply["ok"])}
    for name in ("code", "n"):
        if name in reply:
            told[name] = reply[name]
    if "errorLabels" in reply:
        told["labels"] = sorted(reply["errorLabels"])
    if "writeErrors" in reply:
        told["writeErrors"] = [[error["index"], error["code"]] for error in reply["writeErrors"]]
    if "writeConcernError" in reply:
        told["writeConcernError"] = reply["writeConcernError"]["code"]
    if "cursor" in reply:
        batch = reply["cursor"].get("firstBatch", reply["cursor"].get("nextBatch"))
        if "postBatchResumeToken" in reply["cursor"]:
            # The end of a collection gives one event or two.
            told["changes"] = [change["documentKey"]["_id"] for change in batch if "documentKey" in change]
        else:
            told["batch"] = [[document["_id"], document["value"]] for document in batch]
        told["isOpen"] = reply["cursor"]["id"] != 0
    return told


def plain(command: dict[str, Any]) -> dict[str, Any]:
    """Return a command in JSON's types: a session becomes its number."""
    return {name: value["id"][0] if name == "lsid" else value for name, value in command.items()}


class Recorder:
    """Plays steps on a mongod and remembers what later ones refer to."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._line = Line(host, port)
        self._cursor = 0
        # Name in commands -> the time or token of the last answer that had one.
        self._known: dict[str, Any] = {}

    def play(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the relevant fields of the answer."""
        sent: dict[str, Any] = self._filled(command)
        # Drivers send these as longs, and mongod accepts no other type.
        sent |= {name: Int64(sent[name]) for name in ("txnNumber", "getMore") if name in sent}
        is_admin = not {"commitTransaction", "abortTransaction", "configureFailPoint"}.isdisjoint(command)
        try:
            reply = self._line.ask({**sent, "$db": "admin" if is_admin else "shop"})
        except ConnectionError:
            self._line = Line(*self._address)
            return {"closed": True}
        self._note(reply)
        return outcome(reply)

    def _filled(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self._filled(part, key) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        if value == "last":
            return [Int64(self._cursor)] if name == "cursors" else self._cursor
        return self._known[value] if name in REFERRING else value

    def _note(self, reply: dict[str, Any]) -> None:
        cursor = reply.get("cursor", {})
        self._cursor = cursor.get("id", 0) or self._cursor
        batch = cursor.get("firstBatch", cursor.get("nextBatch", []))
        found = {
            "operation": reply.get("operationTime"),
            "moment": cursor.get("atClusterTime"),
            "batch": cursor.get("postBatchResumeToken"),
            "change": next((change["_id"] for change in batch if "documentKey" in change), None),
        }
        self._known |= {name: value for name, value in found.items() if value is not None}


def main() -> None:
    """Start a mongod, play the steps, and write the trace."""
    with server.start(replica_set=1, set_parameters={"enableTestCommands": 1}) as deployment:
        member = deployment.members[0]
        recorder = Recorder(member.host, member.port)
        lines = [
            json.dumps({"command": plain(model), "answer": recorder.play(real)}) for real, model in steps()
        ]
    TRACE.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} commands in {TRACE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
