"""The search and vector indexes that models declare. A separate search service builds them after the server's reply."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mangonel.odm.errors import OdmError
from mangonel.odm.expressions.keys import key_of
from mangonel.odm.model.fields import Vector
from mangonel.odm.store.schema import IndexPlan
from mangonel.operations import SearchIndexModel

# Pause between checks whether indexes are built.
PAUSE_S = 0.5


class SearchIndex:
    """Declares a search index of a model, in `__search_indexes__`.

    Args:
        fields: the fields to search, as names or class attributes; none: all fields, of any type.
        name: name of the index.
        definition: the whole definition in the service's form, instead of fields.
        kind: "search" or "vectorSearch".

    Example:
        >>> class Article(Document):
        ...     __search_indexes__ = [SearchIndex("title")]
        ...     title: str
        >>> Article.search_indexes()
        {'default': {'type': 'search', 'definition': {'mappings': {'dynamic': False, 'fields': {'title': ...}}}}}
    """

    __slots__ = ("definition", "fields", "kind", "name")

    def __init__(
        self,
        *fields: Any,
        name: str = "default",
        definition: Mapping[str, Any] | None = None,
        kind: str = "search",
    ) -> None:
        if fields and definition is not None:
            raise TypeError("expected fields or a definition of the search index, got both")
        if kind != "search" and definition is None:
            raise TypeError(f"expected the definition of an index of kind {kind!r}, got none; see Vector")
        self.fields = fields
        self.name = name
        self.kind = kind
        self.definition = definition


def declared_search_indexes(cls: Any) -> dict[str, dict[str, Any]]:
    """Return the declared search indexes by name, each with its `type` and its `definition`.

    Raises:
        ValueError: two indexes have the same name.
        TypeError: a vector is in a list of embedded documents, which no index supports.
    """
    found: dict[str, dict[str, Any]] = {}
    for index in cls.__search_indexes__:
        if index.name in found:
            raise ValueError(f"expected one search index {index.name!r} of {cls.__name__}, got two")
        found[index.name] = {"type": index.kind, "definition": _definition(cls, index)}
    for path, vector in _vectors(cls, "", (cls,)):
        made = found.setdefault(vector.index, {"type": "vectorSearch", "definition": {"fields": []}})
        if made["type"] != "vectorSearch":
            raise ValueError(
                f"expected one search index {vector.index!r} of {cls.__name__}, got one of texts and one of vectors"
            )
        row = {
            "type": "vector",
            "path": path,
            "numDimensions": vector.min_length,
            "similarity": vector.similarity,
        }
        known = [*made["definition"].get("fields", ()), row]
        filters = [{"type": "filter", "path": key_of(name, cls)} for name in vector.filters]
        known += [row for row in filters if row not in known]
        made["definition"]["fields"] = known
    return found


def _vectors(model: Any, prefix: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Vector]]:
    """Yield the vectors of a model and of its embedded documents, each with its path."""
    for field in model.__plan__.fields.values():
        path = prefix + field.key
        for item in field.metadata:
            if isinstance(item, Vector):
                yield path, item
        if field.model is None or field.model in above:
            continue
        for inner, vector in _vectors(field.model, f"{path}.", (*above, field.model)):
            if field.is_list:
                raise TypeError(
                    f"cannot index the vector {inner!r} of {above[0].__name__}: {path!r} is a list, and an index takes "
                    "one vector of a document; keep them in a collection of their own"
                )
            yield inner, vector


def _definition(cls: Any, index: SearchIndex) -> dict[str, Any]:
    if index.definition is not None:
        return dict(index.definition)
    if not index.fields:
        return {"mappings": {"dynamic": True}}
    fields: dict[str, Any] = {}
    for name in index.fields:
        *parents, last = key_of(name, cls).split(".")
        level = fields
        for parent in parents:
            level = level.setdefault(parent, {"type": "document", "fields": {}})["fields"]
        level[last] = {"type": "string"}
    return {"mappings": {"dynamic": False, "fields": fields}}


async def sync_search_flow(
    cls: Any, collection: Any, is_plan: bool, drop: bool, wait_s: float | None
) -> IndexPlan:
    """Compare the declared search indexes with the existing ones, and request the difference."""
    port = collection._port
    declared = declared_search_indexes(cls)
    present = {row["name"]: row for row in await _rows_flow(collection)}
    plan = IndexPlan()
    for name, index in declared.items():
        there = present.get(name)
        if there is None:
            plan.create.append(name)
        elif there.get("type", "search") == index["type"] and _has(
            there.get("latestDefinition"), index["definition"]
        ):
            plan.keep.append(name)
        else:
            plan.rebuild.append(name)
    plan.unknown = [name for name in present if name not in declared]
    if drop:
        plan.drop = list(plan.unknown)
    if is_plan:
        return plan
    for name in plan.drop:
        await port.call(collection.drop_search_index, name)
    for name in plan.rebuild:
        await port.call(collection.update_search_index, name, declared[name]["definition"])
    if plan.create:
        models = [
            SearchIndexModel(declared[name]["definition"], name=name, type=declared[name]["type"])
            for name in plan.create
        ]
        await port.call(collection.create_search_indexes, models)
    if wait_s is not None:
        await _wait_flow(collection, declared, wait_s)
    return plan


async def _rows_flow(collection: Any) -> list[dict[str, Any]]:
    cursor = await collection._port.call(collection.list_search_indexes)
    return await cursor._to_list_flow(None)


async def _wait_flow(collection: Any, names: Iterable[str], wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while True:
        # While an index is rebuilt, the old one is still used.
        ready = {
            row["name"]
            for row in await _rows_flow(collection)
            if row.get("queryable") and row.get("status", "READY") == "READY"
        }
        missing = [name for name in names if name not in ready]
        if not missing:
            return
        if time.monotonic() > end:
            raise OdmError(f"after {wait_s} s these search indexes are not built: {', '.join(missing)}")
        await collection._port.pause(PAUSE_S)


def _has(there: Any, wanted: Any) -> bool:
    """Whether a definition includes the wanted one; the service adds its defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            name in there and _has(there[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_has, there, wanted))
    return bool(there == wanted)
