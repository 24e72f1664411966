"""Named scopes: class methods that return queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

M = TypeVar("M", bound="Callable[..., Any] | classmethod[Any, ..., Any]")


def scope(method: M) -> M:
    """Mark a class method that returns a query as a named scope of the model, for readers and tools.

    Raises:
        TypeError: `method` is no method.

    Example:
        >>> @scope
        ... @classmethod
        ... def published(cls) -> Query[Self]:
        ...     return cls.find(Post.status == "published")
    """
    function: Any = getattr(method, "__func__", method)
    if not callable(function) or isinstance(function, type):
        raise TypeError(f'expected a class method for "method", got {type(method).__name__}')
    function.__odm_scope__ = True
    return method
