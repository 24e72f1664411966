"""What happens where there is no interpreter's lock; `tools/core_rules.py` names what the core leaves to it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.mark.skipif(not IS_FREE_THREADED, reason="needs a free-threaded interpreter")
@pytest.mark.parametrize(
    ("option", "expected"),
    [("gil=1", "True"), (None, "True"), ("gil=0", "got it switched off")],
)
def test_a_free_threaded_interpreter_takes_its_lock_back_or_the_import_fails(
    option: str | None, expected: str
) -> None:
    program = "import sys, mangonel.bson; print(sys._is_gil_enabled())"
    options = [] if option is None else ["-X", option]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *options, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert expected in done.stdout + done.stderr
