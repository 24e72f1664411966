"""Two tenants in one collection, and the calls of each terminal there: `DEEDS`, for `test_tenants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mangonel.bson import DBRef
from mangonel.odm import (
    AnyRef,
    Connection,
    Document,
    DocumentNotFound,
    Many,
    Ref,
    Refs,
    SoftDelete,
    Timestamps,
    UnsupportedOption,
    ValidationError,
    WrongTenant,
    all_tenants,
    current_tenant,
    field,
    inc,
    many,
    rename,
    set_,
    set_on_insert,
    tenant,
)
from odm.conftest import Face


class Firm(Document):
    __collection__ = "tenants_firms"
    name: str = ""


class Client(Document):
    __collection__ = "tenants_clients"
    __tenant__ = "firm"
    firm: str = field(default_factory=current_tenant)
    name: str = ""
    bills: Many[Bill] = many(by="client")


class Bill(SoftDelete):
    __collection__ = "tenants_bills"
    __tenant__ = "firm"
    firm: str = field(default_factory=current_tenant, key="f")
    n: int = 0
    text: str = ""
    client: Ref[Client] | None = field(default=None, on_delete="cascade")
    others: Refs[Client] = field(default_factory=Refs)


class Note(Timestamps):
    __collection__ = "tenants_notes"
    __tenant__ = "firm"
    firm: str = field(default_factory=current_tenant)
    client: Ref[Client] | None = field(default=None, on_delete="deny", touch=False)


class Paper(Document):
    __collection__ = "tenants_papers"
    __tenant__ = "firm"
    firm: str = field(default_factory=current_tenant)
    client: Ref[Client] | None = field(default=None, on_delete="nullify")
    n: int = 0


MINE, THEIRS = "mine", "theirs"
# The collections, each with the key that holds the tenant.
KEYS = (
    ("tenants_clients", "firm"),
    ("tenants_bills", "f"),
    ("tenants_papers", "firm"),
    ("tenants_notes", "firm"),
)


class World:
    """A client, a bill and a paper of each of two tenants, which differ by their tenant only."""

    def __init__(self, db: Connection, face: Face) -> None:
        self.db, self.face = db, face
        self.clients: dict[str, Client] = {}
        self.bills: dict[str, Bill] = {}
        self.papers: dict[str, Paper] = {}
        for name in (MINE, THEIRS):
            with tenant(name):
                client = self.clients[name] = Client(name="c")
                face.save(client)
                self.bills[name] = Bill(n=1, text="t", client=client, others=[client])
                self.papers[name] = Paper(client=client, n=1)
                face.save(self.bills[name], self.papers[name])

    def rows(self, name: str) -> list[Any]:
        """Return everything stored for a tenant."""
        database = self.db.client[self.db.name]
        return [database[coll].find({key: name}).sort("_id").to_list() for coll, key in KEYS]

    def rest(self) -> list[Any]:
        """Return everything stored without a known tenant."""
        database = self.db.client[self.db.name]
        return [database[coll].find({key: {"$nin": [MINE, THEIRS]}}).to_list() for coll, key in KEYS]


def query_over_all(world: World) -> Any:
    """Return a query that tries in every way to reach the other tenant's documents."""
    return Bill.unscoped({"$or": [{"f": THEIRS}, {"n": {"$gte": 0}}]})


def drained(face: Face, found: Any) -> list[Any]:
    """Return the items of either face's iterator."""
    if not face.is_async:
        return list(found)

    async def collect() -> list[Any]:
        return [item async for item in found]

    return list(face.run(collect))


def is_mine(world: World, found: Any) -> None:
    """Fail unless a result holds only this tenant's documents."""
    texts = repr(found)
    assert THEIRS not in texts
    assert repr(world.bills[THEIRS].id) not in texts
    assert repr(world.clients[THEIRS].id) not in texts


def ids(found: Any) -> list[Any]:
    return [document.id for document in found]


# By class and terminal: the call for the tenant MINE. It fails unless its result holds only that tenant's documents.
Deed = Callable[[World, Face], None]


def reads(check: Callable[[World, Any], bool], method: str, *args: Any, **kwargs: Any) -> Deed:
    def act(world: World, face: Face) -> None:
        found = face.call(query_over_all(world), method, *args, **kwargs)
        is_mine(world, found)
        assert check(world, found), found

    return act


