"""Modules of higher floors, for the few methods here that return their objects.

`mangonel._rooms` registers a function that imports each, so that the import contracts see it. Knows none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_loaders: dict[str, Callable[[], ModuleType]] = {}


def register(name: str, load: Callable[[], ModuleType]) -> None:
    """Make `upper_module(name)` return the module that a function imports."""
    _loaders[name] = load


def upper_module(name: str) -> ModuleType:
    """Import a module that was registered.

    Raises:
        KeyError: it was not.
    """
    return _loaders[name]()
