"""The registry of models. Knows models only as the core does, so every floor may use it."""

from __future__ import annotations

import weakref
from typing import Any

from mangonel import _core

# Models by name, for forward references across modules; the last model with a name wins.
registry: dict[str, Any] = {}
# All document classes, including those that share a name.
models: list[Any] = []
# Objects that cache data about models: `forget()` makes them compute it again.
keepers: weakref.WeakSet[Any] = weakref.WeakSet()
# Objects that upper floors register for lower ones, by name.
makers: dict[str, Any] = {}


def documents() -> list[Any]:
    """Return every document class defined so far, in order; `mangonel.odm.documents()` for tools.

    Example:
        >>> User in documents()
        True
    """
    return [model for model in models if model.__is_document__]


def is_model(plain: Any) -> bool:
    """Whether an object is a model class, of documents or embedded documents."""
    return isinstance(plain, _core.OdmMeta)


def is_embedded(plain: Any) -> bool:
    """Whether an object is a class of embedded documents."""
    return is_model(plain) and not plain.__is_document__


def is_document_class(plain: Any) -> bool:
    """Whether an object is a document class."""
    return is_model(plain) and bool(plain.__is_document__)


def is_instance(value: Any) -> bool:
    """Whether a value is a document or an embedded document."""
    return isinstance(value, _core.OdmBase)


def is_embedded_instance(value: Any) -> bool:
    """Whether a value is an embedded document."""
    found: Any = type(value)
    return is_instance(value) and not found.__is_document__


def is_document(value: Any) -> bool:
    """Whether a value is a document."""
    found: Any = type(value)
    return is_instance(value) and bool(found.__is_document__)
