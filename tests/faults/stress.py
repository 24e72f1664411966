"""A program that uses the driver in every way at once, then exits with work in flight.

    python stress.py blocking|gevent|asyncio URI DATABASE SECONDS SEED

Operations of every kind, chosen at random: writes, bulks, cursors over batches, transactions, GridFS, each reported to
a listener. Meanwhile signal handlers raise, threads end, tasks are cancelled, cursors and sessions are dropped,
children are forked. Any exception from the driver other than the handler's own is printed, and the exit code is 1. A
program that hangs ends with the stacks of its threads.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from mangonel import AsyncMongoClient, DeleteMany, InsertOne, MongoClient, UpdateOne
from mangonel.bson import ObjectId
from mangonel.errors import AutoReconnect, PyMongoError
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket
from mangonel.monitoring import CommandListener

# Seconds after the planned end at which a program counts as hung; for a child, half of them.
HANGS = 120
# AddressSanitizer's runtime of GCC 12 does not release its locks in a forked child: of 200 children of a C program that
# only allocates in threads, one waited in malloc for ever.
FORKS = "libasan" not in os.environ.get("LD_PRELOAD", "")

failed: list[str] = []


class Alarm(Exception):
    """Raised by the signal handler."""


class Counts(CommandListener):
    """A listener as applications have them."""

    def __init__(self) -> None:
        self.events = 0

    def started(self, event: Any) -> None:
        """Count the event."""
        self.events += 1

    succeeded = failed = started


async def here(value: Any) -> Any:
    """Return the result of a call on either face."""
    return await value if inspect.isawaitable(value) else value


def at_once(step: Any) -> None:
    """Run a flow on the blocking face, where nothing waits."""
    try:
        step.send(None)
    except StopIteration:
        return
    raise AssertionError("a blocking call waited")


# The operations. Each uses documents of its own, so that none waits for another's locks.


async def write(db: Any, dice: random.Random) -> None:
    key = ObjectId()
    await here(db.things.insert_one({"_id": key, "n": 0}))
    await here(db.things.update_one({"_id": key}, {"$inc": {"n": 1}}))
    found = await here(db.things.find_one_and_update({"_id": key}, {"$set": {"a": "x"}}))
    assert found["n"] == 1
    await here(db.things.delete_one({"_id": key}))


async def insert_many(db: Any, dice: random.Random) -> None:
    group = ObjectId()
    size = dice.randrange(1, 40)
    await here(db.things.insert_many({"group": group, "n": n} for n in range(size)))
    assert await here(db.things.count_documents({"group": group})) == size
    await here(db.things.delete_many({"group": group}))


async def bulk(db: Any, dice: random.Random) -> None:
    key = ObjectId()
    requests = [
        InsertOne({"_id": key}),
        UpdateOne({"_id": key}, {"$set": {"n": 1}}),
        DeleteMany({"_id": key}),
    ]
    result = await here(db.things.bulk_write(requests, ordered=dice.random() < 0.9))
    assert result.inserted_count == 1


async def read(db: Any, dice: random.Random) -> None:
    cursor = db.steady.find({}, batch_size=dice.randrange(2, 9))
    if dice.random() < 0.5:
        assert len(await here(cursor.to_list())) == 50
    elif dice.random() < 0.5:
        # Dropped with further batches on the server.
        await here(cursor.next())
    else:
        for _ in range(dice.randrange(1, 30)):
            await here(cursor.next())
        await here(cursor.close())


async def aggregate(db: Any, dice: random.Random) -> None:
    cursor = await here(db.steady.aggregate([{"$sort": {"n": -1}}], batchSize=dice.randrange(2, 20)))
    assert (await here(cursor.next()))["n"] == 49
    if dice.random() < 0.7:
        assert len(await here(cursor.to_list())) == 49


async def transaction(db: Any, dice: random.Random) -> None:
    session = db.client.start_session()
    session.start_transaction()
    key = ObjectId()
    await here(db.things.insert_one({"_id": key}, session=session))
    assert await here(db.things.find_one({"_id": key}, session=session)) is not None
    how = dice.random()
    if how < 0.1:
        # Dropped with the transaction open.
        return
    await here(session.commit_transaction() if how < 0.6 else session.abort_transaction())
    await here(session.end_session())
    assert (await here(db.things.find_one({"_id": key})) is not None) == (how < 0.6)


async def in_session(db: Any, dice: random.Random) -> None:
    session = db.client.start_session()
    cursor = db.steady.find({}, batch_size=7, session=session)
    await here(cursor.next())
    if dice.random() < 0.5:
        await here(cursor.close())
    await here(session.end_session())


async def files(db: Any, dice: random.Random) -> None:
    is_async = isinstance(db.client, AsyncMongoClient)
    bucket: Any = (AsyncGridFSBucket if is_async else GridFSBucket)(db, chunk_size_bytes=1000)
    data = bytes(dice.randrange(256) for _ in range(10)) * dice.randrange(1, 600)
    id = await here(bucket.upload_from_stream("stress", data))
    stream = await here(bucket.open_download_stream(id))
    assert await here(stream.read()) == data
    await here(bucket.delete(id))


WORK: list[Callable[[Any, random.Random], Any]] = [
    write, insert_many, bulk, read, read, aggregate, transaction, in_session, files,
]  # fmt: skip


# Disturbances.


def note(error: BaseException, where: str) -> None:
    """Record an exception that the driver must not raise."""
    # An alarm inside asyncio's selector leaves a descriptor registered with the system but unknown to the selector: the
    # next descriptor of this number cannot be watched, and its connection fails.
    if len(failed) < 3 and not (isinstance(error, AutoReconnect) and "File exists" in str(error)):
        failed.append(f"{where}: {''.join(traceback.format_exception(error))}")


def unraisable(unraisable: Any) -> None:
    """Ignore alarms in finalizers, whose exceptions cannot propagate, and alarms inside `threading` and `asyncio`."""
    error = unraisable.exc_value
    is_ours = "borrow" in str(error) or "mangonel" in f"{unraisable.object!r}"
    if isinstance(error, SystemError) or (is_ours and not isinstance(error, Alarm)):
        note(error, f"unraisable in {unraisable.object!r}")


def thread_failed(failure: Any) -> None:
    if not issubclass(failure.exc_type, (Alarm, SystemExit)):
        note(failure.exc_value, "a thread")


def ring(*_: Any) -> None:
    raise Alarm


def set_alarm(dice: random.Random) -> None:
    """Let the handler raise soon."""
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0002, 0.03))


def no_alarm() -> None:
    """Stop the handler from raising, also for an alarm that was delivered to another thread and is still pending."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


