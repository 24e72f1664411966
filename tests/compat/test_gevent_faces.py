"""The blocking face's own tests of pool, TLS, DNS, outages and server selection, in a process that gevent has patched.

A process of its own: patching holds for a whole interpreter. What an event loop runs is left out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("gevent")

ROOT = Path(__file__).resolve().parent.parent.parent
RUN = "from gevent import monkey; monkey.patch_all(); import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
BLOCKING = "(reference or fused or blocking) and not asyncio and not uvloop"


FILES = {
    "faces": "direct_connections large load_balancer outages pool pool_upkeep server_selector srv",
    "floor": "every_step",
    "tls": "connections failures",
}


# Starting one of these processes costs more than most of the files do.
@pytest.mark.timeout(600)
@pytest.mark.plays_a_sample
@pytest.mark.parametrize("folder", FILES)
def test_the_blocking_face_passes_its_own_tests_under_gevent(
    folder: str, request: pytest.FixtureRequest
) -> None:
    command = [sys.executable, "-c", RUN, "-q", "-p", "no:cacheprovider", "--timeout", "120"]
    command += [*(f"tests/{folder}/test_{name}.py" for name in FILES[folder].split()), "-k", BLOCKING]
    command += [option for option in ("--sample", "--rest") if request.config.getoption(option)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    # The sample of a file may be all of it.
    passing = (0, pytest.ExitCode.NO_TESTS_COLLECTED) if request.config.getoption("--rest") else (0,)
    assert finished.returncode in passing, finished.stdout[-4000:] + finished.stderr[-1000:]
