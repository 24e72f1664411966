"""Modules that stand in for another package's, and the finder that imports them. Knows no driver and no BSON."""

from __future__ import annotations

import dis
import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import BuiltinImporter, ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

from mangonel.compat._exports import EXPORTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from importlib.metadata import Distribution, DistributionFinder
    from types import FrameType


class MissingAttribute(NotImplementedError, AttributeError):
    """PyMongo or Motor has a name that this package lacks; `hasattr` and `getattr` see no attribute."""


class MissingImport(NotImplementedError, ImportError):
    """The same for `from ... import`, so that a program's `except ImportError` catches it."""


_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def missing(name: str, caller: FrameType) -> NotImplementedError:
    """Return the error for a name of PyMongo or Motor that has no counterpart in this package.

    Args:
        caller: the frame that reads the name. In a `from ... import` an AttributeError would lose its message.
    """
    is_import = caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM
    return (MissingImport if is_import else MissingAttribute)(
        f"{name} has no counterpart in mangonel yet; docs/compatibility.md lists what has none"
    )


class AliasModule(ModuleType):
    """A module that looks its names up in other modules at first use.

    A name that only the aliased package has raises MissingAttribute or MissingImport. A name that neither package has
    raises AttributeError, as in any module.
    """

    _sources: Sequence[str]
    _missing: Collection[str]
    _submodules: Collection[str]

    def __getattr__(self, name: str) -> object:
        full = f"{self.__name__}.{name}"
        if full in self._submodules:
            return import_module(full)
        if name in self._missing:
            raise missing(full, sys._getframe(1))
        if name == "__all__" and self._sources:
            # For `from bson.binary import *`, which would otherwise bind only names that were looked up before.
            if self.__name__ in EXPORTS:
                return list(EXPORTS[self.__name__])
            named = (source for source in self._sources if not source.startswith("mangonel.compat."))
            own = vars(import_module(next(named, self._sources[0])))
            return own.get(name, [public for public in own if not public.startswith("_")])
        # The import system's own names belong to one module only.
        sources = () if name in ("__path__", "__file__", "__cached__") else self._sources
        for source in sources:
            module = import_module(source)
            try:
                value: object = getattr(module, name)
            except AttributeError:
                continue
            if isinstance(value, ModuleType) and value.__name__.startswith("mangonel"):
                # The aliased package lacks a module of ours: `mangonel.odm` is not `pymongo.odm`.
                continue
            if not name.startswith("__"):
                self.__dict__[name] = value
            return value
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        names = set(self.__dict__)
        if "." not in self.__name__ and self._sources:
            # The counterpart has more names, and the import system's own.
            exported = self.__getattr__("__all__")
            return sorted(names.union(cast("list[str]", exported), ["__all__"]))
        for source in self._sources:
            names.update(dir(import_module(source)))
        return sorted(names)


class AliasFinder(Loader):
    """Finds modules of aliased packages; it comes before Python's own finders in `sys.meta_path`.

    Args:
        counterparts: module name -> the modules that replace it; empty if none does.
        packages: the module names that have submodules.
        gaps: module name -> names that raise NotImplementedError.
        companions: module name -> the modules that its import also loads. Agents wait for these.
        versions: distribution -> the version that `importlib.metadata` reports.
    """

    def __init__(
        self,
        counterparts: Mapping[str, Sequence[str]],
        packages: Collection[str],
        gaps: Mapping[str, Collection[str]],
        companions: Mapping[str, Sequence[str]],
        versions: Mapping[str, str],
    ) -> None:
        self._counterparts = counterparts
        self._packages = packages
        self._gaps = gaps
        self._companions = companions
        self._versions = versions
        self.roots = frozenset(name.partition(".")[0] for name in counterparts)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an alias, or None for any other module."""
        if fullname == "multiprocessing.spawn":
            from mangonel.compat._children import spec_of_spawn

            return cast("ModuleSpec | None", spec_of_spawn(path))
        if fullname not in self._counterparts and fullname not in self._gaps:
            return None
        return ModuleSpec(
            fullname,
            self,
            origin="mangonel.compat",
            is_package=fullname in self._packages,
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create the alias; its counterparts are imported at first use."""
        module = AliasModule(spec.name)
        module._sources = [
            f"mangonel.{source}" if source else "mangonel" for source in self._counterparts.get(spec.name, ())
        ]
        module._missing = self._gaps.get(spec.name, ())
        module._submodules = self._counterparts.keys() | self._gaps.keys()
        if "." not in spec.name:
            # Profilers leave out frames whose files are in this file's folder.
            module.__file__ = sys.modules["mangonel"].__file__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Load the modules that an import of the aliased one loads."""
        for companion in self._companions.get(module.__name__, ()):
            import_module(companion)

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Yield the aliased distribution if it is searched for by name; `importlib.metadata` calls this."""
        name = context.name or ""
        if name in self._versions:
            from mangonel.compat._distribution import AliasDistribution

            yield AliasDistribution(name, self._versions[name])


def install(finder: AliasFinder, package: str) -> None:
    """Add `finder` to the import system for its packages.

    Raises:
        RuntimeError: the real package was imported before, so some module may already hold its classes.
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
    # Placed behind the hooks of agents that wait for an import, which pass it on to this finder.
    own = next((place for place, found in enumerate(sys.meta_path) if found is BuiltinImporter), 0)
    sys.meta_path.insert(own, finder)
    if "multiprocessing.spawn" in sys.modules:
        from mangonel.compat._children import follow

        follow(sys.modules["multiprocessing.spawn"])
