"""Divides a query into ranges, from a sample of `_id` or from the chunk map of a sharded cluster.

A range is a pair of index bounds. Unlike a comparison in a filter, bounds span types, in BSON's order. Together the
ranges cover every key. Knows no partition and reads no document of the query.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_READ
from mangonel._light import Mapping
from mangonel._shared.replies import ReplyTo
from mangonel._shared.settings import BOUND
from mangonel.bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument
from mangonel.errors import ConfigurationError, InvalidOperation, OperationFailure, SnapshotUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel._shared.cursors.find_cursor import _Cursor
    from mangonel.bson.binary import Binary
    from mangonel.bson.timestamp import Timestamp
    from mangonel.topology_description import TopologyDescription

# Samples per range: the largest of 8 ranges mostly has 1.2 times the mean size, seldom 1.4 times. Many ranges are read
# in turns, so fewer samples per range suffice, and the reply stays small.
_SAMPLES, _FEWEST_SAMPLES, _MOST_SAMPLES = 256, 16, 4096

# The options of a query that ranges cannot honour, with the reason.
_REFUSED = {
    "sort": "rows of the ranges come in turns",
    "skip": "no range knows how many the others skipped",
    "limit": "no range knows how many the others have",
    "hint": "ranges are those of the index on _id",
    "min": "ranges have bounds of their own",
    "max": "ranges have bounds of their own",
    "collation": "the index on _id may have another",
    "session": "a session sends one command at a time",
}

_INDEXED = frozenset(["$near", "$nearSphere", "$text"])
_LOGICAL = frozenset(["$and", "$or", "$nor"])

METHODS = ("auto", "sample", "chunks")

_BY_ID = {"_id": 1}
_MIN_KEY, _MAX_KEY = 0xFF, 0x7F  # types of BSON elements
_FIRST_TYPE = 4  # where the type of a document's first element is
# Errors of a standalone server, of a server older than 5.0, and for a moment in the future.
_NO_SNAPSHOTS = {123, 72}
# Errors for a field that is unknown, not implemented or not in the declared API: `collectionUUID` is new in 6.0.
_NO_IDENTITY = {9, 14, 238, 323, 40415}
_ROUTERS = frozenset(["Mongos", "LoadBalancer"])


class Range:
    """A range of an index: from `low` to below `high`; None stands for the index's end."""

    __slots__ = ("high", "index", "is_last_key", "low", "shard")

    def __init__(
        self,
        low: RawBSONDocument | None,
        high: RawBSONDocument | None,
        index: dict[str, Any] | RawBSONDocument = _BY_ID,
        *,
        shard: str | None = None,
        is_last_key: bool = False,
    ) -> None:
        self.low, self.high, self.index, self.shard = low, high, index, shard
        # Whether the range is MaxKey, the key after all others: an index scan with bounds ends before it.
        self.is_last_key = is_last_key

    def narrow(self, query: dict[str, Any], *, is_ordered: bool = False) -> None:
        """Add this range to a find command."""
        if self.is_last_key:
            from mangonel.bson import MaxKey

            last = dict.fromkeys(self.index, MaxKey())
            query["filter"] = {"$and": [query["filter"], last]} if query["filter"] else last
            return
        if self.low is None is self.high and not is_ordered:
            return
        query["hint"] = self.index
        query.update((name, bound) for name, bound in (("min", self.low), ("max", self.high)) if bound)
        if is_ordered:
            query["sort"] = self.index


class Plan:
    """The ranges of a query, in the order of the index.

    Args:
        ranges: the ranges.
        moment: the moment of all reads, or None.
        identity: the UUID of the collection: with it the server refuses to read another collection of that name. None:
            not known, or the server cannot compare it.
    """

    __slots__ = ("identity", "moment", "ranges")

    def __init__(self, ranges: list[Range], moment: Timestamp | None, identity: Binary | None = None) -> None:
        self.ranges, self.moment, self.identity = ranges, moment, identity

    @property
    def read_concern(self) -> dict[str, Any] | None:
        """The read concern of every range. None: that of the collection."""
        return None if self.moment is None else {"level": "snapshot", "atClusterTime": self.moment}


