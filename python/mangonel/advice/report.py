"""Reads a server's profiler and index statistics, and reports missing, unused and redundant indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mangonel._shared.advice.plans import FEW, MANY, TIMES
from mangonel._shared.advice.shapes import FILTERS, index_for, query_of, shape_of, sort_of
from mangonel.errors import OperationFailure

if TYPE_CHECKING:
    from mangonel.api import MongoClient

__all__ = ["Advice", "Report", "examine"]

_OWN = ("admin", "config", "local")


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do.

    Attributes:
        kind: "missing index", "sort in memory", "unused index" or "redundant index".
        namespace: database and collection.
        text: the finding and its remedy.
        count: how many commands in the profiler need it; 0 for advice on an index.
        millis: how long these took together.
    """

    kind: str
    namespace: str
    text: str
    count: int = 0
    millis: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        advice: what to do, the costliest first.
        notes: what could not be examined, and why.
        unread: databases and collections that do not exist, or could not be read in full.
    """

    advice: list[Advice]
    notes: list[str]
    unread: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON.

        Example:
            >>> mangonel.advice.Report([], []).as_dict()
            {'advice': [], 'notes': [], 'unread': []}
        """
        rows = [{name: getattr(one, name) for name in Advice.__slots__} for one in self.advice]
        return {"advice": rows, "notes": list(self.notes), "unread": list(self.unread)}


def examine(client: MongoClient[Any], databases: Iterable[str] = ()) -> Report:
    """Examine the profiler and the indexes of databases. Changes nothing.

    Args:
        client: a blocking client.
        databases: their names. None given: all but the server's own.

    Raises:
        PyMongoError: the server cannot be reached.

    Example:
        >>> mangonel.advice.examine(client, ["shop"]).advice
        []
    """
    advice: list[Advice] = []
    notes: list[str] = []
    unread: list[str] = []

    def note(name: str, what: str, error: OperationFailure) -> None:
        unread.append(name)
        notes.append(f"{name}: {what} cannot be read: {str(error).partition(', full error: ')[0]}")

    names = list(databases) or [name for name in client.list_database_names() if name not in _OWN]
    for name in names:
        database = client[name]
        try:
            rows = list(database["system.profile"].find({"ns": {"$not": {"$regex": r"\.system\."}}}))
            if not rows and database.command("profile", -1).get("was") == 0:
                notes.append(
                    f'{name}: the profiler is off; db.command("profile", 1, slowms=20) turns it on for slow commands'
                )
            advice += profiled(rows)
        except OperationFailure as error:
            note(name, "the profiler", error)
        collections = list(database.list_collections(filter={"type": "collection"}))
        if not collections:
            unread.append(name)
            notes.append(f"{name}: there are no collections; is this the name of a database?")
        for found in collections:
            if found["name"].startswith("system."):
                continue
            try:
                stats = list(database[found["name"]].aggregate([{"$indexStats": {}}]))
            except OperationFailure as error:
                note(f"{name}.{found['name']}", "$indexStats", error)
                continue
            advice += indexed(f"{name}.{found['name']}", stats)
    advice.sort(key=lambda one: (-one.millis, one.kind, one.namespace, one.text))
    return Report(advice, notes, unread)


class _Group:
    """The commands of one shape."""

    __slots__ = ("count", "examined", "is_scan", "millis", "query", "returned", "sort", "sorts")

    def __init__(self, query: dict[str, Any], sort: dict[str, Any]) -> None:
        self.query, self.sort = query, sort
        self.count = self.millis = self.examined = self.returned = 0
        self.is_scan = self.sorts = False


