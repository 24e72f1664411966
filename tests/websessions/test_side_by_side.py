"""Concurrent requests of one visitor: shared counters, and a lock for requests that must not overlap."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from applications import FRAMEWORKS, served
from browser import Browser
from store_names import STORES

from mangonel.websessions import (
    LockTimeout,
    MemoryStore,
    RequestView,
    UsageError,
    WebSession,
    WebSessions,
    new_key,
)
from mangonel.websessions.answer import headers_of
from mangonel.websessions.errors import Unsupported
from mangonel.websessions.merge import adding
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import FakeClock, a_record
from mangonel.websessions.writes import changed

stores = pytest.mark.parametrize("name", STORES)


class Counts(msgspec.Struct):
    n: int = 0


def opened(name: str, store_url: Callable[[str], str], **settings: Any) -> WebSessions[Any]:
    return WebSessions(store_url(name), events=lambda event: None, **settings)


@stores
@pytest.mark.each_once("name", "model")
@pytest.mark.parametrize("model", [None, Counts])
async def test_requests_side_by_side_count_every_one(
    name: str, model: Any, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url, model=model)
    browser = Browser(sessions)
    await browser.login("ada")
    both = await asyncio.gather(*(browser.begin() for _ in range(8)))
    for session in both:
        assert session.increment("n") == 1
        session.increment("n", 2)
    await asyncio.gather(*(session.save() for session in both))
    last = await browser.begin()
    assert (last.data.n if model else last["n"]) == 24
    # After its own save a request sees its own increment and the earlier ones.
    assert max(session.data.n if model else session["n"] for session in both) == 24
    await sessions.aclose()


@stores
async def test_tasks_of_one_request_store_one_after_the_other(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    browser = Browser(sessions)
    await browser.login("ada")
    mine, other = await browser.begin(), await browser.begin()

    async def work(task: int, session: WebSession[Any]) -> None:
        for step in range(4):
            session.increment("n")
            session[f"{task}.{step}"] = True
            await session.save()

    async def look() -> None:
        for _ in range(4):
            await mine.save()
            await mine.reload()

    await asyncio.gather(*(work(task, mine) for task in range(4)), work(4, other), look())
    last = await browser.begin()
    assert dict(last) == {"n": 20} | {f"{task}.{step}": True for task in range(5) for step in range(4)}


class Held:
    """A store whose next `get` waits."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def get(self, key: bytes) -> Any:
        self.asked.set()
        await self.gate.wait()
        return await self.inner.get(key)


async def test_a_task_that_reads_again_drops_nothing_that_another_is_storing() -> None:
    store = Held()
    browser = Browser(WebSessions(store, events=lambda event: None))
    await browser.store(n=1)
    mine, other = await browser.begin(), await browser.begin()
    other["theirs"] = True
    await other.save()
    store.asked.clear()
    store.gate.clear()
    reading = asyncio.create_task(mine.reload())
    await store.asked.wait()
    mine["mine"] = True
    storing = asyncio.create_task(mine.save())
    await asyncio.sleep(0)
    store.gate.set()
    assert await reading
    await storing
    assert dict(mine) == await browser.read() == {"n": 1, "theirs": True, "mine": True}


class Slow:
    """A blocking store whose calls let other threads run."""

    def __init__(self) -> None:
        self.inner = MemoryStore().blocking

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        def slow(*arguments: Any) -> Any:
            time.sleep(0.002 * random.random())
            found = method(*arguments)
            time.sleep(0.002 * random.random())
            return found

        return slow


