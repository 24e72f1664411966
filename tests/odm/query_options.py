"""The options of a query, each with its effect on a list: the columns of the matrix.

A query's meaning is a selection from a list: which rows, in what order, from where, how many. An option changes the
selection, so combinations need no row of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from mangonel import ReadPreference
from mangonel.odm import BelongsTo, Connection, Document, Embedded, NotLoaded, Ref, SoftDelete
from mangonel.odm.query.request import ASKED_BY
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


class Stage:
    """Things that an option may need besides the query.

    Attributes:
        db: the connection.
        face: blocking or asyncio.
        other: the name of another database, a tenant's.
    """

    def __init__(self, db: Connection, face: Any, other: str) -> None:
        self.db = db
        self.face = face
        self.other = other

    def session(self) -> Any:
        """Return a session of the face."""
        return (self.db.aclient if self.face.is_async else self.db.client).start_session()


class Meaning:
    """The rows that a query selects."""

    def __init__(self) -> None:
        self.is_other = False
        self.tests: list[Callable[[Row], Any]] = []
        self.order: Callable[[Row], Any] | None = None
        self.skip: int | None = None
        self.limit: int | None = None
        self.is_none = False

    def rows(self, rows: Rows, also: Callable[[Row], bool]) -> Rows:
        """Return the selected rows of a database."""
        if self.is_none:
            return []
        found = [row for row in rows if also(row) and all(test(row) for test in self.tests)]
        if self.order is not None:
            found.sort(key=self.order)
        return found[self.skip :][: self.limit]

    def merge(self, other: Meaning) -> None:
        """Combine with another query, whose order and window win."""
        self.tests += other.tests
        self.order = other.order or self.order
        self.window(other.skip, other.limit)
        self.is_none = self.is_none or other.is_none
        self.is_other = self.is_other or other.is_other

    def window(self, skip: int | None = None, limit: int | None = None) -> None:
        """Start or stop at other rows."""
        self.skip = self.skip if skip is None else skip
        self.limit = self.limit if limit is None else limit

    def cut(self, start: int, stop: int) -> None:
        """Take a slice of the selected rows."""
        stop = stop if self.limit is None else min(stop, self.limit)
        self.skip, self.limit = (self.skip or 0) + start, stop - start
        self.is_none = self.is_none or self.limit <= 0

    def where(self, test: Callable[[Row], Any]) -> None:
        """Add a condition."""
        self.tests.append(test)

    def sorted(self, key: Callable[[Row], Any]) -> None:
        """Change the order."""
        self.order = key

    def nothing(self) -> None:
        """Note that the query selects no rows."""
        self.is_none = True

    def elsewhere(self) -> None:
        """Note that the query names another database."""
        self.is_other = True


class Option:
    """An option of a query.

    Attributes:
        ask: how it is asked for.
        mean: what it does to a query's meaning.
        look: whether a document that comes is as it asks.
        begin: what the query begins with, where that is the option.
        around: the context that it is asked in.
        asks: the names of what it asks for, as an error has them.
    """

    def __init__(
        self,
        ask: Callable[[Any, Stage], Any] = lambda q, _: q,
        mean: Callable[[Meaning], None] = lambda meaning: None,
        *,
        look: Callable[[Any], bool] = lambda document: True,
        begin: Callable[[], Any] | None = None,
        around: Callable[[Stage], Any] = lambda stage: nullcontext(),
        asks: tuple[str, ...] = (),
    ) -> None:
        self.ask = ask
        self.mean = mean
        self.look = look
        self.begin = begin
        self.around = around
        self.asks = asks

    def is_named_by(self, error: Exception, label: str) -> bool:
        """Return whether an error names the option."""
        return any(ASKED_BY.get(name, f"options({name}=…)") in str(error) for name in self.asks or (label,))


def is_absent(document: Any, name: str) -> bool:
    """Return whether a field of a document was not loaded."""
    try:
        getattr(document, name)
    except NotLoaded:
        return True
    return False


def leads_on(document: Any) -> bool:
    """Return whether the document of a reference was fetched."""
    is_replaced = document.name == "new"
    return is_replaced or bool(document.owner.value.name == document.keeper.name == "Ada")


def more_than(least: int) -> Callable[[Row], bool]:
    """Return the condition on a row."""
    return lambda row: row["n"] > least


def downwards(row: Row) -> int:
    """Return the order by the number, largest first."""
    return -int(row["n"])


def sorted_window(meaning: Meaning) -> None:
    """Return rows with an order and a window."""
    meaning.sorted(downwards)
    meaning.window(1, 2)


def slice_of_slice(meaning: Meaning) -> None:
    """Return a slice of a slice."""
    meaning.cut(1, 5)
    meaning.cut(1, 3)


OPTIONS: dict[str, Option] = {
    "find": Option(lambda q, _: q.find(Item.n > 2), lambda m: m.where(more_than(2)), asks=("where",)),
    "none": Option(lambda q, _: q.none(), Meaning.nothing, asks=("where",)),
    "limit": Option(lambda q, _: q.limit(3), lambda m: m.window(limit=3)),
    "skip": Option(lambda q, _: q.skip(2), lambda m: m.window(skip=2)),
    "sort": Option(lambda q, _: q.sort("-n"), lambda m: m.sorted(downwards)),
    "slice": Option(lambda q, _: q[1:4], lambda m: m.cut(1, 4), asks=("skip", "limit", "where")),
    "slice of a slice": Option(lambda q, _: q[1:5][1:3], slice_of_slice, asks=("skip", "limit", "where")),
    "sorted window": Option(
        lambda q, _: q.sort("-n").skip(1).limit(2), sorted_window, asks=("skip", "limit", "sort")
    ),
    "hint": Option(lambda q, _: q.hint("_id_")),
    "comment": Option(lambda q, _: q.comment("matrix")),
    "collation": Option(
        lambda q, _: q.find(Item.name == "ITEM3").collation({"locale": "en", "strength": 2}),
        lambda m: m.where(lambda row: row["name"].lower() == "item3"),
        asks=("collation", "where"),
    ),
    "only": Option(
        lambda q, _: q.only(Item.name), look=lambda item: is_absent(item, "group"), asks=("projection",)
    ),
    "only another": Option(
        lambda q, _: q.only(Item.name, Item.n),
        look=lambda item: is_absent(item, "group") and isinstance(item.name, str),
        asks=("projection",),
    ),
    "exclude": Option(
        lambda q, _: q.exclude(Item.group), look=lambda item: is_absent(item, "group"), asks=("projection",)
    ),
    "lazy": Option(lambda q, _: q.lazy()),
    "eager": Option(lambda q, _: q.eager()),
    "include": Option(lambda q, _: q.include(Item.owner, Item.keeper), look=leads_on),
    "lookup": Option(lambda q, _: q.lookup(Item.owner, Item.keeper), look=leads_on),
    "merge": Option(
        lambda q, _: q.merge(Item.unscoped(Item.n > 2)), lambda m: m.where(more_than(2)), asks=("where",)
    ),
    "as_": Option(
        lambda q, _: q.as_(Card), look=lambda card: isinstance(card, Card), asks=("shape", "projection")
    ),
    "on_invalid": Option(lambda q, _: q.find(on_invalid="skip")),
    "using": Option(lambda q, stage: q.using(stage.other), Meaning.elsewhere),
    "tenant": Option(mean=Meaning.elsewhere, around=lambda stage: stage.db.use(stage.other)),
    "scope": Option(begin=Item.find, asks=("where",)),
    "unscoped": Option(begin=Item.unscoped),
    "session": Option(lambda q, stage: q.session(stage.session())),
    "max_time_ms": Option(lambda q, _: q.max_time_ms(20_000)),
    "timeout": Option(lambda q, _: q.timeout(20)),
    "batch_size": Option(lambda q, _: q.batch_size(2)),
    "allow_disk_use": Option(lambda q, _: q.allow_disk_use()),
    "read_preference": Option(lambda q, _: q.options(read_preference=ReadPreference.PRIMARY_PREFERRED)),
    "read_concern": Option(lambda q, _: q.options(read_concern=ReadConcern("majority"))),
    "write_concern": Option(lambda q, _: q.options(write_concern=WriteConcern("majority"))),
    "let": Option(
        lambda q, _: q.find({"$expr": {"$gt": ["$n", "$$least"]}}).options(let={"least": 2}),
        lambda m: m.where(more_than(2)),
        asks=("let", "where"),
    ),
    "show_record_id": Option(lambda q, _: q.options(show_record_id=False)),
    "no_cursor_timeout": Option(lambda q, _: q.options(no_cursor_timeout=False)),
    "allow_partial_results": Option(lambda q, _: q.options(allow_partial_results=False)),
    "prefetch": Option(lambda q, _: q.options(prefetch=True)),
}
# Options of `options()` that are methods too, or that return documents which no list can model.
SAME = {
    "sort",
    "limit",
    "skip",
    "hint",
    "comment",
    "collation",
    "max_time_ms",
    "batch_size",
    "allow_disk_use",
}
NOT_MODELLED = {"text_score", "options", *("cursor_type", "oplog_replay", "min", "max", "return_key"), *SAME}

# Every cell that raises, by operation; all other cells must agree with the model.
OF_FIND = {"show_record_id", "no_cursor_timeout", "allow_partial_results", "prefetch"}
WRITES = {"read_preference", "read_concern", *OF_FIND}
FORMS = {"include", "lookup", "as_", "on_invalid"}
WINDOWS = {"skip", "slice", "slice of a slice", "sorted window"}
REFUSED: dict[str, set[str]] = {
    "paginate": OF_FIND | {"lookup"},
    "explain": {"lookup"},
    "page": {"lookup", "limit", "as_", *WINDOWS},
    "dicts": FORMS,
    "raw": FORMS,
    "json": {"as_", "on_invalid"},
    "values": FORMS,
    "to_arrow": FORMS,
    "iter_arrow": FORMS,
    "count": OF_FIND,
    # The server's `distinct` supports neither.
    "distinct": {"let", *OF_FIND},
    "aggregate": FORMS | OF_FIND,
    "sum": OF_FIND,
    "avg": OF_FIND,
    "min": OF_FIND,
    "max": OF_FIND,
    "update": WRITES | {"max_time_ms"},
    "delete": WRITES | {"max_time_ms"},
    **{
        name: WRITES | WINDOWS | {"lookup", "on_invalid"}
        for name in ("find_and_update", "find_and_replace", "find_and_delete", "upsert", "get_or_create")
    },
    # The stream could not report a change after which a document no longer matches.
    "watch": {
        *(FORMS | WINDOWS | OF_FIND),
        *("find", "none", "limit", "sort", "hint", "collation", "only", "only another", "exclude", "merge"),
        *("scope", "max_time_ms", "allow_disk_use", "let"),
    },
}
# Pairs that work only separately: the first cannot be combined with any of the others.
BESIDE: dict[str, set[str]] = {
    "lookup": {"as_", *OF_FIND},
    "include": {"as_"},
    "as_": {"only", "only another", "exclude"},
}
