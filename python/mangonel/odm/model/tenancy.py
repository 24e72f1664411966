"""Checks the tenant field of a model when the model is defined."""

from __future__ import annotations

from typing import Any


def check_tenant(cls: Any) -> None:
    """Refuse a tenant that is no field, and a model without a tenant that would show documents of all tenants.

    Raises:
        TypeError: `__tenant__` names no field, differs from the family's, or is missing in a view of a model with
            tenants.
    """
    name = cls.__tenant__
    if name is not None and name not in cls.__fields__:
        raise TypeError(f"expected the name of a field as {cls.__name__}.__tenant__, got {name!r}")
    for parent in cls.__mro__[1:]:
        if parent.__dict__.get("__root__") and not parent.__abstract__ and parent.__tenant__ != name:
            raise TypeError(
                f"expected the tenant {parent.__tenant__!r} of its family {parent.__name__} in {cls.__name__}, got "
                f"{name!r}"
            )
    source: Any = cls.__view__[0] if cls.__view__ else None
    if getattr(source, "__tenant__", None) is not None and name is None and "__tenant__" not in vars(cls):
        raise TypeError(
            f"expected a __tenant__ in {cls.__name__}, a view of {source.__name__}, which keeps tenants apart; "
            "`__tenant__ = None` shows the documents of all"
        )
