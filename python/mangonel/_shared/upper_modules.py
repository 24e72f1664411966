"""Modules of higher floors, for the few methods here that return their objects.

For each, `mangonel._rooms` registers a function that imports it, so that the import contracts see the import. Knows
none of these modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_loaders: dict[str, Callable[[], ModuleType]] = {}


def register(name: str, load: Callable[[], ModuleType]) -> None:
    """Make `upper_module(name)` return the module that `load` imports."""
    _loaders[name] = load


def upper_module(name: str) -> ModuleType:
    """Import a module that was registered.

    Raises:
        KeyError: the module was not registered.
    """
    return _loaders[name]()
