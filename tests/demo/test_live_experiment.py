"""The lab's experiment `live` counts every delivery."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel.lab.contender import Target
from mangonel.lab.contenders.drivers import CONTENDERS
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import live


@pytest.mark.no_sample
def test_every_browser_is_counted_for_every_customer(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hdrh")
    watched = CONTENDERS[1]
    monkeypatch.setitem(live.BROWSERS, watched.id, 5)
    bench = Bench(watched, Target(server.uri, "demo_lab", "unused", 1), Size(quick=True), seed=1)
    part = live.EXPERIMENT.parts(bench.size)[1]
    task = live.EXPERIMENT.task(part, bench)
    try:
        task.verify()
        assert isinstance(task, live.LiveTask)
        assert len(task._deliveries) == 5 * live.RATE // 10
        extras = task.extras()
        assert 0 <= extras["p50"] <= extras["p99"] <= extras["max"]
        assert len(task._requests) > 0
    finally:
        bench.close()
        server.members[0].run_command({"dropDatabase": 1, "$db": "demo_lab_live_200"}, timeout=30.0)
