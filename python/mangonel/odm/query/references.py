"""Finds the references in documents, and attaches fetched documents to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_origin

from mangonel import _core
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.fetched import Fetched, key_of_id
from mangonel.odm.model.refs import Ref, Refs


def makers_of(model: Any, path: Path[Any]) -> list[Any] | None:
    """Return the makers of a field's references in a model and its family; None for references inside containers."""
    found = []
    for kind in dict.fromkeys((model, *model.__tagged__())):
        field = kind.__plan__.fields.get(path._name)
        if field is None or field.key != path._key or (get_origin(field.type) or field.type) is not Ref:
            return None
        if field.maker is not None:
            found.append(field.maker)
    return found


def references(documents: Iterable[Any], path: Path[Any]) -> list[Any]:
    """Return the references at a path in documents, also inside lists and embedded documents."""
    return _core.odm_references(list(documents), attributes(path._model, path._key), (Ref, Refs))


def attributes(owner: Any, key: str) -> list[str]:
    """Return the attributes of a model that lead to the field of a key, such as "lines.product"."""
    names: list[str] = []
    for part in key.split("."):
        field = next(
            field
            for model in dict.fromkeys((owner, *owner.__tagged__()))
            for field in model.__plan__.fields.values()
            if field.key == part
        )
        names.append(field.name)
        owner = field.model
    return names


def attach(found: list[Any], fetched: Fetched) -> None:
    """Attach documents to references and to their siblings."""
    # The references of one batch share the fetched documents, stored once.
    told: set[tuple[int, int]] = set()
    for ref in found:
        if type(ref) is Ref:
            ref._loaded = fetched.get(key_of_id(ref.id))
        siblings, maker = ref._siblings, ref._maker
        if siblings is None:
            siblings = ref._siblings = _core.OdmSiblings()
        key = (id(siblings), id(maker))
        if key not in told:
            told.add(key)
            known = siblings.loaded.get(maker)
            siblings.loaded[maker] = fetched if known is None else known.joined(fetched)