def one_of_mine(world: World, found: Any) -> bool:
    return bool(found.id == world.bills[MINE].id)


def list_of_mine(world: World, found: Any) -> bool:
    return ids(found) == [world.bills[MINE].id]


def refused(error: type[Exception], act: Callable[[World, Face], Any]) -> Deed:
    def check(world: World, face: Face) -> None:
        with pytest.raises(error):
            act(world, face)

    return check


def stored_anew(world: World, face: Face, document: Any) -> None:
    """Fail unless a new document is stored for this tenant."""
    with all_tenants():
        assert face.call(type(document), "get", document.id).firm == MINE


def insert_many(world: World, face: Face) -> None:
    new = [Paper(n=5), Paper(n=6)]
    assert face.call(Paper, "insert_many", new) == 2
    stored_anew(world, face, new[1])
    with pytest.raises(WrongTenant):
        face.call(Paper, "insert_many", [Paper(n=7), Paper(firm=THEIRS)])
    assert face.call(Paper.find(Paper.n == 7), "count") == 0


def save_all(world: World, face: Face) -> None:
    world.papers[MINE].n = 9
    assert face.call(Paper, "save_all", [world.papers[MINE], Paper(n=10)]) == 2
    world.papers[THEIRS].n = 9
    with pytest.raises(WrongTenant):
        face.call(Paper, "save_all", [world.papers[THEIRS]])


def insert(world: World, face: Face) -> None:
    made = Paper(n=3)
    face.call(made, "insert")
    stored_anew(world, face, made)
    with pytest.raises(WrongTenant):
        face.call(Paper(firm=THEIRS), "insert")


def save(world: World, face: Face) -> None:
    made = Paper(n=3)
    face.save(made)
    stored_anew(world, face, made)
    moved = world.papers[MINE]
    moved.firm = THEIRS
    with pytest.raises(WrongTenant):
        face.save(moved)
    world.papers[THEIRS].n = 8
    with pytest.raises(WrongTenant):
        face.save(world.papers[THEIRS])
    # Its tenant is MINE, but the stored document is the other's.
    world.papers[THEIRS].firm = MINE
    with pytest.raises(DocumentNotFound):
        face.save(world.papers[THEIRS])
    with all_tenants():
        part = face.call(Paper.find(Paper.id == world.papers[THEIRS].id).only(Paper.n), "one")
    part.n = 8
    with pytest.raises(DocumentNotFound):
        face.save(part)


def of_document(method: str, *args: Any, **kwargs: Any) -> Deed:
    """An instance operation: it succeeds on own documents and is refused on others, even with an unloaded tenant."""

    def act(world: World, face: Face) -> None:
        with pytest.raises((WrongTenant, DocumentNotFound)):
            face.call(world.papers[THEIRS], method, *args, **kwargs)
        with all_tenants():
            part = face.call(Paper.find(Paper.id == world.papers[THEIRS].id).exclude(Paper.firm), "one")
        if method == "delete":
            face.call(part, method)
        else:
            with pytest.raises((WrongTenant, DocumentNotFound, ValueError)):
                face.call(part, method, *args, **kwargs)
        face.call(world.papers[MINE], method, *args, **kwargs)

    return act


def query_update(world: World, face: Face) -> None:
    assert face.call(query_over_all(world), "update", inc(Bill.n)) == 1
    assert face.call(query_over_all(world), "update", [{"$set": {"n": 9}}]) == 1
    assert face.call(query_over_all(world).limit(5), "update", inc(Bill.n)) == 1
    for change in (
        set_(Bill.firm, THEIRS),
        set_on_insert(Bill.firm, THEIRS),
        {"$unset": {"f": ""}},
        rename(Bill.text, "f"),
        {"$rename": {"f": "g"}},
        [{"$set": {"f": THEIRS}}],
        [{"$unset": "f"}],
        [{"$addFields": {"f.x": 1}}],
    ):
        with pytest.raises((WrongTenant, ValidationError)):
            face.call(query_over_all(world), "update", change)
    assert face.call(Bill.find(), "update", set_(Bill.firm, MINE), inc(Bill.n)) == 1
    assert face.call(Bill.find(), "update", [{"$replaceWith": {"_id": "$_id", "n": 1}}]) == 1
    assert face.call(Bill.find(), "count") == 1
    assert face.call(Bill.find(Bill.text == "new"), "update", inc(Bill.n), upsert=True) == 1
    assert face.call(Bill.find(Bill.text == "new"), "one").firm == MINE


