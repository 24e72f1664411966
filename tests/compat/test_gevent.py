"""Under gevent the blocking face is cooperative: a greenlet that waits for the server lets the others run."""

from __future__ import annotations

import pytest

pytest.importorskip("gevent")

PATCHED = (
    "from gevent import monkey; monkey.patch_all()\nimport os, gevent\nfrom mangonel import MongoClient\n"
)


# Not as the page shows, but a usual order of imports.
PATCHED_LATER = (
    "from mangonel import MongoClient\nfrom gevent import monkey; monkey.patch_all()\nimport os, gevent\n"
)


@pytest.mark.parametrize("patched", [PATCHED, PATCHED_LATER], ids=["patched first", "patched later"])
def test_a_greenlet_that_waits_for_the_server_lets_others_run(program, place, patched):
    program(
        patched
        + """
ticks = 0
def tick():
    global ticks
    while True:
        gevent.sleep(0.01)
        ticks += 1

with MongoClient(os.environ["TEST_URI"]) as client:
    client.admin.command("ping")
    gevent.spawn(tick)
    slow = client[os.environ["TEST_DATABASE"]].things
    slow.insert_one({"_id": 1})
    before = ticks
    assert slow.find_one({"$where": "sleep(2000) || true"}) == {"_id": 1}
    assert ticks - before >= 3, ticks - before
"""
    )


def test_two_hundred_greenlets_share_a_pool(program, place):
    program(
        PATCHED
        + """
with MongoClient(os.environ["TEST_URI"], maxPoolSize=10) as client:
    things = client[os.environ["TEST_DATABASE"]].things
    def work(n):
        for m in range(5):
            things.insert_one({"_id": f"{n}-{m}"})
            assert things.find_one({"_id": f"{n}-{m}"})
        return n
    greenlets = [gevent.spawn(work, n) for n in range(200)]
    gevent.joinall(greenlets, timeout=150, raise_error=True)
    assert all(greenlet.successful() for greenlet in greenlets)
    assert things.count_documents({}) == 1000
"""
    )


@pytest.mark.parametrize("way", ["timeout", "kill"])
def test_a_greenlet_that_is_stopped_closes_its_connection(program, place, way):
    program(
        PATCHED
        + f"way = {way!r}\n"
        + """
from mangonel.monitoring import ConnectionPoolListener
closed, opened = [], []
class Listener(ConnectionPoolListener):
    def connection_closed(self, event):
        closed.append(event.reason)
    def connection_ready(self, event):
        opened.append(event.connection_id)
    def _nothing(self, event):
        pass
    pool_created = pool_ready = pool_cleared = pool_closed = connection_created = _nothing
    connection_check_out_started = connection_check_out_failed = _nothing
    connection_checked_out = connection_checked_in = _nothing

with MongoClient(os.environ["TEST_URI"], event_listeners=[Listener()]) as client:
    things = client[os.environ["TEST_DATABASE"]].things
    things.insert_one({"_id": 1})
    gevent.sleep(0.1)
    assert closed == []
    def slow():
        things.find_one({"$where": "sleep(10000) || true"})
    if way == "timeout":
        try:
            with gevent.Timeout(0.2):
                slow()
        except gevent.Timeout:
            pass
        else:
            raise AssertionError
    else:
        greenlet = gevent.spawn(slow)
        gevent.sleep(0.2)
        greenlet.kill()
    with gevent.Timeout(60):
        while not closed:
            gevent.sleep(0.01)
    assert closed == ["error"], closed
    # The owed reply is never read.
    assert things.find_one({"_id": 1}) == {"_id": 1}
"""
    )
