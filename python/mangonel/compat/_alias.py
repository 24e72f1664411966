"""Modules that stand for another package's, and the finder that hands them out. Knows no driver and no BSON."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

from mangonel.compat._exports import EXPORTS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def missing(name: str) -> NotImplementedError:
    """Return the error that says: PyMongo or Motor has `name`, this package has no counterpart of it."""
    return NotImplementedError(
        f"{name} has no counterpart in mangonel yet; docs/compatibility.md lists what has none"
    )


class AliasModule(ModuleType):
    """A module whose names are looked up in others, at first use.

    What the aliased package has and this one has not raises NotImplementedError; what neither has is an
    AttributeError, as of any module.
    """

    _sources: Sequence[str]
    _missing: Collection[str]
    _submodules: Collection[str]

    def __getattr__(self, name: str) -> object:
        full = f"{self.__name__}.{name}"
        if full in self._submodules:
            return import_module(full)
        if name in self._missing:
            raise missing(full)
        if name == "__all__" and self._sources:
            # For `from bson.binary import *`, which would find no more than what was looked up before.
            if self.__name__ in EXPORTS:
                return list(EXPORTS[self.__name__])
            own = vars(import_module(self._sources[0]))
            return own.get(name, [public for public in own if not public.startswith("_")])
        # A name of the import system answers for one module only.
        sources = () if name in ("__path__", "__file__", "__cached__") else self._sources
        for source in sources:
            module = import_module(source)
            try:
                value: object = getattr(module, name)
            except AttributeError:
                continue
            if isinstance(value, ModuleType) and value.__name__.startswith("mangonel"):
                # A module of ours that the aliased package has not: `mangonel.odm` is not `pymongo.odm`.
                continue
            if not name.startswith("__"):
                self.__dict__[name] = value
            return value
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        names = set(self.__dict__)
        if "." not in self.__name__ and self._sources:
            # The counterpart has further names, and its own of the import system.
            exported = self.__getattr__("__all__")
            return sorted(names.union(cast("list[str]", exported), ["__all__"]))
        for source in self._sources:
            names.update(dir(import_module(source)))
        return sorted(names)


class AliasFinder(Loader):
    """Finds the modules of whole packages among aliases; it stands first in `sys.meta_path`.

    Args:
        counterparts: module name -> the modules that it stands for; empty when there is none.
        packages: those of them that have submodules.
        gaps: module name -> names that raise NotImplementedError.
    """

    def __init__(
        self,
        counterparts: Mapping[str, Sequence[str]],
        packages: Collection[str],
        gaps: Mapping[str, Collection[str]],
    ) -> None:
        self._counterparts = counterparts
        self._packages = packages
        self._gaps = gaps
        self.roots = frozenset(name.partition(".")[0] for name in counterparts)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an alias, or None for every other module."""
        if fullname not in self._counterparts and fullname not in self._gaps:
            return None
        return ModuleSpec(
            fullname,
            self,
            origin="mangonel.compat",
            is_package=fullname in self._packages,
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the alias; importing what it stands for waits for the first use."""
        module = AliasModule(spec.name)
        module._sources = [
            f"mangonel.{source}" if source else "mangonel" for source in self._counterparts.get(spec.name, ())
        ]
        module._missing = self._gaps.get(spec.name, ())
        module._submodules = self._counterparts.keys() | self._gaps.keys()
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run."""


def install(finder: AliasFinder, package: str) -> None:
    """Let `finder` answer for its packages from now on.

    Raises:
        RuntimeError: one of them was already imported; who imported it holds its classes.
    """
    if any(isinstance(found, AliasFinder) and found.roots == finder.roots for found in sys.meta_path):
        return
    loaded = sorted(
        name for name in sys.modules if name.partition(".")[0] in finder.roots and "." not in name
    )
    if loaded:
        raise RuntimeError(
            f"{package} was imported before the call: {', '.join(loaded)} already loaded; call this first,"
            " before any import that reaches it, or run the program with `python -m mangonel.compat`"
        )
    sys.meta_path.insert(0, finder)
