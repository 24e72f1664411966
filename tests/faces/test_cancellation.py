"""Cancellation at every stage: the connection that owes a reply is closed, and nothing else is affected."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import socket
import threading
import time
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.errors import NetworkTimeout, ServerSelectionTimeoutError
from tools.faces import (
    EMPTY,
    TIMEOUT,
    Face,
    connections_of,
    eventually,
    found,
    open_sockets,
    pool_sizes,
    wait_closed,
)
from tools.interrupts import press_ctrl_c
from tools.messages import op_msg
from tools.scripted_server import Hang, Raw, Reply, Request, Script, ScriptedServer

LARGE = {"_id": 1, "data": b"x" * 15_000_000}


def test_cancelled_find_closes_its_connection(async_face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    client = async_face.client(scripted_server.uri)
    others = [async_face.start(client.shop.orders.find_one) for _ in range(3)]
    assert [other.result(TIMEOUT) for other in others] == [None] * 3
    idle = pool_sizes(client)[0]
    scripted_server.once("find", Hang())
    call = async_face.start(client.shop.orders.find_one)
    owing = scripted_server.wait_for("find", 4)[-1].connection
    call.cancel()
    wait_closed(scripted_server, owing)
    eventually(lambda: pool_sizes(client) == (idle - 1, 0, 0, 0))
    assert async_face.run(client.shop.orders.find_one) is None


def test_task_cancelled_in_the_wait_queue_leaves_it(
    async_face: Face, scripted_server: ScriptedServer
) -> None:
    gate = threading.Event()
    scripted_server.on("find", lambda _: gate.wait(TIMEOUT) and EMPTY)
    client = async_face.client(scripted_server.uri, maxPoolSize=1)
    holder = async_face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find")
    cancelled = async_face.start(client.shop.orders.find_one)
    patient = async_face.start(client.shop.orders.find_one)
    eventually(lambda: pool_sizes(client) == (0, 1, 0, 2))
    cancelled.cancel()
    eventually(lambda: pool_sizes(client) == (0, 1, 0, 1))
    gate.set()
    assert (holder.result(TIMEOUT), patient.result(TIMEOUT)) == (None, None)
    assert pool_sizes(client) == (1, 0, 0, 0)
    assert len(scripted_server.received("find")) == 2


def test_task_cancelled_when_its_turn_has_come_passes_it_on(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    from mangonel import AsyncMongoClient
    from tools.faces import new_loop

    scripted_server.on("find", EMPTY)
    gate = threading.Event()

    async def steps() -> None:
        client = AsyncMongoClient(scripted_server.uri, maxPoolSize=1)
        find = client.shop.orders.find_one
        await find()  # so that all six find a known server, and queue in the order of their start
        scripted_server.once("find", lambda _: gate.wait(TIMEOUT) and EMPTY)
        waiters: list[asyncio.Task[Any]] = []

        async def hold() -> None:
            await find()
            # The connection was checked in: it is granted to the first waiter, who cannot have run yet.
            waiters[0].cancel()

        holder = asyncio.create_task(hold())
        await asyncio.sleep(0)
        waiters += [asyncio.create_task(find()) for _ in range(5)]
        await asyncio.sleep(0)
        gate.set()
        done = await asyncio.gather(holder, *waiters, return_exceptions=True)
        assert isinstance(done[1], asyncio.CancelledError)
        assert done[2:] == [None] * 4
        assert pool_sizes(client) == (1, 0, 0, 0)
        await client.close()

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(asyncio.wait_for(steps(), TIMEOUT))


def test_task_cancelled_while_no_server_is_known_leaves_nothing_behind(async_face: Face) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        # A full backlog: further connections, the monitor's first, hang in SYN_SENT.
        port = listener.getsockname()[1]
        plugs = [socket.socket() for _ in range(3)]
        for plug in plugs:
            plug.setblocking(False)
            plug.connect_ex(("127.0.0.1", port))
        time.sleep(0.05)
        client = async_face.client(f"mongodb://127.0.0.1:{port}/?directConnection=true&connectTimeoutMS=500")
        assert async_face.loop  # which has sockets of its own
        before = open_sockets()
        call = async_face.start(client.shop.orders.find_one)
        time.sleep(0.1)
        assert pool_sizes(client) == (0, 0, 0, 0)
        call.cancel()
        async_face.run(client.close)
        eventually(lambda: open_sockets() <= before, "the monitor's socket to be closed")
        for plug in plugs:
            plug.close()


def test_task_cancelled_in_the_handshake_closes_its_connection(
    async_face: Face, scripted_server: ScriptedServer
) -> None:
    for name in ("isMaster", "hello"):
        scripted_server.on(name, Hang())
    client = async_face.client(scripted_server.uri)
    call = async_face.start(client.shop.orders.find_one)
    eventually(lambda: scripted_server.requests)
    call.cancel()
    eventually(lambda: pool_sizes(client) == (0, 0, 0, 0))


def test_task_cancelled_in_a_large_send_closes_its_connection(
    async_face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("insert", {"ok": 1, "n": 1})
    started = threading.Event()
    go_on = threading.Event()

    def stop_reading(_: Any) -> Any:
        started.set()
        go_on.wait(TIMEOUT)
        return Hang()

    client = async_face.client(scripted_server.uri, maxPoolSize=1)
    async_face.run(lambda: client.admin.command("ping"))
    (connection,) = connections_of(scripted_server, "ping")
    # The server is busy with a first command that expects no reply, and so does not read the large one.
    scripted_server.on("insert", stop_reading)
    unacknowledged = client.shop.get_collection("orders", write_concern=_unacknowledged())
    async_face.run(lambda: unacknowledged.insert_one({"_id": 0}))
    assert started.wait(TIMEOUT)
    call = async_face.start(lambda: client.shop.orders.insert_one(LARGE))
    eventually(lambda: has_arrived(scripted_server, connection), "the beginning of the large command")
    assert pool_sizes(client) == (0, 1, 0, 0)
    assert not call.done()
    call.cancel()
    eventually(lambda: pool_sizes(client) == (0, 0, 0, 0))
    go_on.set()
    wait_closed(scripted_server, connection)
    assert len(scripted_server.torn) == 1


def has_arrived(server: ScriptedServer, connection: int) -> bool:
    """Return whether unread bytes wait at the server."""
    try:
        return bool(server._open[connection].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def _unacknowledged() -> Any:
    from mangonel.write_concern import WriteConcern

    return WriteConcern(w=0)


def test_cancelling_at_any_moment_leaves_nothing_behind(
    loop_name: str, scripted_server: ScriptedServer
) -> None:
    from mangonel import AsyncMongoClient
    from tools.faces import new_loop

    scripted_server.on(
        "find", lambda request: Reply(found({"_id": 1}), delay=0.002 * (request.request_id % 3))
    )

    async def steps() -> None:
        client = AsyncMongoClient(scripted_server.uri, maxPoolSize=5)
        for turn in range(60):
            tasks = [asyncio.create_task(client.shop.orders.find_one()) for _ in range(12)]
            for _ in range(turn % 17):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0007 * (turn % 9))
            for task in tasks[turn % 3 :: 2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(each == {"_id": 1} or isinstance(each, asyncio.CancelledError) for each in done), done
            idle, *rest = pool_sizes(client)
            assert rest == [0, 0, 0]
            assert idle <= 5
        await client.close()

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(asyncio.wait_for(steps(), 2 * TIMEOUT))
    scripted_server.wait_for_open(0)


def test_wait_for_and_timeout_end_a_find_in_time(async_face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", Hang())
    client = async_face.client(scripted_server.uri)

    async def waits() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.shop.orders.find_one(), 0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.shop.orders.find_one()

    async_face.run(waits)
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_cursor_cancelled_in_get_more_ends_and_is_killed(
    async_face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}, id=77))
    scripted_server.on("getMore", Hang())
    client = async_face.client(scripted_server.uri)
    cursor = client.shop.orders.find()
    assert async_face.next(cursor) == {"_id": 1}
    call = async_face.start(lambda: cursor.next())
    scripted_server.wait_for("getMore")
    call.cancel()
    assert scripted_server.wait_for("killCursors")[0].command["cursors"] == [77]
    with pytest.raises(StopAsyncIteration):
        async_face.next(cursor)
    assert len(scripted_server.received("getMore")) == 1


def test_ctrl_c_ends_a_blocking_call_and_closes_its_connection(
    blocking_face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", Hang())
    client = blocking_face.client(scripted_server.uri)

    def interrupt() -> None:
        scripted_server.wait_for("find")
        press_ctrl_c()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        client.shop.orders.find_one()
    wait_closed(scripted_server, scripted_server.received("find")[0].connection)
    assert pool_sizes(client) == (0, 0, 0, 0)


@pytest.mark.parametrize("options", [{}, {"socketTimeoutMS": 100_000}], ids=["no limit", "a limit"])
def test_a_signal_that_reached_another_thread_is_seen_all_the_same(
    scripted_server: ScriptedServer, options: dict[str, int]
) -> None:
    scripted_server.on("find", Hang())
    client = MongoClient(scripted_server.uri, **options)
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()

    def interrupt() -> None:
        scripted_server.wait_for("find")
        # The main thread is inside its system call, which continues.
        signal.pthread_kill(other.ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.shop.orders.find_one()
    finally:
        ended.set()
        client.close()


def test_ctrl_c_ends_the_wait_for_a_connection(blocking_face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", Hang())
    client = blocking_face.client(scripted_server.uri, maxPoolSize=1)
    blocking_face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find")

    def interrupt() -> None:
        eventually(lambda: pool_sizes(client)[3] == 1)
        press_ctrl_c()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        client.shop.orders.find_one()
    assert pool_sizes(client) == (0, 1, 0, 0)


def test_a_signal_whose_handler_returns_does_not_end_a_call(
    blocking_face: Face, scripted_server: ScriptedServer
) -> None:
    seen: list[int] = []

    def answer(_: Request) -> Reply:
        eventually(lambda: len(seen) > 3, "the handler to be called during the wait")
        return Reply(found({"_id": 1}), pieces=20)

    scripted_server.on("find", answer)
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        orders = blocking_face.client(scripted_server.uri).shop.orders
        assert orders.find_one() == {"_id": 1}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_exception_thrown_into_a_thread_closes_its_connection(
    blocking_face: Face, scripted_server: ScriptedServer
) -> None:
    gate = threading.Event()
    scripted_server.on("find", lambda _: gate.wait(TIMEOUT) and EMPTY)
    client = blocking_face.client(scripted_server.uri)
    threads: list[int] = []

    def find() -> Any:
        threads.append(threading.get_ident())
        return client.shop.orders.find_one()

    call = blocking_face.start(find)
    scripted_server.wait_for("find")
    (thread,) = threads
    assert (
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit)) == 1
    )
    gate.set()
    with pytest.raises(SystemExit):
        call.result(TIMEOUT)
    assert pool_sizes(client)[1:] == (0, 0, 0)


def test_socket_timeout_ends_a_read_that_gets_no_answer(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", Hang())
    client = face.client(scripted_server.uri, socketTimeoutMS=150, retryReads=False)
    said = rf"{scripted_server.address}: timed out: no reply within socketTimeoutMS \(150 ms\)"
    with pytest.raises(NetworkTimeout, match=said):
        face.run(client.shop.orders.find_one)
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_a_reply_that_drips_has_no_more_time_than_the_socket_timeout(
    face: Face, scripted_server: ScriptedServer
) -> None:
    def drip(request: Request) -> Script:
        # A minute's worth of drops, spread out so that other threads run in between.
        message = op_msg(found({"_id": 1, "text": "x" * 3000}), response_to=request.request_id)
        return Script(*(Raw(message[start : start + 1], delay=0.02) for start in range(len(message))))

    scripted_server.on("find", drip)
    client = face.client(scripted_server.uri, socketTimeoutMS=200, retryReads=False)
    with pytest.raises(NetworkTimeout, match=r"no reply within socketTimeoutMS \(200 ms\)"):
        face.run(client.shop.orders.find_one)
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_socket_timeout_ends_a_send_that_nobody_reads(face: Face) -> None:
    # Completes the handshake by hand, then reads no more.
    from tools.messages import op_msg, parse_request, read_exactly

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                lines.append(line)
                header = read_exactly(line, 16)
                rest = read_exactly(line, int.from_bytes(header[:4], "little") - 16)
                request = parse_request(header + rest, 0)
                hello = {"ok": 1, "ismaster": True, "minWireVersion": 0, "maxWireVersion": 17}
                line.sendall(op_msg(hello, response_to=request.request_id))

        lines: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        uri = f"mongodb://127.0.0.1:{listener.getsockname()[1]}/?directConnection=true"
        client = face.client(uri, socketTimeoutMS=200, retryWrites=False)
        with pytest.raises(NetworkTimeout):
            face.run(lambda: client.shop.orders.insert_one(dict(LARGE)))
        assert pool_sizes(client) == (0, 0, 0, 0)
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        for line in lines:
            line.close()


def test_connect_timeout_ends_the_wait_for_a_black_hole(face: Face) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # The kernel accepts the connection and no process replies to the handshake.
        uri = f"mongodb://127.0.0.1:{listener.getsockname()[1]}/?directConnection=true"
        client = face.client(uri, connectTimeoutMS=100, serverSelectionTimeoutMS=300)
        with pytest.raises(ServerSelectionTimeoutError, match=r"within 0\.3 s: .*127\.0\.0\.1"):
            face.run(client.shop.orders.find_one)
        assert pool_sizes(client) == (0, 0, 0, 0)
