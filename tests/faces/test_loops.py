"""One asyncio client on several loops: one after another, side by side, and Tornado's."""

from __future__ import annotations

import asyncio
import errno
import gc
import threading
from typing import Any

import pytest

from mangonel import AsyncMongoClient
from mangonel.errors import AutoReconnect, ServerSelectionTimeoutError
from tools.faces import EMPTY, TIMEOUT, StreamsLoop, eventually, found, new_loop, open_sockets
from tools.scripted_server import Hang, Reply, ScriptedServer


def test_one_client_works_in_one_loop_after_the_other(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}))
    client = AsyncMongoClient(scripted_server.uri)
    for _ in range(10):
        with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
            calls = [client.shop.orders.find_one for _ in range(3)]
            assert [runner.run(call()) for call in calls] == [{"_id": 1}] * 3
    # Each new loop closed the connections of the loops before it.
    assert len(client._port._homes) == 1
    asyncio.run(client.close())
    scripted_server.wait_for_open(0)


def test_a_loop_that_watches_no_descriptors_does_the_sending_and_receiving(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> bool:
        async with AsyncMongoClient(scripted_server.uri) as client:
            assert await client.shop.orders.find_one() is None
            is_streamed: bool = client._port._home.streams
            return is_streamed

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        assert runner.run(steps()) is (loop_name == "streams")


class FullLoop(asyncio.SelectorEventLoop):
    """A loop on which the system watches no further descriptors."""

    is_full = False

    def add_reader(self, *args: Any) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().add_reader(*args)


def test_a_connection_that_the_system_does_not_watch_has_failed(scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)

    async def steps(loop: FullLoop) -> None:
        async with AsyncMongoClient(scripted_server.uri, retryReads=False) as client:
            await client.shop.orders.find_one()
            loop.is_full = True
            # One takes the open connection, the other needs a new one.
            finds = [client.shop.orders.find_one() for _ in range(2)]
            found, error = await asyncio.gather(*finds, return_exceptions=True)
            assert found is None
            assert isinstance(error, AutoReconnect)
            assert "No space left on device" in str(error)
            loop.is_full = False
            assert await client.shop.orders.find_one() is None
            assert client._core.pool_sizes(client._port._home.shard)[1:] == (0, 0, 0)

    loop = FullLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(steps(loop))
    scripted_server.wait_for_open(0)


class Handing(asyncio.Protocol):
    """Gives a buffered protocol bytes received elsewhere while it holds the buffer, as Windows' loop does."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.connection_made, self.connection_lost = inner.connection_made, inner.connection_lost
        self.pause_writing, self.resume_writing = inner.pause_writing, inner.resume_writing
        self.eof_received = inner.eof_received

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            buffer = self.inner.get_buffer(len(rest))
            count = min(len(rest), len(buffer))
            buffer[:count] = rest[:count]
            self.inner.buffer_updated(count)
            rest = rest[count:]


class HandingLoop(StreamsLoop):
    async def create_connection(self, factory: Any, *args: Any, **options: Any) -> Any:
        return await super().create_connection(lambda: Handing(factory()), *args, **options)


def test_replies_that_a_loop_received_into_memory_of_its_own_are_read(
    scripted_server: ScriptedServer,
) -> None:
    large = {"_id": 1, "text": "x" * 3_000_000}
    scripted_server.on("find", lambda request: found(large if request.command["limit"] == 2 else {"_id": 2}))

    async def steps() -> None:
        async with AsyncMongoClient(scripted_server.uri, maxPoolSize=1) as client:
            for _ in range(3):
                assert [found async for found in client.shop.orders.find(limit=2)] == [large]
                assert [found async for found in client.shop.orders.find(limit=3)] == [{"_id": 2}]

    with asyncio.Runner(loop_factory=HandingLoop) as runner:
        runner.run(steps())


def test_one_client_works_in_two_loops_at_once(loop_name: str, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", lambda request: found({"_id": request.command["filter"]["n"]}))
    client = AsyncMongoClient(scripted_server.uri, maxPoolSize=3)
    errors: list[BaseException] = []

    async def work(start: int) -> None:
        find = client.shop.orders.find_one
        done = await asyncio.gather(*(find({"n": n}) for n in range(start, start + 100)))
        assert done == [{"_id": n} for n in range(start, start + 100)]

    def run(start: int) -> None:
        try:
            for _ in range(3):
                with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
                    runner.run(work(start))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert errors == []
    asyncio.run(client.close())
    scripted_server.wait_for_open(0)


def test_closing_the_client_from_another_loop_ends_what_waits(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    from mangonel.errors import PyMongoError

    scripted_server.on("find", Hang())
    client = AsyncMongoClient(scripted_server.uri, maxPoolSize=1)
    ended: list[Any] = []

    def run() -> None:
        async def steps() -> None:
            calls = [client.shop.orders.find_one() for _ in range(2)]
            ended.extend(await asyncio.gather(*calls, return_exceptions=True))

        with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
            runner.run(asyncio.wait_for(steps(), TIMEOUT))

    thread = threading.Thread(target=run)
    thread.start()
    scripted_server.wait_for("find")
    asyncio.run(client.close())
    thread.join(TIMEOUT)
    assert [isinstance(error, PyMongoError) for error in ended] == [True, True]
    scripted_server.wait_for_open(0)


def test_a_loop_that_ends_in_mid_operation_leaves_the_client_usable(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    scripted_server.once("find", Hang())
    client = AsyncMongoClient(scripted_server.uri)

    async def leave() -> None:
        task = asyncio.get_running_loop().create_task(client.shop.orders.find_one())
        await asyncio.to_thread(scripted_server.wait_for, "find")
        assert not task.done()

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(leave())
    assert asyncio.run(client.shop.orders.find_one()) is None
    asyncio.run(client.close())
    scripted_server.wait_for_open(0)


def test_a_loop_closed_with_a_connection_open_costs_no_descriptor(scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    client = AsyncMongoClient(scripted_server.uri)
    asyncio.run(client.shop.orders.find_one())
    eventually(lambda: scripted_server.open_connections == 1)
    before = open_sockets()
    for _ in range(20):
        asyncio.run(client.shop.orders.find_one())
    # This process holds the sockets of both ends.
    eventually(lambda: open_sockets() <= before + 2)
    asyncio.run(client.close())


def test_a_dropped_client_closes_its_connections_while_its_loop_goes_on(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> None:
        # The operation outlives the client it was taken from.
        assert await AsyncMongoClient(scripted_server.uri).shop.orders.find_one() is None
        gc.collect()
        await asyncio.to_thread(scripted_server.wait_for_open, 0)

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(steps())


def test_no_complaint_reaches_the_loop_when_operations_are_given_up(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}, id=9))
    scripted_server.on("getMore", Reply(EMPTY, cut=5, delay=0.05))
    complaints: list[Any] = []

    async def steps() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        client = AsyncMongoClient(scripted_server.uri)
        for wait in (0, 0.1):
            cursor = client.shop.orders.find({}, prefetch=True)
            assert await cursor.next() == {"_id": 1}
            # Dropped with a prefetch under way, or failed in the background.
            await asyncio.sleep(wait)
            del cursor
            gc.collect()
            await asyncio.sleep(0.1)
        scripted_server.on("find", Hang())
        tasks = [asyncio.create_task(client.shop.orders.find_one()) for _ in range(5)]
        await asyncio.sleep(0.05)
        scripted_server.close_connections()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
        del tasks
        gc.collect()
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(steps())
    gc.collect()
    assert complaints == []


def test_a_tornado_handler_finds_and_inserts(scripted_server: ScriptedServer) -> None:
    tornado_web = pytest.importorskip("tornado.web")
    from tornado.httpclient import AsyncHTTPClient
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    scripted_server.on(
        "find", lambda request: Reply(found({"_id": request.command["filter"]["_id"]}), delay=0.01)
    )
    scripted_server.on("insert", {"ok": 1, "n": 1})

    class Orders(tornado_web.RequestHandler):  # type: ignore[misc, name-defined]
        async def get(self, number: str) -> None:
            orders = self.application.settings["client"].shop.orders
            self.write({"found": await orders.find_one({"_id": int(number)})})

        async def post(self, number: str) -> None:
            result = await self.application.settings["client"].shop.orders.insert_one({"_id": int(number)})
            self.write({"inserted": result.inserted_id})

    async def steps() -> None:
        client = AsyncMongoClient(scripted_server.uri)
        application = tornado_web.Application([("/orders/([0-9]+)", Orders)], client=client)
        listener, port = bind_unused_port()
        server = HTTPServer(application)
        server.add_socket(listener)
        browser = AsyncHTTPClient()
        urls = [f"http://127.0.0.1:{port}/orders/{n}" for n in range(20)]
        pages = await asyncio.gather(*(browser.fetch(url) for url in urls))
        assert [page.body for page in pages] == [b'{"found": {"_id": %d}}' % n for n in range(20)]
        page = await browser.fetch(urls[7], method="POST", body=b"")
        assert page.body == b'{"inserted": 7}'
        server.stop()
        await server.close_all_connections()
        browser.close()
        await client.close()

    asyncio.run(asyncio.wait_for(steps(), TIMEOUT))
    scripted_server.wait_for_open(0)


def test_a_deadline_that_is_over_at_once_rings_on_every_loop(loop_name: str, nowhere: str) -> None:
    async def steps() -> None:
        async with AsyncMongoClient(nowhere, serverSelectionTimeoutMS=0) as client:
            waiting = [client.a.b.find_one() for _ in range(3)]
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, ServerSelectionTimeoutError)
            home = client._port._enter(asyncio.get_running_loop())
            futures = [home.loop.create_future() for _ in range(3)]
            for future, seconds in zip(futures, (0.0, -1.0, 0.01), strict=True):
                home.expire(future, seconds)
            for outcome in await asyncio.gather(*futures, return_exceptions=True):
                assert isinstance(outcome, TimeoutError)

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(steps())
