"""The fields of a model, from annotations and `field()`, for tools and tests. Sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mangonel.odm._registry import is_model
from mangonel.odm.model.fields import Resolved


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a model.

    Attributes:
        name: the attribute.
        key: name in the database.
        type: the type of its values, without None and without `Annotated`.
        metadata: the arguments of `Annotated`: bounds, indexes, ….
        is_nullable: whether it may be None.
        is_required: whether a value must be given.
        embedded: the model of its embedded documents, or None.
        target: the target model of its references, or None.
        is_version: whether it counts saves.
        is_frozen: whether it may be set only while the document is new.
        on_delete: the delete rule, or None.
    """

    name: str
    key: str
    type: Any
    metadata: tuple[Any, ...]
    is_nullable: bool
    is_required: bool
    embedded: Any
    target: Any
    is_version: bool
    is_frozen: bool
    on_delete: str | None


def fields(model: Any) -> Mapping[str, Field]:
    """Return the fields of a model, in order, by attribute name.

    Args:
        model: a class of documents or embedded documents, or an instance.

    Raises:
        TypeError: not a model, or an annotation cannot be stored or names something that does not exist.

    Example:
        >>> [(name, found.key) for name, found in fields(User).items()][:2]
        [('id', '_id'), ('name', 'name')]
    """
    cls: Any = model if isinstance(model, type) else type(model)
    if not is_model(cls):
        raise TypeError(f"expected a model, got {model!r}")
    return MappingProxyType({name: _field(cls, found) for name, found in cls.__plan__.fields.items()})


def _field(cls: Any, found: Resolved) -> Field:
    info = found.info
    return Field(
        name=found.name,
        key=found.key,
        type=found.type,
        metadata=found.metadata,
        is_nullable=found.nullable,
        is_required=found.is_required,
        embedded=found.model,
        target=found.target,
        is_version=found.is_version,
        is_frozen=info.frozen or found.key == "_id" or found.name in getattr(cls, "__shard_key__", ()),
        on_delete=info.on_delete,
    )
