"""Every kind of reference that `include()` accepts, in every operation, with conditions, orders and windows.

The expected results come from a model of plain lists and dicts.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel.odm import (
    BelongsTo,
    Connection,
    Document,
    Embedded,
    Many,
    Ref,
    Refs,
    SoftDelete,
    UnsupportedOption,
    count_commands,
    field,
    many,
    related,
)

GONE = 99
"""The id of documents that do not exist."""


class Land(Document):
    __collection__ = "comb_lands"
    id: int
    n: int
    towns: Many[Town] = many(by="land", order="id")


class Town(SoftDelete):
    __collection__ = "comb_towns"
    id: int
    n: int
    land: Ref[Land] | None = None
    shops: Many[Shop] = many(by="town", order="id")


class Shelf(Embedded):
    land: Ref[Land]


class Shop(Document):
    __collection__ = "comb_shops"
    id: int
    n: int
    town: Ref[Town] | None = None
    twin: BelongsTo[Town] | None = None
    lands: Refs[Land]
    other: list[Ref[Land]] = field(default_factory=list)
    shelves: list[Shelf] = field(default_factory=list)
    by_name: dict[str, Ref[Land]] = field(default_factory=dict)
    carts: Many[Cart] = many(by="shops", order="id")


class Cart(Document):
    __collection__ = "comb_carts"
    id: int
    n: int
    shops: Refs[Shop]


Row = dict[str, Any]
# The documents by model and id, as stored. Town 3 is marked as deleted; 99 does not exist.
DATA: dict[Any, dict[int, Row]] = {
    Land: {id: {"n": id % 3} for id in range(4)},
    Town: {id: {"n": id % 2, "land": (id % 4, None, GONE)[id % 3]} for id in range(5)},
    Shop: {
        id: {
            "n": id % 4,
            "town": (id % 5, None, GONE, 3)[id % 4],
            "twin": (None, 1, GONE)[id % 3],
            "lands": [[], [0, 1], [GONE, 2], [3, 0, 1]][id % 4],
            "other": [[2], [], [1, 1]][id % 3],
            "shelves": [{"land": land} for land in ([], [0], [3, GONE])[id % 3]],
            "by_name": ({}, {"a": 0, "b": 2})[id % 2],
        }
        for id in range(12)
    },
    Cart: {id: {"n": id % 3, "shops": [id, (id * 2) % 12, GONE][: id % 4]} for id in range(6)},
}
DELETED = {(Town, 3)}


@pytest.fixture
def stored(db: Connection) -> Connection:
    """The connection, with the documents."""
    for model, rows in DATA.items():
        db.database()[model.__collection_name__()].insert_many(
            [{"_id": id, **row} for id, row in rows.items()]
        )
    Town.find(Town.id == 3).delete()
    return db


class Asked:
    """Conditions, order and window for one reference, on a query and on rows."""

    def __init__(
        self, name: str, query: Callable[[Any], Any], rows: Callable[[list[Row]], list[Row]]
    ) -> None:
        self.name = name
        self.query = query
        self.rows = rows
        self.is_window = "[" in name or "-" in name


ALL = Asked("all", lambda q: q, lambda rows: rows)
WISHES = (
    ALL,
    Asked("n>0", lambda q: q.find({"n": {"$gt": 0}}), lambda rows: [row for row in rows if row["n"] > 0]),
    Asked(
        "-id",
        lambda q: q.sort("-id"),
        lambda rows: sorted(rows, key=lambda row: -row["id"]),
    ),
    Asked(
        "n -id[1:2]",
        lambda q: q.sort("n", "-id").skip(1).limit(1),
        lambda rows: sorted(rows, key=lambda row: (row["n"], -row["id"]))[1:2],
    ),
)

# The path, whether it leads to several documents, and the models on the way.
PATHS: dict[str, bool] = {
    "town": False,
    "twin": False,
    "lands": True,
    "other": False,
    "shelves.land": False,
    "by_name": False,
    "carts": True,
    "town.land": False,
    "town.shops": True,
    "town.land.towns": True,
    "carts.shops": True,
    "carts.shops.town": False,
}


def rows_of(model: Any, wish: Asked = ALL) -> list[Row]:
    """The documents that queries of a model find, with their ids."""
    found = [{"id": id, **row} for id, row in DATA[model].items() if (model, id) not in DELETED]
    return wish.rows(found) if wish is not ALL else found


def shown(model: Any, row: Row, path: list[str], wish: Asked) -> Row:
    """Return a document as in a response, with the documents at a path included."""
    made: Row = {"id": row["id"]}
    for name in model.__plan__.fields:
        if name == "id":
            continue
        made[name] = row.get(name, [] if name in ("lands", "shops", "other", "shelves") else None)
    if not path:
        return made
    name, rest = path[0], path[1:]
    if name in ("towns", "shops", "carts") and name in model.__inverses__:
        descriptor = model.__inverses__[name]
        child, by = descriptor.target, descriptor.inverse.by
        children = [
            other
            for other in rows_of(child)
            if row["id"] == other.get(by) or (isinstance(other.get(by), list) and row["id"] in other[by])
        ]
        children = children if rest else wish.rows(children)
        made[name] = [shown(child, other, rest, wish) for other in children]
        return made
    if name == "shelves":
        target: Any = Land
        made[name] = [{"land": one(target, shelf["land"], path[2:], wish)} for shelf in made[name]]
        return made
    target = model.__plan__.fields[name].target
    value = made[name]
    if isinstance(value, dict):
        made[name] = {key: one(target, id, rest, wish) for key, id in value.items()}
    elif name == "other":
        made[name] = [one(target, id, rest, wish) for id in value]
    elif isinstance(value, list):
        known = {other["id"]: other for other in rows_of(target)}
        found = [known[id] for id in value if id in known]
        found = found if rest else wish.rows(found)
        made[name] = [shown(target, other, rest, wish) for other in found]
    elif value is not None:
        made[name] = one(target, value, rest, wish)
    return made


def one(target: Any, id: Any, rest: list[str], wish: Asked) -> Row | None:
    """Return a reference's included document, or None."""
    for row in rows_of(target, ALL if rest else wish):
        if row["id"] == id:
            return shown(target, row, rest, wish)
    return None


