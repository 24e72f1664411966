"""Stores that restart, stall or fail over: an ended websession stays ended, and other requests do not wait."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import tornado.web
from store_names import STORES
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port

from mangonel.engines.certificates import Certificates, certify
from mangonel.engines.programs import Missing
from mangonel.engines.stores import running
from mangonel.server import start
from mangonel.websessions import RequestView, StoreError, WebSessions
from mangonel.websessions.answer import headers_of
from mangonel.websessions.frameworks.tornado import SessionMixin
from mangonel.websessions.stores.urls import open_store
from tools.needed import go_without


async def begin(sessions: WebSessions[Any], cookie: str | None = None) -> Any:
    return await sessions.asynchronous.load(RequestView(cookie))


async def end(sessions: WebSessions[Any], session: Any) -> str | None:
    await sessions.asynchronous.commit(session)
    for name, value in headers_of(session):
        if name == "Set-Cookie":
            return str(value.partition(";")[0])
    return None


async def login(sessions: WebSessions[Any], user: str) -> str:
    session = await begin(sessions)
    session.login(user)
    cookie = await end(sessions, session)
    assert cookie is not None
    return cookie


async def logout(sessions: WebSessions[Any], cookie: str) -> None:
    session = await begin(sessions, cookie)
    session.destroy()
    await end(sessions, session)


@pytest.mark.parametrize("name", STORES)
async def test_parallel_writers_on_one_session_lose_no_key(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url(name))
    await sessions.setup()
    session = await begin(sessions)
    session["first"] = True
    cookie = await end(sessions, session)

    async def write(number: int) -> None:
        session = await begin(sessions, cookie)
        session[f"key{number}"] = number
        await end(sessions, session)

    await asyncio.gather(*(write(number) for number in range(20)))
    session = await begin(sessions, cookie)
    assert dict(session) == {"first": True, **{f"key{number}": number for number in range(20)}}
    await sessions.aclose()


@pytest.mark.parametrize("name", STORES)
async def test_logout_wins_over_parallel_writers_on_every_store(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url(name))
    await sessions.setup()
    cookie = await login(sessions, "ada")
    slow = [await begin(sessions, cookie) for _ in range(5)]
    for number, session in enumerate(slow):
        session[f"key{number}"] = number
    leaving = await begin(sessions, cookie)
    leaving.destroy()
    rotating = await begin(sessions, cookie)
    rotating.rotate()
    slow.append(rotating)
    await asyncio.gather(end(sessions, leaving), *(end(sessions, session) for session in slow))
    assert (await begin(sessions, cookie)).new
    if hasattr(sessions.asynchronous.store(), "find"):
        assert await sessions.of("ada") == []
    await sessions.aclose()


WRITERS = 4


class Writers:
    """Visitors who log in, write, and log out or stay, until stopped. Keeps the acknowledged writes."""

    def __init__(self, sessions: WebSessions[Any]) -> None:
        self.sessions = sessions
        self.written: dict[str, dict[str, int]] = {}
        self.ended: list[str] = []
        self.uncertain: set[str] = set()
        self.stories = 0

    async def play(self, number: int) -> None:
        for story in count(number):
            cookie = await login(self.sessions, f"user{number}")
            self.written[cookie] = {}
            for item in ("tea", "cup"):
                session = await begin(self.sessions, cookie)
                session[item] = story
                await end(self.sessions, session)
                self.written[cookie][item] = story
            if story % 2:
                self.uncertain.add(cookie)
                await logout(self.sessions, cookie)
                self.ended.append(cookie)
            self.stories += 1

    async def played(self, stories: int) -> None:
        deadline = time.monotonic() + 60
        while self.stories < stories:
            assert time.monotonic() < deadline, "no request was answered"
            await asyncio.sleep(0.02)


@contextmanager
def killable(
    name: str, tls: Certificates | None
) -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Yield the URL of a durable store, a function that kills it as a power cut would, and one that restarts it."""
    if name != "mongodb":
        with running(name, durable=True, tls=tls) as engine:
            yield engine.url, engine.kill, engine.start
        return
    with start(replica_set=1, tls=tls.for_mongod() if tls else None) as server:

        def again() -> None:
            server.members[0].restart()
            server.wait_for_primary()

        yield server.uri.replace("/?", "/killed?") + "&durable=1", server.members[0].kill, again


