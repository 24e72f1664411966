"""The interpreter around the driver: objects dropped while an exception is pending, and listeners that call back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faults import programs
from tools.scripted_server import Close, Hang, Reply, ScriptedServer

EMPTY = {"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "firstBatch": []}}
ROUNDS = 30

HEAD = f"""
import gc, sys, threading, time
from mangonel import MongoClient, _core
from mangonel._core import begin
from mangonel.errors import PyMongoError

client = MongoClient(sys.argv[1], maxPoolSize=2, appname="état")
orders = client.shop.orders
orders.find_one()
port, core = client._port, client._core

def operation(**command):
    return _core.Operation("shop", command, client._codec, _core.KIND_READ, _core.READ_BATCH)

def lose(make):
    "Have what `make` returns dropped while an exception is on its way."
    for _ in range({ROUNDS}):
        try:
            [make(), 1 / 0]
        except ZeroDivisionError as error:
            assert error.__context__ is None and error.__cause__ is None, repr(error.__context__)
        else:
            raise AssertionError("the exception was swallowed")

def nothing_is_held():
    deadline = time.monotonic() + 60
    while core.pool_sizes(port._shard)[1:] != (0, 0, 0):
        assert time.monotonic() < deadline, core.pool_sizes(port._shard)
        time.sleep(0.01)
"""

# The objects to drop, by class.
LOST = {
    "OpenCursor": """
session = _core.Session(core, True, False)

def opened():
    find = {"find": "orders", "filter": {"open": 1}}
    made = _core.Operation("shop", find, client._codec, _core.KIND_READ, _core.READ_BATCH, session=session)
    batch = port.run(made)
    assert batch.session is None
    return batch
lose(opened)
nothing_is_held()
""",
    "Exchange": """
lose(lambda: begin(core, operation(find="orders"), port._shard))
nothing_is_held()

def sent():
    exchange = begin(core, operation(find="orders", filter={"slow": 1}), port._shard)
    while exchange.step == _core.CONNECT or exchange.is_handshake:
        port._connect(exchange) if exchange.step == _core.CONNECT else port._talk(exchange)
    _core.send_some(exchange, 0)
    exchange.handle_sent()
    return exchange
lose(sent)
nothing_is_held()

# Two hold all connections, so that the third waits; the drop wakes it.
def waiting():
    held = [sent(), sent()]
    exchange = begin(core, operation(find="orders"), port._shard)
    assert exchange.step == _core.WAIT, exchange.step
    exchange.set_waker(threading.Event().set)
    return [exchange, held]
lose(waiting)
nothing_is_held()
held = [sent(), sent()]
found = []
thread = threading.Thread(target=lambda: found.append(orders.find_one()))
thread.start()
while core.pool_sizes(port._shard)[3] == 0:
    time.sleep(0.01)
try:
    [held.pop(), 1 / 0]
except ZeroDivisionError:
    pass
thread.join(60)
assert found == [None], "the waiting thread was not woken"
held.clear()
""",
    "ImplicitSession": """
class Holder:
    pass

def cursor():
    batch = port.run(operation(find="orders", filter={"open": 1}))
    assert batch.session is not None
    return batch
lose(cursor)
nothing_is_held()
""",
    "Session": """
def session():
    session = _core.Session(core, True, False)
    session.session_id
    return session
lose(session)
nothing_is_held()
""",
}


@pytest.fixture(scope="module")
def server() -> ScriptedServer:
    with ScriptedServer() as server:

        def answer(request: object) -> object:
            filter = request.command.get("filter", {})  # type: ignore[attr-defined]
            if "slow" in filter:
                return Hang()
            if "open" in filter:
                return {"ok": 1, "cursor": {"id": 5, "ns": "shop.orders", "firstBatch": [{"_id": 1}]}}
            return Reply(EMPTY)

        server.on("find", answer)
        server.on("getMore", Hang())
        yield server


def test_each_class_with_a_drop_is_lost_here_while_an_exception_is_pending() -> None:
    dropped, classes = set(), set()
    for path in Path(programs.ROOT, "crates/py/src").rglob("*.rs"):
        source = path.read_text()
        dropped.update(re.findall(r"impl Drop for (\w+)", source))
        classes.update(
            re.findall(r"#\[pyclass[^\]]*\](?:\s*#\[[^\]]*\])*\s*pub(?:\([^)]*\))? struct (\w+)", source)
        )
    assert classes & dropped == set(LOST)


@pytest.mark.parametrize("impl", ["fused", "reference"])
@pytest.mark.parametrize("name", LOST)
def test_a_drop_leaves_a_pending_exception_alone_and_gives_up_what_was_held(
    server: ScriptedServer, name: str, impl: str
) -> None:
    programs.must_end_well(programs.run(HEAD + LOST[name], server.uri, MANGONEL_IMPL=impl))


SIGNALS = """
import signal, types, warnings

