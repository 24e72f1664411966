"""The awaitables that asyncio methods return: coroutines made in the core, of a class of their own."""

from __future__ import annotations

import asyncio
import collections.abc
import gc
import inspect
import sys
import types
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangonel import AsyncMongoClient
from mangonel._core import KIND_READ, READ_FIRST, AwaitedOperation
from mangonel._shared.operation import build_operation
from mangonel.errors import AutoReconnect
from mangonel.monitoring import CommandListener
from tools.faces import EMPTY, TIMEOUT, found, new_loop, pool_sizes, wait_closed
from tools.scripted_server import Close, Hang, ScriptedServer

Steps = Callable[[Any], Awaitable[None]]


@pytest.fixture
def run(loop_name: str, scripted_server: ScriptedServer) -> Callable[[Steps], None]:
    """Run steps with a client that has one idle connection."""
    scripted_server.on("find", EMPTY)

    async def with_client(steps: Steps) -> None:
        async with AsyncMongoClient(scripted_server.uri) as client:
            await client.shop.orders.find_one()
            await steps(client)

    def run(steps: Steps) -> None:
        with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
            runner.run(asyncio.wait_for(with_client(steps), TIMEOUT))

    return run


def find(client: Any, answer: Callable[[Any], Any] | None = None) -> AwaitedOperation:
    """Return the awaitable of a find of one document."""
    operation = build_operation(
        {"find": "orders"},
        database="shop",
        codec=client._codec,
        kind=KIND_READ,
        reading=READ_FIRST,
        answer=answer,
    )
    awaited: AwaitedOperation = client._port.arun(operation)
    return awaited


def test_it_is_a_coroutine_for_all_that_ask_the_abstract_class(run: Callable[[Steps], None]) -> None:
    async def steps(client: Any) -> None:
        awaited = find(client)
        assert isinstance(awaited, collections.abc.Coroutine)
        assert asyncio.iscoroutine(awaited)
        assert inspect.isawaitable(awaited)
        awaited.close()

    run(steps)


def test_a_method_returns_a_coroutine_of_pythons_own(run: Callable[[Steps], None]) -> None:
    async def steps(client: Any) -> None:
        for call in (client.shop.orders.find_one, client.shop.orders.find().to_list):
            coroutine = call()
            assert inspect.iscoroutine(coroutine)
            await coroutine

    run(steps)


def test_it_sends_nothing_before_it_is_awaited(
    run: Callable[[Steps], None], scripted_server: ScriptedServer
) -> None:
    async def steps(client: Any) -> None:
        awaited = find(client)
        awaited.close()
        awaited.close()
        with pytest.raises(RuntimeError, match="already awaited"):
            await awaited
        with pytest.raises(KeyError, match="mine"):
            find(client).throw(KeyError("mine"))

    run(steps)
    assert len(scripted_server.received("find")) == 1


def test_it_is_awaited_once(run: Callable[[Steps], None]) -> None:
    async def steps(client: Any) -> None:
        awaited = find(client)
        assert await awaited is None
        with pytest.raises(RuntimeError, match="already awaited"):
            await awaited

    run(steps)


def test_a_result_that_is_a_tuple_or_an_exception_arrives_as_it_is(run: Callable[[Steps], None]) -> None:
    async def steps(client: Any) -> None:
        error = KeyError("a result")
        for result in ((1, 2), (), error, None):
            awaited = find(client, lambda _, result=result: result)
            assert await awaited is result
            task = asyncio.create_task(find(client, lambda _, result=result: result))
            assert await task is result
            # Awaits step by step, as code that this interpreter did not compile does.
            awaited = find(client, lambda _, result=result: result)
            future = awaited.send(None)
            while not future.done():
                await asyncio.sleep(0.001)
            with pytest.raises(StopIteration) as stop:
                awaited.send(None)
            assert stop.value.value is result

    run(steps)


