"""Modules of a floor above, asked for by name by whoever wants their objects."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def above(name: str) -> ModuleType:
    """Import a module by its name."""
    import importlib

    return importlib.import_module(name)
