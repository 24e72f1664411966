"""Distinguishes commands by their shape: the names in a query, without its values. Sends nothing."""

from __future__ import annotations

from mangonel._light import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The filter of each command that has a plan.
FILTERS = {
    "find": "filter",
    "aggregate": "pipeline",
    "count": "query",
    "distinct": "query",
    "findAndModify": "query",
    "update": "updates",
    "delete": "deletes",
}
# The fields of a command that its plan depends on.
_PLANNED = frozenset(
    (
        *("filter", "sort", "projection", "limit", "skip", "hint", "collation", "let", "min", "max", "query"),
        *("pipeline", "key", "updates", "deletes", "update", "remove", "fields", "arrayFilters"),
    )
)
# Stages that write, or that read something other than documents.
_OTHERS = frozenset(
    (
        "$out",
        "$merge",
        "$changeStream",
        "$collStats",
        "$indexStats",
        "$currentOp",
        "$listSessions",
        "$listLocalSessions",
    )
)
_EQUALITIES = frozenset(("$eq", "$in"))


def shape_of(value: Any) -> str:
    """Return the names in a query, in order, without its values.

    Args:
        value: a query document, a pipeline, or a value.

    Example:
        >>> shape_of({"age": {"$gt": 3}, "tags": {"$in": ["a", "b"]}})
        '{age: {$gt: ?}, tags: {$in: ?}}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shape_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        return "[" + ", ".join(dict.fromkeys(map(shape_of, value))) + "]"
    return "?"


def explainable(name: str, command: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of a command that the server can explain, or None if the command has no plan to examine.

    Args:
        name: the command's name.
        command: the command as it was sent.

    Example:
        >>> explainable("find", {"find": "users", "filter": {"age": 3}, "lsid": 1})
        {'find': 'users', 'filter': {'age': 3}}
    """
    if name not in FILTERS or not isinstance(command.get(name), str):
        return None
    query = query_of(name, command)
    pipeline = command.get("pipeline") or ()
    if any(_OTHERS.intersection(stage) for stage in pipeline):
        return None
    if not query and not sort_of(name, command) and name != "find":
        return None
    if query.keys() == {"_id"} and not isinstance(query["_id"], Mapping):
        return None
    kept = {key: value for key, value in command.items() if key in _PLANNED}
    if name == "aggregate":
        kept["cursor"] = {}
    for group in ("updates", "deletes"):
        if group in kept:
            # The server explains one statement at a time.
            kept[group] = list(kept[group])[:1]
    return {name: command[name], **kept}


def query_of(name: str, command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions of a command; of a pipeline, those of its first stage."""
    found = command.get(FILTERS[name]) or {}
    if name == "aggregate":
        first = found[0] if found else {}
        return dict(first.get("$match", {}))
    if name in ("update", "delete"):
        return dict(found[0].get("q", {})) if found else {}
    return dict(found)


def sort_of(name: str, command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sort order of a command; for a pipeline, that of a `$sort` directly after its conditions."""
    if name == "aggregate":
        for stage in command.get("pipeline") or ():
            if "$sort" in stage:
                return dict(stage["$sort"])
            if "$match" not in stage:
                return {}
        return {}
    return dict(command.get("sort") or {})


def index_for(query: Mapping[str, Any], sort: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the keys of an index that would serve a query: fields with equality, then the sort order, then ranges.

    Args:
        query: the conditions.
        sort: the order.

    Example:
        >>> index_for({"age": {"$gt": 3}, "city": "Oslo"}, {"name": -1})
        [('city', 1), ('name', -1), ('age', 1)]
    """
    equal: list[tuple[str, int]] = []
    ranges: list[tuple[str, int]] = []
    for key, value in _conditions(query):
        is_equal = not isinstance(value, Mapping) or not any(name[:1] == "$" for name in value)
        if is_equal or _EQUALITIES.issuperset(value):
            equal.append((key, 1))
        else:
            ranges.append((key, 1))
    order = [(key, direction) for key, direction in sort.items() if direction in (1, -1)]
    found: dict[str, int] = {}
    for key, direction in (*equal, *order, *ranges):
        found.setdefault(key, direction)
    return list(found.items())


def _conditions(query: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the conditions on fields that all documents must meet."""
    found: list[tuple[str, Any]] = []
    for key, value in query.items():
        if key == "$and":
            for part in value:
                found += _conditions(part)
        elif key[:1] != "$":
            found.append((key, value))
    return found
