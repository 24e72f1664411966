"""The public classes: each joins a definition of `_shared` with a face. `mangonel.api` exports them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def publish(names: Mapping[str, object], module: str) -> None:
    """Give the classes of a module the docstrings of their definitions, and the name of the public module.

    Args:
        names: the module's names; a definition is a base whose name begins with an underscore.
        module: the public module, where users find the classes.
    """
    for found in names.values():
        if isinstance(found, type) and found.__module__ == names["__name__"] and found.__doc__ is None:
            found.__doc__ = next(base.__doc__ for base in found.__bases__ if base.__name__.startswith("_"))
            found.__module__ = module