def query_delete(world: World, face: Face) -> None:
    assert face.call(Paper.find({"firm": THEIRS}), "delete") == 0
    assert face.call(Paper.find({"$or": [{"firm": THEIRS}, {"n": 1}]}), "delete") == 1
    assert face.call(query_over_all(world), "delete") == 1
    # Delete rules reach only this tenant's documents.
    assert face.call(Client.find(), "delete") == 1


def find_and_update(world: World, face: Face) -> None:
    assert face.call(Bill.find({"f": THEIRS}), "find_and_update", inc(Bill.n)) is None
    is_mine(world, face.call(query_over_all(world), "find_and_update", inc(Bill.n)))
    made = face.call(Bill.find(Bill.text == "x"), "find_and_update", inc(Bill.n), upsert=True)
    stored_anew(world, face, made)
    with pytest.raises(WrongTenant):
        face.call(Bill.find(), "find_and_update", set_(Bill.firm, THEIRS))


def find_and_replace(world: World, face: Face) -> None:
    query = Paper.find({"$or": [{"firm": THEIRS}, {"n": 1}]}).sort("-_id")
    assert face.call(query, "find_and_replace", Paper(n=4)).id == world.papers[MINE].id
    with pytest.raises(WrongTenant):
        face.call(Paper.find(), "find_and_replace", Paper(firm=THEIRS))
    made = face.call(Paper.find(Paper.n == 77), "find_and_replace", Paper(n=77), upsert=True)
    stored_anew(world, face, made)


def find_and_delete(world: World, face: Face) -> None:
    assert face.call(Paper.find({"firm": THEIRS}), "find_and_delete") is None
    assert face.call(Paper.find(), "find_and_delete").id == world.papers[MINE].id
    assert face.call(query_over_all(world), "find_and_delete").id == world.bills[MINE].id


def upsert(world: World, face: Face) -> None:
    assert face.call(query_over_all(world), "upsert", inc(Bill.n)).id == world.bills[MINE].id
    made = face.call(Bill.find(Bill.n == 50), "upsert", on_insert=Bill(n=50, text="new"))
    stored_anew(world, face, made)
    with pytest.raises(WrongTenant):
        face.call(Bill.find(Bill.n == 51), "upsert", on_insert=Bill(n=51, firm=THEIRS))


def get_or_create(world: World, face: Face) -> None:
    found, is_new = face.call(query_over_all(world), "get_or_create", Bill())
    assert (found.id, is_new) == (world.bills[MINE].id, False)
    made, is_new = face.call(Bill.find({"n": 60}), "get_or_create", Bill(n=60))
    assert is_new
    stored_anew(world, face, made)


PIPELINES: list[list[Any]] = [
    [],
    [{"$unionWith": "tenants_bills"}],
    [{"$unionWith": {"coll": "tenants_bills", "pipeline": [{"$match": {"n": 1}}]}}],
    [{"$lookup": {"from": "tenants_clients", "pipeline": [], "as": "all"}}],
    [
        {
            "$lookup": {
                "from": "tenants_clients",
                "localField": "missing",
                "foreignField": "missing",
                "as": "all",
            }
        }
    ],
    [{"$lookup": {"from": "tenants_firms", "pipeline": [{"$unionWith": "tenants_clients"}], "as": "all"}}],
    [
        {
            "$facet": {
                "a": [{"$unionWith": "tenants_bills"}],
                "b": [{"$lookup": {"from": "tenants_papers", "pipeline": [], "as": "x"}}],
            }
        }
    ],
    [
        {
            "$graphLookup": {
                "from": "tenants_bills",
                "startWith": "$n",
                "connectFromField": "n",
                "connectToField": "n",
                "as": "all",
            }
        }
    ],
]