def fork(work: Callable[[], Any]) -> None:
    """Call `work` in a forked child. An error in it is printed here and fails this program."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        # faulthandler's own thread cannot be used here: it would wait for the parent's thread.
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(HANGS // 2)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            os.write(tell, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(tell)
    with open(told, "rb") as pipe:
        said = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 0:
        failed.append(f"a child ended with {code}: {said}")


def blocking(uri: str, database: str, end: float, dice: random.Random) -> None:
    """Threads, alarms and forks on the blocking face."""
    client: MongoClient[Any] = MongoClient(uri, maxPoolSize=6, event_listeners=[Counts()])
    db = client[database]

    def steps(count: int, seed: int) -> None:
        own = random.Random(seed)
        while count:
            at_once(own.choice(WORK)(db, own))
            count -= 1
        sys.exit()

    def child() -> None:
        assert db.steady.find_one() is not None
        at_once(dice.choice(WORK)(db, dice))

    # All modules are loaded before the first alarm: an import that it ends leaves half a module to other threads.
    for work in WORK:
        at_once(work(db, dice))
    for _ in range(2):
        threading.Thread(target=steps, args=(-1, dice.random()), daemon=True).start()
    while time.monotonic() < end and not failed:
        try:
            threading.Thread(target=steps, args=(2, dice.random()), daemon=True).start()
            set_alarm(dice)
            for _ in range(20):
                at_once(dice.choice(WORK)(db, dice))
            no_alarm()
        except Alarm:
            pass
        except Exception as error:
            note(error, "the main thread")
        no_alarm()
        if dice.random() < 0.02 and FORKS:
            fork(child)
    assert db.steady.find_one() is not None


def greenlets(uri: str, database: str, end: float, dice: random.Random) -> None:
    """Greenlets that are killed wherever they wait, on the blocking face under gevent."""
    import gevent

    client: MongoClient[Any] = MongoClient(uri, maxPoolSize=6, event_listeners=[Counts()])
    db = client[database]

    def steps(seed: float) -> None:
        own = random.Random(seed)
        while True:
            at_once(own.choice(WORK)(db, own))

    def note_ended() -> None:
        for greenlet in [greenlet for greenlet in at_work if greenlet.ready()]:
            at_work.remove(greenlet)
            if greenlet.exception is not None:
                note(greenlet.exception, "a greenlet")

    for work in WORK:
        at_once(work(db, dice))
    at_work: list[Any] = []
    while time.monotonic() < end and not failed:
        at_work += [gevent.spawn(steps, dice.random()) for _ in range(6 - len(at_work))]
        gevent.sleep(dice.uniform(0.0002, 0.03))
        dice.choice(at_work).kill(block=dice.random() < 0.5)
        note_ended()
    gevent.killall(at_work)
    note_ended()
    assert db.steady.find_one() is not None


def asynchronous(uri: str, database: str, end: float, dice: random.Random) -> None:
    """Cancelled tasks, alarms in the loop, a second loop in a thread, and forks, on asyncio."""

    async def steps(db: Any, count: int) -> None:
        while count:
            await dice.choice(WORK)(db, dice)
            count -= 1

    async def main(count: int, each: int = -1) -> None:
        client: AsyncMongoClient[Any] = AsyncMongoClient(uri, maxPoolSize=6, event_listeners=[Counts()])
        tasks = [asyncio.create_task(steps(client[database], each)) for _ in range(6)]
        for _ in range(count):
            await asyncio.sleep(0.01)
            dice.choice(tasks).cancel()
            tasks.append(asyncio.create_task(steps(client[database], each)))
            ended = [task for task in tasks if task.done() and not task.cancelled()]
            for task in ended:
                tasks.remove(task)
                task.result()
        if each > 0:
            await asyncio.gather(*tasks, return_exceptions=True)

    def let_run(loop: asyncio.AbstractEventLoop, tasks: set[Any], seconds: float) -> None:
        "Wait for all, but no longer: an alarm inside asyncio loses scheduled calls, even the end of a wait."
        end = time.monotonic() + seconds
        while time.monotonic() < end and not all(task.done() for task in tasks):
            # The second handler is for an alarm in the first.
            for soon in (0.005, 0.05):
                loop.call_later(soon, loop.stop)
            loop.run_forever()

    def run() -> None:
        loop = asyncio.new_event_loop()
        try:
            set_alarm(dice)
            task = loop.create_task(main(5))
            let_run(loop, {task}, 5)
            if task.done():
                task.result()
        except Alarm:
            pass
        finally:
            no_alarm()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            let_run(loop, tasks, 0.2)
            loop.close()
        for task in tasks:
            error = task.exception() if task.done() and not task.cancelled() else None
            if error and (isinstance(error, (SystemError, PyMongoError)) or "borrow" in str(error)):
                note(error, "a task")

    async def all_once() -> None:
        client: AsyncMongoClient[Any] = AsyncMongoClient(uri)
        for work in WORK:
            await work(client[database], dice)
        await client.close()

    asyncio.run(all_once())
    threading.Thread(target=lambda: asyncio.run(main(10**6)), daemon=True).start()
    while time.monotonic() < end and not failed:
        try:
            run()
        except Alarm:
            pass
        except Exception as error:
            note(error, "the main loop")
        gc.collect()
        if dice.random() < 0.05 and FORKS:
            fork(lambda: asyncio.run(all_once()))


def begin(face: str, uri: str, database: str, seconds: str, seed: str) -> int:
    """Run the program with daemon threads at work; return its exit code."""
    if face == "gevent":
        from gevent import monkey

        monkey.patch_all()
    with MongoClient[Any](uri) as client:
        if not client[database].steady.find_one():
            client[database].steady.insert_many([{"_id": n, "n": n} for n in range(50)])
            client[database].create_collection("things")
    faulthandler.dump_traceback_later(float(seconds) + HANGS, exit=True)
    sys.unraisablehook, threading.excepthook = unraisable, thread_failed
    faces = {"blocking": blocking, "gevent": greenlets, "asyncio": asynchronous}
    faces[face](uri, database, time.monotonic() + float(seconds), random.Random(int(seed)))
    print(*failed, sep="\n", end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(begin(*sys.argv[1:]))
