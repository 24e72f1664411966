"""Commands as a driver sends them, encoded once; only numbers in them change from one operation to the next.

Each message has the fields of a driver's: lsid, $clusterTime, $db, and for writes txnNumber and writeConcern. So the
lower bounds cause the same work on the server. Spec: OP_MSG, sessions, retryable writes.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any
from urllib.parse import urlsplit

from mangonel.lab.contender import Batching, Target

HEADER = struct.Struct("<iiii")
INT32 = struct.Struct("<i")
INT64 = struct.Struct("<q")
COUNTER = struct.Struct(">I")
OP_MSG = 2013
MORE_TO_COME = 1 << 1
EXHAUST_ALLOWED = 1 << 16
BODY = 21  # header, flags and the section's kind come before the body
FIRST_ARRAY = BODY + 4 + len(b"\x03cursor\0") + 4 + len(b"\x04firstBatch\0")
NEXT_ARRAY = FIRST_ARRAY - 1  # "nextBatch" is one letter shorter
ID_FIELD = len(b"\x12id\0")


class Refused(Exception):
    """The reply differs in size from the checked one, so it is not the same answer."""


def address(uri: str) -> tuple[str, int]:
    """Return host and port of the first server in a URI; ValueError if it needs more than a bare socket."""
    parts = urlsplit(uri)
    if parts.scheme != "mongodb" or parts.username or "tls=true" in parts.query or "ssl=true" in parts.query:
        raise ValueError(
            "a raw socket does no TLS, authentication or DNS records; it needs mongodb://host:port"
        )
    host, _, port = parts.netloc.split(",")[0].partition(":")
    return host, int(port or 27017)


def unsuited(uri: str) -> str:
    """Return why a bare socket cannot work with this deployment, or ""."""
    try:
        address(uri)
    except ValueError as error:
        return str(error)
    return ""


def connect(uri: str) -> socket.socket:
    """Return a connection to the first server in a URI, with TCP_NODELAY."""
    opened = socket.create_connection(address(uri))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def larger(view: memoryview, filled: int, length: int) -> tuple[bytearray, memoryview]:
    """Return a buffer of at least this size, with the contents of the old one."""
    buffer = bytearray(max(length, 2 * len(view)))
    buffer[:filled] = view[:filled]
    return buffer, memoryview(buffer)


class Checked:
    """The sizes of replies that were checked once; a reply of another size is not the same answer."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        # Documents and bytes of a whole collection, by batching.
        self._expected: dict[Batching, tuple[int, int]] = {}

    def to_list(self) -> Any:
        """Raise: a lower bound decodes nothing, so it has no list."""
        raise NotImplementedError("the raw socket decodes nothing")

    def _checked(self, what: str, size: int) -> int:
        if size != self._sizes.setdefault(what, size):
            raise Refused(f"expected a reply of {self._sizes[what]} bytes to {what}, got {size}")
        return size

    def _drained(self, batching: Batching, drained: int) -> int:
        count, size = self._expected[batching]
        if drained != size:
            raise Refused(f"expected {size} bytes of replies, got {drained}")
        return count


def frame(body: bytes, documents: list[bytes] | None = None, flags: int = 0) -> bytearray:
    """Return one OP_MSG: the body and, for inserts, a document sequence."""
    payload = b"\0" + body
    if documents is not None:
        joined = b"".join(documents)
        payload += b"\1" + INT32.pack(4 + len(b"documents\0") + len(joined)) + b"documents\0" + joined
    length = HEADER.size + 4 + len(payload)
    return bytearray(HEADER.pack(length, 1, 0, OP_MSG) + INT32.pack(flags) + payload)


