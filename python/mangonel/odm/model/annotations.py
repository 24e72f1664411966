"""Evaluates annotations of models, with forward references and aliases, and takes them apart."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from mangonel.odm._registry import registry
from mangonel.odm.expressions.paths import Mapped


def evaluate(annotation: Any, owner: Any) -> Any:
    """Return the type of an annotation, which may be a string."""
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(owner.__module__)
    names = {**vars(typing), **(vars(module) if module else {}), owner.__name__: owner}
    names.update({name: value for name, value in owner.__locals__.items() if name not in names})
    try:
        return eval(annotation, names)
    except NameError as error:
        missing = error.name or ""
        known = registry.get(missing)
        if known is None:
            raise TypeError(
                f"cannot resolve {annotation!r} of {owner.__name__}: {error}; define the model first, or at "
                "module level"
            ) from error
        owner.__locals__[missing] = known
        return evaluate(annotation, owner)


def unwrap(annotation: Any, metadata: list[Any], owner: Any) -> Any:
    """Remove `Annotated`, `Mapped`, `NewType` and aliases."""
    while True:
        if isinstance(annotation, str):
            annotation = evaluate(annotation, owner)
        elif isinstance(annotation, typing.ForwardRef):
            annotation = evaluate(annotation.__forward_arg__, owner)
        elif hasattr(annotation, "__metadata__"):
            for item in annotation.__metadata__:
                metadata.extend(item if hasattr(item, "__iter__") and _is_group(item) else [item])
            annotation = annotation.__origin__
        elif get_origin(annotation) is Mapped:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def _is_group(item: Any) -> bool:
    """Whether an item is a group of constraints, such as `Interval` and `Len` of annotated-types."""
    return any(base.__name__ == "GroupedMetadata" for base in type(item).__mro__)


def classes_in(annotation: Any, owner: Any) -> Iterator[Any]:
    """Yield the classes in a type, at any depth of containers and unions."""
    plain = unwrap(annotation, [], owner)
    parts = get_args(plain) if get_origin(plain) is not typing.Literal else ()
    if not parts:
        yield plain
    for part in parts:
        yield from classes_in(part, owner)


def without_none(annotation: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was one of its alternatives."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, annotation is type(None)
    parts = get_args(annotation)
    others = tuple(part for part in parts if part is not type(None))
    if len(others) == len(parts):
        return annotation, False
    return (others[0] if len(others) == 1 else Union[others]), True  # noqa: UP007  # built at run time
