"""One change stream for the whole process: the current state, and the events that follow it, for all browsers.

The state (counts and newest rows) is read once, in a snapshot. The stream begins at the snapshot's cluster time, and
its changes update the state. So pages are answered from memory, without a query, and state and events join without gap
or duplicate.

Spec: change-streams, snapshot-sessions (the same read concern, set by hand because the cluster time is needed).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from mangonel.bson.timestamp import Timestamp
from mangonel.demo.events import KINDS, ROWS, Event, Rows, encode, event_of, position_of, row_of
from mangonel.demo.ring import LAST, Position, Ring
from mangonel.errors import OperationFailure, PyMongoError

if TYPE_CHECKING:
    from mangonel import AsyncMongoClient

log = logging.getLogger("mangonel.demo")

PIPELINE: list[dict[str, Any]] = [
    {
        "$match": {
            "operationType": {"$in": ["insert", "update", "replace", "delete"]},
            "ns.coll": {"$in": list(KINDS)},
        }
    },
    # An update event lists its own changes. A looked-up document would be from a later moment.
    {
        "$project": {
            "clusterTime": 1,
            "operationType": 1,
            "ns.coll": 1,
            "documentKey": 1,
            "fullDocument": 1,
            "updateDescription.updatedFields": 1,
        }
    },
]

CHANGE_STREAM_HISTORY_LOST = 286
SNAPSHOT_UNAVAILABLE = 246

# If changes come faster than this, the feed waits a moment so that one getMore returns many.
BUSY_RATE = 200.0
GATHER_S = 0.01
# A shorter wait means that the change had already arrived; a longer one means a getMore.
ANSWER_S = 0.0002
MAX_AWAIT_MS = 1000
PAUSE_S = 0.5
CHART_S = 60


class HistoryLost(Exception):
    """The oplog does not reach back to the position any more."""


class Feed:
    """The events of a deployment, kept in a ring for any number of readers.

    Args:
        client: the client; only this object opens a change stream on it.
        database: the shop's database.
        size: how many events to keep.

    Attributes:
        totals: documents of each kind, from the state and the later events.
        ring: the events; None until `open`.
        seen: events since the process began.
        resumes: how often the feed reopened the stream; the driver's own resumes do not count.
        readers: browsers that follow the feed now.
    """

    def __init__(self, client: AsyncMongoClient[Any], database: str, size: int) -> None:
        self._client = client
        self._database: Any = client[database]
        self._size = size
        self._rows = {kind: Rows() for kind in KINDS.values()}
        # Events in each second of the deployment's clock, so that a new chart is full at once.
        self._counts: OrderedDict[int, int] = OrderedDict()
        self._news: asyncio.Future[None] | None = None
        self.totals: dict[str, int] = dict.fromkeys(KINDS.values(), 0)
        self.ring = Ring(size, Position(0, 0, ""))
        self.seen = 0
        self.resumes = 0
        self.readers = 0

    async def open(self) -> None:
        """Read the state; the stream will begin where the state ends."""
        at = await self._snapshot()
        self.ring = Ring(self._size, Position(at.time, at.inc, LAST))

    async def run(self) -> None:
        """Follow the stream until cancelled, and reopen it after errors; after failovers the driver resumes it."""
        is_lost = False
        while True:
            try:
                if is_lost:
                    await self._begin_again()
                    is_lost = False
                async with aclosing(self.changes(self.ring.end)) as changes:
                    async for position, event in changes:
                        self._add(position, event)
            except HistoryLost:
                is_lost = True
                log.warning("the oplog has been overtaken; reading the state again")
            except PyMongoError as error:
                self.resumes += 1
                log.warning("the change stream was interrupted, trying again: %s", error)
                await asyncio.sleep(PAUSE_S)

    async def _begin_again(self) -> None:
        """Read the state again. Events may have been missed, so every reader's position becomes invalid."""
        number = self.ring.next
        await self.open()
        self.ring.first = number + 1
        self._tell()

    async def changes(
        self, after: Position, until: Position | None = None
    ) -> AsyncGenerator[tuple[Position, Event], None]:
        """Yield each event after a position, with its own position.

        Args:
            after: start after this position.
            until: stop once every event up to this position was seen. None: never.

        Raises:
            HistoryLost: the oplog does not reach back that far.
        """
        loop = asyncio.get_running_loop()
        pace = Pace(loop.time())
        async with self._client.start_session() as session:
            if until is not None:
                # A server may answer "no more changes" only after it has reached the time of `until`.
                session.advance_operation_time(Timestamp(until.seconds, until.increment))
            try:
                async with await self._database.watch(
                    PIPELINE,
                    start_at_operation_time=Timestamp(after.seconds, after.increment),
                    max_await_time_ms=MAX_AWAIT_MS,
                    session=session if until is not None else None,
                ) as stream:
                    while True:
                        asked = loop.time()
                        change = await stream.try_next()
                        if change is None:
                            if until is not None:
                                return
                            continue
                        position = position_of(change)
                        if position > after:
                            yield position, event_of(change)
                        if until is not None and position >= until:
                            return
                        if (wait := pace.wait(asked, loop.time())) and until is None:
                            await asyncio.sleep(wait)
            except OperationFailure as error:
                if error.code == CHANGE_STREAM_HISTORY_LOST:
                    raise HistoryLost from error
                raise

    def state(self) -> bytes:
        """Return the state as JSON for a new page; it includes everything before `ring.next`."""
        now = int(time.time())
        return encode(
            {
                "type": "state",
                "position": str(self.ring.end),
                "totals": self.totals,
                "counts": [self._counts.get(second, 0) for second in range(now - CHART_S + 1, now + 1)],
                "rows": {kind: rows.all() for kind, rows in self._rows.items()},
            }
        )

    async def news(self, number: int) -> None:
        """Wait until the event with this number exists."""
        while self.ring.next <= number:
            if self._news is None:
                self._news = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._news)

    def _add(self, position: Position, event: Event) -> None:
        self.ring.add(position, event.json())
        self.totals[event.kind] += event.difference
        self._rows[event.kind].take(event)
        self.seen += 1
        self._counts[position.seconds] = self._counts.get(position.seconds, 0) + 1
        if len(self._counts) > CHART_S:
            self._counts.popitem(last=False)
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    async def _snapshot(self) -> Timestamp:
        """Read counts and newest rows at one moment, and return that moment's cluster time."""
        at: Timestamp | None = None
        for collection, kind in KINDS.items():
            counted, at = await self._at_snapshot(collection, [{"$count": "n"}], at)
            newest, at = await self._at_snapshot(collection, [{"$sort": {"_id": -1}}, {"$limit": ROWS}], at)
            self.totals[kind] = counted[0]["n"] if counted else 0
            # The newest last, in the order of their arrival.
            self._rows[kind].begin(row_of(kind, document) for document in reversed(newest))
        assert at is not None
        return at

    async def _at_snapshot(
        self, collection: str, pipeline: list[dict[str, Any]], at: Timestamp | None
    ) -> tuple[list[dict[str, Any]], Timestamp]:
        """Run a pipeline on the data at a cluster time. None: the current one, which the reply contains."""
        concern: dict[str, Any] = {"level": "snapshot"}
        if at is not None:
            concern["atClusterTime"] = at
        while True:
            try:
                reply = await self._database.command(
                    "aggregate", collection, pipeline=pipeline, cursor={}, readConcern=concern
                )
            except OperationFailure as error:
                # A collection that was just created has no snapshot yet.
                if error.code != SNAPSHOT_UNAVAILABLE or at is not None:
                    raise
                await asyncio.sleep(PAUSE_S)
                continue
            cursor = reply["cursor"]
            return cursor["firstBatch"], cursor["atClusterTime"]


class Pace:
    """Decides from the rate of changes when to wait for more."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._count = 0

    def wait(self, asked: float, now: float) -> float:
        """Count a change that was requested and arrived; return the seconds to wait before the next request."""
        self._count += 1
        if now - asked < ANSWER_S:
            return 0.0
        is_busy = self._count > BUSY_RATE * (now - self._since)
        self._since, self._count = now, 0
        return GATHER_S if is_busy else 0.0
