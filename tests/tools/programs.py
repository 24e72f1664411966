"""Imports programs of this repository that belong to no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_program(path: Path, name: str = "") -> ModuleType:
    """Import a file as a module, named as the file or as given, so that its `__main__` block does not run."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up while the module runs.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
