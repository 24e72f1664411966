"""The demo's feed, readers and fan-out without a database: browsers in step, slow browsers, lost history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import pytest

from mangonel.bson.timestamp import Timestamp
from mangonel.demo.events import ROWS, Event, Rows
from mangonel.demo.fanout import Fanout, text_frame
from mangonel.demo.feed import Feed, HistoryLost
from mangonel.demo.reader import CREDIT, Reader
from mangonel.demo.ring import LAST, Position

SIZE = 100


class Quiet(Feed):
    """A feed whose changes come from the test."""

    def __init__(self) -> None:
        super().__init__({"shop": None}, "shop", SIZE)  # type: ignore[arg-type]
        self.losses = 0
        # While it is not set, no frame is made.
        self.tells = asyncio.Event()
        self.tells.set()

    def happen(self, count: int) -> None:
        """Let this many customers sign up."""
        for _ in range(count):
            number = self.seen
            self._add(Position(number + 1, 0, "82"), Event("customer", str(number), "insert", {}))

    async def news(self, number: int) -> None:
        await super().news(number)
        await self.tells.wait()

    async def _snapshot(self) -> Timestamp:
        return Timestamp(self.seen, 0)

    async def changes(
        self, after: Position, until: Position | None = None
    ) -> AsyncGenerator[tuple[Position, Event], None]:
        """Lose the history once, then stay quiet."""
        if until is not None or not self.losses:
            self.losses += 1
            raise HistoryLost
        await asyncio.Event().wait()
        yield after, Event("customer", "", "insert", {})


class Browser:
    """The frames sent to one browser.

    Attributes:
        raw: the frames as they were written.
        sent: their contents.
    """

    def __init__(self, feed: Feed, fanout: Fanout, position: Position | None) -> None:
        self.raw: list[bytes] = []
        self.reader = Reader(feed, fanout, self.raw.append)
        self.task = asyncio.create_task(self.reader.run(position))

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(payload_of(frame)) for frame in self.raw]

    @property
    def ids(self) -> list[int]:
        """Return the frames of all events."""
        return [int(event["id"]) for frame in self.sent for event in frame.get("events", ())]


def payload_of(frame: bytes) -> bytes:
    """Return the text of a frame."""
    assert frame[0] == 0x81
    length, start = frame[1], 2
    if length > 125:
        start = 4 if length == 126 else 10
        length = int.from_bytes(frame[2:start], "big")
    assert len(frame) == start + length
    return frame[start:]


def visit(feed: Feed, positions: list[Position | None], steps: Any) -> list[Browser]:
    """Run browsers during a test's steps, and return them."""

    async def run() -> list[Browser]:
        fanout = Fanout(feed)
        sending = asyncio.create_task(fanout.run())
        browsers = [Browser(feed, fanout, position) for position in positions]
        await steps(*browsers)
        for task in (sending, *(browser.task for browser in browsers)):
            assert not task.done(), task
            task.cancel()
        return browsers

    return asyncio.run(run())


