"""Measuring equipment is pinned, then restored; processor time includes ended threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from mangonel.lab import cores, fingerprint, registry
from mangonel.lab.contender import Contender
from mangonel.lab.cores import Equipment, Places
from mangonel.lab.experiment import Size
from mangonel.lab.fixtures import Fixtures
from mangonel.lab.record import Plan, Record
from mangonel.lab.sentinel import cpu_ns

several = pytest.mark.skipif(len(cores.available()) < 2, reason="this machine has one core, or does not tell")

THREADED = """
import os, sys, threading
def wait():
    threading.Event().wait(600)
for _ in range(3):
    threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    threading.Thread(target=wait, daemon=True).start()
    print("one more", flush=True)
"""
PLACED = "import os; print(sorted(os.sched_getaffinity(0)))"


@pytest.fixture
def nowhere():
    yield
    cores.use(None)


@pytest.fixture
def threaded():
    process = subprocess.Popen(
        [sys.executable, "-c", THREADED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    yield process
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def masks(pid: int) -> set[frozenset[int]]:
    return {frozenset(os.sched_getaffinity(int(name))) for name in os.listdir(f"/proc/{pid}/task")}


@pytest.mark.parametrize(
    ("known", "servers", "load", "words"),
    [
        ([0, 1], (1,), (1,), "core 1"),
        ([0, 1, 2], (2,), (2,), "core 2"),
        ([0, 1, 2, 3], (2,), (3,), "core 2, the load on core 3"),
        (range(8), (4, 5, 6), (7,), "cores 4 to 6, the load on core 7"),
        ([1, 3, 5, 7, 9, 11], (7, 9), (11,), "cores 7, 9, the load on core 11"),
    ],
)
def test_equipment_has_the_last_core_or_the_upper_half(known, servers, load, words):
    found = cores.places(known)

    assert found == Places(servers, load)
    assert found.words == words


def test_a_single_core_or_none_that_is_told_is_left_to_everybody_and_so_is_a_server_that_is_not_ours(
    monkeypatch,
):
    assert [cores.places(known) for known in ([], [0], [3])] == [None] * 3
    assert cores.equipment([]) is None
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)

    assert cores.available() == []
    assert cores.equipment([1]) is None
    assert fingerprint.fingerprint(["x"])["cores"] >= 1


@several
def test_every_thread_of_a_server_is_kept_and_those_it_makes_inherit(threaded):
    found = cores.equipment([threaded.pid])
    before = masks(threaded.pid)

    with found.placed():
        threaded.stdin.write("\n")
        threaded.stdin.flush()
        assert threaded.stdout.readline()
        assert len(os.listdir(f"/proc/{threaded.pid}/task")) == 5
        assert masks(threaded.pid) == {frozenset(found.places.servers)}
    assert masks(threaded.pid) == before == {frozenset(cores.available())}


@several
def test_a_server_is_as_before_though_the_experiment_fails_and_one_that_has_ended_is_no_failure(threaded):
    found = cores.equipment([threaded.pid])
    with pytest.raises(RuntimeError), found.placed():
        raise RuntimeError("planted")

    assert masks(threaded.pid) == {frozenset(cores.available())}
    with found.placed():
        threaded.kill()
        threaded.wait(60)


@several
def test_a_child_is_kept_from_its_start_and_its_parent_is_not(nowhere):
    found = cores.places(cores.available())
    cores.use({"servers": list(found.servers), "load": list(found.load)})
    seen = []
    other = threading.Thread(target=lambda: seen.append(sorted(os.sched_getaffinity(0))))

    with cores.kept("load"):
        kept = subprocess.run([sys.executable, "-c", PLACED], capture_output=True, text=True, check=True)
    free = subprocess.run([sys.executable, "-c", PLACED], capture_output=True, text=True, check=True)
    other.start()
    other.join()

    assert json.loads(kept.stdout) == list(found.load)
    assert json.loads(free.stdout) == cores.available()
    assert seen == [cores.available()]
    cores.use(None)
    with cores.kept("servers"):
        assert cores.available() == sorted(os.sched_getaffinity(0)) == seen[0]


def test_a_result_says_where_equipment_was_kept():
    equipment = Equipment((1,), Places((1,), (1,)))
    record = Record(Plan("", ("web",), (), Size(), 1, 1, equipment=equipment))
    known = registry.experiments()
    kept_apart = ["crowd", "languages", "languages-control", "languages-one-core", "web", "websessions"]
    assert sorted(name for name, each in known.items() if each.loads_site) == kept_apart
    for name in ("web", "bson"):
        part = known[name].parts(Size(quick=True))[0]
        record.cell(known[name], part, Contender("x", "x", frozenset()))
    told = {line["experiment"]: line["equipment"] for line in record.lines if line["kind"] == "cell"}

    assert told == {"web": "core 1", "bson": ""}
    assert "equipment on core 1" in fingerprint.placement({"equipment": "core 1"})
    assert fingerprint.placement({}) == ""


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
# Half a million additions in the server, in any of its threads.
WORK = {
    "$reduce": {"input": {"$range": [0, 500_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}
}


@pytest.mark.skipif(sys.platform != "linux", reason="the clock of another process is Linux's")
def test_trap_1_threads_that_ended_are_in_a_processes_time():
    process = subprocess.Popen([sys.executable, "-c", ENDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    used = int(process.stdout.readline())
    # A joined thread may still be on its way out of the kernel.
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
    assert living <= found - 0.9 * used  # the result of summing over the remaining threads


def test_trap_1_the_servers_time_holds_that_of_connections_which_ended(server):
    pymongo = pytest.importorskip("pymongo")
    fixtures = Fixtures(server.uri, "test_lab_meters")
    pid = server.members[0].pid
    # Our reading encloses theirs, so it cannot be smaller.
    mine, before = cpu_ns(pid), fixtures.cpu()["cpu_ns"]
    for _ in range(2):
        with pymongo.MongoClient(server.uri) as client:
            client.admin.aggregate([{"$documents": [{}]}, {"$project": {"sum": WORK}}]).next()
    after, total = fixtures.cpu()["cpu_ns"], cpu_ns(pid)

    assert after - before >= 20_000_000
    assert after - before <= total - mine