class Commands:
    """The messages of one connection, with its own session."""

    def __init__(self, target: Target, cluster_time: Any) -> None:
        import bson
        from bson import binary, int64, objectid

        self._bson = bson
        self._int64 = int64.Int64
        self._target = target
        self._tail: dict[str, Any] = {"lsid": {"id": binary.Binary(os.urandom(16), 4)}}
        self._gossip = {"$clusterTime": cluster_time} if cluster_time else {}
        self._base = os.urandom(8)
        self._object_id = objectid.ObjectId
        self._number = 0
        self._inserted = 0
        self._lists: dict[int, bytearray] = {}

        marker = 0x01020304
        self.find_one = self._message(
            {"find": "", "filter": {"_id": marker}, "limit": 1, "singleBatch": True}
        )
        self._key_at = bytes(self.find_one).index(INT32.pack(marker))
        document = {"_id": self._new_id(), "1": "one", "2": "two"}
        self.insert_one = self._insert([bson.encode(document)])
        data = bytes(self.insert_one)
        self._id_at = data.index(document["_id"].binary) + 8
        self._transaction_at = data.index(b"txnNumber\0") + len(b"txnNumber\0")

    def find_one_key(self, key: int) -> bytearray:
        INT32.pack_into(self.find_one, self._key_at, key)
        return self.find_one

    def insert_next(self, _: object = None) -> bytearray:
        """Return the insert_one message with a new `_id` and the next transaction number."""
        self._number += 1
        self._inserted += 1
        INT64.pack_into(self.insert_one, self._transaction_at, self._number)
        COUNTER.pack_into(self.insert_one, self._id_at, self._inserted)
        return self.insert_one

    def insert_many(self, documents: list[dict[str, Any]], collection: str = "") -> bytearray:
        """Return one message that inserts all the documents, each with a new `_id` unless it has one."""
        self._number += 1
        encoded = [self._bson.encode({"_id": self._new_id(), **document}) for document in documents]
        return self._insert(encoded, collection)

    def find_list(self, limit: int) -> bytearray:
        if limit not in self._lists:
            self._lists[limit] = self.find({"limit": limit})
        return self._lists[limit]

    def find(self, options: dict[str, Any], collection: str = "") -> bytearray:
        return self._message({"find": collection, "filter": {}, **options})

    def aggregate(self, pipeline: list[dict[str, Any]], collection: str = "") -> bytearray:
        return self._message({"aggregate": collection, "pipeline": pipeline, "cursor": {}})

    def find_all(self, batching: Batching) -> bytearray:
        return self.find({"batchSize": batching.size} if batching.size else {})

    def get_more(self, asked: tuple[int, Batching]) -> bytearray:
        """Return the message that requests a cursor's next batch, or, with exhaust, all of them."""
        cursor, batching = asked
        size = {"batchSize": batching.size} if batching.size else {}
        body = {"getMore": self._int64(cursor), "collection": self._target.collection, **size}
        return self._message(body, flags=EXHAUST_ALLOWED if batching.exhaust else 0)

    def documents(self, reply: memoryview) -> list[dict[str, Any]]:
        """Return the decoded documents of a reply, for checking only; Refused if the server returned an error."""
        answer: dict[str, Any] = self._bson.decode(bytes(reply[BODY:]))
        if answer.get("ok") != 1 or answer.get("writeErrors"):
            raise Refused(str(answer.get("errmsg") or answer.get("writeErrors")))
        cursor = answer.get("cursor", {})
        return cursor.get("firstBatch") or cursor.get("nextBatch") or []

    def _insert(self, encoded: list[bytes], collection: str = "") -> bytearray:
        body = {"insert": collection, "ordered": True, "writeConcern": {"w": self._target.write_concern}}
        return self._message(body, encoded, transaction=True)

    def _message(
        self,
        body: dict[str, Any],
        encoded: list[bytes] | None = None,
        flags: int = 0,
        transaction: bool = False,
    ) -> bytearray:
        command = next(iter(body))
        named = body if body[command] else {**body, command: self._target.collection}
        number = {"txnNumber": self._int64(self._number)} if transaction else {}
        ending = {**self._tail, **number, **self._gossip, "$db": self._target.database}
        return frame(self._bson.encode({**named, **ending}), encoded, flags)

    def _new_id(self) -> Any:
        self._inserted += 1
        return self._object_id(self._base + COUNTER.pack(self._inserted))


def cluster_time(hello_reply: memoryview) -> Any:
    """Return the $clusterTime of a hello reply, or None outside replica sets."""
    import bson

    return bson.decode(bytes(hello_reply[BODY:])).get("$clusterTime")


def hello() -> bytearray:
    import bson

    return frame(bson.encode({"hello": 1, "$db": "admin"}))


def cursor_id(reply: memoryview, array_at: int) -> int:
    """Return the cursor id of a find or getMore reply without decoding its documents."""
    (array,) = INT32.unpack_from(reply, array_at)
    (found,) = INT64.unpack_from(reply, array_at + array + ID_FIELD)
    return int(found)