OUTER: tuple[Asked, ...] = (
    Asked("id", lambda q: q.sort("id"), lambda rows: rows),
    Asked(
        "n<3 -id[1:6]",
        lambda q: q.find({"n": {"$lt": 3}}).sort("-id").skip(1).limit(5),
        lambda rows: sorted((row for row in rows if row["n"] < 3), key=lambda row: -row["id"])[1:6],
    ),
)


def listed(face: Any, query: Any) -> list[Any]:
    async def alist() -> list[Any]:
        return [found async for found in query]

    return face.run(alist) if face.is_async else list(query)


def first(face: Any, query: Any) -> list[Any]:
    found = face.call(query, "first")
    return [] if found is None else [found]


TERMINALS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "all": lambda face, query: face.call(query, "all"),
    "first": first,
    "iterate": listed,
    "paginate": lambda face, query: face.call(query, "paginate", 1, 50).items,
    "json": lambda face, query: json.loads(face.call(query, "json")),
}


def plain(found: Any) -> Any:
    """Return a result in plain form; a document's `to_dict` and `to_json` must agree."""
    if isinstance(found, dict):
        found.pop("deleted_at", None)
        return {key: plain(value) for key, value in found.items()}
    return [plain(item) for item in found] if isinstance(found, list) else found


def asked(path: str, wish: Asked) -> Any:
    """Return the argument of include() for a path of shops, with options for its last reference."""
    leads: Any = Shop
    for name in path.split("."):
        leads = getattr(leads, name)
    if wish is ALL:
        return leads
    target = leads._target if hasattr(leads, "_descriptor") else leads._field().target
    return related(leads, wish.query(target.find()))


def cases() -> Iterator[tuple[str, Asked]]:
    for path, wish in itertools.product(PATHS, WISHES):
        if PATHS[path] or not wish.is_window:
            yield path, wish


@pytest.mark.parametrize("path", PATHS)
def test_every_operation_shows_what_the_model_says(path: str, stored: Connection, face: Any) -> None:
    checked = 0
    for outer, wish, terminal in itertools.product(OUTER, [w for p, w in cases() if p == path], TERMINALS):
        query = outer.query(Shop.find()).include(asked(path, wish))
        found = TERMINALS[terminal](face, query)
        got = [plain(item if isinstance(item, dict) else item.to_dict()) for item in found]
        rows = outer.rows(rows_of(Shop))[: 1 if terminal == "first" else None]
        expected = [plain(shown(Shop, row, path.split("."), wish)) for row in rows]
        assert got == expected, (path, outer.name, wish.name, terminal)
        if terminal != "json":
            assert [plain(json.loads(item.to_json())) for item in found] == expected
        checked += 1
    assert checked == len(OUTER) * len(TERMINALS) * (4 if PATHS[path] else 2)


@pytest.mark.parametrize("path", [path for path in PATHS if path != "by_name"])
def test_one_command_shows_the_same(path: str, stored: Connection, face: Any) -> None:
    refused = 0
    for outer, wish in itertools.product(OUTER, [w for p, w in cases() if p == path]):
        query = outer.query(Shop.find()).lookup(asked(path, wish))
        try:
            with count_commands(stored, at_most=1 if path != "twin" else 2):
                found = face.call(query, "all")
        except UnsupportedOption:
            # Windows of inner lists, and orders of references, need separate commands.
            assert wish.is_window
            assert path.count(".") or path == "lands"
            refused += 1
            continue
        expected = [plain(shown(Shop, row, path.split("."), wish)) for row in outer.rows(rows_of(Shop))]
        assert [plain(document.to_dict()) for document in found] == expected, (path, outer.name, wish.name)
    assert refused < len(OUTER) * len(WISHES)


def test_several_paths_at_once_do_not_disturb_each_other(stored: Connection, face: Any) -> None:
    for one_path, other_path in itertools.combinations([path for path in PATHS if path.count(".") < 2], 2):
        query = Shop.find().sort("id").include(asked(one_path, ALL), asked(other_path, ALL))
        got = [plain(document.to_dict()) for document in face.call(query, "all")]
        for row, found in zip(rows_of(Shop), got, strict=True):
            expected = plain(shown(Shop, row, [], ALL))
            for path in (one_path, other_path):
                name = path.partition(".")[0]
                expected[name] = plain(shown(Shop, row, path.split("."), ALL))[name]
            if one_path.partition(".")[0] != other_path.partition(".")[0]:
                assert found == expected, (one_path, other_path)


def test_a_reference_is_loaded_or_missing(stored: Connection, face: Any) -> None:
    lands, towns = set(DATA[Land]), set(DATA[Town]) - {3}
    query = Shop.find().include(Shop.town, Shop.lands, Shop.other, Shop.shelves.land)
    for shop in face.call(query, "all"):
        assert set(shop.lands.missing) == set(shop.lands.ids) - lands
        assert shop.lands.is_loaded == (not shop.lands.missing)
        refs = [*shop.other, *(shelf.land for shelf in shop.shelves)]
        for ref in refs:
            assert (ref.is_loaded, ref.is_missing) == (ref.id in lands, ref.id not in lands)
        if shop.town is not None:
            assert (shop.town.is_loaded, shop.town.is_missing) == (
                shop.town.id in towns,
                shop.town.id not in towns,
            )