def aggregate(world: World, face: Face) -> None:
    for stages in PIPELINES:
        for owner in (query_over_all(world), Bill, Firm):
            is_mine(world, face.call(owner, "aggregate", stages))
    with pytest.raises(UnsupportedOption, match=r"\$collStats of 'tenants_bills'.*all_tenants"):
        face.call(Bill, "aggregate", [{"$collStats": {"count": {}}}])
    for stage in (
        {"$out": "tenants_bills"},
        {"$merge": "tenants_bills"},
        {"$merge": {"into": "tenants_bills"}},
    ):
        with pytest.raises(UnsupportedOption, match=r"cannot honour \$(out|merge) of 'tenants_bills'"):
            face.call(Firm, "aggregate", [stage])


def watch(world: World, face: Face) -> None:
    with pytest.raises(UnsupportedOption, match="full_document=None"):
        face.call(Paper.watch(full_document=None), "try_next")
    changes = Paper.watch(max_await_time_ms=200)
    assert face.call(changes, "try_next") is None
    with tenant(THEIRS):
        face.save(Paper(n=1))
        face.call(Paper.find(), "update", inc(Paper.n))
        face.call(Paper.find(), "delete")
    made = Paper(n=2)
    face.save(made)
    event = next(found for found in iter(lambda: face.call(changes, "try_next"), 0) if found is not None)
    assert (event.operation, event.id) == ("insert", made.id)
    assert face.call(changes, "try_next") is None
    face.call(changes, "close")


def get_many(world: World, face: Face) -> None:
    found = face.call(Paper, "get_many", ids(world.papers.values()))
    assert ids(found) == [world.papers[MINE].id]


def reference(world: World, face: Face) -> None:
    with all_tenants():
        theirs = face.call(Bill, "get", world.bills[THEIRS].id)
    with pytest.raises(DocumentNotFound):
        face.call(theirs.client, "get")
    mine = face.call(Bill, "get", world.bills[MINE].id)
    assert face.call(mine.client, "get").id == world.clients[MINE].id


def references(world: World, face: Face) -> None:
    with all_tenants():
        theirs = face.call(Bill, "get", world.bills[THEIRS].id)
    assert face.call(theirs.others, "all") == []
    mine = face.call(Bill, "get", world.bills[MINE].id)
    mine.others.add(world.clients[THEIRS].id)
    assert ids(face.call(mine.others, "all")) == [world.clients[MINE].id]


def any_reference_to(world: World, name: str) -> AnyRef:
    found: AnyRef = AnyRef.__from_bson__(DBRef("tenants_papers", world.papers[name].id))
    return found


def any_reference(world: World, face: Face) -> None:
    with pytest.raises(DocumentNotFound):
        face.call(any_reference_to(world, THEIRS), "get")
    assert face.call(any_reference_to(world, MINE), "get").n == 1


def inverse(method: str) -> Deed:
    def act(world: World, face: Face) -> None:
        with all_tenants():
            theirs = face.call(Client, "get", world.clients[THEIRS].id)
        assert face.call(theirs.bills, method) in ([], 0)
        assert face.call(world.clients[MINE].bills, method) in (1, [world.bills[MINE]])

    return act


def get(world: World, face: Face) -> None:
    assert face.call(Bill, "get", world.bills[MINE].id).n == 1
    with pytest.raises(DocumentNotFound):
        face.call(Bill, "get", world.bills[THEIRS].id)


def get_or_none(world: World, face: Face) -> None:
    assert face.call(Bill, "get_or_none", world.bills[MINE].id).n == 1
    assert face.call(Bill, "get_or_none", world.bills[THEIRS].id) is None


def arrow(world: World, face: Face) -> None:
    assert len(face.call(query_over_all(world), "to_arrow", {"n": int})) == 1


def frame(method: str, package: str) -> Deed:
    def act(world: World, face: Face) -> None:
        pytest.importorskip(package)
        found = face.call(query_over_all(world), method, {"n": int})
        assert len(found["n"]) == 1

    return act


def iter_arrow(world: World, face: Face) -> None:
    query = query_over_all(world)
    tables = drained(face, (query.aiter_arrow if face.is_async else query.iter_arrow)({"n": int}))
    assert sum(map(len, tables)) == 1


def explain(world: World, face: Face) -> None:
    assert f"'{MINE}'" in repr(face.call(query_over_all(world), "explain"))


def page(world: World, face: Face) -> None:
    found = face.call(query_over_all(world), "page", 1)
    assert (ids(found.items), found.next) == ([world.bills[MINE].id], None)