async def until(condition: Any) -> None:
    """Let the loop run until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_browser_that_the_ring_has_passed_by_gets_the_state_and_then_events() -> None:
    feed = Quiet()

    async def steps(browser: Browser) -> None:
        await until(lambda: browser.raw)
        for number in range(1, CREDIT):  # uses all its credit
            feed.happen(1)
            await until(lambda wanted=number + 1: len(browser.raw) == wanted)
        feed.happen(1000)
        await asyncio.sleep(0.1)
        assert len(browser.raw) == CREDIT
        browser.reader.grant(8)
        await until(lambda: len(browser.raw) == CREDIT + 1)
        feed.happen(3)
        await until(lambda: len(browser.raw) == CREDIT + 2)
        assert browser.reader.skipped > 0

    sent = visit(feed, [None], steps)[0].sent
    assert [frame["type"] for frame in sent] == ["state", *["events"] * (CREDIT - 1), "state", "events"]
    total = 1000 + CREDIT - 1
    assert sent[CREDIT]["totals"]["customer"] == total
    assert [row["id"] for row in sent[-1]["events"]] == [str(total), str(total + 1), str(total + 2)]


def test_browsers_that_keep_up_are_written_the_same_bytes() -> None:
    feed = Quiet()

    async def steps(*browsers: Browser) -> None:
        await until(lambda: all(browser.raw for browser in browsers))
        await asyncio.sleep(0)  # back in step
        feed.happen(5)
        await until(lambda: all(len(browser.raw) == 2 for browser in browsers))

    browsers = visit(feed, [None] * 20, steps)
    assert len({id(browser.raw[1]) for browser in browsers}) == 1


def test_nothing_is_missed_or_doubled_by_whoever_comes_goes_or_rests_between_frames() -> None:
    feed = Quiet()
    feed.happen(20)
    credit = 3

    async def steps(keen: Browser, slow: Browser, late: Browser) -> None:
        slow.reader._credit = credit
        for browser in (keen, late):
            browser.reader.grant(48)
        for _ in range(30):
            feed.happen(2)
            await asyncio.sleep(0.002)
        await until(lambda: keen.ids[-1:] == [79] and late.ids[-1:] == [79])
        assert len(slow.raw) == credit
        slow.reader.grant(20)
        await until(lambda: slow.ids[-1] == 79)
        feed.happen(1)
        await until(lambda: all(browser.ids[-1] == 80 for browser in (keen, slow, late)))

    keen, slow, late = visit(feed, [Position(1, 0, "82"), Position(1, 0, "82"), Position(15, 0, "82")], steps)
    assert keen.ids == slow.ids == list(range(1, 81))
    assert late.ids == list(range(15, 81))
    # Back in step after its pause.
    assert slow.raw[-1] is keen.raw[-1]


def test_a_browser_whose_state_is_newer_than_the_last_frame_gets_only_what_is_newer_still() -> None:
    feed = Quiet()

    async def steps(early: Browser, late: Browser) -> None:
        late.task.cancel()
        await until(lambda: early.raw)
        await asyncio.sleep(0)
        feed.happen(3)
        await until(lambda: len(early.raw) == 2)
        # The state contains changes that no frame has brought, as within the pause after a frame.
        feed.tells.clear()
        feed.happen(3)
        late.task = asyncio.create_task(late.reader.run(None))
        await until(lambda: late.raw)
        assert len(early.raw) == 2
        feed.happen(3)
        feed.tells.set()
        await until(lambda: early.ids[-1] == 8 and late.ids[-1:] == [8])

    early, late = visit(feed, [None, None], steps)
    assert early.ids == list(range(9))
    assert late.sent[0]["totals"]["customer"] == 6
    assert late.ids == [6, 7, 8]


def test_a_position_that_the_oplog_does_not_reach_is_answered_with_the_state() -> None:
    feed = Quiet()
    feed.happen(1000)

    async def steps(browser: Browser) -> None:
        await until(lambda: browser.raw)

    sent = visit(feed, [Position(1, 0, "82")], steps)[0].sent
    assert sent[0]["type"] == "state"
    assert sent[0]["totals"]["customer"] == 1000


def test_a_position_within_the_ring_is_answered_with_what_came_behind_it() -> None:
    feed = Quiet()
    feed.happen(50)

    async def steps(browser: Browser) -> None:
        await until(lambda: browser.raw)

    assert visit(feed, [Position(48, 0, "82")], steps)[0].ids == [48, 49]


def test_every_browser_gets_the_state_after_the_feed_lost_its_history() -> None:
    feed = Quiet()
    feed.happen(5)

    async def steps(*browsers: Browser) -> None:
        await until(lambda: all(browser.raw for browser in browsers))
        work: Coroutine[Any, Any, None] = feed.run()
        following = asyncio.create_task(work)
        await until(lambda: all(len(browser.raw) == 2 for browser in browsers))
        feed.happen(1)
        await until(lambda: all(len(browser.raw) == 3 for browser in browsers))
        following.cancel()

    for browser in visit(feed, [None, None], steps):
        assert [frame["type"] for frame in browser.sent] == ["state", "state", "events"]


def test_the_positions_of_a_state_and_of_events_are_in_order() -> None:
    feed = Quiet()
    feed.ring.start = Position(0, 0, LAST)

    async def steps(browser: Browser) -> None:
        await until(lambda: browser.raw)
        feed.happen(2)
        await until(lambda: len(browser.raw) == 2)

    (browser,) = visit(feed, [None], steps)
    first, second = (Position.parse(frame["position"]) for frame in browser.sent)
    assert first < second


@pytest.mark.parametrize("length", [0, 125, 126, 0xFFFF, 0x10000])
def test_a_frame_says_how_long_it_is(length: int) -> None:
    assert payload_of(text_frame(b"x" * length)) == b"x" * length


def test_the_rows_of_the_state_follow_changes_and_forget_the_oldest() -> None:
    rows = Rows()
    rows.begin([{"id": "old", "state": "new"}])
    for number in range(ROWS - 1):
        rows.take(Event("order", str(number), "insert", {"state": "new"}))
    rows.take(Event("order", "5", "update", {"state": "paid"}))
    rows.take(Event("order", "unknown", "update", {"state": "paid"}))
    rows.take(Event("order", "7", "delete", {}))
    rows.take(Event("order", "unknown", "delete", {}))
    assert len(rows.all()) == ROWS - 1
    rows.take(Event("order", "a", "insert", {"state": "new"}))
    rows.take(Event("order", "b", "insert", {"state": "new"}))
    found = {row["id"]: row["state"] for row in rows.all()}
    assert len(found) == ROWS
    assert "old" not in found
    assert "7" not in found
    assert (found["5"], found["b"]) == ("paid", "new")
