"""One change stream for the whole process, and what all browsers see of it: the state now, and the events that follow.

The state (how many, and the newest rows) is read once, in a snapshot; the stream begins at the snapshot's cluster time,
and what it brings is counted into the state. So a page is answered from memory, without asking the database, and its
state and its events join without a gap and without a double.

Spec: change-streams, snapshot-sessions (the same read concern, set by hand because its cluster time is wanted).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from mangonel.bson.timestamp import Timestamp
from mangonel.demo.ring import LAST, Position, Ring
from mangonel.errors import OperationFailure, PyMongoError

if TYPE_CHECKING:
    from mangonel import AsyncMongoClient

__all__ = ["Feed", "HistoryLost"]

log = logging.getLogger("mangonel.demo")

ROWS = 100
"""Rows of each kind that the state has, and a page shows."""

# Collections, and what their rows are called.
KINDS = {"customers": "customer", "orders": "order"}
PIPELINE: list[dict[str, Any]] = [
    {"$match": {"operationType": "insert", "ns.coll": {"$in": list(KINDS)}}},
    {"$project": {"clusterTime": 1, "ns": 1, "fullDocument": 1}},
]

CHANGE_STREAM_HISTORY_LOST = 286
SNAPSHOT_UNAVAILABLE = 246

# When changes come faster than this, they are let gather for a moment: one getMore then brings many.
BUSY_RATE = 200.0
GATHER_S = 0.01
MAX_AWAIT_MS = 1000
PAUSE_S = 0.5


class HistoryLost(Exception):
    """The oplog does not reach back to a position any more."""


class Feed:
    """The events of a deployment, kept in a ring for any number of readers.

    Args:
        client: its only user of a change stream is this.
        database: where the shop writes.
        size: events to keep.

    Attributes:
        totals: documents of each kind, from the state and the events since.
        ring: the events; None until `open`.
        seen: events since the process began.
        resumes: how often the stream had to be opened again by us; the driver's own resumes do not count.
        readers: browsers that follow it now.
    """

    def __init__(self, client: AsyncMongoClient[Any], database: str, size: int) -> None:
        self._client = client
        self._database: Any = client[database]
        self._size = size
        self._rows: dict[str, deque[str]] = {kind: deque(maxlen=ROWS) for kind in KINDS.values()}
        self._news: asyncio.Future[None] | None = None
        self.totals: dict[str, int] = dict.fromkeys(KINDS.values(), 0)
        self.ring = Ring(size, Position(0, 0, ""))
        self.seen = 0
        self.resumes = 0
        self.readers = 0

    async def open(self) -> None:
        """Read the state; the stream will begin where it ends."""
        at = await self._snapshot()
        self.ring = Ring(self._size, Position(at.time, at.inc, LAST))

    async def run(self) -> None:
        """Follow the stream until cancelled; the driver resumes it over failovers, and we what it gave up."""
        is_lost = False
        while True:
            try:
                if is_lost:
                    await self._begin_again()
                    is_lost = False
                async with aclosing(self.changes(self.ring.end)) as changes:
                    async for position, kind, row in changes:
                        self._add(position, kind, row)
            except HistoryLost:
                is_lost = True
                log.warning("the oplog has been overtaken; reading the state again")
            except PyMongoError as error:
                self.resumes += 1
                log.warning("the change stream was interrupted, trying again: %s", error)
                await asyncio.sleep(PAUSE_S)

    async def _begin_again(self) -> None:
        """Read the state anew; nobody can know what was missed, so every reader finds its place gone."""
        number = self.ring.next
        await self.open()
        self.ring.first = number + 1
        self._tell()

    async def changes(
        self, after: Position, until: Position | None = None
    ) -> AsyncGenerator[tuple[Position, str, str], None]:
        """Yield position, kind and row of each event behind a position.

        Args:
            after: begin behind it.
            until: end once every event up to this position was seen; None: never.

        Raises:
            HistoryLost: the oplog does not reach back so far.
        """
        loop = asyncio.get_running_loop()
        pace = Pace(loop.time())
        async with self._client.start_session() as session:
            if until is not None:
                # No server may answer "nothing more" before it has seen what `until` stands for.
                session.advance_operation_time(Timestamp(until.seconds, until.increment))
            try:
                async with await self._database.watch(
                    PIPELINE,
                    start_at_operation_time=Timestamp(after.seconds, after.increment),
                    max_await_time_ms=MAX_AWAIT_MS,
                    session=session if until is not None else None,
                ) as stream:
                    while True:
                        change = await stream.try_next()
                        if change is None:
                            if until is not None:
                                return
                            continue
                        position = position_of(change)
                        if position > after:
                            yield position, *row_of(change)
                        if until is not None and position >= until:
                            return
                        if (wait := pace.wait(loop.time())) and until is None:
                            await asyncio.sleep(wait)
            except OperationFailure as error:
                if error.code == CHANGE_STREAM_HISTORY_LOST:
                    raise HistoryLost from error
                raise

    def state(self) -> str:
        """Return the state as JSON, for a page that begins: it holds everything before `ring.next`."""
        rows = ",".join(f'"{kind}":[{",".join(found)}]' for kind, found in self._rows.items())
        return (
            f'{{"type":"state","position":"{self.ring.end}","totals":{json.dumps(self.totals)},'
            f'"rows":{{{rows}}}}}'
        )

    async def news(self, number: int) -> None:
        """Wait until there is an event of this number."""
        while self.ring.next <= number:
            if self._news is None:
                self._news = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._news)

    def _add(self, position: Position, kind: str, row: str) -> None:
        self.ring.add(position, row)
        self._rows[kind].append(row)
        self.totals[kind] += 1
        self.seen += 1
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    async def _snapshot(self) -> Timestamp:
        """Read counts and newest rows of one moment, and return that moment's cluster time."""
        at: Timestamp | None = None
        for collection, kind in KINDS.items():
            counted, at = await self._at_snapshot(collection, [{"$count": "n"}], at)
            newest, at = await self._at_snapshot(collection, [{"$sort": {"_id": -1}}, {"$limit": ROWS}], at)
            self.totals[kind] = counted[0]["n"] if counted else 0
            # The newest last, as they would have come.
            self._rows[kind].clear()
            self._rows[kind].extend(row_json(kind, document) for document in reversed(newest))
        assert at is not None
        return at

    async def _at_snapshot(
        self, collection: str, pipeline: list[dict[str, Any]], at: Timestamp | None
    ) -> tuple[list[dict[str, Any]], Timestamp]:
        """Run a pipeline on the data of one moment; None: of now, which the answer tells."""
        concern: dict[str, Any] = {"level": "snapshot"}
        if at is not None:
            concern["atClusterTime"] = at
        while True:
            try:
                reply = await self._database.command(
                    "aggregate", collection, pipeline=pipeline, cursor={}, readConcern=concern
                )
            except OperationFailure as error:
                # A collection that was made a moment ago has no snapshot yet.
                if error.code != SNAPSHOT_UNAVAILABLE or at is not None:
                    raise
                await asyncio.sleep(PAUSE_S)
                continue
            cursor = reply["cursor"]
            return cursor["firstBatch"], cursor["atClusterTime"]


