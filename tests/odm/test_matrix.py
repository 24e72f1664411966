"""Every option of a query, and every pair of options, with every operation, compared with a model of plain lists.

The cells are made from the mapper's own tables: a new option or operation that this file does not know fails the
first tests, and one that it knows is played against all others.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import combinations_with_replacement
from typing import Any

import pytest

from mangonel.odm import Connection
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.query.builder import QueryBuilder
from mangonel.odm.query.options import FindOptions
from mangonel.odm.query.query import Query
from mangonel.odm.query.request import TERMINALS
from odm.query_deeds import DEEDS
from odm.query_options import BESIDE, NOT_MODELLED, OPTIONS, REFUSED, Item, Meaning, Owner, Rows, Stage


def rows_of(prefix: str, count: int) -> Rows:
    """The rows of a database."""
    return [
        {"name": f"{prefix}{n}", "group": "abc"[n % 3], "n": n, "deleted": n in (2, 5)} for n in range(count)
    ]


class Board:
    """Two databases of the same collections, and their rows."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rows = {stage.db.name: rows_of("item", 9), stage.other: rows_of("item", 6)}
        for name, rows in self.rows.items():
            with stage.db.use(name):
                owner = Owner(name="Ada").save()
                marked = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
                Item.insert_many(
                    Item(
                        **{key: row[key] for key in ("name", "group", "n")},
                        owner=owner.id,
                        keeper=owner.id,
                        deleted_at=marked if row["deleted"] else None,
                    )
                    for row in rows
                )
        self._start = {name: self.items(name).find().to_list() for name in self.rows}

    def items(self, name: str) -> Any:
        """Return the collection in a database."""
        return self.stage.db.client[name]["items"]

    def stored(self, name: str) -> Rows:
        """Return the rows of a database."""
        return [
            {key: row[key] for key in ("name", "group", "n")} | {"deleted": row.get("deleted_at") is not None}
            for row in self.items(name).find().sort("_id")
        ]

    def put_back(self) -> None:
        """Restore the initial documents."""
        for name, documents in self._start.items():
            self.items(name).delete_many({})
            self.items(name).insert_many(documents)

    def play(self, terminal: str, labels: Sequence[str], *, is_merged: bool = False) -> set[str] | None:
        """Play a cell, and compare result and stored data; return the options that an error named, if any.

        None for a cell that has tests of its own: what is inserted where nothing matches.
        """
        deed = DEEDS[terminal]
        options = [OPTIONS[label] for label in labels]
        begin = next((option.begin for option in options if option.begin is not None), deed.begin)
        main, other = self.rows
        rows = {name: [dict(row) for row in found] for name, found in self.rows.items()}
        cell = f"{terminal}() after {' and '.join(labels)}{' of a merged query' * is_merged}"
        with ExitStack() as stack:
            for option in options:
                stack.enter_context(option.around(self.stage))
            query, meaning = begin(), Meaning()
            try:
                for option in options:
                    if is_merged and option is options[-1]:
                        added = Meaning()
                        option.mean(added)
                        meaning.merge(added)
                        query = query.merge(option.ask(Item.unscoped(), self.stage))
                    else:
                        option.mean(meaning)
                        query = option.ask(query, self.stage)
                meant = meaning.rows(
                    rows[other if meaning.is_other else main],
                    lambda row: begin == Item.unscoped or not row["deleted"],
                )
                if terminal in ("upsert", "get_or_create") and not meant:
                    return None
                got = deed.run(self.stage.face, query, self.stage)
            except UnsupportedOption as error:
                named = {label for label in labels if OPTIONS[label].is_named_by(error, label)}
                if not named or not (f"{terminal}()" in str(error) or BESIDE.keys() & named):
                    pytest.fail(f"{cell}: {error}")
                return named
            except Exception as error:
                error.add_note(cell)
                raise
            if deed.is_of_documents and isinstance(got, list):
                for option, label in zip(options, labels, strict=True):
                    assert all(map(option.look, got)), f"what {label} means to the documents of {cell}"
                got = [document.name for document in got]
        assert got == deed.model(meant), cell
        if deed.change is not None:
            for changed in rows.values() if deed.is_everywhere else [meant]:
                deed.change(changed)
            for name, expected in rows.items():
                assert self.stored(name) == expected, f"what {cell} left in {name}"
            self.put_back()
        return set()


