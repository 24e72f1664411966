"""The demo's feed and its readers, without a database: browsers that are slow, and a history that is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from mangonel.bson.timestamp import Timestamp
from mangonel.demo.feed import Feed, HistoryLost
from mangonel.demo.reader import Reader
from mangonel.demo.ring import LAST, Position

SIZE = 100


class Quiet(Feed):
    """A feed whose changes are the test's."""

    def __init__(self) -> None:
        super().__init__({"shop": None}, "shop", SIZE)  # type: ignore[arg-type]
        self.losses = 0

    def happen(self, count: int) -> None:
        """Let so many customers sign up."""
        for _ in range(count):
            number = self.seen
            self._add(Position(number + 1, 0, "82"), "customer", f'{{"kind":"customer","id":"{number}"}}')

    async def _snapshot(self) -> Timestamp:
        return Timestamp(self.seen, 0)

    async def changes(
        self, after: Position, until: Position | None = None
    ) -> AsyncGenerator[tuple[Position, str, str], None]:
        """Lose the history once, then stay quiet."""
        if until is not None or not self.losses:
            self.losses += 1
            raise HistoryLost
        await asyncio.Event().wait()
        yield after, "", ""


def frames_of(feed: Feed, position: Position | None, steps: Any) -> list[dict[str, Any]]:
    """Run a reader beside a test's steps, and return what it sent."""
    sent: list[dict[str, Any]] = []

    async def send(frame: str) -> None:
        sent.append(json.loads(frame))

    async def run() -> None:
        reader = Reader(feed, send)
        task = asyncio.create_task(reader.run(position))
        await steps(reader, sent)
        task.cancel()

    asyncio.run(run())
    return sent


async def until(condition: Any) -> None:
    """Let the loop run until something holds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_browser_that_the_ring_has_passed_by_gets_the_state_and_then_events() -> None:
    feed = Quiet()

    async def steps(reader: Reader, sent: list[dict[str, Any]]) -> None:
        await until(lambda: sent)
        for number in range(1, 8):  # takes what credit there is
            feed.happen(1)
            await until(lambda wanted=number + 1: len(sent) == wanted)
        feed.happen(1000)
        await asyncio.sleep(0.1)
        assert len(sent) == 8
        reader.grant(8)
        await until(lambda: len(sent) == 9)
        feed.happen(3)
        await until(lambda: len(sent) == 10)
        assert reader.skipped > 0

    sent = frames_of(feed, None, steps)
    assert [frame["type"] for frame in sent] == ["state", *["events"] * 7, "state", "events"]
    assert sent[8]["totals"]["customer"] == 1007
    assert [row["id"] for row in sent[9]["events"]] == ["1007", "1008", "1009"]


def test_a_position_that_the_oplog_does_not_reach_is_answered_with_the_state() -> None:
    feed = Quiet()
    feed.happen(1000)

    async def steps(reader: Reader, sent: list[dict[str, Any]]) -> None:
        await until(lambda: sent)

    sent = frames_of(feed, Position(1, 0, "82"), steps)
    assert sent[0]["type"] == "state"
    assert sent[0]["totals"]["customer"] == 1000


def test_a_position_within_the_ring_is_answered_with_what_came_behind_it() -> None:
    feed = Quiet()
    feed.happen(50)

    async def steps(reader: Reader, sent: list[dict[str, Any]]) -> None:
        await until(lambda: sent)

    sent = frames_of(feed, Position(48, 0, "82"), steps)
    assert [row["id"] for row in sent[0]["events"]] == ["48", "49"]


def test_every_browser_gets_the_state_after_the_feed_lost_its_history() -> None:
    feed = Quiet()
    feed.happen(5)

    async def steps(reader: Reader, sent: list[dict[str, Any]]) -> None:
        await until(lambda: sent)
        work: Coroutine[Any, Any, None] = feed.run()
        following = asyncio.create_task(work)
        await until(lambda: len(sent) == 2)
        feed.happen(1)
        await until(lambda: len(sent) == 3)
        following.cancel()

    sent = frames_of(feed, None, steps)
    assert [frame["type"] for frame in sent] == ["state", "state", "events"]


def test_the_positions_of_a_state_and_of_events_are_in_order() -> None:
    feed = Quiet()
    feed.ring.start = Position(0, 0, LAST)

    async def steps(reader: Reader, sent: list[dict[str, Any]]) -> None:
        await until(lambda: sent)
        feed.happen(2)
        await until(lambda: len(sent) == 2)

    first, second = (Position.parse(frame["position"]) for frame in frames_of(feed, None, steps))
    assert first < second