def test_a_callback_of_the_wait_gets_the_wait_itself(run: Callable[[Steps], None]) -> None:
    async def steps(client: Any) -> None:
        awaited = find(client)
        wait: Any = awaited.send(None)
        told: list[Any] = []
        # Built in and bound to a task, as the task's own wake-up is, but it receives another future.
        named = asyncio.create_task(asyncio.sleep(0))
        wait.add_done_callback(named.set_name)
        wait.add_done_callback(told.append)
        while not told:
            await asyncio.sleep(0)
        assert told == [wait]
        assert named.get_name() == str(wait)
        with pytest.raises(StopIteration):
            awaited.send(None)

    run(steps)


@pytest.mark.parametrize("how", ["close", "drop"])
def test_giving_it_up_before_the_reply_closes_its_connection(
    how: str, run: Callable[[Steps], None], scripted_server: ScriptedServer
) -> None:
    async def steps(client: Any) -> None:
        scripted_server.once("find", Hang())
        awaited = find(client)
        future = awaited.send(None)
        # On a loop of streams a coroutine sends the message, and waits first.
        assert future is not None
        assert pool_sizes(client) == (0, 1, 0, 0)
        if how == "close":
            awaited.close()
        del future, awaited
        gc.collect()
        assert pool_sizes(client) == (0, 0, 0, 0)

    run(steps)


@pytest.mark.parametrize(
    "thrown",
    [
        (asyncio.CancelledError("mine"),),
        (asyncio.CancelledError,),
        (asyncio.CancelledError, "mine"),
        (asyncio.CancelledError, asyncio.CancelledError("mine"), None),
    ],
    ids=["instance", "class", "class and text", "all three"],
)
@pytest.mark.filterwarnings("ignore:the .type, exc, tb. signature:DeprecationWarning")
def test_what_is_thrown_before_the_reply_is_raised_and_closes_the_connection(
    thrown: tuple[Any, ...], run: Callable[[Steps], None], scripted_server: ScriptedServer
) -> None:
    async def steps(client: Any) -> None:
        scripted_server.once("find", Hang())
        awaited = find(client)
        awaited.send(None)
        with pytest.raises(asyncio.CancelledError):
            awaited.throw(*thrown)
        assert pool_sizes(client) == (0, 0, 0, 0)
        with pytest.raises(RuntimeError, match="already awaited"):
            awaited.send(None)

    run(steps)


