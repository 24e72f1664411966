"""Which models there are, and whether something is one. Knows models only as the core does, so every floor may ask."""

from __future__ import annotations

import weakref
from typing import Any

from mangonel import _core

# Models by name, for forward references across modules; the last one of a name wins.
registry: dict[str, Any] = {}
# All of them, those of one name too.
models: list[Any] = []
# Those that keep something of models: `forget()` has them make it anew.
keepers: weakref.WeakSet[Any] = weakref.WeakSet()


def documents() -> list[Any]:
    """Return every document class that was defined, in that order; `mangonel.odm.documents()` for tools.

    Example:
        >>> User in documents()
        True
    """
    return [model for model in models if model.__is_document__]


def is_model(plain: Any) -> bool:
    """Whether something is a model class, a document's or an embedded one's."""
    return isinstance(plain, _core.OdmMeta)


def is_embedded(plain: Any) -> bool:
    """Whether something is the class of an embedded document."""
    return is_model(plain) and not plain.__is_document__


def is_document_class(plain: Any) -> bool:
    """Whether something is a document class."""
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
