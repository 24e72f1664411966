"""The model of `model.py` on MongoDB, Redis and memory.

`make test` plays a short form; MANGONEL_MODEL_RUNS=2000, or `make test-websessions-long`, the long one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from model import WebSessionModel

from mangonel.websessions.stores.memory import BlockingMemoryStore
from mangonel.websessions.stores.urls import open_blocking
from mangonel.websessions.testing import FakeClock

RUNS = int(os.environ.get("MANGONEL_MODEL_RUNS", "100"))
STEPS = 60


@pytest.mark.timeout(0 if RUNS > 200 else 120)
@pytest.mark.parametrize("name", ["memory", "redis", "mongodb"])
def test_no_run_breaks_a_promise(name: str, store_url: Callable[[str], str]) -> None:
    store: Any = None
    if name != "memory":
        store = open_blocking(store_url(name))
        store.setup()

    def factory(clock: FakeClock) -> Any:
        # Tokens are random, so runs do not meet in a shared store.
        return store if store is not None else BlockingMemoryStore(clock)

    class Model(WebSessionModel):
        store_factory = staticmethod(factory)
        runs = 0

    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Model,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=quiet,
            database=None,
        ),
    )
    print(f"{name}: {Model.runs} runs of at most {STEPS} steps, no violation")
    assert Model.runs >= RUNS
