"""`include`: fetching what references of a query's documents lead to, by one query for each field and level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel import _core
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.paths import Path, path_of
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.refs import Ref, Refs, _hashable, fetch_flow


async def include_flow(model: Any, documents: list[Any], fields: Iterable[Any], request: Any) -> None:
    """Fetch the targets of reference fields and attach them."""
    for field in fields:
        steps = field if isinstance(field, (tuple, list)) else (field,)
        current = documents
        owner = model
        for step in steps:
            path = _path(owner, step)
            _check_reference(path, "include")
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
            value = _value(item, name)
            if isinstance(value, (list, tuple, set, frozenset)):
                following += [part for part in value if part is not None]
            elif isinstance(value, dict):
                following += list(value.values())
            elif value is not None:
                following.append(value)
        level = following
    return [item for item in level if isinstance(item, (Ref, Refs))]


def _value(item: Any, name: str) -> Any:
    """What an item has there; None where it was not loaded."""
    try:
        return held(item, name)
    except AttributeError:
        return None


def _attributes(path: Path[Any]) -> list[str]:
    """The attributes that lead to a path's field."""
    names: list[str] = []
    owner = path._model
    for key in path._key.split("."):
        field = next(field for field in owner.__plan__.fields.values() if field.key == key)
        names.append(field.name)
        owner = field.model
    return names


async def lookup_flow(query: Any, request: Any) -> list[list[Any]]:
    """Fetch documents as BSON, each with lists of what its references lead to, by one aggregation."""
    targets = [_target_of(path, request, query) for path in query._lookups]
    stages = _stages(request)
    for number, (path, target) in enumerate(zip(query._lookups, targets, strict=True)):
        stage: dict[str, Any] = {
            "from": target.__collection_name__(),
            "localField": f"d.{path._key}",
            "foreignField": "_id",
            "as": f"r{number}",
        }
        scope = target.find().query
        if scope:
            stage["pipeline"] = [{"$match": scope}]
        stages.append({"$lookup": stage})
    cursor = await request.port.call(_aggregate, request.collection, stages, _options(request.keywords))
    rows: list[list[Any]] = []
    while True:
        # The first batch came with the command.
        rows += _core.odm_rows(cursor._batch)
        if not await cursor._fetch_flow():
            return rows


def attach_found(query: Any, request: Any, documents: list[Any], rows: list[list[Any]]) -> None:
    """Give the references of documents what was found for them."""
    for number, path in enumerate(query._lookups):
        unique = {found for row in rows for found in row[number + 1]}
        model = path._field().target.__model__
        made = _core.odm_decode_all(model, b"".join(unique), True, None, False, request.connection)
        _attach(references(documents, path), made)


def _check_reference(path: Path[Any], terminal: str) -> Any:
    """Return the model that references at a path lead to; refuse a path that has none."""
    target = path._field().target
    if target is None:
        raise TypeError(f"expected a reference for {terminal}(), found {path!r}")
    return target


def _target_of(path: Path[Any], request: Any, query: Any) -> Any:
    target = _check_reference(path, "lookup")
    if target.find()._from(request.connection)._chosen() is not request.connection:
        raise UnsupportedOption(
            f"lookup() cannot honour {path!r}: {target.__name__} is in another database; use include()"
        )
    return target


def _stages(request: Any) -> list[dict[str, Any]]:
    keywords = request.keywords
    stages: list[dict[str, Any]] = [{"$match": request.filter}] if request.filter else []
    for name in ("sort", "skip", "limit"):
        if keywords.get(name):
            stages.append({f"${name}": keywords[name]})
    if keywords.get("projection"):
        stages.append({"$project": keywords["projection"]})
    return [*stages, {"$project": {"_id": 0, "d": "$$ROOT"}}]


_AS_AGGREGATE = {
    "hint": "hint",
    "comment": "comment",
    "collation": "collation",
    "let": "let",
    "session": "session",
    "max_time_ms": "maxTimeMS",
    "batch_size": "batchSize",
    "allow_disk_use": "allowDiskUse",
}
_AS_STAGES = ("sort", "skip", "limit", "projection")


def _options(keywords: dict[str, Any]) -> dict[str, Any]:
    for name in keywords:
        if name not in _AS_AGGREGATE and name not in _AS_STAGES:
            raise UnsupportedOption(
                f"lookup() cannot honour options({name}=…): leave it out, or use include()"
            )
    return {_AS_AGGREGATE[name]: value for name, value in keywords.items() if name in _AS_AGGREGATE}


def _aggregate(collection: Any, stages: list[Any], options: dict[str, Any]) -> Any:
    return collection.aggregate(stages, **options)


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
    _attach(found, fetched)
    return fetched, target


def _attach(found: list[Any], fetched: list[Any]) -> None:
    """Give references the documents that they lead to, and their siblings too."""
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
