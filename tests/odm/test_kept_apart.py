"""Documents excluded by a default scope or a tenant seem not to be stored, for every terminal and on both faces.

Each terminal is called twice with the same documents marked MINE: alone, and beside others that differ only in their
mark, with references in both directions. Both calls must have the same result and effect, and leave the others
unchanged. The terminals are found by program; one without arguments here fails the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from mangonel.bson import ObjectId
from mangonel.odm import (
    AnyRef,
    Connection,
    Document,
    Many,
    Ref,
    Refs,
    all_tenants,
    current_tenant,
    field,
    inc,
    many,
    tenant,
)
from odm.conftest import Face
from odm.tenant_deeds import DEEDS, drained
from odm.test_terminals import terminals

MINE, THEIRS = "mine", "theirs"


class Scoped(Document):
    __abstract__ = True
    mark: str = MINE

    @staticmethod
    def __default_scope__(query: Any) -> Any:
        return query.find({"mark": MINE})


class Rented(Document):
    __abstract__ = True
    __tenant__ = "mark"
    mark: str = field(default_factory=current_tenant)


class ScopedParent(Scoped):
    name: str = ""
    n: int = 0
    over: Ref[ScopedParent] | None = None
    children: Many[ScopedChild] = many(by="parent")


class ScopedChild(Scoped):
    n: int = 0
    parent: Ref[ScopedParent] | None = field(default=None, on_delete="cascade")
    wished: Ref[ScopedParent] | None = field(default=None, on_delete="nullify")
    others: Refs[ScopedParent] = field(default_factory=Refs)
    about: AnyRef | None = None


class RentedParent(Rented):
    name: str = ""
    n: int = 0
    over: Ref[RentedParent] | None = None
    children: Many[RentedChild] = many(by="parent")


class RentedChild(Rented):
    n: int = 0
    parent: Ref[RentedParent] | None = field(default=None, on_delete="cascade")
    wished: Ref[RentedParent] | None = field(default=None, on_delete="nullify")
    others: Refs[RentedParent] = field(default_factory=Refs)
    about: AnyRef | None = None


class World:
    """Two parents and four children marked MINE, and perhaps as many of the other mark."""

    def __init__(self, db: Connection, face: Face, models: tuple[Any, Any], has_others: bool) -> None:
        self.face, (self.parent, self.child) = face, models
        self.database = db.client[db.name]
        self.parents = [ObjectId(f"{number:024x}") for number in (0xA1, 0xA2)]
        self.their_parents = [ObjectId(f"{number:024x}") for number in (0xB1, 0xB2)]
        self.store(MINE, self.parents, 0xA0)
        if has_others:
            self.store(THEIRS, self.their_parents, 0xB0)
        self.others = self.rows(THEIRS)

    def store(self, mark: str, parents: list[ObjectId], first: int) -> None:
        """Store the documents of a mark as another program would; some refer to those of the other mark."""
        every = [*self.parents, *self.their_parents]
        name = self.child.__collection_name__()
        self.database[self.parent.__collection_name__()].insert_many(
            [
                {"_id": id, "mark": mark, "name": f"p{n}", "n": n, "over": every[(2 * n + 1) % 4]}
                for n, id in enumerate(parents)
            ]
        )
        self.database[name].insert_many(
            [
                {
                    "_id": ObjectId(f"{first + 8 + n:024x}"),
                    "mark": mark,
                    "n": n,
                    "parent": every[n],
                    "wished": every[3 - n],
                    "others": every,
                    "about": {"$ref": self.parent.__collection_name__(), "$id": every[n]},
                }
                for n in range(4)
            ]
        )

    def rows(self, mark: str) -> list[Any]:
        """Return all stored documents of a mark."""
        names = [model.__collection_name__() for model in (self.parent, self.child)]
        return [self.database[name].find({"mark": mark}).sort("_id").to_list() for name in names]

    def clear(self) -> None:
        for model in (self.parent, self.child):
            self.database[model.__collection_name__()].delete_many({})

    def one(self, n: int = 0) -> Any:
        """Return a child marked MINE."""
        return self.face.call(self.child.find(self.child.n == n), "one")

    def owner(self, kind: str) -> Any:
        """Return the object on which a terminal of a class is called."""
        if kind == "Many":
            return self.face.call(self.parent, "get", self.parents[0]).children
        if kind in ("Ref", "AnyRef", "Refs"):
            child = self.one()
            return {"Ref": child.parent, "AnyRef": child.about, "Refs": child.others}[kind]
        return self.child.find().sort("n")


def arguments(world: World, name: str) -> tuple[Any, ...]:
    """Return the arguments of a terminal."""
    child, new = world.child, world.child(n=9)
    known: dict[str, Callable[[], tuple[Any, ...]]] = {
        "nth": lambda: (3,),
        "page": lambda: (3,),
        "paginate": lambda: (2, 3),
        **dict.fromkeys(("distinct", "values", "sum", "avg", "min", "max"), lambda: (child.n,)),
        **dict.fromkeys(
            ("to_arrow", "to_polars", "to_pandas", "to_numpy", "iter_arrow"), lambda: ({"n": int},)
        ),
        "aggregate": lambda: ([{"$group": {"_id": "$mark", "n": {"$sum": "$n"}}}],),
        **dict.fromkeys(("update", "find_and_update", "upsert"), lambda: (inc(child.n),)),
        **dict.fromkeys(("find_and_replace", "get_or_create"), lambda: (new,)),
    }
    return known[name]() if name in known else ()


def of_document(world: World, name: str) -> Any:
    """Call a terminal of `Document`: on the class, or on an instance marked MINE."""
    face, child, parent = world.face, world.child, world.parent
    every = [*world.parents, *world.their_parents]
    if name in ("get", "get_or_none"):
        return [face.call(parent, "get_or_none", id) for id in every]
    if name == "get_many":
        return face.call(parent, name, every)
    if name in ("insert_many", "save_all"):
        return face.call(child, name, [child(n=7), child(n=8)])
    if name == "aggregate":
        return face.call(child, name, [{"$sort": {"n": 1}}])
    if name == "insert":
        return face.call(child(n=5), name)
    if name == "delete":
        # Its delete rules affect children of both marks.
        return face.call(face.call(parent, "get", world.parents[0]), name)
    one = world.one()
    if name == "update":
        return face.call(one, name, inc(child.n, 10))
    one.n = 20
    return face.call(one, name)


def play(kind: str, name: str, world: World) -> Any:
    """Call a terminal; return its result."""
    if kind == "Document":
        return of_document(world, name)
    owner = world.owner(kind)
    if name == "iter_arrow":
        return drained(
            world.face, (owner.aiter_arrow if world.face.is_async else owner.iter_arrow)({"n": int})
        )
    return world.face.call(owner, name, *arguments(world, name))


def joined(how: Callable[[Any, Any], Any], method: str = "all") -> Callable[[World], Any]:
    """Read through a join: the children, with their parents."""

    def act(world: World) -> Any:
        found = world.face.call(how(world.child.find().sort("n"), world.child), method)
        if method != "all":
            return found
        refs = [ref for each in found for ref in (each.parent, each.wished, *each.others) if ref is not None]
        return [(each.id, each.n) for each in found], [(ref.id, ref.is_loaded and ref.value) for ref in refs]

    return act


def of_parents(how: Callable[[Any, Any], Any]) -> Callable[[World], Any]:
    """Read parents with their children."""

    def act(world: World) -> Any:
        found = world.face.call(how(world.parent.find().sort("n"), world.parent), "all")
        return [(each.id, world.face.call(each.children, "all"), repr(each.over)) for each in found]

    return act


# Ways to read besides the terminals.
WAYS: dict[str, Callable[[World], Any]] = {
    "iterate": lambda world: drained(world.face, world.child.find().sort("n")),
    "include": joined(lambda query, child: query.include(child.parent, child.wished, child.others)),
    "include of a nested one": joined(lambda query, child: query.include(child.parent.over)),
    "include of Many": of_parents(lambda query, parent: query.include(parent.children)),
    "lookup": joined(lambda query, child: query.lookup(child.parent)),
    "lookup as JSON": joined(lambda query, child: query.lookup(child.wished), "json"),
    "include as JSON": joined(lambda query, child: query.include(child.wished, child.others), "json"),
    "a condition on the target": joined(lambda query, child: query.find(child.parent.n >= 0)),
    "a condition on the target's target": joined(lambda query, child: query.find(child.parent.over.n >= 0)),
    "an order by the target": joined(lambda query, child: query.sort("-parent.n", "n")),
    "a count by the target": joined(lambda query, child: query.find(child.wished.name != "x"), "count"),
    "an update by the target": joined(lambda query, child: query.find(child.parent.n >= 0), "delete"),
    "a limit": joined(lambda query, child: query.limit(6)),
    "a slice": joined(lambda query, child: query[1:9]),
    "none": joined(lambda query, child: query.none()),
}

# Not comparable: they report the server's work, metadata, or a stream; `tenant_deeds` covers them.
ELSEWHERE = {"QueryReads.explain", "Document.estimated_count", "Changes.try_next", "Changes.close"}
FOUND = {f"{cls.__name__}.{name}" for cls, name in terminals()}
PLAYED = sorted(name for name in FOUND - ELSEWHERE if callable(DEEDS.get(name)))
NAMES = [*PLAYED, *WAYS]
PAIRS = {"scope": (ScopedParent, ScopedChild), "tenant": (RentedParent, RentedChild)}


def told(result: Any) -> str:
    """Return a result as text, in which all new ids look the same."""
    known = r"(?!0{21}[ab0-9f]{3})[0-9a-f]{24}"
    return re.sub(known, "NEW", repr(result))


def ended(act: Callable[[World], Any], world: World) -> str:
    """Return a call's result, or its error."""
    try:
        return told(act(world))
    except Exception as error:
        return f"{type(error).__name__}: {told(error)}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", PAIRS)
