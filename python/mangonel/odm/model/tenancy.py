"""Checks the tenant field of a model when the model is defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mangonel.odm._registry import models


def check_tenant(cls: Any) -> None:
    """Refuse a tenant that is no field, and a model without a tenant that would show documents of all tenants.

    Raises:
        TypeError: `__tenant__` names no field, differs from the family's, or is missing in a view that reads documents
            of a model with tenants.
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
    if cls.__view__ and name is None and "__tenant__" not in vars(cls):
        source, pipeline = cls.__view__
        read = set(_collections_in(pipeline)) if isinstance(pipeline, (list, tuple)) else set()
        joined = [other for other in models if other.__is_document__ and other.__collection_name__() in read]
        for other in (source, *joined):
            if getattr(other, "__tenant__", None) is not None:
                raise TypeError(
                    f"expected a __tenant__ in {cls.__name__}, a view of {other.__name__}, which keeps tenants apart; "
                    "`__tenant__ = None` shows the documents of all"
                )


def _collections_in(value: Any) -> Iterator[str]:
    """Yield the collections that the stages of a pipeline read, at any depth."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key == "$unionWith" and isinstance(part, str):
                yield part
            elif key in ("$lookup", "$graphLookup", "$unionWith") and isinstance(part, Mapping):
                yield from (name for name in (part.get("from"), part.get("coll")) if isinstance(name, str))
            yield from _collections_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _collections_in(part)