@pytest.mark.enough(2)
@pytest.mark.each_once("name", "is_secure")
@pytest.mark.parametrize("is_secure", [False, True], ids=["in the clear", "over TLS"])
@pytest.mark.parametrize("name", ["redis", "mysql", "postgresql", "mongodb"])
async def test_what_was_acknowledged_survives_a_kill_of_the_store(
    name: str, is_secure: bool, tmp_path: Path
) -> None:
    try:
        with killable(name, certify(tmp_path) if is_secure else None) as (url, kill, again):
            sessions: WebSessions[Any] = WebSessions(url, timeout=60.0, events=lambda event: None)
            await sessions.setup()
            writers = Writers(sessions)
            players = [asyncio.ensure_future(writers.play(number)) for number in range(WRITERS)]
            await writers.played(3 * WRITERS)
            await asyncio.to_thread(kill)
            for player in players:
                player.cancel()
            for outcome in await asyncio.gather(*players, return_exceptions=True):
                assert isinstance(outcome, asyncio.CancelledError | StoreError), outcome
            await sessions.aclose()
            await asyncio.to_thread(again)
            sessions = WebSessions(url, timeout=60.0, events=lambda event: None)
            await sessions.setup()
            assert len(writers.ended) >= WRITERS
            for cookie in writers.ended:
                assert (await begin(sessions, cookie)).new, "what had ended came back"
            for cookie in writers.written.keys() - writers.uncertain:
                session = await begin(sessions, cookie)
                assert session.user is not None
                # An unacknowledged write may be present too.
                assert writers.written[cookie].items() <= dict(session).items()
            await sessions.aclose()
    except Missing as error:
        go_without(str(error))


async def test_a_memcached_that_restarts_logs_everybody_out_and_nobody_in() -> None:
    try:
        with running("memcached") as engine:
            sessions: WebSessions[Any] = WebSessions(engine.url, timeout=60.0)
            alive, ended = await login(sessions, "ada"), await login(sessions, "bob")
            await logout(sessions, ended)
            writers = Writers(sessions)
            players = [asyncio.ensure_future(writers.play(number)) for number in range(WRITERS)]
            await writers.played(WRITERS)
            engine.kill()
            for player in players:
                player.cancel()
            await asyncio.gather(*players, return_exceptions=True)
            await sessions.aclose()
            engine.start()
            again: WebSessions[Any] = WebSessions(engine.url, timeout=60.0)
            for cookie in (alive, ended):
                assert (await begin(again, cookie)).new
            await again.aclose()
    except Missing as error:
        go_without(str(error))


async def test_closing_ends_although_emcache_goes_on_connecting_to_a_server_that_is_gone() -> None:
    pytest.importorskip("emcache")

    async def connect() -> None:
        # If the server refuses at the moment of the cancellation, the refusal is raised instead.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    class Client:
        async def close(self) -> None:
            connecting = asyncio.ensure_future(connect())
            await asyncio.sleep(0)
            connecting.cancel()
            with suppress(asyncio.CancelledError):
                await connecting

    store: Any = open_store("memcached://127.0.0.1")
    store._client = Client()
    async with asyncio.timeout(60):
        await store.aclose()


@pytest.mark.no_sample
async def test_an_ended_session_does_not_come_back_with_a_failover_under_load() -> None:
    with start(replica_set=3) as server:
        server.wait_until_settled()
        uri = server.uri.replace("/?", "/failover?")
        sessions: WebSessions[Any] = WebSessions(uri)
        await sessions.setup()
        ended: list[str] = []
        counts = {"done": 0, "refused": 0}
        stop = asyncio.Event()

        async def play(number: int) -> None:
            while not stop.is_set():
                try:
                    cookie = await login(sessions, f"user{number}")
                    session = await begin(sessions, cookie)
                    session["n"] = number
                    slow = await begin(sessions, cookie)
                    slow["late"] = True
                    await end(sessions, session)
                    await logout(sessions, cookie)
                    # Only acknowledged writes are promised.
                    ended.append(cookie)
                    await end(sessions, slow)
                    counts["done"] += 1
                except StoreError:
                    counts["refused"] += 1

        async def played(more: int) -> None:
            before, deadline = counts["done"], time.monotonic() + 60
            while counts["done"] < before + more and time.monotonic() < deadline:
                await asyncio.sleep(0.1)

        players = [asyncio.ensure_future(play(number)) for number in range(8)]
        await played(50)
        primary = await asyncio.to_thread(server.wait_for_primary)
        before = counts["done"]
        primary.kill()
        await played(50)
        primary.restart()
        await played(50)
        stop.set()
        await asyncio.gather(*players)
        assert counts["done"] > before, "nothing was answered after the failover"
        await sessions.aclose()
        # With a longer limit, so that a request without an answer means that the store did not come back.
        sessions = WebSessions(uri, timeout=60.0)
        revived = [cookie for cookie in ended if not (await begin(sessions, cookie)).new]
        print(
            f"{counts['done']} stories, {counts['refused']} refused, {len(ended)} ended, {len(revived)} came back"
        )
        assert revived == []
        await sessions.aclose()


