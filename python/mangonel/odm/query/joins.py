"""The stages of an aggregation for conditions and orders on documents that references lead to.

The other documents are joined under separate keys, used to match or sort, and removed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin

from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.expr import JoinedExpr, query_of
from mangonel.odm.expressions.keys import key_of_name
from mangonel.odm.expressions.through import ManyPath, Through, alias_of, links_of, target_of
from mangonel.odm.model.encrypted_trees import encrypted_tree
from mangonel.odm.model.refs import Ref


def matching_stages(request: Any) -> list[dict[str, Any]]:
    """Return the stages that select a query's documents and join the documents they are sorted by."""
    query = request.query
    stages: list[dict[str, Any]] = [{"$match": request.filter}] if request.filter else []
    if not query._joins:
        return stages
    for alias, (join, is_one) in _links(request).items():
        stages.append(join)
        if is_one:
            # The server sorts by one array at most.
            stages.append({"$set": {alias: {"$arrayElemAt": [f"${alias}", 0]}}})
    joined = [part.joined for part in query._joins if type(part) is JoinedExpr]
    if joined:
        stages.append({"$match": query_of(*joined)})
    return stages


def leaving_stages(request: Any) -> list[dict[str, Any]]:
    """Return the stage that removes the joined documents again, if there are any."""
    return [{"$unset": list(_links(request))}] if request.query._joins else []


def window_stages(request: Any) -> list[dict[str, Any]]:
    """Return all stages for a query's documents: conditions, order, window and fields."""
    keywords = request.keywords
    if request.query._joins:
        stages = matching_stages(request) + stages_of(keywords) + leaving_stages(request)
        return stages + stages_of(keywords, "projection")
    stages = [{"$match": request.filter}] if request.filter else []
    # Written out, which saves frames.
    for name, stage in _STAGES.items():
        if keywords.get(name):
            stages.append({stage: keywords[name]})
    return stages


_STAGES = {"sort": "$sort", "skip": "$skip", "limit": "$limit", "projection": "$project"}


def stages_of(options: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """Return the stages for these options of a find, or for its order and window if none is named."""
    names = names or ("sort", "skip", "limit")
    return [{_STAGES[name]: options[name]} for name in names if options.get(name)]


# The names of a find's options in an aggregation.
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


async def window_flow(request: Any, stages: list[dict[str, Any]] | None = None) -> Any:
    """Return the cursor of an aggregation for a query's documents, after its first batch."""
    keywords = request.keywords
    options = {_AS_AGGREGATE[name]: value for name, value in keywords.items() if name in _AS_AGGREGATE}
    stages = window_stages(request) if stages is None else stages
    return await request.port.call(request.collection.aggregate, stages, **options)


def _links(request: Any) -> dict[str, tuple[dict[str, Any], bool]]:
    """Return the joins of a query by the keys of the joined documents, each after the joins that it depends on.

    Each comes with whether it joins at most one document.
    """
    found: dict[str, tuple[dict[str, Any], bool]] = {}
    for part in request.query._joins:
        for path in part.through if type(part) is JoinedExpr else (part,):
            for link in links_of(path)[:-1]:
                alias = alias_of(link)
                if alias not in found:
                    before = getattr(link, "_before", None)
                    is_one = _is_one(link) and (before is None or found[alias_of(before)][1])
                    found[alias] = (_join(link, alias, request), is_one)
    return found


def _is_one(link: Any) -> bool:
    """Whether a reference is a field of its document, and leads to one other document."""
    if isinstance(link, ManyPath):
        return False
    local = link._local() if isinstance(link, Through) else link
    kind = local._field().type
    return "." not in local._key and (get_origin(kind) or kind) is Ref


def _join(link: Any, alias: str, request: Any) -> dict[str, Any]:
    target = target_of(link)
    if target.__connection__ != request.connection.alias or encrypted_tree(target) is not None:
        why = (
            "is in another database" if target.__connection__ != request.connection.alias else "is encrypted"
        )
        raise UnsupportedOption(
            f"find() and sort() cannot honour {link!r}: {target.__name__} {why}; read the ids of its documents first"
        )
    before = getattr(link, "_before", None)
    prefix = "" if before is None else f"{alias_of(before)}."
    if isinstance(link, ManyPath):
        inverse = link._descriptor.inverse
        local, foreign, where = "_id", key_of_name(inverse.by, target), inverse.where
    else:
        local, foreign, where = (link._local() if isinstance(link, Through) else link)._key, "_id", ()
    stage: dict[str, Any] = {
        "from": target.__collection_name__(),
        "localField": f"{prefix}{local}",
        "foreignField": foreign,
        "as": alias,
    }
    query = target.find(*where)
    # A collation must not make one tenant equal to another.
    scope = query._narrowed(bool(request.keywords.get("collation")))
    if query._joins:
        raise UnsupportedOption(
            f"find() and sort() cannot honour {link!r}: its scope leads through references itself"
        )
    if scope:
        stage["pipeline"] = [{"$match": scope}]
    return {"$lookup": stage}
