"""The failover experiment reports the longest stall and the election's part of it, and finds lost writes."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import servers

ELECTION_S = 0.2


class FakeServer:
    """Three members; after the primary is killed another becomes primary a moment later."""

    uri = "mongodb://a.example/?replicaSet=rs0"

    def __init__(self, elects):
        self.elects = elects
        self.has_primary = threading.Event()
        self.has_primary.set()
        primary = SimpleNamespace(state="primary", kill=self.kill, restart=lambda: None)
        self.members = [primary, SimpleNamespace(state="secondary"), SimpleNamespace(state="secondary")]

    def wait_until_settled(self):
        return self.members[0]

    def kill(self):
        self.has_primary.clear()
        self.members[0].state = "down"
        if self.elects:
            threading.Timer(ELECTION_S, self.elect).start()

    def elect(self):
        self.members[1].state = "primary"
        self.has_primary.set()


class FakeDriver:
    """Waits for a primary as a driver does, and loses a document when the test asks for it."""

    def __init__(self, server, loses):
        self.server, self.loses, self.stored, self.longest_s = server, loses, [], 0.0

    def insert_one(self, document):
        begun = time.monotonic()
        if not self.server.has_primary.wait(60 if self.server.elects else 0.1):
            raise TimeoutError("no primary")
        self.longest_s = max(self.longest_s, time.monotonic() - begun)
        time.sleep(0.001)
        self.stored.append(document)

    def find_one(self, key):
        time.sleep(0.001)
        return {"_id": key}

    def to_list(self):
        return self.stored[: -1 if self.loses else None]

    def close(self):
        pass


def task(monkeypatch, *, loses: bool = False, elects: bool = True) -> tuple[servers.FailoverTask, FakeDriver]:
    server = FakeServer(elects)
    driver = FakeDriver(server, loses)
    monkeypatch.setattr(servers, "_servers", {"set": server})
    monkeypatch.setattr(servers, "BEFORE_S", 0.02)
    contender = replace(registry.contender("mangonel"), blocking=lambda target: driver, copy_of="")
    bench = Bench(contender, Target("", "lab", "scratch"), Size(True), 1)
    made = servers.FailoverTask(registry.experiments()["failover"].parts(bench.size)[0], bench)
    made.verify()
    made.arrange()
    driver.longest_s = 0.0
    return made, driver


def test_a_stall_is_the_longest_operation_and_is_told_beside_the_election(monkeypatch):
    played, driver = task(monkeypatch)
    assert played.act() == 1
    extras = played.extras()

    assert extras["wall_ns"] >= driver.longest_s * 1e9 > 0
    assert extras["election_ms"] >= ELECTION_S * 1000
    assert extras["errors"] == 0
    assert extras["read_ms"] > 0


def test_a_lost_document_voids_the_figure(monkeypatch):
    played, _ = task(monkeypatch, loses=True)
    played.act()
    with pytest.raises(AssertionError, match="acknowledged documents, got"):
        played.extras()


def test_a_set_that_elects_nobody_voids_the_figure(monkeypatch):
    monkeypatch.setattr(servers, "TIMEOUT_S", 0.05)
    played, _ = task(monkeypatch, elects=False)
    played.act()
    with pytest.raises(AssertionError, match="expected a new primary"):
        played.extras()