def profiled(rows: Iterable[Mapping[str, Any]]) -> list[Advice]:
    """Return the advice that follows from entries of a profiler.

    Args:
        rows: documents of `system.profile`.

    Example:
        >>> profiled([])
        []
    """
    groups: dict[tuple[str, str], _Group] = {}
    for row in rows:
        read = _read(row)
        if read is None:
            continue
        name, query, sort = read
        key = (str(row["ns"]), f"{name} {shape_of(query)} {sort}")
        group = groups.setdefault(key, _Group(query, sort))
        group.count += 1
        group.millis += int(row.get("millis", 0))
        group.examined += int(row.get("docsExamined", 0))
        group.returned += max(
            int(row.get(part, 0)) for part in ("nreturned", "nMatched", "ndeleted", "nModified")
        )
        group.is_scan = group.is_scan or "COLLSCAN" in str(row.get("planSummary", ""))
        group.sorts = group.sorts or bool(row.get("hasSortStage"))
    found: list[Advice] = []
    for (namespace, shape), group in groups.items():
        index = index_for(group.query, group.sort)
        remedy = f"create an index on {index}" if index else "add a condition or a limit"
        cost = f"{group.count} times {shape.strip()}, {group.millis} ms: {group.examined} documents examined for "
        cost += f"{group.returned}; {remedy}"
        is_wasteful = group.examined >= MANY and group.examined > TIMES * max(group.returned, 1)
        if group.query and ((group.is_scan and group.examined >= FEW * group.count) or is_wasteful):
            found.append(Advice("missing index", namespace, cost, group.count, group.millis))
        elif group.sorts and group.examined >= FEW * group.count:
            found.append(Advice("sort in memory", namespace, cost, group.count, group.millis))
    return found


def _read(row: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """Return the name, conditions and sort of a profiled command, or None if it has no plan."""
    command = row.get("command")
    if not isinstance(command, Mapping):
        return None
    if row.get("op") in ("update", "remove"):
        return str(row["op"]), dict(command.get("q") or {}), {}
    if row.get("op") == "getmore":
        command = row.get("originatingCommand") or {}
    name = next(iter(command), "")
    if name not in FILTERS or name in ("update", "delete"):
        return None
    return name, query_of(name, command), sort_of(name, command)


def indexed(namespace: str, stats: Iterable[Mapping[str, Any]]) -> list[Advice]:
    """Return the advice on the indexes of a collection: those never used, and those that others contain.

    Args:
        namespace: database and collection.
        stats: documents of `$indexStats`, of all servers.

    Example:
        >>> indexed("shop.orders", [])
        []
    """
    used: dict[str, int] = {}
    since: dict[str, Any] = {}
    specs: dict[str, Mapping[str, Any]] = {}
    for row in stats:
        name, accesses = str(row["name"]), row.get("accesses") or {}
        used[name] = used.get(name, 0) + int(accesses.get("ops", 0))
        moment = accesses.get("since")
        since[name] = max(filter(None, (since.get(name), moment)), default=None)
        specs[name] = row.get("spec") or {"key": row.get("key", {})}
    found: list[Advice] = []
    for name, spec in specs.items():
        if name == "_id_":
            continue
        keys = list(spec.get("key", {}).items())
        is_plain = not any(
            spec.get(part) for part in ("unique", "expireAfterSeconds", "partialFilterExpression")
        )
        is_plain = is_plain and not spec.get("sparse") and not spec.get("collation")
        longer = [
            other
            for other, its in specs.items()
            if other != name
            and is_plain
            and _begins(list(its.get("key", {}).items()), keys)
            and not its.get("sparse")
            and not its.get("partialFilterExpression")
            and not its.get("collation")
        ]
        if longer:
            text = f"{name!r} is the beginning of {longer[0]!r}, which serves its queries too; drop it"
            found.append(Advice("redundant index", namespace, text))
        elif not used[name]:
            kept = "" if is_plain else "; it may still be needed, since it has a rule of its own"
            moment = since[name]
            when = f" since {moment:%Y-%m-%d %H:%M}" if moment is not None else ""
            found.append(
                Advice("unused index", namespace, f"{name!r} was not used{when}; drop or hide it{kept}")
            )
    return found


def _begins(keys: list[Any], other: list[Any]) -> bool:
    """Return whether an index with more keys begins with the keys of another one."""
    return len(keys) > len(other) and keys[: len(other)] == other