def test_it_is_given_up_while_its_connection_is_opened(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> None:
        async with AsyncMongoClient(scripted_server.uri) as client:
            assert await client.shop.orders.find_one() is None
            scripted_server.once("find", Hang())
            holder = asyncio.create_task(client.shop.orders.find_one())
            await asyncio.sleep(0)
            awaited = find(client)
            awaited.send(None)
            assert pool_sizes(client)[2] == 1
            awaited.close()
            assert pool_sizes(client) == (0, 1, 0, 0)
            holder.cancel()
            await asyncio.wait([holder])

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(asyncio.wait_for(steps(), TIMEOUT))


def test_a_broken_connection_is_replaced_once(
    run: Callable[[Steps], None], scripted_server: ScriptedServer
) -> None:
    async def steps(client: Any) -> None:
        scripted_server.on("find", found({"_id": 1}))
        scripted_server.once("find", Close())
        assert await find(client) == {"_id": 1}
        scripted_server.once("find", Close())
        scripted_server.once("find", Close())
        with pytest.raises(AutoReconnect) as raised:
            await find(client)
        assert isinstance(raised.value.__cause__, ConnectionError)

    run(steps)


def test_an_error_thrown_by_the_operating_systems_name_is_the_connections(
    run: Callable[[Steps], None], scripted_server: ScriptedServer
) -> None:
    async def steps(client: Any) -> None:
        scripted_server.once("find", Hang())
        awaited = find(client)
        awaited.send(None)
        owing = scripted_server.wait_for("find", 2)[-1].connection
        # The find is retried on another connection.
        assert awaited.throw(ConnectionResetError("mine")) is not None
        awaited.close()
        wait_closed(scripted_server, owing)

    run(steps)


def test_tasks_wait_for_one_connection_in_turn(loop_name: str, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> None:
        async with AsyncMongoClient(scripted_server.uri, maxPoolSize=1) as client:
            tasks = [asyncio.create_task(find(client)) for _ in range(50)]
            assert await asyncio.gather(*tasks) == [None] * 50
            assert pool_sizes(client) == (1, 0, 0, 0)

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(asyncio.wait_for(steps(), TIMEOUT))


class Deaf(CommandListener):
    """Listens, and keeps nothing."""

    def started(self, event: Any) -> None:
        pass

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


@types.coroutine
def noting_waits(awaited: AwaitedOperation, waits: list[Any]) -> Any:
    """Await an operation, and record the objects for which its task was suspended."""
    while True:
        try:
            waits.append(awaited.send(None))
        except StopIteration as stop:
            return stop.value
        yield waits[-1]


@pytest.mark.parametrize(
    ("options", "suspensions"),
    [
        ({}, 1),
        ({"waitQueueTimeoutMS": 60_000}, 2),
        ({"socketTimeoutMS": 60_000}, 2),
        ({"timeoutMS": 60_000}, 2),
        ({"event_listeners": [Deaf()]}, 2),
    ],
    ids=["plain", "queue", "socket", "operation", "listener"],
)
def test_a_task_that_waited_for_a_connection_is_resumed_for_its_reply_alone(
    loop_name: str, scripted_server: ScriptedServer, options: dict[str, Any], suspensions: int
) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> None:
        async with AsyncMongoClient(scripted_server.uri, maxPoolSize=1, **options) as client:
            await find(client)
            waits: list[list[Any]] = [[] for _ in range(4)]
            tasks = [asyncio.create_task(noting_waits(find(client), each)) for each in waits]
            assert await asyncio.gather(*tasks) == [None] * 4
            # The loop itself writes to a stream, so only the task can send there.
            expected = 2 if loop_name == "streams" else suspensions
            assert [len(each) for each in waits] == [1, *[expected] * 3]
            assert pool_sizes(client) == (1, 0, 0, 0)

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(asyncio.wait_for(steps(), TIMEOUT))


def test_what_was_sent_for_a_waiting_task_is_lost_repeated_and_cancelled_as_its_own(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> None:
        async with AsyncMongoClient(scripted_server.uri, maxPoolSize=1) as client:
            for trouble in (Close(), Hang()):
                await find(client)
                before = len(scripted_server.received("find"))
                scripted_server.once("find", EMPTY)
                scripted_server.once("find", trouble)
                first, second, third = (asyncio.create_task(find(client)) for _ in range(3))
                await first
                if isinstance(trouble, Hang):
                    await asyncio.to_thread(scripted_server.wait_for, "find", before + 2)
                    second.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await second
                else:
                    assert await second is None
                assert await third is None
                assert pool_sizes(client) == (1, 0, 0, 0)

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(asyncio.wait_for(steps(), TIMEOUT))


def eager_task(loop: Any, steps: Any, **options: Any) -> asyncio.Task[Any]:
    """Start a task eagerly, on uvloop 0.23 too, which asks asyncio's own factory for `eager_start=None`."""
    return asyncio.Task(steps, loop=loop, **{**options, "eager_start": True})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_an_eager_task_sends_at_once(run: Callable[[Steps], None], scripted_server: ScriptedServer) -> None:
    async def steps(client: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(eager_task)
        before = len(scripted_server.received("find"))
        tasks = [asyncio.create_task(find(client)), asyncio.create_task(client.shop.orders.find_one())]
        scripted_server.wait_for("find", before + 1)
        assert await asyncio.gather(*tasks) == [None, None]
        async with asyncio.TaskGroup() as group:
            task = group.create_task(client.shop.orders.find().to_list())
        assert task.result() == []

    run(steps)


def test_the_methods_run_in_task_groups_and_scopes_of_anyio(
    run: Callable[[Steps], None], scripted_server: ScriptedServer
) -> None:
    anyio = pytest.importorskip("anyio")

    async def steps(client: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.shop.orders.find_one)
            group.start_soon(client.shop.orders.find().to_list)
        scripted_server.once("find", Hang())
        with anyio.move_on_after(0.1) as scope:
            await client.shop.orders.find_one()
        assert scope.cancelled_caught
        assert pool_sizes(client)[1:] == (0, 0, 0)

    run(steps)
