"""Every behaviour on every face: `face` is blocking (fused and reference), asyncio or uvloop.

A face runs calls (`run`), starts them without waiting (`start`), and hides which kind it is. The loop of an asyncio
face runs in a thread of its own, so that the test itself may block on the server's side of things.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from tools.scripted_server import ScriptedServer

PATIENCE = 15.0  # seconds for anything that must happen; only a bug takes so long

EMPTY = {"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "firstBatch": []}}


def found(*documents: dict[str, Any], id: int = 0, batch: str = "firstBatch") -> dict[str, Any]:
    """The reply to a find or, with "nextBatch", to a getMore."""
    return {"ok": 1, "cursor": {"id": id, "ns": "shop.orders", batch: list(documents)}}


class Face:
    """One way of waiting."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_async = name in ("asyncio", "uvloop")
        self._clients: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def client(self, uri: str, **options: Any) -> Any:
        """Return a client that is closed after the test."""
        client = (AsyncMongoClient if self.is_async else MongoClient)(uri, **options)
        self._clients.append(client)
        return client

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = new_loop(self.name)
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return self._loop

    def start(self, call: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Start a call; its future tells how it went. On asyncio the future can be cancelled."""
        if self.is_async:

            async def steps() -> Any:
                value = call()
                return await value if inspect.isawaitable(value) else value

            return asyncio.run_coroutine_threadsafe(steps(), self.loop)
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                value = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        threading.Thread(target=work, daemon=True).start()
        return future

    def run(self, call: Callable[[], Any]) -> Any:
        """Run a call to its end."""
        return self.start(call).result(PATIENCE) if self.is_async else call()

    def each(self, cursor: Any) -> list[Any]:
        """Iterate to the end."""
        if not self.is_async:
            return list(cursor)

        async def gather() -> list[Any]:
            return [document async for document in cursor]

        return list(self.run(gather))

    def next(self, cursor: Any) -> Any:
        return self.run(cursor.next)

    def end(self) -> None:
        for client in self._clients:
            self.run(client.close)
        if self._loop is not None and self._thread is not None:

            async def cancel_the_rest() -> None:
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

            self.run(cancel_the_rest)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
            self._loop.close()


def new_loop(name: str) -> asyncio.AbstractEventLoop:
    if name != "uvloop":
        return asyncio.new_event_loop()
    uvloop = pytest.importorskip("uvloop")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _made(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Face]:
    if name == "reference":
        monkeypatch.setenv("MANGONEL_IMPL", "reference")
    else:
        monkeypatch.delenv("MANGONEL_IMPL", raising=False)
    face = Face(name)
    yield face
    face.end()


@pytest.fixture(params=["fused", "reference", "asyncio", "uvloop"])
def face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Face]:
    """Each face in turn."""
    yield from _made(request.param, monkeypatch)


@pytest.fixture(params=["fused", "reference"])
def blocking_face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Face]:
    """Each blocking face in turn."""
    yield from _made(request.param, monkeypatch)


@pytest.fixture(params=["asyncio", "uvloop"])
def async_face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Face]:
    """Each asyncio face in turn."""
    yield from _made(request.param, monkeypatch)


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_name(request: pytest.FixtureRequest) -> str:
    """The kinds of loop, for tests that make their own."""
    name: str = request.param
    return name


def pool_sizes(client: Any) -> tuple[int, int, int, int]:
    """Idle, in use, being opened, waiting: of the client's only shard."""
    port = client._port
    if port.is_async and port._home is None:
        return (0, 0, 0, 0)
    shard = port._home.shard if port.is_async else port._shard
    sizes: tuple[int, int, int, int] = client._core.pool_sizes(shard)
    return sizes


def eventually(condition: Callable[[], Any], what: str = "the condition") -> None:
    """Wait until it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"expected {what} within {PATIENCE} s")
        time.sleep(0.005)


def connections_of(server: ScriptedServer, name: str) -> set[int]:
    """The numbers of the connections on which this command came."""
    return {request.connection for request in server.received(name)}


def wait_closed(server: ScriptedServer, connection: int) -> None:
    """Wait until the client has closed this connection."""
    eventually(lambda: connection not in server._open, f"connection {connection} to be closed")


def open_sockets() -> int:
    """How many sockets this process has open."""
    gc.collect()
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return count
