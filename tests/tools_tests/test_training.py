"""The work that provides the profile for `make trained` runs without a server and prints nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "training.py"


def test_the_usual_work_is_done_to_its_end() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL)], capture_output=True, text=True, timeout=120, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
