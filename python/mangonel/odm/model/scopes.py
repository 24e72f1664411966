"""Default scopes of a model: its own and those of its bases all apply. Knows no queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def inherit_scopes(cls: Any, namespace: dict[str, Any]) -> None:
    """Combine the scope of a class with those of its bases; a scope of None removes those of its bases.

    Args:
        cls: the new class.
        namespace: the names that its body defines.
    """
    if "__default_scope__" in namespace:
        cls.__own_scope__ = namespace["__default_scope__"]
    found: list[Any] = []
    for each in cls.__mro__:
        if "__own_scope__" in vars(each):
            if vars(each)["__own_scope__"] is None:
                break
            found.append(vars(each)["__own_scope__"])
    if len(found) > 1:
        cls.__default_scope__ = staticmethod(_joined(cls, found[::-1]))


def _joined(cls: Any, scopes: list[Any]) -> Callable[[Any], Any]:
    """Return one scope that applies all of these, the bases' first."""
    bound = [scope.__get__(None, cls) if hasattr(scope, "__get__") else scope for scope in scopes]

    def joined(query: Any) -> Any:
        for scope in bound:
            query = scope(query)
        return query

    return joined
