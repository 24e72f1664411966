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
        if isinstance(found, type) and found.__module__ == names["__name__"]:
            # Not told by missing docstrings: with `python -OO` no class has one.
            for base in found.__bases__:
                if base.__name__.startswith("_"):
                    found.__doc__ = base.__doc__
                    found.__module__ = module
