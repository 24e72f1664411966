"""Each change is applied once, despite writes of other processes and a write that is sent again after a lost reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from browser import Browser, Site
from store_names import STORES

from mangonel.websessions import MemoryStore, StoreError, WebSessions
from mangonel.websessions.machine import NOTHING, decide
from mangonel.websessions.record import Record
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import a_record
from mangonel.websessions.writes import KEPT, changed, has_write, next_writes

stores = pytest.mark.parametrize("name", STORES)
PROCESSES, AT_ONCE, TURNS = 2, 10, 3


class Repeating:
    """A store whose client loses the first answer to a write and sends it again, on chosen calls."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.repeats: Callable[[int], bool] = lambda number: False
        self.puts = 0

    async def put(self, record: Record, expected: int) -> bool:
        self.puts += 1
        first: bool = await self.store.put(record, expected)
        if not self.repeats(self.puts):
            return first
        again: bool = await self.store.put(record, expected)
        return again

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.mark.enough(4)
@stores
async def test_writers_of_two_processes_lose_nothing_and_count_nothing_twice(
    name: str, store_url: Callable[[str], str]
) -> None:
    url = store_url(name)
    # One client for each process, independent of the others.
    sites: list[WebSessions[Any]] = [
        WebSessions(open_store(url), events=lambda event: None) for _ in range(PROCESSES)
    ]
    browser = Browser(sites[0])
    await browser.login("ada")
    others = [Browser(site) for site in sites]
    for other in others:
        other.cookie = browser.cookie

    async def visit(other: Browser, number: int) -> None:
        session = await other.begin()
        session.increment("n")
        session.flash("saved")
        session[f"k{number}"] = number
        await other.end(session)

    writers = PROCESSES * AT_ONCE
    for turn in range(1, TURNS + 1):
        await asyncio.gather(*(visit(others[n % PROCESSES], n) for n in range(writers)))
        session = await browser.begin()
        assert session["n"] == turn * writers
        assert {session[f"k{n}"] for n in range(writers)} == set(range(writers))
        assert [message.text for message in session.flashes()] == ["saved"] * writers
        await browser.end(session)
    for site in sites:
        await site.asynchronous.store().aclose() if hasattr(site.asynchronous.store(), "aclose") else None


async def test_messages_that_say_the_same_are_two_and_one_that_was_read_is_read() -> None:
    browser = Site().browser()
    await browser.login("ada")
    session = await browser.begin()
    session.flash("saved")
    await browser.end(session)
    reader, writer, reading_writer = [await browser.begin() for _ in range(3)]
    assert [message.text for message in reader.flashes()] == ["saved"]
    writer.flash("saved")
    reading_writer.flashes()
    reading_writer.flash("saved", "info")
    for each in (reader, writer, reading_writer):
        await browser.end(each)
    last = await browser.begin()
    assert last.flashes() == [("info", "saved")] * 2


@dataclass
class Basket:
    """A model."""

    a: int = 0
    b: int = 0


@pytest.mark.parametrize("model", [None, Basket])
async def test_requests_whose_changes_were_merged_and_those_after_them_have_nothing_left_to_store(
    model: type[Basket] | None,
) -> None:
    site = Site(model=model)
    browser = site.browser()
    await browser.login("ada")
    one, other = await browser.begin(), await browser.begin()
    one.flash("saved")
    one.increment("b")
    other.increment("a")
    for each in (one, other):
        await browser.end(each)
        assert decide(each) == NOTHING
    puts = site.meter.by_name["put"]
    await browser.end(await browser.begin())
    assert site.meter.by_name["put"] == puts


@pytest.mark.parametrize("which", ["first", "second", "third", "every", "last of two"])
@pytest.mark.parametrize("what", ["write", "rotate", "reauthenticated", "login", "destroy", "renew"])
async def test_a_write_that_was_sent_twice_counts_once_in_every_flow(what: str, which: str) -> None:
    store = Repeating(MemoryStore())
    clock = [1_900_000_000.0]
    sessions: WebSessions[Any] = WebSessions(
        store, renew="10m", clock=lambda: clock[0], events=lambda event: None
    )
    browser = Browser(sessions)
    await browser.login("ada")
    await browser.store(n=1)
    store.puts = 0
    chosen = {"first": (1,), "second": (2,), "third": (3,), "last of two": (2, 4)}.get(which)
    store.repeats = lambda number: chosen is None or number in chosen
    if what == "renew":
        clock[0] += 601
    first, second = await browser.begin(), await browser.begin()
    if first.state.cookie is not None:
        # As a browser would with the first response.
        browser.take([("Set-Cookie", first.state.cookie)])
    for each in (first, second):
        each.increment("n")
    if what == "login":
        second.login("ada", keep=("n",))
    elif what not in ("write", "renew"):
        getattr(second, what)()
    await browser.end(first)
    await browser.end(second)
    last = await browser.begin()
    if what == "destroy":
        assert last.user is None
    else:
        assert (last.user, last["n"]) == ("ada", 3)
    async with last.lock():
        pass


def test_a_record_says_by_which_writes_it_came_to_be_or_that_it_cannot_tell() -> None:
    first = a_record()
    mine, theirs = changed(first), changed(first)
    assert has_write(mine, mine)
    assert not has_write(first, mine)
    assert not has_write(theirs, mine)
    later = mine
    for _ in range(KEPT - 1):
        later = changed(later)
        assert has_write(later, mine)
        assert not has_write(later, theirs)
    with pytest.raises(StoreError, match="cannot tell whether a write was applied"):
        has_write(changed(later), mine)
    assert len(later.writes) == len(next_writes(later.writes))