def paginate(world: World, face: Face) -> None:
    found = face.call(query_over_all(world), "paginate", 1, 1)
    assert (ids(found.items), found.total) == ([world.bills[MINE].id], 1)


DEEDS: dict[str, Deed | str] = {
    # These models keep no history; `test_history.py` tests a tenant's.
    **dict.fromkeys(
        ("Audited.history", "Audited.history_of", "Versioned.at", "Versioned.get_at"), "in test_history.py"
    ),
    "QueryReads.all": reads(list_of_mine, "all"),
    "QueryReads.first": reads(one_of_mine, "first"),
    "QueryReads.one": reads(one_of_mine, "one"),
    "QueryReads.last": reads(one_of_mine, "last"),
    "QueryReads.nth": reads(lambda world, found: found is None, "nth", 1),
    "QueryReads.count": reads(lambda world, found: found == 1, "count"),
    "QueryReads.exists": reads(lambda world, found: found is True, "exists"),
    "QueryReads.is_empty": reads(lambda world, found: found is False, "is_empty"),
    "QueryReads.distinct": reads(lambda world, found: found == [MINE], "distinct", Bill.firm),
    "QueryReads.dicts": reads(lambda world, found: len(found) == 1, "dicts"),
    "QueryReads.raw": reads(lambda world, found: len(found) == 1, "raw"),
    "QueryReads.json": reads(lambda world, found: found.count(b'"n"') == 1, "json"),
    "QueryReads.values": reads(lambda world, found: found == [(MINE, 1)], "values", Bill.firm, Bill.n),
    "QueryReads.explain": explain,
    "QueryReads.page": page,
    "QueryReads.paginate": paginate,
    "QueryColumns.to_arrow": arrow,
    "QueryColumns.to_polars": frame("to_polars", "polars"),
    "QueryColumns.to_pandas": frame("to_pandas", "pandas"),
    "QueryColumns.to_numpy": frame("to_numpy", "pyarrow"),
    "QueryColumns.iter_arrow": iter_arrow,
    "QueryAggregates.aggregate": aggregate,
    "QueryAggregates.sum": reads(lambda world, found: found == 1, "sum", Bill.n),
    "QueryAggregates.avg": reads(lambda world, found: found == 1, "avg", Bill.n),
    "QueryAggregates.min": reads(lambda world, found: found == MINE, "min", Bill.firm),
    "QueryAggregates.max": reads(lambda world, found: found == MINE, "max", Bill.firm),
    "QueryWrites.update": query_update,
    "QueryWrites.delete": query_delete,
    "QueryWrites.find_and_update": find_and_update,
    "QueryWrites.find_and_replace": find_and_replace,
    "QueryWrites.find_and_delete": find_and_delete,
    "QueryWrites.upsert": upsert,
    "QueryWrites.get_or_create": get_or_create,
    "Changes.try_next": watch,
    "Changes.close": watch,
    "Document.get": get,
    "Document.get_or_none": get_or_none,
    "Document.get_many": get_many,
    "Document.estimated_count": refused(
        UnsupportedOption, lambda world, face: face.call(Bill, "estimated_count")
    ),
    "Document.insert": insert,
    "Document.save": save,
    "Document.replace": of_document("replace"),
    "Document.update": of_document("update", inc(Paper.n)),
    "Document.delete": of_document("delete"),
    "Document.reload": of_document("reload"),
    "Document.insert_many": insert_many,
    "Document.save_all": save_all,
    "Document.aggregate": aggregate,
    "AnyRef.get": any_reference,
    "Ref.get": reference,
    "Refs.all": references,
    "Many.all": inverse("all"),
    "Many.count": inverse("count"),
    # Terminals that reach no documents of a model, or belong to the driver, which knows no tenants.
    "Connection.client": "the driver's client",
    "Connection.run": "runs a function of the program",
    "Connection.close": "sends no operation",
    "Document.collection": "the driver's collection",
    "Document.create_collection": "no documents",
    "Document.sync_indexes": "no documents",
    "Document.sync_search_indexes": "no documents",
    "Document.shard_collection": "no documents",
    "File.put": "a file of GridFS belongs to no model",
    "File.read": "a file of GridFS belongs to no model",
    "File.delete": "a file of GridFS belongs to no model",
}
