"""The operations on a query, with their results and effects for a list of rows: the rows of the matrix."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import bson
from mangonel.odm import MultipleDocuments, set_
from odm.query_options import Item, Row, Rows, Stage


def names(rows: Rows) -> list[str]:
    """The names of rows."""
    return [row["name"] for row in rows]


class Deed:
    """An operation on a query.

    Attributes:
        run: does it, and returns what comes; of documents a list.
        model: what that is for a list of rows; of documents their names.
        change: what it does to the rows.
        begin: what the query begins with.
        is_of_documents: whether documents come.
        is_everywhere: whether all rows of all databases change.
    """

    def __init__(
        self,
        run: Callable[[Any, Any, Stage], Any],
        model: Callable[[Rows], Any] = names,
        change: Callable[[Rows], None] | None = None,
        *,
        begin: Callable[[], Any] = Item.find,
        is_of_documents: bool = False,
        is_everywhere: bool = False,
    ) -> None:
        self.run = run
        self.model = model
        self.change = change
        self.begin = begin
        self.is_of_documents = is_of_documents
        self.is_everywhere = is_everywhere


def documents(
    run: Callable[[Any, Any], Any], model: Callable[[Rows], Any] = names, change: Any = None
) -> Deed:
    """An operation that returns documents, one document, or None."""

    def listed(face: Any, query: Any, stage: Stage) -> Any:
        found = run(face, query)
        return found if isinstance(found, list | str) else [] if found is None else [found]

    return Deed(listed, model, change, is_of_documents=True)


def plain(run: Callable[[Any, Any], Any], model: Callable[[Rows], Any] = names, change: Any = None) -> Deed:
    """An operation that returns something else."""
    return Deed(lambda face, query, stage: run(face, query), model, change)


def run_one(face: Any, query: Any) -> Any:
    """Return the only document, or their number."""
    try:
        return face.call(query, "one")
    except MultipleDocuments:
        return "many"
    except LookupError:
        return []


def run_pages(face: Any, query: Any) -> list[Any]:
    """Return the documents of all pages by keys."""
    found: list[Any] = []
    token = None
    while True:
        page = face.call(query, "page", 2, token)
        found += page
        token = page.next
        if token is None:
            return found


def run_paginate(face: Any, query: Any) -> Any:
    """Return a page by its number, and the total."""
    page = face.call(query, "paginate", 2, 2)
    return [item.name for item in page], page.total


def run_arrow(face: Any, query: Any) -> list[str]:
    """Return the names in tables of two rows each."""
    parts = (query.aiter_arrow if face.is_async else query.iter_arrow)({"name": str}, rows=2)
    table = pytest.importorskip("pyarrow").table
    return [name for part in face.collect(parts) for name in table(part)["name"].to_pylist()]


END = "the end"


def run_watch(face: Any, query: Any, stage: Stage) -> list[Any]:
    """Return the documents of the received changes, while documents of two databases change; a last change ends it."""
    changes = query.watch(max_await_time_ms=100)
    face.wait(changes.__aenter__() if face.is_async else changes.__enter__())
    collections = [stage.db.client[name]["items"] for name in (stage.db.name, stage.other)]
    for collection in collections:
        collection.update_many({}, {"$inc": {"n": 100}})
    for collection in collections:
        collection.insert_one({"name": END})
        collection.delete_one({"name": END})
    found: list[Any] = []
    while not found or found[-1].name != END:
        event = face.call(changes, "try_next")
        if event is not None and event.operation != "delete":
            # Documents that are gone again are absent from their updates.
            found.append(event.document)
    face.call(changes, "close")
    return found[:-1]


def raise_all(rows: Rows) -> None:
    """Apply an update of all rows."""
    for row in rows:
        row["n"] += 100


def regroup(rows: Rows) -> None:
    """Set the group of rows."""
    for row in rows:
        row["group"] = "z"


def replace(rows: Rows) -> None:
    """Replace rows by another one."""
    for row in rows:
        row.update(name="new", n=2, group="z")


def mark(rows: Rows) -> None:
    """Delete rows of a model with soft deletion."""
    for row in rows:
        row["deleted"] = True


def total(function: Callable[[list[int]], Any], empty: Any) -> Callable[[Rows], Any]:
    """Return an aggregate of the rows."""
    return lambda rows: function([row["n"] for row in rows]) if rows else empty


def of_first(change: Callable[[Rows], None]) -> Callable[[Rows], None]:
    """Change the first row."""
    return lambda rows: change(rows[:1])


def first(rows: Rows) -> list[str]:
    """Return the name of the first row."""
    return names(rows[:1])


TO = set_(Item.group, "z")
NEW: Row = {"name": "new", "n": 2, "group": "z"}

DEEDS: dict[str, Deed] = {
    "iterate": documents(lambda face, q: face.collect(q)),
    "all": documents(lambda face, q: face.call(q, "all")),
    "first": documents(lambda face, q: face.call(q, "first"), first),
    "last": documents(lambda face, q: face.call(q, "last"), lambda rows: names(rows[-1:])),
    "nth": documents(lambda face, q: face.call(q, "nth", 1), lambda rows: names(rows[1:2])),
    "one": documents(run_one, lambda rows: "many" if len(rows) > 1 else names(rows)),
    "page": documents(run_pages),
    "paginate": plain(run_paginate, lambda rows: (names(rows[2:4]), len(rows))),
    "dicts": plain(lambda face, q: [item["name"] for item in face.call(q, "dicts")]),
    "raw": plain(lambda face, q: [bson.decode(item)["name"] for item in face.call(q, "raw")]),
    "json": plain(lambda face, q: [item["name"] for item in json.loads(face.call(q, "json"))]),
    "to_arrow": plain(lambda face, q: face.call(q, "to_numpy", {"name": str})["name"].tolist()),
    "iter_arrow": plain(run_arrow),
    "values": plain(lambda face, q: face.call(q, "values", Item.name)),
    "explain": plain(lambda face, q: bool(face.call(q, "explain")), lambda rows: True),
    "exists": plain(lambda face, q: face.call(q, "exists"), bool),
    "is_empty": plain(lambda face, q: face.call(q, "is_empty"), lambda rows: not rows),
    "count": plain(lambda face, q: face.call(q, "count"), len),
    "distinct": plain(
        lambda face, q: sorted(face.call(q, "distinct", Item.group)),
        lambda rows: sorted({row["group"] for row in rows}),
    ),
    "aggregate": plain(
        lambda face, q: [item["name"] for item in face.call(q, "aggregate", [{"$match": {}}])]
    ),
    "sum": plain(lambda face, q: face.call(q, "sum", Item.n), total(sum, 0)),
    "avg": plain(lambda face, q: face.call(q, "avg", Item.n), total(lambda n: sum(n) / len(n), None)),
    "min": plain(lambda face, q: face.call(q, "min", Item.n), total(min, None)),
    "max": plain(lambda face, q: face.call(q, "max", Item.n), total(max, None)),
    "update": plain(lambda face, q: face.call(q, "update", TO), len, regroup),
    "delete": plain(lambda face, q: face.call(q, "delete"), len, mark),
    "find_and_update": documents(
        lambda face, q: face.call(q, "find_and_update", TO), first, of_first(regroup)
    ),
    "find_and_replace": documents(
        lambda face, q: face.call(q, "find_and_replace", Item(**NEW)),
        lambda rows: ["new"] if rows else [],
        of_first(replace),
    ),
    "find_and_delete": documents(lambda face, q: face.call(q, "find_and_delete"), first, of_first(mark)),
    "upsert": documents(lambda face, q: face.call(q, "upsert", TO), first, of_first(regroup)),
    "get_or_create": documents(lambda face, q: face.call(q, "get_or_create", Item(**NEW))[0], first),
    "watch": Deed(run_watch, names, raise_all, begin=Item.unscoped, is_of_documents=True, is_everywhere=True),
}