def test_what_is_kept_out_is_as_if_it_were_not_stored(
    way: str, name: str, db: Connection, face: Face
) -> None:
    if name.startswith("QueryColumns."):
        pytest.importorskip(
            {"to_polars": "polars", "to_pandas": "pandas"}.get(name.partition(".")[2], "pyarrow")
        )
    act = WAYS.get(name) or partial(play, *name.split("."))
    alone, beside = (once(World(db, face, PAIRS[way], has_others), way, act) for has_others in (False, True))
    assert not alone[0].startswith("TypeError"), f"expected arguments of {name} in this test: {alone[0]}"
    assert alone == beside


def once(world: World, way: str, act: Callable[[World], Any]) -> tuple[str, str]:
    """Play; return the result and the stored documents of MINE."""
    with tenant(MINE) if way == "tenant" else nullcontext():
        result = ended(act, world)
    assert world.rows(THEIRS) == world.others
    stored = told(world.rows(MINE))
    world.clear()
    return result, stored


def test_all_is_told_with_all_tenants_or_without_the_scope(db: Connection, face: Face) -> None:
    for way, (parent, child) in PAIRS.items():
        world = World(db, face, (parent, child), True)
        with all_tenants() if way == "tenant" else nullcontext():
            assert face.call(child.unscoped(), "count") == 8
        world.clear()
