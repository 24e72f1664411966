"""Run `stress.py`, which uses the driver in every way at once, on a real server.

Only the signal handlers' own exceptions may appear, and each process must exit normally while threads are at work.
`MANGONEL_STRESS_SECONDS` sets the total time of all programs (default 20); `MANGONEL_STRESS_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import programs
from mangonel.engines.certificates import certify
from mangonel.server import start

# TLS uses the reference path, which may lose parts of a record where a handler raises.
FACES = ["fused", "reference", "tls", "gevent", "asyncio"]
OURS = re.compile("Fatal|FATAL|SystemError|panicked|borrowed")
SECONDS = float(os.environ.get("MANGONEL_STRESS_SECONDS", "20")) / len(FACES)
# In CI the choices are the same each time, as hypothesis' cases are; their timing still differs.
SEED = int(os.environ.get("MANGONEL_STRESS_SEED", "0")) or (
    1559174261 if "CI" in os.environ else random.SystemRandom().randrange(1, 2**31)
)
# A listener's exceptions are printed, as by PyMongo; so is an alarm during a listener's call.
TOLD = re.compile(
    r'Traceback \(most recent call last\):\n  File ".*publisher\.py", line \d+, in (?:told|command_\w+)\n'
    r"(?: .*\n)+Alarm\n"
)
# The build with AddressSanitizer: for the programs alone, not for the server and this process.
SANITIZED = {
    name: os.environ[f"MANGONEL_STRESS_{name}"]
    for name in ("LD_PRELOAD", "PYTHONPATH")
    if f"MANGONEL_STRESS_{name}" in os.environ
}
# How long one process lives: most are ended while they work.
LIFE = (1.0, 6.0)

pytestmark = pytest.mark.timeout(360 + 2 * SECONDS * len(FACES))


@pytest.fixture
def uri(request: pytest.FixtureRequest, face: str, tmp_path: Path) -> Iterator[str]:
    """The URI of the shared server, or of one with TLS."""
    if face != "tls":
        yield request.getfixturevalue("server").uri
        return
    with start(replica_set=1, tls=certify(tmp_path).for_mongod()) as deployment:
        yield deployment.uri


@pytest.mark.parametrize("face", FACES)
def test_a_process_under_stress_raises_nothing_of_its_own_and_ends_well(
    uri: str, database_name: str, face: str
) -> None:
    if face == "gevent":
        pytest.importorskip("gevent")
        if SANITIZED:
            pytest.skip("AddressSanitizer cannot follow greenlets, which copy their stacks")
    dice = random.Random(SEED)
    end = time.monotonic() + SECONDS
    ended = 0
    while ended == 0 or time.monotonic() < end:
        seed = SEED if ended == 0 else dice.randrange(1, 2**31)
        play(uri, database_name, face, seed, min(dice.uniform(*LIFE), SECONDS))
        ended += 1
    print(f"{face}: {ended} processes ended well")


def play(uri: str, database: str, face: str, seed: int, seconds: float) -> None:
    """Run one program to its end."""
    run = programs.run_file(
        Path(__file__).with_name("stress.py"),
        face if face in ("gevent", "asyncio") else "blocking",
        uri,
        database,
        str(seconds),
        str(seed),
        timeout=seconds + 180,
        MANGONEL_IMPL="reference" if face in ("reference", "tls") else "fused",
        PYTHONWARNINGS="ignore",
        **SANITIZED,
    )
    # asyncio's own log messages about tasks that an alarm ended do not concern the driver.
    is_quiet = face == "asyncio" and run.returncode == 0 and not OURS.search(run.stderr)
    said = run.stdout + ("" if is_quiet else TOLD.sub("", run.stderr)[-4000:])
    assert (run.returncode, said) == (0, ""), (
        f"exit code {run.returncode} on {face}, MANGONEL_STRESS_SEED={seed}: {said}"
    )
