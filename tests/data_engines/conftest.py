"""The environment with the engines."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="session")
def interpreter() -> Path:
    """The Python of the engines' environment."""
    spec = importlib.util.spec_from_file_location("data_engines", ROOT / "tools/data_engines.py")
    assert spec is not None
    assert spec.loader is not None
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    try:
        return tool.environment()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the engines could not be installed: {error}")


@pytest.fixture
def variables(interpreter: Path) -> dict[str, str]:
    """Return the environment variables of a program with an engine."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(HERE)]),
        "RAY_USAGE_STATS_ENABLED": "0",
        # Otherwise Ray's workers get lower priority than other tests, are killed when the machine runs short of memory,
        # and join a cluster that a `ray start` left in /tmp.
        "RAY_worker_niceness": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_ADDRESS": "local",
        # Dask's own limits are 30 seconds.
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "120s",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "120s",
        # Otherwise Spark looks up the machine's name, which the network may not know.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(interpreter),
        # Engines must not write bytecode into the package that other tests import.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
