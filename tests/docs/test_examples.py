"""The examples of docstrings give the results that they show, except for the listed ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.examples import LIST, examples, not_run

PROGRAM = Path(__file__).with_name("examples.py")
# A sample plays one of this many.
SHARE = 6


# On a busy machine the servers alone take minutes to start.
@pytest.mark.timeout(600)
@pytest.mark.plays_a_sample
def test_examples_give_what_they_show(server, databases, pytestconfig):
    share = SHARE if pytestconfig.getoption("sample") else 1
    # Runs in a process of its own: examples register listeners and connect models.
    done = subprocess.run(
        [sys.executable, PROGRAM, server.members[0].address, str(share)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("", 0), done.stderr[-3000:]


def test_the_list_of_examples_names_nothing_else():
    listed = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]

    assert not_run() <= set(examples())
    assert listed == sorted(set(listed))
    assert len(listed) < len(examples()) // 3