def test_threads_of_one_request_store_one_after_the_other() -> None:
    sessions: WebSessions[Any] = WebSessions(Slow(), events=lambda event: None)
    mine = sessions.blocking.load(RequestView())
    mine.login("ada")
    sessions.blocking.commit(mine)
    cookie = headers_of(mine)[0][1].partition(";")[0]

    def work(thread: int) -> None:
        for step in range(4):
            mine.increment("n")
            mine[f"{thread}.{step}"] = True
            sessions.blocking.save(mine)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    last = sessions.blocking.load(RequestView(cookie))
    assert dict(last) == {"n": 16} | {f"{thread}.{step}": True for thread in range(4) for step in range(4)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_number_is_counted_in_every_framework(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        cookie = send("do=increment").cookie
        assert [send("do=increment", cookie).found["n"] for _ in range(3)] == [2, 3, 4]


@stores
async def test_a_label_stays_whoever_stores_something_beside_it(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    browser = Browser(sessions)
    await browser.login("ada")
    for number, change in enumerate(("write", "rotate")):
        labels, other = await browser.begin(), await browser.begin()
        labels.label = f"Firefox {number}"
        await labels.save()
        other["n"] = number
        if change == "rotate":
            other.rotate()
        await browser.end(other)
        assert other.label == f"Firefox {number}"
        assert (await browser.begin()).label == f"Firefox {number}"
    await sessions.aclose()


async def test_what_is_no_number_is_not_counted_and_a_merge_function_can_add_too() -> None:
    sessions: WebSessions[Any] = WebSessions("memory:", merge={"visits": adding}, events=lambda event: None)
    browser = Browser(sessions)
    await browser.store(name="ada", yes=True, visits=5)
    session = await browser.begin()
    for key in ("name", "yes"):
        with pytest.raises(UsageError, match=f"expected a number at '{key}'"):
            session.increment(key)
    one, other = await browser.begin(), await browser.begin()
    one["visits"] += 1
    other["visits"] += 10
    await one.save()
    await other.save()
    assert (await browser.begin())["visits"] == 16


@stores
async def test_one_of_several_writes_that_are_equal_wins(name: str, store_url: Callable[[str], str]) -> None:
    store: Any = open_store(store_url(name))
    record = a_record()
    await store.put(record, 0)
    for version in range(1, 6):
        writes = [changed(record, version=version + 1, data=b"the same") for _ in range(20)]
        won = await asyncio.gather(*(store.put(fresh, version) for fresh in writes))
        assert sum(won) == 1
        record = writes[won.index(True)]
    if hasattr(store, "aclose"):
        await store.aclose()


@stores
async def test_the_lock_lets_one_request_in_after_the_other(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(name, store_url)
    browser = Browser(sessions)
    await browser.login("ada")
    inside = 0

    async def visit(session: WebSession[Any], number: int) -> None:
        nonlocal inside
        async with session.lock(wait="60s"):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            session["list"] = [*session.get("list", ()), number]
            inside -= 1

    requests = [await browser.begin() for _ in range(4)]
    await asyncio.gather(*(visit(session, number) for number, session in enumerate(requests)))
    assert sorted((await browser.begin())["list"]) == [0, 1, 2, 3]
    await sessions.aclose()


@stores
def test_the_lock_holds_between_threads(name: str, store_url: Callable[[str], str]) -> None:
    sessions = opened(name, store_url)
    first = sessions.blocking.load(RequestView())
    first.login("ada")
    sessions.blocking.commit(first)
    assert first.state.cookie is not None
    cookie = first.state.cookie.partition(";")[0]
    only = threading.Semaphore(1)

    def visit(number: int) -> None:
        session = sessions.blocking.load(RequestView(cookie))
        with session.lock(wait="60s"):
            assert only.acquire(blocking=False)
            session["list"] = [*session.get("list", ()), number]
            only.release()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(visit, range(3)))
    assert sorted(sessions.blocking.load(RequestView(cookie))["list"]) == [0, 1, 2]
    sessions.blocking.close()


async def test_a_lock_is_given_up_after_a_wait_ends_by_itself_and_says_so() -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(MemoryStore(clock), clock=clock, events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    first, second = await browser.begin(), await browser.begin()
    lock = first.lock()
    await lock.__aenter__()
    with pytest.raises(LockTimeout, match=r"has held its lock for 0\.001 s"):
        await second.lock(wait="1ms").__aenter__()
    clock.advance(31)
    async with second.lock():
        second["n"] = 1
    with pytest.raises(LockTimeout, match="the lock ended by itself after 30 s"):
        await lock.__aexit__(None, None, None)
    # A request that fails releases the lock, and stores nothing.
    with pytest.raises(ZeroDivisionError):
        async with first.lock():
            first["n"] = 1 / 0
    async with second.lock():
        assert second["n"] == 1


async def test_what_cannot_be_locked_says_so() -> None:
    sessions: WebSessions[Any] = WebSessions("memory:", events=lambda event: None)
    browser = Browser(sessions)
    # No other request has a new websession.
    async with (await browser.begin()).lock():
        pass
    await browser.login("ada")
    session = await browser.begin()
    with pytest.raises(UsageError, match="expected `async with"), session.lock():
        pass
    session["n"] = 1
    with pytest.raises(UsageError, match="was changed before its lock was taken"):
        async with session.lock():
            pass
    late = await browser.begin()
    await browser.logout()
    async with late.lock():
        assert late.user is None
    stateless: WebSessions[Any] = WebSessions("cookie:", seal=new_key())
    with pytest.raises(Unsupported, match="use a store"):
        stateless.blocking.anonymous(RequestView()).lock()


def test_a_function_that_runs_in_a_thread_is_told_that_it_cannot_save() -> None:
    from fastapi import FastAPI, Request
    from fastapi.testclient import TestClient

    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    app = FastAPI()
    app.add_middleware(SessionMiddleware, sessions=WebSessions("memory:", events=lambda event: None))

    def page(what: str, request: Request) -> str:
        session: Any = request.session
        session["n"] = 1
        if what == "lock":
            with session.lock():
                return "locked"
        elif what != "nothing":
            getattr(session, what)()
        return "stored at the end"

    page.__annotations__["request"] = Request
    app.get("/{what}")(page)
    with TestClient(app, base_url="https://shop.example", raise_server_exceptions=False) as client:
        for what in ("save", "reload", "lock"):
            answer = client.get(f"/{what}")
            assert answer.status_code == 500
            assert "set-cookie" not in answer.headers
        assert "set-cookie" in client.get("/nothing").headers
