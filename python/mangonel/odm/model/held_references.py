"""The references that a document holds in memory, and the documents behind them. Sends nothing."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from mangonel import _core
from mangonel.odm._registry import is_document, is_document_class, is_instance, is_model, models
from mangonel.odm.model.annotations import unwrap, without_none
from mangonel.odm.model.belongs_to import BelongsTo, held
from mangonel.odm.model.fetched import key_of_id
from mangonel.odm.model.refs import Ref, Refs

# The fields of a model that may hold references, and how many models there were when they were found.
_names: dict[Any, tuple[int, tuple[str, ...]]] = {}


def references_in(instance: Any) -> Iterator[tuple[str, Any]]:
    """Yield the references of a document with the names of its fields, also those in containers and embedded documents.

    A value that was not decoded yet is passed over: no program has given it a document.

    Yields:
        a name and a `Ref`, a `Refs`, an `AnyRef`, or a document that is itself in a container.
    """
    names = _referring(type(instance))
    if names:
        present = set(_core.odm_loaded(instance, False))
        for name in names:
            if name in present:
                for reference in _inside(held(instance, name)):
                    yield name, reference


def documents_of(reference: Any) -> list[Any]:
    """Return the documents behind a reference that are in memory."""
    if is_document(reference):
        return [reference]
    if isinstance(reference, Refs):
        return [known for id in reference.ids if (known := reference._known(id)) is not None]
    known = reference._known() if isinstance(reference, Ref) else reference._loaded
    return [] if known is None else [known]


def known_documents(instance: Any) -> dict[tuple[str, Any], Any]:
    """Return the documents behind a document's references that are in memory, for `attach_documents`."""
    return {
        (name, key_of_id(known.id)): known
        for name, reference in references_in(instance)
        for known in documents_of(reference)
    }


def attach_documents(instance: Any, known: dict[tuple[str, Any], Any]) -> None:
    """Attach documents to the references of a document that was restored from its bytes."""
    for name, reference in references_in(instance) if known else ():
        if isinstance(reference, Refs):
            keys = map(key_of_id, reference.ids)
            reference._loaded.update({key: known[name, key] for key in keys if (name, key) in known})
        elif not is_document(reference):
            found = known.get((name, key_of_id(reference.id)))
            # An `AnyRef` may lead to the same id of another model.
            if found is not None and reference == found:
                reference._loaded = found


def _referring(model: Any) -> tuple[str, ...]:
    known = _names.get(model)
    # A model defined later may be embedded in place of its base.
    if known is None or known[0] != len(models):
        fields = model.__plan__.fields.items()
        names = tuple(name for name, field in fields if _may_refer(field.type, field.info.owner, set()))
        known = _names[model] = (len(models), names)
    return known[1]


def _may_refer(annotation: Any, owner: Any, seen: set[Any]) -> bool:
    """Whether values of a type may be references or have some inside."""
    plain = unwrap(without_none(unwrap(annotation, [], owner))[0], [], owner)
    origin = get_origin(plain)
    if (origin or plain) in (Ref, Refs, BelongsTo) or hasattr(plain, "__is_any_ref__"):
        return True
    if not is_model(plain):
        parts = get_args(plain) if origin is not Literal else ()
        return any(part is not Ellipsis and _may_refer(part, owner, seen) for part in parts)
    if is_document_class(plain) or plain in seen:
        return bool(is_document_class(plain))
    seen.add(plain)
    fields = plain.__plan__.fields.values()
    return any(_may_refer(field.type, field.info.owner, seen) for field in fields) or any(
        _may_refer(child, owner, seen) for child in plain.__subclasses__()
    )


def _inside(value: Any) -> Iterator[Any]:
    """Yield the references in a value."""
    if isinstance(value, (Ref, Refs)) or is_document(value) or hasattr(type(value), "__is_any_ref__"):
        yield value
    elif is_instance(value):
        for _, reference in references_in(value):
            yield reference
    elif isinstance(value, (dict, list, tuple, set, frozenset, collections.deque)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _inside(part)
