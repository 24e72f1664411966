"""Latencies count from a call's due time, so that a stall counts for every call that waited behind it."""

from __future__ import annotations

import asyncio
import threading
import time
from unittest.mock import MagicMock

import pytest

pytest.importorskip("hdrh", reason="hdrhistogram is not installed")

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import reads
from mangonel.lab.latency import Latencies, at_rate, at_rate_async


def test_a_histogram_comes_back_from_its_text_and_merges():
    one, other = Latencies(), Latencies()
    for _ in range(99):
        one.record(1_000_000)
    other.record(50_000_000)

    merged = Latencies([one.encode(), other.encode()])

    assert len(merged) == 100
    assert merged.at(50) == pytest.approx(1000, rel=0.002)
    assert merged.at(100) == pytest.approx(50_000, rel=0.002)


def test_a_stall_is_counted_for_every_call_that_was_due_in_it():
    stalled = []

    def call(number: int) -> None:
        if number == 5:
            stalled.append(number)
            time.sleep(0.2)

    paced = at_rate(call, range(100), 200.0)

    assert stalled == [5]
    assert len(paced.response) == 100
    # 40 calls were due within the 0.2 s; only one was itself slow.
    assert paced.response.at(75) > 20_000
    assert paced.service.at(75) < 20_000


def test_tasks_are_started_whatever_is_under_way():
    async def play():
        under_way, most = 0, 0

        async def call(number: int) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= 1

        paced = await at_rate_async(call, range(40), 200.0)
        return paced, most

    paced, most = asyncio.run(play())
    assert most >= 10
    assert len(paced.response) == 40
    assert paced.response.at(50) >= 100_000 * 0.99


def test_threads_share_the_calls_and_an_error_comes_out():
    seen: set[int] = set()
    at_rate(seen.add, range(30), 2000.0, in_flight=4)
    assert seen == set(range(30))
    assert threading.active_count() >= 1

    def fail(number: int) -> None:
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        at_rate(fail, range(10), 1000.0, in_flight=2)


def test_a_share_of_the_capacity_is_a_share_of_what_the_warm_up_reached(monkeypatch):
    adapter, played = MagicMock(), []
    bench = Bench(registry.contender("mangonel"), Target("", "lab", "small"), Size(), 1)
    monkeypatch.setattr(bench, "connect", lambda connections: adapter)
    monkeypatch.setattr(bench, "drive", lambda call, arguments, in_flight: None)
    monkeypatch.setattr(bench, "drive_at_rate", lambda call, keys, rate, n: played.append((len(keys), rate)))
    clock = iter([10.0, 10.25])
    experiment = registry.experiments()["latency"]
    part = next(part for part in experiment.parts(Size()) if part.id == "blocking-own-75")
    task = experiment.task(part, bench)
    with monkeypatch.context() as patch:
        patch.setattr(reads.time, "perf_counter", lambda: next(clock))
        task.warm_up()

    # 500 in a quarter of a second are 2000 a second.
    assert task.act() == 3000
    assert played == [(3000, 1500.0)]
