"""Modules of higher floors, for the few methods here that return their objects.

For each, `mangonel._rooms` registers a function that imports it, so that the import contracts see the import. Knows
none of these modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from mangonel import _core
    from mangonel.bson.codec_options import CodecOptions

_loaders: dict[str, Callable[[], ModuleType]] = {}
# Those that were imported: the import statement takes 0.7 µs even then.
_imported: dict[str, ModuleType] = {}


def register(name: str, load: Callable[[], ModuleType]) -> None:
    """Make `upper_module(name)` return the module that `load` imports."""
    _loaders[name] = load


def upper_module(name: str) -> ModuleType:
    """Import a module that was registered.

    Raises:
        KeyError: the module was not registered.
    """
    found = _imported.get(name)
    if found is None:
        found = _imported[name] = _loaders[name]()
    return found


def document_shape(shape: type[Any], options: CodecOptions[Any]) -> _core.DocumentShape:
    """Return what makes documents instances of a model, dataclass, struct or TypedDict.

    Args:
        shape: the class.
        options: the collection's; they decide the conversion of dates and of broken text.

    Raises:
        TypeError: the class is none of these.
    """
    made: _core.DocumentShape = upper_module("mangonel.odm.model.shapes").core_shape(shape, options)
    return made
