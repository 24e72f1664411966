"""Record how a real mongod answers, for the simulated servers to answer alike: `python tools/simulation_traces.py`.

Each line of the trace has a command as a driver sends it to a mongod, the same command in the words of the simulated
servers, and what counts in the answer. `cargo test -p mangonel-simulation --test fidelity` plays it.
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
            received += self._socket.recv(size - len(received))
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


def transaction(number: int, count: int, *, first: bool = False) -> dict[str, Any]:
    """Return the fields of a statement in a transaction."""
    fields: dict[str, Any] = {"lsid": session(number), "txnNumber": count, "autocommit": False}
    return {**fields, "startTransaction": True} if first else fields


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
    if "cursor" in reply:
        batch = reply["cursor"].get("firstBatch", reply["cursor"].get("nextBatch"))
        told["batch"] = [[document["_id"], document["value"]] for document in batch]
        told["isOpen"] = reply["cursor"]["id"] != 0
    return told


def plain(command: dict[str, Any]) -> dict[str, Any]:
    """Return a command in JSON's types: a session becomes its number."""
    return {name: value["id"][0] if name == "lsid" else value for name, value in command.items()}


def main() -> None:
    """Start a mongod, play the steps, and write the trace."""
    with server.start(replica_set=1) as deployment:
        member = deployment.members[0]
        line = Line(member.host, member.port)
        last = 0
        lines = []
        for real, model in steps():
            sent = {name: last if value == "last" else value for name, value in real.items()}
            if real.get("cursors") == "last":
                sent["cursors"] = [Int64(last)]
            # What a driver sends as a long, mongod takes as nothing else.
            sent |= {name: Int64(sent[name]) for name in ("txnNumber", "getMore") if name in sent}
            is_admin = "commitTransaction" in real or "abortTransaction" in real
            reply = line.ask({**sent, "$db": "admin" if is_admin else "shop"})
            last = reply.get("cursor", {}).get("id", 0) or last
            lines.append(json.dumps({"command": plain(model), "answer": outcome(reply)}))
    TRACE.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} commands in {TRACE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