def check(cursor: Any, count: Any, name: str, *, wanted: str) -> None:
    """Raise unless a query can be read in this many ranges.

    Args:
        cursor: the query.
        count: how many ranges.
        name: the name of `count` in the caller's signature.
        wanted: the caller's feature, for the message.

    Raises:
        ValueError: `count` is not a valid number.
        InvalidOperation: the query cannot be divided; the message says why.
    """
    if type(count) is not int or count < 1:
        raise ValueError(f"expected at least 1 {name}, got {count!r}")
    if not hasattr(cursor, "_clone"):
        raise InvalidOperation(f"{wanted}, and the results of a command have none; use find")
    if cursor._id is not None or cursor._is_closed or cursor._started is not None:
        raise InvalidOperation(f"{wanted}, and this cursor was read from before; clone() it")
    query = cursor._query
    if count > 1 and (refused := _indexed_operator(query["filter"])):
        raise InvalidOperation(
            f"{wanted}, which does not go with {refused}: the server reads it by an index of its own; read one range"
        )
    asked = {**query, "limit": cursor._asked_limit, "session": cursor._explicit}
    for field, why in _REFUSED.items():
        if asked.get(field):
            raise InvalidOperation(f"{wanted}, which does not go with {field}: {why}")
    if BOUND and cursor._enter_session() is not None:
        raise InvalidOperation(f"{wanted}, which does not go with a bound session: {_REFUSED['session']}")
    if cursor._is_exhaust or "tailable" in query or "awaitData" in query:
        kind = "an exhaust cursor" if cursor._is_exhaust else "a tailable cursor"
        raise InvalidOperation(f"{wanted}, which does not go with {kind}: the ranges' cursors are plain ones")


def _indexed_operator(filter: Any) -> str | None:
    """Return a filter operator that does not work in ranges: with bounds, the server refuses or ignores it."""
    if not isinstance(filter, Mapping):
        return None
    for key, value in filter.items():
        if key in _INDEXED:
            return str(key)
        inner = value if isinstance(value, list) and key in _LOGICAL else [value]
        for each in inner:
            if found := _indexed_operator(each):
                return found
    return None


