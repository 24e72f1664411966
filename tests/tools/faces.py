"""A `Face` runs calls and hides its kind of client, so that every test runs on every face.

The loop of an asyncio face runs in a thread of its own, so that the test itself may block on the server's side of
things. Folders choose their faces: `face = faces("blocking", "asyncio")` in a conftest is a fixture.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from mangonel import AsyncMongoClient, MongoClient
from tools.scripted_server import ScriptedServer

__all__ = [
    "EMPTY",
    "LOOPS",
    "TIMEOUT",
    "Face",
    "connections_of",
    "eventually",
    "faces",
    "found",
    "in_the_end",
    "new_loop",
    "open_sockets",
    "pool_sizes",
    "wait_closed",
]

TIMEOUT = 60.0  # seconds for anything that must happen; only a bug takes this long, even on a busy machine

# "streams" watches no descriptors, as Windows' own loop.
LOOPS = ("asyncio", "uvloop", "streams")

EMPTY = {"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "firstBatch": []}}


def found(*documents: dict[str, Any], id: int = 0, batch: str = "firstBatch") -> dict[str, Any]:
    """The reply to a find or, with "nextBatch", to a getMore."""
    return {"ok": 1, "cursor": {"id": id, "ns": "shop.orders", batch: list(documents)}}


class Face:
    """One way of waiting: "blocking", of which "fused" and "reference" are two paths, or a kind of loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_async = name in LOOPS
        self.clients: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def client(self, uri: str, **options: Any) -> Any:
        """Return a client that is closed after the test."""
        client = (AsyncMongoClient if self.is_async else MongoClient)(uri, **options)
        self.clients.append(client)
        return client

    def kept_client(self, kept: dict[tuple[str, str], Any], uri: str) -> Any:
        """Return the client of this face that the tests of a file share; `kept` is the fixture `kept_clients`."""
        place = self.name, uri
        # A test may have closed it.
        if place not in kept or kept[place]._core.is_closed:
            kept[place] = (AsyncMongoClient if self.is_async else MongoClient)(uri)
        return kept[place]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs from now on."""
        if self._loop is None:
            self._loop = new_loop(self.name)
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return self._loop

    def start(self, call: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Start a call; return a future with its outcome. On asyncio the future can be cancelled."""
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
        """Run a call to its end; on asyncio entirely inside the loop."""
        return self.start(call).result(TIMEOUT) if self.is_async else call()

    def wait(self, value: Any) -> Any:
        """Return the value, or the result of the awaitable."""
        return self.run(lambda: value) if inspect.isawaitable(value) else value

    def collect(self, iterable: Any) -> list[Any]:
        """Return all items, by `for` or `async for`."""
        if not self.is_async:
            return list(iterable)

        async def gather() -> list[Any]:
            return [item async for item in iterable]

        return list(self.run(gather))

    def next(self, cursor: Any) -> Any:
        """Return the next document."""
        return self.run(cursor.next)

    def inside(self, context: Any, work: Callable[[Any], Any]) -> Any:
        """Run `work` inside `with` or `async with`."""
        if not self.is_async:
            with context as entered:
                return work(entered)

        async def steps() -> Any:
            async with context as entered:
                value = work(entered)
                return await value if inspect.isawaitable(value) else value

        return self.run(steps)

    def end(self) -> None:
        """Close the clients and end the loop."""
        for client in self.clients:
            self.run(client.close)
        if self._loop is not None and self._thread is not None:

            async def cancel_the_rest() -> None:
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

            self.run(cancel_the_rest)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(TIMEOUT)
            self._loop.close()


def faces(*names: str, kind: type[Face] = Face) -> Any:
    """Return a fixture that gives each of these faces in turn."""

    @pytest.fixture(params=names)
    def face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Face]:
        if request.param == "reference":
            monkeypatch.setenv("MANGONEL_IMPL", "reference")
        elif request.param != "blocking":
            monkeypatch.delenv("MANGONEL_IMPL", raising=False)
        made = kind(request.param)
        yield made
        made.end()

    return face


class StreamsLoop(asyncio.SelectorEventLoop):
    """A loop that does all I/O itself and watches no descriptors for others."""

    def _refuse(self, *args: Any) -> NoReturn:
        raise NotImplementedError

    # asyncio itself uses the methods that remove them.
    add_reader = add_writer = _refuse


def new_loop(name: str) -> asyncio.AbstractEventLoop:
    """Return a new loop of this kind."""
    if name == "streams":
        return StreamsLoop()
    if name != "uvloop":
        return asyncio.new_event_loop()
    uvloop = pytest.importorskip("uvloop")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def pool_sizes(client: Any) -> tuple[int, int, int, int]:
    """Return the connections of the client's only shard: idle, in use, being opened, waiting."""
    port = client._port
    if port.is_async and port._home is None:
        return (0, 0, 0, 0)
    shard = port._home.shard if port.is_async else port._shard
    sizes: tuple[int, int, int, int] = client._core.pool_sizes(shard)
    return sizes


def eventually(condition: Callable[[], Any], what: str = "the condition") -> None:
    """Wait until the condition is true."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"expected {what} within {TIMEOUT} s")
        time.sleep(0.005)


def in_the_end(kind: type[BaseException], said: str, call: Callable[[], Any]) -> None:
    """Repeat a call that fails each time until its error matches `said`.

    With a short limit the first error may come before a monitor thread has run.
    """
    told = []

    def says_it() -> bool:
        with pytest.raises(kind) as raised:
            call()
        told[:] = [str(raised.value)]
        return re.search(said, told[0]) is not None

    try:
        eventually(says_it)
    except AssertionError:
        raise AssertionError(f"expected {kind.__name__} that matches {said!r}, got {told}") from None


def connections_of(server: ScriptedServer, name: str) -> set[int]:
    """Return the numbers of the connections on which this command arrived."""
    return {request.connection for request in server.received(name)}


def wait_closed(server: ScriptedServer, connection: int) -> None:
    """Wait until the client has closed this connection."""
    eventually(lambda: connection not in server._open, f"connection {connection} to be closed")


def open_sockets() -> int:
    """Return how many sockets this process has open."""
    gc.collect()
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return count
