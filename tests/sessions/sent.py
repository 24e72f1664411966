"""A scripted deployment for both drivers, and the commands that each sends there in a comparable form."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from mangonel.bson import ObjectId, Timestamp
from tools.messages import Request
from tools.scripted_server import Reply, ScriptedServer

HELLOS: dict[str, dict[str, Any]] = {
    "replica set": {"setName": "rs0", "hosts": [], "setVersion": 1, "maxWireVersion": 17},
    "mongos": {"msg": "isdbgrid", "maxWireVersion": 17},
    "replica set of 4.4": {"setName": "rs0", "hosts": [], "setVersion": 1, "maxWireVersion": 9},
    "load balancer": {"msg": "isdbgrid", "maxWireVersion": 17, "serviceId": ObjectId()},
    "without sessions": {"logicalSessionTimeoutMinutes": None, "setName": "rs0", "hosts": []},
}
# Fields that only identify the sender or the database.
_LEFT_OUT = {"$db", "$readPreference", "$clusterTime", "_id"}


def deployment(kind: str) -> ScriptedServer:
    """Return a server whose replies carry a time: 100 seconds, and one more for each reply."""
    hello = {name: value for name, value in HELLOS[kind].items() if value is not None}
    server = ScriptedServer(hello=hello)
    if "setName" in hello:
        server.hello["hosts"] = [server.address]
        server.hello["me"] = server.address
    if kind == "without sessions":
        del server.hello["logicalSessionTimeoutMinutes"]
    ticks = itertools.count(1)

    def timed(fields: Mapping[str, Any]) -> Callable[[Request], dict[str, Any]]:
        def answer(request: Request) -> dict[str, Any]:
            time = Timestamp(100 + next(ticks), 1)
            gossip = {"clusterTime": time, "signature": {"hash": b"", "keyId": 0}}
            reply = {"ok": 1, "operationTime": time, "$clusterTime": gossip, **fields}
            if "msg" in hello:
                reply["recoveryToken"] = {"recoveryShardId": "one"}
            return reply

        return answer

    # The filters of a count, of a listing of collections and of one of indexes.
    document = {"_id": 1, "n": 1, "name": "a_1", "type": "collection", "options": {}, "key": {"a": 1}}
    cursor = {"id": 0, "ns": "db.things", "firstBatch": [document], "atClusterTime": Timestamp(77, 1)}
    for name in ("find", "aggregate", "listCollections", "listIndexes"):
        server.on(name, timed({"cursor": cursor}))
    for name in ("insert", "update", "delete"):
        server.on(name, timed({"n": 1, "nModified": 1}))
    server.on("findAndModify", timed({"value": None}))
    server.on("distinct", timed({"values": [1], "atClusterTime": Timestamp(77, 1)}))
    names = (
        "commitTransaction",
        "abortTransaction",
        "create",
        "drop",
        "createIndexes",
        "dropDatabase",
        "ping",
    )
    for name in (*names, "killCursors"):
        server.on(name, timed({}))
    server.on("count", timed({"n": 1}))
    return server


def failing(code: int, *labels: str, **fields: Any) -> Reply:
    """Return the reply of a command that failed."""
    return Reply({"ok": 0, "code": code, "errmsg": "no", "errorLabels": list(labels), **fields})


def sent(server: ScriptedServer) -> list[dict[str, Any]]:
    """Return the commands that the server got; sessions are numbered in order, document sequences are fields."""
    sessions: dict[bytes, int] = {}
    commands = []
    for request in server.received():
        command = {**request.command, **request.sequences}
        if "lsid" in command:
            command["lsid"] = sessions.setdefault(bytes(command["lsid"]["id"]), len(sessions) + 1)
        if command.get("comment", "") is None:
            # PyMongo's dropDatabase sends a comment of None.
            del command["comment"]
        commands.append({name: _plain(value) for name, value in command.items() if name not in _LEFT_OUT})
    return commands


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if name not in _LEFT_OUT}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def run(scenario: Callable[..., Any], server: ScriptedServer, client: Any) -> Any:
    """Run a scenario of a blocking client; return what it returned, or the class and labels of what it raised."""
    try:
        value = scenario(client, client["db"]["things"], server)
    except Exception as error:
        labels = sorted(getattr(error, "_error_labels", ()))
        # Retries after a network error are not tested here.
        return type(error).__name__, [label for label in labels if label != "RetryableWriteError"]
    assert not inspect.isawaitable(value)
    return value


def lines(server: ScriptedServer) -> list[tuple[str, int]]:
    """Return the connection of each command; connections are numbered by first use."""
    seen: dict[int, int] = {}
    return [(each.name, seen.setdefault(each.connection, len(seen))) for each in server.received()]


def uri_of(server: ScriptedServer, kind: str) -> str:
    """Return the URI for this kind of deployment."""
    return f"mongodb://{server.address}/?loadBalanced=true" if kind == "load balancer" else server.uri
