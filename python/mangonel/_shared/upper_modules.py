"""Modules of the rooms above this one, for the few methods here that give their objects.

`mangonel._rooms` registers how each is imported, so that the import contracts see it. Knows none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_loaders: dict[str, Callable[[], ModuleType]] = {}


def register(name: str, load: Callable[[], ModuleType]) -> None:
    """Have `upper_module(name)` return what a function returns."""
    _loaders[name] = load


def upper_module(name: str) -> ModuleType:
    """Import a module that was registered.

    Raises:
        KeyError: it was not.
    """
    return _loaders[name]()
