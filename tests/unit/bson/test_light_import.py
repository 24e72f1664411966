"""Importing the package loads nothing that most programs never use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mangonel

HEAVY = ["uuid", "decimal", "json", "base64", "calendar", "struct", "numpy", "typing", "logging", "inspect"]


def _modules_after(code: str) -> set[str]:
    # -S, because site may load anything. The enclosing package is left out: its own tests check its imports.
    program = f"""
import sys
sys.path[:] = {sys.path!r}
sys.modules["mangonel"] = outer = type(sys)("mangonel")
outer.__path__ = [{str(Path(mangonel.__file__).parent)!r}]
{code}
print(*sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return set(found.stdout.split())


@pytest.mark.parametrize("module", HEAVY)
def test_import_does_not_load(module: str) -> None:
    assert module not in _modules_after("import mangonel.bson")


def test_values_that_need_no_heavy_module_load_none() -> None:
    found = _modules_after(
        "from mangonel.bson import *; Timestamp(1, 2); Regex('a'); DBRef('c', 1); Binary(b'x'); ObjectId()"
    )

    assert not found & {"uuid", "decimal", "json", "struct", "typing"}