class LockedFolder:
    """Stalls a directory of websessions: another process holds its locks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: list[int] = []

    def pause(self) -> None:
        for shard in range(256):
            file = os.open(f"{self.path}/{shard:02x}/.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            self.files.append(file)

    def resume(self) -> None:
        while self.files:
            os.close(self.files.pop())


class LockedDatabase:
    """Stalls a SQLite database: another process holds an open write."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.connection: sqlite3.Connection | None = None

    def pause(self) -> None:
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("BEGIN IMMEDIATE")

    def resume(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class Counter(SessionMixin, tornado.web.RequestHandler):
    async def get(self) -> None:
        self.session["n"] = self.session.get("n", 0) + 1
        self.write("ok")


class Bystander(tornado.web.RequestHandler):
    def get(self) -> None:
        self.write("ok")


@pytest.mark.enough(2)
@pytest.mark.parametrize(
    "name", ["mongodb", "redis", "memcached", "mysql", "postgresql", "directory", "sqlite"]
)
async def test_a_stalled_store_blocks_no_bystander(
    name: str, store_url: Callable[[str], str], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "mongodb":
        with start(replica_set=1) as server:
            await _stall(name, server.uri.replace("/?", "/stall?"), server.members[0], capsys)
        return
    if name == "directory":
        await _stall(name, f"files://{tmp_path}/sessions", LockedFolder(f"{tmp_path}/sessions"), capsys)
        return
    if name == "sqlite":
        await _stall(name, f"sqlite:///{tmp_path}/app.db", LockedDatabase(f"{tmp_path}/app.db"), capsys)
        return
    try:
        with running(name) as engine:
            await _stall(name, engine.url, engine, capsys)
    except Missing as error:
        pytest.skip(f"no {name} server: {error}")


async def _stall(name: str, url: str, engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sessions: WebSessions[Any] = WebSessions(url, secure=False, timeout=8.0, events=lambda event: None)
    await sessions.setup()
    socket, port = bind_unused_port()
    application = tornado.web.Application(
        [("/", Counter), ("/other", Bystander)], sessions=sessions, log_function=lambda h: None
    )
    server = HTTPServer(application)
    server.add_socket(socket)
    client = AsyncHTTPClient(force_instance=True, max_clients=100)
    base = f"http://127.0.0.1:{port}"
    try:
        assert (await client.fetch(base)).code == 200
        engine.pause()
        stalled = [
            asyncio.ensure_future(client.fetch(base, raise_error=False, request_timeout=60))
            for _ in range(20)
        ]
        latencies: list[float] = []
        meanwhile = 0
        while len(latencies) < 100 and not any(request.done() for request in stalled):
            began = time.perf_counter()
            assert (await client.fetch(f"{base}/other")).code == 200
            latencies.append(time.perf_counter() - began)
            meanwhile += not any(request.done() for request in stalled)
        statuses = sorted({(await request).code for request in stalled})
        engine.resume()
        recovered = time.perf_counter()
        while (await client.fetch(base, raise_error=False)).code != 200:
            assert time.perf_counter() - recovered < 60, "the store answers again, the application does not"
            await asyncio.sleep(0.05)
        recovery = time.perf_counter() - recovered
    finally:
        engine.resume()
        client.close()
        server.stop()
        await server.close_all_connections()
    latencies.sort()
    median, p99 = latencies[len(latencies) // 2] * 1000, latencies[int(len(latencies) * 0.99)] * 1000
    with capsys.disabled():
        print(
            f"\n{name} stalled, 20 requests waiting: {meanwhile} bystanders answered, "
            f"median {median:.1f} ms, p99 {p99:.1f} ms, worst {latencies[-1] * 1000:.1f} ms; "
            f"then {statuses}; recovered in {recovery:.2f} s"
        )
    # A blocking call would delay the first waiting request's end until after the others.
    assert meanwhile > 2, "no request was answered while the store was stalled"
    assert statuses == [503]
    await sessions.aclose()
