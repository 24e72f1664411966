"""The blocking face's own tests of pool, TLS, DNS, outages and server selection, in a process that gevent has patched.

A process of its own, because patching affects a whole interpreter. Tests of event loops are left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.faces import LOOPS

pytest.importorskip("gevent")

ROOT = Path(__file__).resolve().parent.parent.parent
RUN = "from gevent import monkey; monkey.patch_all(); import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
# The names of loops too, since "refused" in the name of a test contains "fused".
BLOCKING = f"(reference or fused or blocking) and not ({' or '.join(LOOPS)})"


FILES = {
    "faces": "direct_connections large load_balancer outages pool pool_upkeep server_selector srv",
    "floor": "every_step",
    "gridfs": "lost_inserts",
    "tls": "connections failures",
}


# In one process and without installed plugins: both cost more to start than most of the files take.
@pytest.mark.timeout(900)
@pytest.mark.no_sample
@pytest.mark.parametrize("part", ["--sample", "--rest"])
def test_the_blocking_face_passes_its_own_tests_under_gevent(part: str) -> None:
    command = [
        sys.executable,
        "-c",
        RUN,
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_timeout",
        "--timeout",
        "120",
    ]
    command += [f"tests/{folder}/test_{name}.py" for folder, names in FILES.items() for name in names.split()]
    command += ["-k", BLOCKING, part]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=880)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-1000:]
