"""`include` of a `Many`: fetches the documents that refer to others, with one command for all of them.

With a limit for each, the server returns that many of each list (`$lookup`); where it cannot, all are fetched and the
rest is dropped here.
"""

from __future__ import annotations

from typing import Any, get_origin

from mangonel import _core, bson
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.expressions.keys import key_of_name
from mangonel.odm.model.codec import loaded_id
from mangonel.odm.model.encrypted_trees import encrypted_tree
from mangonel.odm.model.fetched import Fetched, key_of_id
from mangonel.odm.model.refs import Ref, Refs, flat_ids, stored_id
from mangonel.odm.query.joins import stages_of
from mangonel.odm.query.references import attributes
from mangonel.odm.query.request import MOST_IDS

# The options that the server's join can honour; with others, all children are fetched.
_CUT_BY_SERVER = frozenset(("sort", "skip", "limit", "projection", "collation", "comment"))


async def children_flow(
    node: Any, documents: list[Any], request: Any, given: dict[Any, list[Any]] | None = None
) -> None:
    """Attach to each document the children that refer to it.

    Args:
        node: the inclusion.
        documents: the parents.
        request: the request of the parents.
        given: the children by the id of their parent. None: fetch them.
    """
    descriptor = node.link._descriptor
    inverse, child = descriptor.inverse, node.target
    key = key_of_name(inverse.by, child)
    query = narrowed_children(node, request)
    options = query._options
    skip, limit = options.get("skip") or 0, options.get("limit")
    parents = {key_of_id(document.id): document for document in documents}
    fetched = Fetched({parent: [] for parent in parents}, is_included=True)
    fetched.is_whole = node.query is None or not (node.query._where or skip or limit is not None)
    groups: dict[Any, list[Any]] = {} if given is None else given
    ids = [] if given is not None else [stored_id(document.id) for document in parents.values()]
    is_cut = skip > 0 or limit is not None
    for start in range(0, len(ids), MOST_IDS):
        part = ids[start : start + MOST_IDS]
        if is_cut and _is_near(query, request):
            found = await _cut_flow(query, request, part, key)
        else:
            narrow = query._with(skip=None, limit=None).find({key: {"$in": part}})
            children = await narrow._all_flow(_place(narrow, request))
            found = grouped(children, key, child)
            if is_cut:
                end = None if limit is None else skip + limit
                found = {parent: group[skip:end] for parent, group in found.items()}
        for parent, group in found.items():
            groups.setdefault(parent, []).extend(group)
    fetched.update({parent: group for parent, group in groups.items() if parent in fetched})
    for company in _core.odm_siblings(documents):
        known = company.loaded.get(descriptor)
        company.loaded[descriptor] = fetched if known is None else known.joined(fetched)
    _know_parents(groups, parents, key, child)


def narrowed_children(node: Any, request: Any) -> Any:
    """Return the query for the children, with the conditions and order of the inverse, and with the reference field."""
    inverse = node.link._descriptor.inverse
    key = key_of_name(inverse.by, node.target)
    query = node.wanted(request)
    if inverse.where:
        query = query.find(*inverse.where)
    if inverse.order is not None and not query._options.get("sort"):
        query = query.sort(inverse.order)
    first = key.partition(".")[0]
    if first in query._wish.get("left_out", ()):
        raise UnsupportedOption(f"include() cannot honour exclude() of {first!r}, which refers to the parent")
    chosen = query._wish.get("chosen")
    if chosen is not None and first not in chosen:
        query = query._wishing(chosen=[*chosen, first])
        query._project()
    return query


def _place(query: Any, request: Any) -> Any:
    return query._request("all", request.port.is_async)


def _is_near(query: Any, request: Any) -> bool:
    """Whether the server can join the children to their parents: in one database, with plain values and options."""
    is_plain = query._on_invalid == "raise" and not query._lookups and not query._joins
    if not is_plain or any(
        value is not None for name, value in query._options.items() if name not in _CUT_BY_SERVER
    ):
        return False
    if _place(query, request).connection is not request.connection:
        return False
    return encrypted_tree(query._model) is None and encrypted_tree(request.query._model) is None


async def _cut_flow(query: Any, request: Any, ids: list[Any], key: str) -> dict[Any, list[Any]]:
    """Return the children of each parent within the query's window, from one aggregation of the parents."""
    place, options = _place(query, request), query._options
    matches = {"$expr": {"$in": ["$$parent", {"$cond": [{"$isArray": f"${key}"}, f"${key}", [f"${key}"]]}]}}
    if _is_single(query._model, key):
        # Only this form uses an index on servers before 5.0.
        matches = {"$expr": {"$eq": ["$$parent", f"${key}"]}}
    inner = [
        {"$match": query_of(place.filter, matches)},
        *stages_of(options),
        *stages_of(options, "projection"),
    ]
    stages = [
        {"$match": {"_id": {"$in": ids}}},
        {
            "$lookup": {
                "from": place.collection.name,
                "let": {"parent": "$_id"},
                "pipeline": inner,
                "as": "r",
            }
        },
        {"$project": {"_id": 0, "p": {"id": "$_id"}, "r": 1}},
    ]
    keywords = {name: options[name] for name in ("collation", "comment") if options.get(name)}
    cursor = await request.port.call(request.collection.aggregate, stages, **{**keywords, **request.session})
    rows: list[list[Any]] = []
    while True:
        rows += _core.odm_rows(cursor._batch)
        if not await cursor._fetch_flow():
            break
    # Keys keep their order on the server, so the parent's id may come after the array.
    known = set(map(key_of_id, ids))
    parts = [(_parent_of(row, known), next(part for part in row if isinstance(part, list))) for row in rows]
    unique = list(dict.fromkeys(data for _, children in parts for data in children))
    made = dict(zip(unique, await query._decoded_flow(place, unique), strict=True))
    return {parent: [made[data] for data in children] for parent, children in parts}


def _parent_of(row: list[Any], known: set[Any]) -> Any:
    id = bson.decode(next(part for part in row if isinstance(part, bytes)))["id"]
    return key if (key := key_of_id(id)) in known else key_of_id(loaded_id(id))


def _is_single(model: Any, key: str) -> bool:
    """Whether a field holds one reference outside any list."""
    field = model.__plan__.by_key.get(key)
    return field is not None and (get_origin(field.type) or field.type) is Ref


def grouped(children: list[Any], key: str, model: Any) -> dict[Any, list[Any]]:
    """Group documents by the ids that they reference; each group keeps their order."""
    field = model.__plan__.by_key.get(key)
    if field is not None and (get_origin(field.type) or field.type) in (Ref, Refs):
        return _core.odm_grouped(children, field.name)
    groups: dict[Any, list[Any]] = {}
    names = attributes(model, key)
    for child in children:
        ids = flat_ids(_core.odm_references([child], names, (Ref, Refs)))
        for parent in dict.fromkeys(map(key_of_id, ids)):
            groups.setdefault(parent, []).append(child)
    return groups


def _know_parents(groups: dict[Any, list[Any]], parents: dict[Any, Any], key: str, child: Any) -> None:
    """Set the parent of each child with a single parent, so that reading it sends nothing."""
    field = child.__plan__.by_key.get(key)
    if field is None or (get_origin(field.type) or field.type) is not Ref or field.maker is None:
        return
    children = [document for group in groups.values() for document in group]
    known = Fetched(parents)
    for company in _core.odm_siblings(children):
        company.loaded.setdefault(field.maker, known)
