"""Random writers of one document against a model of its possible stored states. Writers are copies, tasks or threads on
one copy, another process, and the driver; saves fail, are cancelled, or have an unknown outcome; transactions and units
run too; on both faces.

For each machine and model `MANGONEL_MODEL_RUNS` times fifty steps are played.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from mangonel.odm import Connection, connect
from mangonel.server import Server
from odm.other_writer import Counted, OtherProcess, Plain
from odm.writers_in_transactions import TransactionMachine
from odm.writers_model import Machine
from tools.proxy import LineProxy

pytestmark = pytest.mark.timeout(7200)

USUAL = 5
RUNS = int(os.environ.get("MANGONEL_MODEL_RUNS", USUAL))
STEPS = 50


@pytest.fixture
def far(server: Server, db: Connection, face: Any) -> Iterator[tuple[Connection, LineProxy]]:
    """A connection through a proxy that can cut it, and that proxy."""
    with LineProxy(server.members[0].port) as proxy:
        # A monitor that streams would notice cuts late, and clear the pool of the next save.
        monitoring = "serverMonitoringMode=poll&heartbeatFrequencyMS=3600000"
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true&retryWrites=false&{monitoring}"
        made = connect(uri, database=db.name, alias="far")
        yield made, proxy
        proxy.delay_down_ms = 0
        made.close()
        face.wait(made.aclose())


@pytest.fixture
def other(server: Server, db: Connection) -> Iterator[OtherProcess]:
    """Another process that writes to the same database."""
    made = OtherProcess(server.uri, db.name)
    yield made
    made.close()


@pytest.mark.enough(3)
@pytest.mark.parametrize("model", [Plain, Counted])
@pytest.mark.parametrize("machine", [Machine, TransactionMachine])
def test_whatever_writers_do_no_change_is_lost_doubled_or_different(
    machine: Any,
    model: Any,
    db: Connection,
    far: tuple[Connection, LineProxy],
    face: Any,
    other: OtherProcess,
) -> None:
    parts = {"face": face, "db": db, "far": far[0], "line": far[1], "model": model, "other": other}
    bound: Any = type("Bound", (machine,), parts)
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            # The sample is the same each time. A failed run is reported unshrunk, since each step takes a server.
            derandomize=RUNS <= USUAL,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{bound.taken} steps on {face.name}")