async def plan_flow(
    cursor: _Cursor[Any],
    count: int,
    *,
    by: str = "sample",
    is_snapshot: bool = False,
    is_ordered: bool = False,
    is_kept: bool = False,
) -> Plan:
    """Return at most `count` ranges for a checked query, and one more for a key that an index scan leaves out.

    Args:
        cursor: the query; it is not read from.
        count: how many ranges are wanted.
        by: "sample", "chunks" (the chunk map) or "auto": the chunk map where it has enough chunks.
        is_snapshot: choose a moment for all reads.
        is_ordered: whether the ranges must be in the order of `_id`; few chunk maps are.
        is_kept: the ranges may be read much later, so find out the identity of the collection, and whether the last
            key, MaxKey, exists; if it does not, its range is left out.

    Raises:
        InvalidOperation: the collection is a view or a time series, which has no index on `_id`.
        SnapshotUnavailable: the deployment has no snapshots.
        ConfigurationError: `by` is "chunks", and the collection has no usable chunk map.
    """
    if cursor._is_empty:
        return Plan([], None)
    is_one = count == 1 and by != "chunks"
    identity = None
    if is_kept or not is_one:
        identity = await _identity_flow(cursor, takes_any=is_one)
    if not is_kept or not await _compares_identity_flow(cursor, identity):
        identity = None
    if is_one and not is_snapshot:
        return Plan([Range(None, None)], None, identity)
    size = max(min(_SAMPLES * count, _MOST_SAMPLES), _FEWEST_SAMPLES * count)
    ids, moment = await _sample_flow(cursor, size, is_snapshot)
    ranges = None
    if by != "sample":
        ranges = await _chunks_flow(cursor, count, is_required=by == "chunks", is_ordered=is_ordered)
    if ranges is None:
        cuts = (len(ids) * place // count for place in range(1, count))
        ranges = _between([ids[cut] for cut in cuts if 0 < cut < len(ids)])
    plan = Plan(ranges, moment, identity)
    if len(ranges) > 1:
        last = Range(None, None, ranges[-1].index, is_last_key=True)
        is_hashed = "hashed" in last.index.values()
        if not is_hashed and (not is_kept or await _has_last_key_flow(cursor, last, plan)):
            ranges.append(last)
    return plan


def _between(bounds: list[RawBSONDocument]) -> list[Range]:
    """Return the ranges between sorted bounds, which may repeat: a sample may contain the same document twice."""
    # Nothing lies beyond MinKey and MaxKey.
    bounds = [bound for bound in bounds if bound.raw[_FIRST_TYPE] not in (_MIN_KEY, _MAX_KEY)]
    bounds = [bound for place, bound in enumerate(bounds) if not place or bound != bounds[place - 1]]
    return [Range(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]


async def _command_flow(cursor: _Cursor[Any], command: dict[str, Any], concern: dict[str, Any] | None) -> Any:
    """Run a read on a query's collection; return the reply with raw documents, so that ids stay unchanged."""
    collection = cursor._collection
    if concern is not None:
        command["readConcern"] = concern
    else:
        collection._add_read_concern(command, None)
    operation = collection._operation(
        command,
        kind=KIND_READ,
        read_preference=collection._read_preference,
        codec=_core.Codec(DEFAULT_RAW_BSON_OPTIONS),
    )
    return await cursor._port.arun(operation)


async def _sample_flow(
    cursor: _Cursor[Any], size: int, is_snapshot: bool
) -> tuple[list[RawBSONDocument], Timestamp | None]:
    """Return a sample as sorted documents `{"_id": ...}`, and the moment of a snapshot."""
    stages: list[Any] = [{"$sample": {"size": size}}, {"$project": _BY_ID}, {"$sort": _BY_ID}]
    command = {"aggregate": cursor._collection._name, "pipeline": stages, "cursor": {"batchSize": size + 1}}
    try:
        reply = await _command_flow(cursor, command, {"level": "snapshot"} if is_snapshot else None)
    except OperationFailure as error:
        if is_snapshot and error.code in _NO_SNAPSHOTS:
            raise SnapshotUnavailable(
                "expected a replica set or sharded cluster of MongoDB 5.0 or newer for a snapshot, got: "
                f"{(error.details or {}).get('errmsg')}; leave out the snapshot",
                error.code,
                error.details,
            ) from error
        raise
    with ReplyTo("aggregate"):
        found = reply["cursor"]
        ids, open_cursor = list(found["firstBatch"]), found["id"]
        moment = found["atClusterTime"] if is_snapshot else None
    if open_cursor:
        # Ids of kilobytes do not fit into one reply, which then has only the smallest ones.
        collection = cursor._collection
        kill = {"killCursors": collection._name, "cursors": [open_cursor]}
        operation = collection._operation(
            kill,
            kind=KIND_READ,
            read_preference=collection._read_preference,
            codec=_core.Codec(DEFAULT_RAW_BSON_OPTIONS),
        )
        await cursor._port.arun(operation)
        return await _sample_flow(cursor, max(len(ids) // 2, 1), is_snapshot)
    return ids, moment


async def _identity_flow(cursor: _Cursor[Any], *, takes_any: bool) -> Binary | None:
    """Return the UUID of a query's collection; None if there is no collection or UUID, or the user may not read it.

    Args:
        cursor: the query.
        takes_any: accept collections without an index on `_id`.

    Raises:
        InvalidOperation: the collection is a view or a time series.
    """
    collection = cursor._collection
    command = {"listCollections": 1, "filter": {"name": collection._name}, "authorizedCollections": True}
    for is_name_only in (False, True):
        operation = collection._operation(
            {**command, "nameOnly": is_name_only, "cursor": {}},
            kind=KIND_READ,
            codec=_core.Codec(DEFAULT_RAW_BSON_OPTIONS),
        )
        try:
            reply = await cursor._port.arun(operation)
        except OperationFailure:
            # A user without the action listCollections may list only names, or nothing: then the reads fail.
            continue
        with ReplyTo("listCollections"):
            found = reply["cursor"]["firstBatch"]
        kind = found[0].get("type") if found else None
        if kind in ("view", "timeseries") and not takes_any:
            raise InvalidOperation(
                f"expected a collection with an index on _id for several ranges, got the {kind} "
                f"{collection.full_name}; read it with one cursor"
            )
        return found[0].get("info", {}).get("uuid") if found else None
    return None


async def _compares_identity_flow(cursor: _Cursor[Any], identity: Binary | None) -> bool:
    """Return whether the server refuses a find with a collection's UUID if another collection has the name."""
    if identity is None:
        return False
    command = {"find": cursor._collection._name, "collectionUUID": identity, "limit": 1, "projection": _BY_ID}
    try:
        await _command_flow(cursor, command | {"singleBatch": True}, None)
    except OperationFailure as error:
        if error.code in _NO_IDENTITY:
            return False
        raise
    return True


async def _has_last_key_flow(cursor: _Cursor[Any], last: Range, plan: Plan) -> bool:
    from mangonel.bson import MaxKey

    command = {"find": cursor._collection._name, "filter": dict.fromkeys(last.index, MaxKey()), "limit": 1}
    command |= {"singleBatch": True, "projection": _BY_ID}
    reply = await _command_flow(cursor, command, plan.read_concern)
    with ReplyTo("find"):
        return bool(reply["cursor"]["firstBatch"])


# The chunk map of a sharded cluster.


async def _chunks_flow(
    cursor: _Cursor[Any], count: int, *, is_required: bool, is_ordered: bool
) -> list[Range] | None:
    """Return ranges made of whole chunks, or None if a sample is better.

    Raises:
        ConfigurationError: the map is required, and there is no usable one.
        OperationFailure: the map is required, and the user may not read it.
    """
    collection = cursor._collection
    client = collection._client
    if not is_required and not _has_routers(client.topology_description):
        return None
    try:
        entry, chunks = await _chunk_map_flow(collection)
        if not is_required and len(chunks) < count:
            return None
        problem = None
        if entry is None or not chunks:
            problem = "it is not sharded"
        elif is_ordered and dict(entry["key"]) != _BY_ID:
            problem = f"its shard key {dict(entry['key'])} has another order than _id"
        elif not await _has_index_flow(cursor, entry["key"]):
            problem = f"no index has exactly the fields of its shard key {dict(entry['key'])}"
    except OperationFailure:
        if is_required:
            raise
        # For a user without the right to read the database config, a sample is used.
        return None
    if problem is not None or entry is None:
        if is_required:
            raise ConfigurationError(
                f'expected a chunk map of {collection.full_name}, and {problem}; use by="sample"'
            )
        return None
    cuts = [len(chunks) * place // count for place in range(count)]
    starts = sorted(set(cuts))
    ranges = []
    for place, start in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else len(chunks)
        shards = {chunk["shard"] for chunk in chunks[start:end]}
        low = chunks[start]["min"] if place else None
        high = chunks[end]["min"] if end < len(chunks) else None
        shard = shards.pop() if len(shards) == 1 else None
        ranges.append(Range(low, high, dict(entry["key"]), shard=shard))
    return ranges


def _has_routers(topology: TopologyDescription) -> bool:
    # The types of servers are checked, since a router as the only host makes a topology of type Single.
    return any(server.server_type_name in _ROUTERS for server in topology.server_descriptions().values())


async def _chunk_map_flow(collection: Any) -> tuple[Any, list[Any]]:
    """Return the collection's entry in `config.collections`, or None, and its chunks in their order."""
    from mangonel.read_concern import ReadConcern

    name = collection.full_name
    config = collection._client.get_database(
        "config", codec_options=DEFAULT_RAW_BSON_OPTIONS, read_concern=ReadConcern("majority")
    )
    found = await config["collections"].find({"_id": name, "dropped": {"$ne": True}})._to_list_flow(None)
    if not found or found[0].get("unsplittable"):
        return None, []
    entry = found[0]
    # Since 5.0 chunks refer to the collection's UUID, before to its name.
    owner = {"uuid": entry["uuid"]} if "uuid" in entry else {"ns": name}
    chunks = await config["chunks"].find({"$or": [owner, {"ns": name}]}, sort={"min": 1})._to_list_flow(None)
    return entry, chunks


async def _has_index_flow(cursor: _Cursor[Any], key: RawBSONDocument) -> bool:
    """Return whether there is an index for bounds: with exactly these fields and an entry for every document."""
    if dict(key) == _BY_ID:
        return True
    collection = cursor._collection
    operation = collection._operation(
        {"listIndexes": collection._name, "cursor": {"batchSize": 1000}},
        kind=KIND_READ,
        codec=_core.Codec(DEFAULT_RAW_BSON_OPTIONS),
    )
    reply = await cursor._port.arun(operation)
    with ReplyTo("listIndexes"):
        return any(
            list(index["key"].items()) == list(key.items())
            and not any(option in index for option in ("sparse", "partialFilterExpression", "collation"))
            for index in reply["cursor"]["firstBatch"]
        )
