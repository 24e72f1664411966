"""Three members under load: the primary is killed, stepped down and paused, and nothing may be lost or done twice.

PyMongo does the same work in the same run, so that the longest stalls can be compared. Figures are printed with `-s`,
and always at the end of the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.server import Member, Server, start
from mangonel.server.replica_set import NOT_PRIMARY
from mangonel.server.wire import CommandError

SECONDS = float(os.environ.get("MANGONEL_FAILOVER_SECONDS", "60"))
# A member that rolls back or catches up under this load once took more than two minutes.
SETTLED_S = 300
LOAD = Path(__file__).with_name("load.py")
DRIVERS = ("mangonel", "pymongo")


@pytest.fixture(scope="module")
def members() -> Iterator[Server]:
    with start(replica_set=3) as deployment:
        yield deployment


def kill(primary: Member) -> None:
    primary.kill()
    time.sleep(2.5)
    primary.restart(timeout=120)


def step_down(primary: Member) -> None:
    # The step-down waits for a secondary that has everything.
    try:
        primary.run_command({"replSetStepDown": 5, "force": True}, timeout=60)
    except CommandError as error:
        # Under load the set may elect another primary by itself, which counts as a change of primary too.
        if error.code not in NOT_PRIMARY:
            raise


def pause(primary: Member) -> None:
    primary.pause()
    time.sleep(6)
    primary.resume()


FAULTS: list[Callable[[Member], None]] = [kill, step_down, pause, kill, step_down, kill]


def cause_faults(members: Server) -> list[tuple[float, str]]:
    """Spread the faults over the run; return when each began. The next fault waits until the set is whole again."""
    begun, log = time.monotonic(), []
    for number, fault in enumerate(FAULTS):
        wait = begun + (number + 0.5) * SECONDS / len(FAULTS) - time.monotonic()
        time.sleep(max(1.0, wait))
        primary = members.wait_until_settled(timeout=SETTLED_S)
        log.append((time.time(), fault.__name__))
        fault(primary)
    members.wait_until_settled(timeout=SETTLED_S)
    time.sleep(max(2.0, begun + SECONDS - time.monotonic()))
    return log


def report(name: str, tallies: list[dict[str, Any]], log: list[tuple[float, str]]) -> str:
    lines = [f"{name}: {sum(tally['operations'] for tally in tallies)} operations"]
    for kind in ("thread", "task"):
        slowest = max(
            (tally for tally in tallies if tally["worker"].startswith(kind)),
            key=lambda tally: tally["longest"],
        )
        during = [fault for at, fault in log if at <= slowest["longest_at"] + slowest["longest"]]
        lines.append(f"longest stall of a {kind} {slowest['longest']:.2f} s ({(during or ['no fault'])[-1]})")
    errors = [error for tally in tallies for error in tally["errors"]]
    lines.append(f"{len(errors)} errors")
    return ", ".join(lines) + "".join(f"\n    {error}" for error in errors[:5])


@pytest.mark.no_sample
@pytest.mark.timeout(SECONDS * 2 + 2 * SETTLED_S)
def test_no_write_is_lost_or_done_twice_and_no_error_gets_through_while_primaries_fail(
    members: Server, record_property: Callable[[str, object], None]
) -> None:
    programs = {
        name: subprocess.Popen(
            [sys.executable, LOAD, name, members.uri, f"failover_{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in DRIVERS
    }
    try:
        log = cause_faults(members)
        results = {
            name: json.loads(program.communicate(timeout=180)[0]) for name, program in programs.items()
        }
    finally:
        for program in programs.values():
            program.kill()
            program.wait()
    for name in DRIVERS:
        print(text := report(name, results[name], log))
        record_property(name, text)
    with MongoClient(members.uri, readConcernLevel="majority") as client:
        for name in DRIVERS:
            problems = find_problems(client[f"failover_{name}"], results[name])
            # PyMongo is measured, not tested.
            assert name != "mangonel" or not problems, "\n".join(problems[:20])
    errors = [error for tally in results["mangonel"] for error in tally["errors"]]
    assert not errors, "\n".join(errors[:20])
    assert all(tally["steps"] > 0 for tally in results["mangonel"])


def find_problems(database: Any, tallies: list[dict[str, Any]]) -> list[str]:
    """Compare the replies that each worker got with the data in the database."""
    stored: dict[str, set[int]] = {}
    for document in database.steps.find():
        worker, step = document["_id"]["worker"], document["_id"]["step"]
        stored.setdefault(worker, set()).add(step)
    counters = {document["_id"]: document["n"] for document in database.counters.find()}
    problems = []
    for tally in tallies:
        worker, unknown = tally["worker"], set(tally["unknown"])
        attempted = tally["steps"] + len(unknown)
        acknowledged = set(range(1, attempted + 1)) - unknown
        if lost := acknowledged - stored.get(worker, set()):
            problems.append(f"{worker}: {len(lost)} acknowledged inserts are lost, such as step {min(lost)}")
        counted = counters.get(worker, 0)
        if not tally["steps"] <= counted <= attempted:
            problems.append(
                f"{worker}: expected a counter from {tally['steps']} to {attempted}, got {counted}"
            )
        problems += [f"{worker}: {wrong}" for wrong in tally["wrong"]]
    return problems