class Alarm(Exception):
    pass

def ring(*_):
    "Another alarm may ring where a call returns, also in here; so an alarm is counted where nothing more is called."
    global rung
    alarm = Alarm(rung + 1)
    rung = alarm.args[0]
    raise alarm

rung = 0
known = set()  # the numbers of the alarms that were reported
# A flow that was made and interrupted before its first step.
warnings.simplefilter("ignore", RuntimeWarning)

def hear(error):
    "One that rings while another one is on its way out takes that one's place, and has it as its context."
    while error is not None:
        if isinstance(error, Alarm):
            known.add(error.args[0])
        error = error.__context__

# Exceptions that Python cannot raise, as in a finalizer. Not a Python function, in which alarms would ring.
unraisable = []
sys.unraisablehook = unraisable.append
signal.signal(signal.SIGALRM, ring)
begun = time.monotonic()
pause = 0
is_over = False

def is_going_on():
    "For some seconds, and until enough alarms rang: on a busy machine few ring in that time."
    lasted = time.monotonic() - begun
    return lasted < float(sys.argv[2]) or (rung <= 20 and lasted < 40)

def work():
    global is_over, pause
    while is_going_on():
        try:
            try:
                pause = (pause + 7) % 400
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + pause / 1e6, 0.02)
                while is_going_on():
                    list(orders.find({"number": 1}, batch_size=1))
            except Alarm as error:
                hear(error)
        except Alarm as error:
            hear(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    # The system may have given the last one to another thread, which tells it when it has its turn.
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    is_over = True

def heard(function, *arguments):
    "What rings while another one is heard is heard one level higher."
    try:
        function(*arguments)
    except Alarm as error:
        hear(error)

# CPython 3.13 takes a loop's jump back for one that raises nothing and leaves it out of the `try` around it: an alarm
# there reaches the caller. This loop repeats only if that happened.
while not is_over:
    heard(heard, heard, work)
for ignored in unraisable:
    hear(ignored.exc_value)
    # Any other ignored exception was swallowed by the driver.
    assert isinstance(ignored.exc_value, Alarm), ignored
    # 3.14 names it in the message.
    is_finalizer = "__del__" in f"{ignored.err_msg} {getattr(ignored.object, '__name__', '')}"
    # One that was never begun, of which Python warns when it is dropped.
    assert is_finalizer or isinstance(ignored.object, types.CoroutineType), ignored
ignored = None
unraisable.clear()
gc.collect()  # an alarm, its handler's frame and what it interrupted hold each other
assert known == set(range(1, rung + 1)), (rung, known ^ set(range(1, rung + 1)))
assert rung > 20, rung
assert orders.find_one() is None
nothing_is_held()
"""


@pytest.mark.parametrize("impl", ["fused", "reference"])
def test_no_exception_of_a_signal_handler_is_lost_or_turned_into_another(
    server: ScriptedServer, impl: str
) -> None:
    programs.must_end_well(programs.run(HEAD + SIGNALS, server.uri, "3", MANGONEL_IMPL=impl))


LOSES_ITS_SOCKET = """
class Transport:
    def close(self):
        pass

lost = []
exchange = begin(core, operation(find="orders"), core.open_shard(None))
assert exchange.step == _core.CONNECT
# A link without a descriptor is what the loop finds when another thread closed the connection meanwhile.
link = exchange.handle_connected(Transport(), -1)
_core.receive_ready(link, lambda: lost.append(core.link_lost(link)))
assert lost == [None]
exchange.close()
"""


def test_a_connection_that_another_thread_closed_is_given_up_without_a_complaint(
    server: ScriptedServer,
) -> None:
    programs.must_end_well(programs.run(HEAD + LOSES_ITS_SOCKET, server.uri))


LOST_AT_THE_END = """
def sent():
    exchange = begin(core, operation(find="orders", filter={"slow": 1}), port._shard)
    while exchange.step == _core.CONNECT or exchange.is_handshake:
        port._connect(exchange) if exchange.step == _core.CONNECT else port._talk(exchange)
    _core.send_some(exchange, 0)
    exchange.handle_sent()
    return exchange

class Late:
    "Is dropped with the module's names, when the interpreter says that it is initialized no more."
    def __init__(self):
        self.held = sent()

    def __del__(self, print=print):
        self.held = None
        for _ in range(1000):
            print(end="")
        print("late")

late = Late()
"""


def test_what_finalizers_drop_and_refuse_at_the_very_end_does_not_abort_the_process(
    server: ScriptedServer,
) -> None:
    ended = programs.run(HEAD + LOST_AT_THE_END, server.uri)
    programs.must_end_well(ended)
    assert ended.stdout == "late\n"


INTERRUPTED_CLOSING = """
class Alarm(Exception):
    pass

class Transport:
    calls = 0

    def close(self):
        "What a signal handler raises here comes while another exception is handled, and has that for its context."
        self.calls += 1
        if self.calls == 1:
            try:
                [].pop()
            except IndexError:
                raise Alarm

transport = Transport()
exchange = begin(core, operation(find="orders"), core.open_shard(None))
exchange.handle_connected(transport, -1)
found = None
try:
    try:
        {}["missing"]
    except KeyError:
        exchange.close()
        for _ in range(1000):
            pass
except Alarm as error:
    found = error
assert transport.calls == 2, transport.calls
contexts = []
while found is not None:
    contexts.append(type(found).__name__)
    found = found.__context__
assert contexts == ["Alarm", "IndexError", "KeyError"], contexts
"""


def test_a_connection_is_closed_and_nothing_lost_where_a_signal_handler_interrupts_that(
    server: ScriptedServer,
) -> None:
    programs.must_end_well(programs.run(HEAD + INTERRUPTED_CLOSING, server.uri))


INTERRUPTED_LABEL = """
from mangonel import errors

class Alarm(Exception):
    pass

def ring(self, label):
    raise Alarm

errors.PyMongoError._add_error_label = ring
try:
    orders.insert_one({"_id": 1})
except Alarm as error:
    assert isinstance(error.__context__, errors.AutoReconnect), repr(error.__context__)
else:
    raise AssertionError("the alarm was swallowed")
"""


def test_an_exception_that_comes_while_an_error_is_labelled_is_raised_after_it() -> None:
    with ScriptedServer() as server:
        # Writes to a replica set may be retried, and a label on their errors says so.
        server.hello |= {"setName": "rs0", "hosts": ["{}:{}".format(*server.address)]}
        server.hello |= {"isWritablePrimary": True, "logicalSessionTimeoutMinutes": 30}
        server.on("find", Reply(EMPTY))
        server.on("insert", Close())
        programs.must_end_well(programs.run(HEAD + INTERRUPTED_LABEL, server.uri))


INTERRUPTED_START = """
from mangonel._faces import monitors

class Alarm(Exception):
    pass

def interrupted(started, core_of, work, *arguments, original=monitors._start):
    "The first start of an observer is interrupted by what a signal handler raises, before it or after it."
    if work.__name__ != "drive":
        return original(started, core_of, work, *arguments)
    calls.append(work)
    if len(calls) > 1 or sys.argv[2] == "after":
        original(started, core_of, work, *arguments)
        threads.append(work)
    if len(calls) == 1:
        raise Alarm

calls, threads, heard = [], [], 0
monitors._start = interrupted
orders = MongoClient(sys.argv[1], connect=False).shop.orders
for _ in range(2):
    try:
        assert orders.find_one() is None
    except Alarm:
        heard += 1
assert heard == 1, heard
assert len(threads) == 1, (calls, threads)
"""


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_server_is_watched_once_where_a_signal_handler_interrupts_the_start_of_that(
    server: ScriptedServer, place: str
) -> None:
    programs.must_end_well(programs.run(HEAD + INTERRUPTED_START, server.uri, place))


INTERRUPTED_WAKING = """
class Alarm(Exception):
    pass

calls = []

def wake():
    "Is interrupted by what a signal handler raises, before anything is done."
    calls.append(None)
    if len(calls) == 1:
        raise Alarm

core.on_end(wake)
try:
    core.close()
    for _ in range(1000):
        pass
except Alarm:
    calls.append("heard")
assert calls == [None, None, "heard"], calls
"""


def test_a_waiter_is_woken_where_a_signal_handler_interrupts_that(server: ScriptedServer) -> None:
    programs.must_end_well(programs.run(HEAD + INTERRUPTED_WAKING, server.uri))


FORGOTTEN_TASK = """
import asyncio, gc, logging, sys
from mangonel import AsyncMongoClient
from mangonel._faces.aio import _LoopState

logging.disable()
# Other versions than 3.11 say "coroutine already executing".
sys.unraisablehook = lambda unraisable: None

async def connect(self, sock, target):
    "Wait for what is lost: a signal handler's exception in asyncio's own code can have it so."
    await asyncio.futures._PyFuture()

_LoopState._connect = connect

async def main(uri):
    await AsyncMongoClient(uri).admin.command("ping")

loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
task = loop.create_task(main(sys.argv[1]))
while task._fut_waiter is None or not isinstance(task._fut_waiter, asyncio.futures._PyFuture):
    loop.call_later(0.005, loop.stop)
    loop.run_forever()
task._fut_waiter._callbacks.clear()
inner = task.get_coro().cr_await
loop.close()
del task
# As a garbage collection does that reaches this one first.
inner.close()
print("closed")
"""


def test_an_unreferenced_task_ends_with_its_connection(server: ScriptedServer) -> None:
    ended = programs.run(FORGOTTEN_TASK, server.uri)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "closed\n", "")
