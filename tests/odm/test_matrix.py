"""Every option of a query times every operation on it, compared with a model of plain lists.

The cells are made from the mapper's own tables: a new option or operation that this file does not know fails the
first two tests, and one that it knows is played against all others.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from mangonel import ReadPreference, bson
from mangonel.odm import BelongsTo, Connection, Document, Embedded, MultipleDocuments, Ref, SoftDelete, set_
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.query.builder import QueryBuilder
from mangonel.odm.query.query import Query
from mangonel.odm.query.request import TERMINALS
from mangonel.read_concern import ReadConcern
from mangonel.write_concern import WriteConcern


class Owner(Document):
    __collection__ = "owners"
    name: str


class Item(SoftDelete):
    __collection__ = "items"
    name: str
    group: str = "a"
    n: int = 0
    owner: Ref[Owner] | None = None
    keeper: BelongsTo[Owner] | None = None


class Card(Embedded):
    name: str


Row = dict[str, Any]
Rows = list[Row]


class Option:
    """An option: how it is asked for, and what it does to a list of rows."""

    def __init__(
        self,
        ask: Callable[[Any], Any],
        model: Callable[[Rows], Rows] = lambda rows: rows,
        *,
        rows: str = "living",
        around: Callable[[Connection], Any] = lambda db: nullcontext(),
    ) -> None:
        self.ask = ask
        self.model = model
        self.rows = rows
        self.around = around


def in_session(query: Any, db: Connection, face: Any) -> Any:
    """The query in a session of its face."""
    client = db.aclient if face.is_async else db.client
    return query.session(client.start_session())


OPTIONS: dict[str, Option] = {
    "find": Option(lambda q: q.find(Item.n > 2), lambda rows: [row for row in rows if row["n"] > 2]),
    "none": Option(lambda q: q.none(), lambda rows: []),
    "limit": Option(lambda q: q.limit(3), lambda rows: rows[:3]),
    "skip": Option(lambda q: q.skip(2), lambda rows: rows[2:]),
    "sort": Option(lambda q: q.sort("-n"), lambda rows: sorted(rows, key=lambda row: -row["n"])),
    "slice": Option(lambda q: q[1:4], lambda rows: rows[1:4]),
    "slice of a slice": Option(lambda q: q[1:5][1:3], lambda rows: rows[2:4]),
    "sorted window": Option(
        lambda q: q.sort("-n").skip(1).limit(2), lambda rows: sorted(rows, key=lambda row: -row["n"])[1:3]
    ),
    "hint": Option(lambda q: q.hint("_id_")),
    "comment": Option(lambda q: q.comment("matrix")),
    "collation": Option(
        lambda q: q.find(Item.name == "ITEM3").collation({"locale": "en", "strength": 2}),
        lambda rows: [row for row in rows if row["name"].lower() == "item3"],
    ),
    "only": Option(lambda q: q.only(Item.name)),
    "exclude": Option(lambda q: q.exclude(Item.group)),
    "lazy": Option(lambda q: q.lazy()),
    "eager": Option(lambda q: q.eager()),
    "include": Option(lambda q: q.include(Item.owner, Item.keeper)),
    "lookup": Option(lambda q: q.lookup(Item.owner, Item.keeper)),
    "merge": Option(
        lambda q: q.merge(Item.unscoped(Item.n > 2)), lambda rows: [row for row in rows if row["n"] > 2]
    ),
    "as_": Option(lambda q: q.as_(Card)),
    "on_invalid": Option(lambda q: q.find(on_invalid="skip")),
    "using": Option(lambda q: q.using(OTHER[0]), rows="other"),
    "tenant": Option(lambda q: q, rows="other", around=lambda db: db.use(OTHER[0])),
    "scope": Option(lambda q: q, rows="living"),
    "unscoped": Option(lambda q: Item.unscoped(), rows="all"),
    "session": Option(lambda q: q),
    "max_time_ms": Option(lambda q: q.max_time_ms(20_000)),
    "timeout": Option(lambda q: q.timeout(20)),
    "batch_size": Option(lambda q: q.batch_size(2)),
    "allow_disk_use": Option(lambda q: q.allow_disk_use()),
    "read_preference": Option(lambda q: q.options(read_preference=ReadPreference.PRIMARY_PREFERRED)),
    "read_concern": Option(lambda q: q.options(read_concern=ReadConcern("majority"))),
    "write_concern": Option(lambda q: q.options(write_concern=WriteConcern("majority"))),
    "let": Option(
        lambda q: q.find({"$expr": {"$gt": ["$n", "$$least"]}}).options(let={"least": 2}),
        lambda rows: [row for row in rows if row["n"] > 2],
    ),
    "return_key": Option(lambda q: q.options(show_record_id=False)),
}
# What is asked for by methods whose cells need data of their own, or that no list can model.
NOT_MODELLED = {"text_score", "options"}

OTHER: list[str] = []

# Every cell that raises, by operation; all others must agree with the model.
WRITES = {"read_preference", "read_concern", "return_key"}
FORMS = {"include", "lookup", "as_", "on_invalid"}
REFUSED: dict[str, set[str]] = {
    "paginate": {"return_key", "lookup"},
    "explain": {"lookup"},
    "page": {"lookup", "limit", "skip", "slice", "slice of a slice", "sorted window", "as_"},
    "dicts": FORMS,
    "raw": FORMS,
    "json": FORMS,
    "values": FORMS,
    "to_arrow": FORMS,
    "iter_arrow": FORMS,
    "count": {"return_key"},
    # The server's `distinct` has neither.
    "distinct": {"let", "return_key"},
    "aggregate": FORMS | {"return_key"},
    "sum": {"return_key"},
    "avg": {"return_key"},
    "min": {"return_key"},
    "max": {"return_key"},
    "update": WRITES | {"max_time_ms"},
    "delete": WRITES | {"max_time_ms"},
    **{
        name: WRITES | {"lookup", "skip", "slice", "slice of a slice", "sorted window", "on_invalid"}
        for name in ("find_and_update", "find_and_replace", "find_and_delete", "upsert", "get_or_create")
    },
}


def names(rows: Rows) -> list[str]:
    """The names of rows."""
    return [row["name"] for row in rows]


class Deed:
    """An operation: how it is run, what it returns for a list of rows, and what it does to them."""

    def __init__(
        self,
        run: Callable[[Any, Any], Any],
        model: Callable[[Rows], Any],
        change: Callable[[Rows], None] = lambda rows: None,
    ) -> None:
        self.run = run
        self.model = model
        self.change = change


def first(rows: Rows) -> str | None:
    """The first name, or None."""
    return rows[0]["name"] if rows else None


def only_one(rows: Rows) -> Any:
    """What `one()` says of rows."""
    return rows[0]["name"] if len(rows) == 1 else ("none" if not rows else "many")


def run_one(face: Any, query: Any) -> Any:
    """The name of the only document, or how many there were."""
    try:
        return face.call(query, "one").name
    except MultipleDocuments:
        return "many"
    except LookupError:
        return "none"


def run_pages(face: Any, query: Any) -> list[str]:
    """The names of all pages by keys."""
    found: list[str] = []
    token = None
    while True:
        page = face.call(query, "page", 2, token)
        found += [item.name for item in page]
        token = page.next
        if token is None:
            return found


def name_of(document: Any) -> str | None:
    """The name of a document or None."""
    return None if document is None else document.name


def regroup(rows: Rows) -> None:
    """What setting the group of rows does."""
    for row in rows:
        row["group"] = "z"


def replace(rows: Rows) -> None:
    """What putting another row in their place does."""
    for row in rows:
        row.update(name="new", n=2, group="z")


def mark(rows: Rows) -> None:
    """What deleting rows does where deletion marks."""
    for row in rows:
        row["deleted"] = True


def total(rows: Rows, function: Callable[[list[int]], Any], empty: Any) -> Any:
    """A figure of rows."""
    return function([row["n"] for row in rows]) if rows else empty


NEW = {"name": "new", "group": "new", "n": 50, "deleted": False}

DEEDS: dict[str, Deed] = {
    "iterate": Deed(lambda face, q: [item.name for item in face.collect(q)], names),
    "all": Deed(lambda face, q: [item.name for item in face.call(q, "all")], names),
    "first": Deed(lambda face, q: name_of(face.call(q, "first")), first),
    "last": Deed(lambda face, q: name_of(face.call(q, "last")), lambda rows: first(rows[::-1])),
    "nth": Deed(lambda face, q: name_of(face.call(q, "nth", 1)), lambda rows: first(rows[1:])),
    "one": Deed(run_one, only_one),
    "page": Deed(run_pages, names),
    "paginate": Deed(
        lambda face, q: (lambda page: ([item.name for item in page], page.total))(
            face.call(q, "paginate", 2, 2)
        ),
        lambda rows: (names(rows[2:4]), len(rows)),
    ),
    "dicts": Deed(lambda face, q: [item["name"] for item in face.call(q, "dicts")], names),
    "raw": Deed(lambda face, q: [bson.decode(item)["name"] for item in face.call(q, "raw")], names),
    "json": Deed(lambda face, q: [item["name"] for item in json.loads(face.call(q, "json"))], names),
    "to_arrow": Deed(lambda face, q: face.call(q, "to_numpy", {"name": str})["name"].tolist(), names),
    "iter_arrow": Deed(
        lambda face, q: [
            name
            for part in face.collect(
                (q.aiter_arrow if face.is_async else q.iter_arrow)({"name": str}, rows=2)
            )
            for name in pytest.importorskip("pyarrow").table(part)["name"].to_pylist()
        ],
        names,
    ),
    "values": Deed(lambda face, q: face.call(q, "values", Item.name), names),
    "explain": Deed(lambda face, q: bool(face.call(q, "explain")), lambda rows: True),
    "exists": Deed(lambda face, q: face.call(q, "exists"), bool),
    "is_empty": Deed(lambda face, q: face.call(q, "is_empty"), lambda rows: not rows),
    "count": Deed(lambda face, q: face.call(q, "count"), len),
    "distinct": Deed(
        lambda face, q: sorted(face.call(q, "distinct", Item.group)),
        lambda rows: sorted({row["group"] for row in rows}),
    ),
    "aggregate": Deed(
        lambda face, q: [item["name"] for item in face.call(q, "aggregate", [{"$match": {}}])], names
    ),
    "sum": Deed(lambda face, q: face.call(q, "sum", Item.n), lambda rows: total(rows, sum, 0)),
    "avg": Deed(
        lambda face, q: face.call(q, "avg", Item.n), lambda rows: total(rows, lambda n: sum(n) / len(n), None)
    ),
    "min": Deed(lambda face, q: face.call(q, "min", Item.n), lambda rows: total(rows, min, None)),
    "max": Deed(lambda face, q: face.call(q, "max", Item.n), lambda rows: total(rows, max, None)),
    "update": Deed(lambda face, q: face.call(q, "update", set_(Item.group, "z")), len, regroup),
    "delete": Deed(lambda face, q: face.call(q, "delete"), len, mark),
    "find_and_update": Deed(
        lambda face, q: name_of(face.call(q, "find_and_update", set_(Item.group, "z"))),
        first,
        lambda rows: regroup(rows[:1]),
    ),
    "find_and_replace": Deed(
        lambda face, q: name_of(face.call(q, "find_and_replace", Item(name="new", n=2, group="z"))),
        lambda rows: "new" if rows else None,
        lambda rows: replace(rows[:1]),
    ),
    "find_and_delete": Deed(
        lambda face, q: name_of(face.call(q, "find_and_delete")), first, lambda rows: mark(rows[:1])
    ),
    "upsert": Deed(
        lambda face, q: name_of(face.call(q, "upsert", set_(Item.group, "z"))),
        first,
        lambda rows: regroup(rows[:1]),
    ),
    "get_or_create": Deed(
        lambda face, q: name_of(face.call(q, "get_or_create", Item(name="new", group="new", n=50))[0]), first
    ),
}


def rows_of(prefix: str, count: int) -> Rows:
    """The rows of a database."""
    return [
        {"name": f"{prefix}{n}", "group": "abc"[n % 3], "n": n, "deleted": n in (2, 5)} for n in range(count)
    ]


@pytest.fixture
def data(db: Connection, database_name: str) -> Iterator[dict[str, Rows]]:
    """Two databases of the same collections, as rows."""
    OTHER[:] = [database_name + "_other"]
    kept = {"main": rows_of("item", 9), "other": rows_of("item", 6)}
    for connection, rows in ((db, kept["main"]), (db.sibling(OTHER[0]), kept["other"])):
        with db.use(connection):
            owner = Owner(name="Ada").save()
            marked = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
            Item.insert_many(
                Item(
                    name=row["name"],
                    group=row["group"],
                    n=row["n"],
                    owner=owner.id,
                    keeper=owner.id,
                    deleted_at=marked if row["deleted"] else None,
                )
                for row in rows
            )
    yield kept
    db.client.drop_database(OTHER[0])


def stored(db: Connection, name: str) -> Rows:
    """What a database holds, as rows."""
    found = db.client[name]["items"].find().sort("_id")
    return [
        {key: row[key] for key in ("name", "group", "n")} | {"deleted": row.get("deleted_at") is not None}
        for row in found
    ]


def test_every_operation_of_a_query_has_its_row() -> None:
    waits = {
        name
        for name in dir(Query)
        if not name.startswith("_") and hasattr(Query, "a" + name) and name not in dir(object)
    }
    # What other libraries make of one table.
    waits -= {"to_polars", "to_pandas", "to_numpy"}
    assert waits | {"iterate"} == set(DEEDS) == set(TERMINALS) - {"watch"}


def test_every_option_of_a_query_has_its_column() -> None:
    asks = {
        name
        for name in vars(QueryBuilder)
        if not name.startswith("_") and not isinstance(vars(QueryBuilder)[name], property)
    } | {"as_"}
    assert asks - NOT_MODELLED <= set(OPTIONS)


@contextmanager
def refused(terminal: str, option: str) -> Iterator[list[bool]]:
    """Collects whether a cell raised, which must name the operation."""
    raised: list[bool] = []
    try:
        yield raised
    except UnsupportedOption as error:
        if not str(error).startswith(f"{terminal}("):
            pytest.fail(f"{terminal} x {option}: {error}")
        raised.append(True)


@pytest.mark.parametrize("terminal", list(DEEDS))
def test_each_option_means_to_an_operation_what_it_means_to_a_list(
    terminal: str, db: Connection, data: dict[str, Rows], face: Any
) -> None:
    deed = DEEDS[terminal]
    main, other = db.name, OTHER[0]
    start = {name: db.client[name]["items"].find().to_list() for name in (main, other)}
    raising: set[str] = set()
    for label, option in OPTIONS.items():
        rows = {main: [dict(row) for row in data["main"]], other: [dict(row) for row in data["other"]]}
        database = other if option.rows == "other" else main
        chosen = (
            rows[database] if option.rows == "all" else [row for row in rows[database] if not row["deleted"]]
        )
        meant = option.model(chosen)
        if terminal == "upsert" and label == "let":
            # The server takes no `$expr` there.
            continue
        if terminal in ("upsert", "get_or_create") and not meant:
            # What is inserted then has tests of its own.
            continue
        query = option.ask(Item.find())
        if label == "session":
            query = in_session(query, db, face)
        got: Any = None
        with refused(terminal, label) as raised, option.around(db):
            got = deed.run(face, query)
        if raised:
            raising.add(label)
        else:
            expected = deed.model(meant)
            assert got == expected, f"{terminal}() after {label}"
            deed.change(meant)
        for name, expected_rows in rows.items():
            assert stored(db, name) == expected_rows, f"what {terminal}() after {label} left in {name}"
        for name, documents in start.items():
            db.client[name]["items"].delete_many({})
            db.client[name]["items"].insert_many(documents)
    assert raising == REFUSED.get(terminal, set())
