"""Finds contenders and experiments by looking into their folders. Imports no driver.

The variable MANGONEL_LAB_PLUGINS names further modules, with commas between, that hold either or both.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pkgutil
from types import ModuleType

from mangonel.lab import contenders as contenders_package
from mangonel.lab import experiments as experiments_package
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment

AGAIN = "#2"


def contenders() -> dict[str, Contender]:
    """Return every contender by its id, in the order of their files."""
    found: dict[str, Contender] = {}
    for module in _modules(contenders_package):
        for contender in getattr(module, "CONTENDERS", ()):
            if contender.id in found:
                raise ValueError(
                    f"two contenders are called {contender.id!r}; the second is in {module.__name__}"
                )
            found[contender.id] = contender
    return found


def experiments() -> dict[str, Experiment]:
    """Return every experiment by its id, in the order of their files."""
    modules = [module for module in _modules(experiments_package) if hasattr(module, "EXPERIMENT")]
    return {module.EXPERIMENT.id: module.EXPERIMENT for module in modules}


def contender(name: str) -> Contender:
    """Return the contender of that id; `NAME#2` is the same one under a second name.

    Raises:
        KeyError: there is no such contender.
    """
    plain = name.removesuffix(AGAIN)
    known = contenders()
    if plain not in known:
        raise KeyError(f"no contender is called {plain!r}; there are {', '.join(known)}")
    return again(known[plain]) if name.endswith(AGAIN) else known[plain]


def again(original: Contender) -> Contender:
    """Return the same contender under a second name: the null control."""
    return dataclasses.replace(
        original, id=original.id + AGAIN, title=f"{original.title} (again)", copy_of=original.id
    )


def _modules(package: ModuleType) -> list[ModuleType]:
    names = sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")
    )
    own = [f"{package.__name__}.{name}" for name in names]
    plugins = [name for name in os.environ.get("MANGONEL_LAB_PLUGINS", "").split(",") if name]
    return [importlib.import_module(name) for name in own + plugins]
