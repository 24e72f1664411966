"""The model of `model.py` on MongoDB, Redis, PostgreSQL and memory, blocking and asynchronous.

`make test` plays a short form; MANGONEL_MODEL_RUNS=2000, or `make test-websessions-long`, the long one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from model import WebSessionModel
from model_async import AsyncWebSessionModel

from mangonel.websessions.stores.memory import BlockingMemoryStore, MemoryStore
from mangonel.websessions.stores.mongodb import MongoStore
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import FakeClock

RUNS = int(os.environ.get("MANGONEL_MODEL_RUNS", "100"))
STEPS = 60

stores = pytest.mark.parametrize("name", ["memory", "redis", "mongodb", "postgresql"])
# A hundred runs on MongoDB took three minutes on a busy machine.
limited = pytest.mark.timeout(0 if RUNS > 200 else 240 + 10 * RUNS)


@limited
@stores
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

    play(Model, name)


@limited
@stores
def test_no_run_of_overlapping_calls_breaks_a_promise(name: str, store_url: Callable[[str], str]) -> None:
    loop = asyncio.new_event_loop()
    store: Any = None
    shared: list[int] = []

    async def opened() -> Any:
        store = open_store(store_url(name))
        await store.setup()
        return store

    if name != "memory":
        store = loop.run_until_complete(opened())
    if isinstance(store, MongoStore):
        insert_many = store._insert_many

        async def counted(writes: list[Any]) -> Any:
            shared.append(len(writes))
            return await insert_many(writes)

        store._insert_many = counted  # type: ignore[method-assign]

    def factory(clock: FakeClock) -> Any:
        return store if store is not None else MemoryStore(clock)

    class Model(AsyncWebSessionModel):
        store_factory = staticmethod(factory)
        runs = 0

    Model.loop = loop
    try:
        play(Model, f"{name}, asynchronous")
        if name == "mongodb":
            print(
                f"{sum(shared)} websessions were stored by {len(shared)} commands, "
                f"{max(shared, default=0)} by one at most"
            )
            # A few runs may have no two concurrent calls.
            assert RUNS < 100 or max(shared) > 1
    finally:
        if store is not None:
            loop.run_until_complete(store.aclose())
        loop.close()


def play(model: type[WebSessionModel], name: str) -> None:
    """Play the requested number of runs."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        model,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=quiet,
            database=None,
            # Not shrunk: that takes longer than a test may.
            phases=(Phase.generate,),
        ),
    )
    print(f"{name}: {model.runs} runs of at most {STEPS} steps, no violation")
    assert model.runs >= RUNS
