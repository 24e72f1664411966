"""`include`: fetching what references of a query's documents lead to, by one query for each field and level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel import _core
from mangonel.odm.expressions.paths import Path, path_of
from mangonel.odm.model.refs import Ref, Refs, _hashable, fetch_flow


async def include_flow(model: Any, documents: list[Any], fields: Iterable[Any], request: Any) -> None:
    """Fetch the targets of reference fields and attach them."""
    for field in fields:
        steps = field if isinstance(field, (tuple, list)) else (field,)
        current = documents
        owner = model
        for step in steps:
            path = _path(owner, step)
            current, owner = await _level_flow(current, path, request)


def _path(owner: Any, step: Any) -> Path[Any]:
    if not isinstance(step, str):
        return path_of(step)
    found: Any = owner
    for name in step.split("."):
        found = getattr(found, name)
    return path_of(found)


def references(documents: Iterable[Any], path: Path[Any]) -> list[Any]:
    """Return the references at a path in documents, inside lists and embedded documents too."""
    names = _attributes(path)
    level: list[Any] = list(documents)
    for name in names:
        following: list[Any] = []
        for item in level:
            value = getattr(item, name, None)
            if isinstance(value, (list, tuple, set, frozenset)):
                following += [part for part in value if part is not None]
            elif isinstance(value, dict):
                following += list(value.values())
            elif value is not None:
                following.append(value)
        level = following
    return [item for item in level if isinstance(item, (Ref, Refs))]


def _attributes(path: Path[Any]) -> list[str]:
    """The attributes that lead to a path's field."""
    names: list[str] = []
    owner = path._model
    for key in path._key.split("."):
        field = next(field for field in owner.__plan__.fields.values() if field.key == key)
        names.append(field.name)
        owner = field.model
    return names


async def _level_flow(documents: list[Any], path: Path[Any], request: Any) -> tuple[list[Any], Any]:
    found = references(documents, path)
    if not found:
        return [], None
    target = found[0]._target()
    wanted: list[Any] = []
    for ref in found:
        wanted += ref.ids if isinstance(ref, Refs) else [ref.id]
    query = target.find()._from(request.connection).session(request.query._session)
    fetched = await fetch_flow(query._request("all", request.port.is_async), wanted)
    by_id = {_hashable(document.id): document for document in fetched}
    for ref in found:
        if isinstance(ref, Ref):
            ref._loaded = by_id.get(_hashable(ref.id))
        else:
            ref._loaded = {_hashable(id): by_id[_hashable(id)] for id in ref.ids if _hashable(id) in by_id}
        if ref._siblings is None:
            ref._siblings = _core.OdmSiblings()
        for id, document in by_id.items():
            ref._siblings.loaded[(ref._maker, id)] = document
    return fetched, target
