"""Finds contenders and experiments: in the lab's folders, in other packages, in single files. Imports no driver.

A module defines `EXPERIMENT`, or several as `EXPERIMENTS`, or `CONTENDERS`, or both kinds. Packages name theirs as
entry points of the groups `mangonel.lab.experiments` and `mangonel.lab.contenders`. The variable MANGONEL_LAB_PLUGINS
names modules or `.py` files, separated by commas.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
from types import ModuleType

from mangonel.lab import contenders as contenders_package
from mangonel.lab import experiments as experiments_package
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment

AGAIN = "#2"
PLUGINS = "MANGONEL_LAB_PLUGINS"
KINDS = ("EXPERIMENT", "EXPERIMENTS", "CONTENDERS")
# The references for experiments that name none; each plays twice.
REFERENCES = ("pymongo", "pymongo-async")


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
    """Return every experiment by its id, in the order of the ids."""
    found: list[Experiment] = []
    for module in _modules(experiments_package):
        found += getattr(module, "EXPERIMENTS", ())
        found += [module.EXPERIMENT] if hasattr(module, "EXPERIMENT") else []
    return {experiment.id: experiment for experiment in sorted(found, key=lambda each: each.id)}


def contender(name: str) -> Contender:
    """Return the contender with this id; `NAME#2` is the same one under a second name. KeyError if there is none."""
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


def title(name: str) -> str:
    """Return a contender's title for tables; its id if it is not known here."""
    try:
        return contender(name).title
    except KeyError:
        return name


def _modules(package: ModuleType) -> list[ModuleType]:
    names = sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")
    )
    own = [f"{package.__name__}.{name}" for name in names]
    group = f"mangonel.lab.{package.__name__.rpartition('.')[2]}"
    return [_load(name) for name in dict.fromkeys([*own, *_entry_points(group), *_plugins()])]


@functools.cache
def _entry_points(group: str) -> tuple[str, ...]:
    return tuple(point.module for point in importlib.metadata.entry_points(group=group))


def check_plugins() -> None:
    """Load the modules in MANGONEL_LAB_PLUGINS; ValueError for one that does not exist or defines nothing."""
    for name in _plugins():
        if not any(hasattr(_load(name), kind) for kind in KINDS):
            raise ValueError(f"expected one of {', '.join(KINDS)} in the plugin {name}, got none")


def _plugins() -> list[str]:
    return [name for name in os.environ.get(PLUGINS, "").split(",") if name]


def _load(name: str) -> ModuleType:
    if not name.endswith(".py"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise ValueError(f"no such plugin: {name}; expected a .py file or a module") from error
    path = os.path.abspath(name)
    title = f"mangonel_lab_plugin_{os.path.basename(path)[:-3]}"
    if title not in sys.modules:
        spec = importlib.util.spec_from_file_location(title, path)
        if spec is None or spec.loader is None or not os.path.exists(path):
            raise ValueError(f"no such plugin: {name}; expected a .py file or a module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[title] = module
        spec.loader.exec_module(module)
    return sys.modules[title]