@pytest.fixture
def board(db: Connection, database_name: str, face: Any) -> Iterator[Board]:
    """Two databases of the same collections."""
    stage = Stage(db, face, database_name + "_other")
    yield Board(stage)
    db.client.drop_database(stage.other)


def test_every_operation_of_a_query_has_its_row() -> None:
    waits = {
        name
        for name in dir(Query)
        if not name.startswith("_") and hasattr(Query, "a" + name) and name not in dir(object)
    }
    # Other libraries make these from one table.
    waits -= {"to_polars", "to_pandas", "to_numpy"}
    assert waits | {"iterate", "watch"} == set(DEEDS) == set(TERMINALS)


def test_every_option_of_a_query_has_its_column() -> None:
    asks = {
        name
        for name in vars(QueryBuilder)
        if not name.startswith("_") and not isinstance(vars(QueryBuilder)[name], property)
    } | {"as_"}
    assert asks - NOT_MODELLED <= set(OPTIONS)
    assert FindOptions.__annotations__.keys() - NOT_MODELLED <= set(OPTIONS)


# The server does not accept `$expr` there.
IMPOSSIBLE = {("upsert", "let"), ("get_or_create", "let")}


@pytest.mark.parametrize("terminal", list(DEEDS))
def test_each_option_means_to_an_operation_what_it_means_to_a_list(terminal: str, board: Board) -> None:
    labels = [label for label in OPTIONS if (terminal, label) not in IMPOSSIBLE]
    raising = {label for label in labels if board.play(terminal, [label])}
    assert raising == REFUSED.get(terminal, set())


def pairs(terminal: str, is_merged: bool, order: random.Random) -> list[tuple[str, str]]:
    """Return every pair of options of an operation, each with itself too, in either order."""
    labels = [label for label in OPTIONS if (terminal, label) not in IMPOSSIBLE]
    found: list[tuple[str, str]] = []
    for pair in combinations_with_replacement(labels, 2):
        first, second = pair if order.random() < 0.5 else pair[::-1]
        if is_merged and second in BEGINNINGS:
            # A query's starting point and its context cannot be merged in from another query.
            first, second = second, first
        beginnings = {OPTIONS[label].begin for label in pair} - {None}
        if len(beginnings) < 2 and not (is_merged and second in BEGINNINGS):
            found.append((first, second))
    return found


def is_refused(terminal: str, pair: tuple[str, str]) -> bool:
    """Return whether an operation cannot honour one of two options, or both together."""
    first, second = pair
    return (
        not REFUSED.get(terminal, set()).isdisjoint(pair)
        or second in BESIDE.get(first, ())
        or first in BESIDE.get(second, ())
    )


# The number of a terminal's pairs in a sample.
SAMPLE = 20
# Options that are a query's starting point or its context.
BEGINNINGS = ("scope", "unscoped", "tenant")


@pytest.mark.plays_a_sample
@pytest.mark.parametrize("terminal", list(DEEDS))
@pytest.mark.parametrize("is_merged", [False, True], ids=["chained", "merged"])
def test_two_options_mean_to_an_operation_what_they_mean_to_a_list(
    terminal: str, is_merged: bool, board: Board, request: pytest.FixtureRequest
) -> None:
    order = random.Random(request.node.name)
    chosen = pairs(terminal, is_merged, order)
    if request.config.getoption("--sample"):
        chosen = order.sample(chosen, SAMPLE)
    played = {pair: board.play(terminal, pair, is_merged=is_merged) for pair in chosen}
    assert not [
        pair
        for pair, named in played.items()
        if named is not None and bool(named) != is_refused(terminal, pair)
    ]
