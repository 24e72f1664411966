"""Processor time counts what threads did that are gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from mangonel.lab.fixtures import Fixtures
from mangonel.lab.sentinel import cpu_ns

ENDED = """
import sys, threading, time
used = []
def work():
    total = 0
    while time.thread_time_ns() < 100_000_000:
        total += 1
    used.append(time.thread_time_ns())
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(used[0], flush=True)
sys.stdin.read()
"""
# Half a million additions in the server, whatever thread serves them.
WORK = {
    "$reduce": {"input": {"$range": [0, 500_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}
}


@pytest.mark.skipif(sys.platform != "linux", reason="the clock of another process is Linux's")
def test_trap_1_threads_that_ended_are_in_a_processes_time():
    process = subprocess.Popen([sys.executable, "-c", ENDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    used = int(process.stdout.readline())
    # A thread that was joined may still be on its way out of the kernel.
    deadline = time.monotonic() + 60
    while len(names := os.listdir(f"/proc/{process.pid}/task")) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    living = 0
    for name in names:
        with open(f"/proc/{process.pid}/task/{name}/schedstat") as file:
            living += int(file.read().split()[0])
    found = cpu_ns(process.pid)
    process.communicate()

    assert found >= used >= 100_000_000
    assert living <= found - 0.9 * used  # what a sum over the threads that are left would have told


def test_trap_1_the_servers_time_holds_that_of_connections_which_ended(server):
    pymongo = pytest.importorskip("pymongo")
    fixtures = Fixtures(server.uri, "test_lab_meters")
    pid = server.members[0].pid
    # Ours is read around theirs, so that it holds theirs.
    mine, before = cpu_ns(pid), fixtures.cpu()["cpu_ns"]
    for _ in range(2):
        with pymongo.MongoClient(server.uri) as client:
            client.admin.aggregate([{"$documents": [{}]}, {"$project": {"sum": WORK}}]).next()
    after, total = fixtures.cpu()["cpu_ns"], cpu_ns(pid)

    assert after - before >= 20_000_000
    assert after - before <= total - mine