class Pace:
    """Tells how long to let changes gather, by how fast they come."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._count = 0

    def wait(self, now: float) -> float:
        """Count a change and return the seconds to wait before the next one is asked for."""
        self._count += 1
        passed = now - self._since
        if passed < GATHER_S:
            return 0.0
        is_busy = self._count > BUSY_RATE * passed
        self._since, self._count = now, 0
        return GATHER_S if is_busy else 0.0


def position_of(change: Mapping[str, Any]) -> Position:
    """Return where a change stands."""
    at = change["clusterTime"]
    return Position(at.time, at.inc, change["_id"]["_data"])


def row_of(change: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a change and its row, as JSON."""
    kind = KINDS[change["ns"]["coll"]]
    return kind, row_json(kind, change["fullDocument"])


def row_json(kind: str, document: Mapping[str, Any]) -> str:
    """Return what a page shows of a document; encoded once, however many browsers there are."""
    row: dict[str, Any] = {"kind": kind, "id": str(document["_id"])}
    if kind == "customer":
        row.update(name=document["name"], city=document["city"], at=_milliseconds(document["joined"]))
    else:
        row.update(
            customer=document["customer"],
            item=document["item"],
            cents=document["cents"],
            at=_milliseconds(document["placed"]),
        )
    return json.dumps(row, separators=(",", ":"))


def _milliseconds(date: dt.datetime) -> int:
    return round(date.replace(tzinfo=dt.UTC).timestamp() * 1000)
