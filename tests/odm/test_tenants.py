"""Two tenants in one collection: an operation of one never touches the other's documents."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest

from mangonel.odm import (
    Connection,
    DeleteDenied,
    Document,
    NoTenant,
    Ref,
    UnsupportedOption,
    ValidationError,
    WrongTenant,
    all_tenants,
    current_tenant,
    field,
    inc,
    tenant,
)
from mangonel.odm.query import watch
from odm.conftest import Face
from odm.tenant_deeds import (
    DEEDS,
    MINE,
    THEIRS,
    Bill,
    Client,
    Firm,
    Note,
    Paper,
    World,
    any_reference_to,
    drained,
    ids,
    query_over_all,
)
from odm.test_terminals import terminals


@pytest.fixture
def world(db: Connection, face: Face) -> World:
    return World(db, face)


# The matrix.


def test_every_terminal_has_its_deed() -> None:
    assert {f"{cls.__name__}.{name}" for cls, name in terminals()} == DEEDS.keys()


@pytest.mark.parametrize("name", [name for name, deed in DEEDS.items() if callable(deed)])
def test_a_terminal_reaches_only_the_documents_of_its_tenant(name: str, world: World, face: Face) -> None:
    deed: Any = DEEDS[name]
    before = world.rows(THEIRS)
    with tenant(MINE):
        deed(world, face)
    if name.startswith("Changes."):
        # The stream has calls of its own.
        before[2] = []
    assert (world.rows(THEIRS), world.rest()) == (before, [[]] * 4)


def test_without_a_tenant_every_terminal_raises_and_stores_nothing(world: World, face: Face) -> None:
    before = world.rows(MINE), world.rows(THEIRS)
    for name, deed in DEEDS.items():
        # Close a stream that was never opened; the documents of these references are known.
        if callable(deed) and name not in ("Changes.close", "Ref.get", "Refs.all"):
            with pytest.raises(NoTenant, match="expected a tenant"):
                without_a_tenant(world, face, *name.split("."))
    assert (world.rows(MINE), world.rows(THEIRS)) == before


def without_a_tenant(world: World, face: Face, kind: str, method: str) -> None:
    """Call a terminal with valid arguments."""
    arguments: dict[str, tuple[Any, ...]] = {
        "nth": (0,),
        **dict.fromkeys(("distinct", "values", "sum", "avg", "min", "max"), (Bill.n,)),
        **dict.fromkeys(("get", "get_or_none"), (world.bills[MINE].id,)),
        "get_many": ([world.bills[MINE].id],),
        "aggregate": ([],),
        **dict.fromkeys(("update", "find_and_update", "upsert"), (inc(Bill.n),)),
        **dict.fromkeys(("find_and_replace", "get_or_create"), (Bill(firm=MINE),)),
        **dict.fromkeys(("insert_many", "save_all"), ([Bill(firm=MINE)],)),
    }
    owners: dict[str, Any] = {
        "Changes": Bill.watch(),
        "Many": world.clients[MINE].bills,
        "AnyRef": any_reference_to(world, MINE),
        "Document": Bill,
    }
    owner = owners.get(kind, Bill.find())
    if kind == "Document" and not isinstance(vars(Document)[method], classmethod):
        owner = Bill(firm=MINE) if method == "insert" else world.bills[MINE]
        owner.n += 1
    if method == "iter_arrow":
        drained(face, (owner.aiter_arrow if face.is_async else owner.iter_arrow)({"n": int}))
    else:
        face.call(owner, method, *(arguments.get(method, ()) if kind != "AnyRef" else ()))


def test_iterating_reaches_only_the_documents_of_its_tenant(world: World, face: Face) -> None:
    with tenant(MINE):
        assert ids(drained(face, query_over_all(world))) == [world.bills[MINE].id]
    with pytest.raises(NoTenant):
        drained(face, query_over_all(world))


# Besides the terminals.


@pytest.mark.parametrize("way", ["include", "lookup"])
def test_a_document_of_another_tenant_is_not_included(way: str, world: World, face: Face) -> None:
    bills = world.db.client[world.db.name]["tenants_bills"]
    bills.update_one({"f": MINE}, {"$set": {"client": world.clients[THEIRS].id}})
    with tenant(MINE):
        found = face.call(getattr(Bill.find(), way)(Bill.client), "one")
        assert found.client.id == world.clients[THEIRS].id
        assert not found.client.is_loaded
    with all_tenants():
        found = face.call(getattr(Bill.find({"f": MINE}), way)(Bill.client), "one")
        assert found.client.is_loaded


def test_delete_rules_stay_within_the_tenant(world: World, face: Face) -> None:
    database = world.db.client[world.db.name]
    # References across tenants, as a raw program makes them.
    for name in ("tenants_bills", "tenants_papers"):
        database[name].update_many({}, {"$set": {"client": world.clients[MINE].id}})
    before = world.rows(THEIRS)
    database["tenants_notes"].insert_one({"firm": THEIRS, "client": world.clients[MINE].id})
    with tenant(MINE):
        face.call(world.clients[MINE], "delete")
        assert face.call(Bill.find(), "count") == 0
        assert face.call(Paper.find(), "one").client is None
    assert world.rows(THEIRS)[:3] == before[:3]


def test_a_deny_rule_holds_within_the_tenant(world: World, face: Face) -> None:
    with tenant(MINE):
        face.save(Note(client=world.clients[MINE]))
        for act in (
            lambda: face.call(world.clients[MINE], "delete"),
            lambda: face.call(Client.find(), "delete"),
        ):
            with pytest.raises(DeleteDenied):
                act()


def test_a_document_of_all_tenants_is_not_deleted_for_one(db: Connection, face: Face) -> None:
    class Land(Document):
        __collection__ = "lands"

    class Town(Document):
        __collection__ = "towns"
        __tenant__ = "firm"
        firm: str = field(default_factory=current_tenant)
        land: Ref[Land] | None = field(default=None, on_delete="nullify")

    land = Land()
    face.save(land)
    with tenant(THEIRS):
        face.save(Town(land=land))
    with tenant(MINE):
        for owner in (land, Land.find()):
            with pytest.raises(WrongTenant, match="Town of every tenant may refer to it"):
                face.call(owner, "delete")
    with all_tenants():
        face.call(land, "delete")
        assert face.call(Town.find(), "one").land is None


def test_unscoped_leaves_out_the_default_scope_and_keeps_the_tenant(world: World, face: Face) -> None:
    with tenant(MINE):
        face.call(world.bills[MINE], "delete")
        assert face.call(Bill.find(), "count") == 0
        assert ids(face.call(Bill.unscoped(), "all")) == [world.bills[MINE].id]
        assert ids(face.call(Bill.deleted(), "all")) == [world.bills[MINE].id]


@pytest.mark.parametrize("where", ["query", "aggregate", "collection"])
def test_no_collation_makes_one_tenant_of_two(where: str, db: Connection, face: Face) -> None:
    rules = {"locale": "en", "strength": 1}

    class Shelf(Document):
        __collection__ = "shelves"
        __tenant__ = "firm"
        __collection_options__ = {"collation": rules} if where == "collection" else {}
        firm: str = field(default_factory=current_tenant)
        n: int = 0

    face.call(Shelf, "create_collection")
    shelves = {}
    for name in ("abc.", "ABC.", "abc!"):
        with tenant(name):
            shelves[name] = Shelf()
            face.save(shelves[name])
    with tenant("abc."):
        query = Shelf.find().collation(rules) if where == "query" else Shelf.find()
        if where == "aggregate":
            assert len(face.call(Shelf, "aggregate", [], collation=rules)) == 1
        else:
            assert face.call(query, "count") == 1
            assert face.call(query, "update", inc(Shelf.n)) == 1
            assert face.call(query.find(Shelf.n == 5), "update", inc(Shelf.n), upsert=True) == 1
            assert face.call(Shelf.find(Shelf.n == 6), "one").firm == "abc."
            assert face.call(query, "delete") == 2
    with all_tenants():
        kept = {shelf.firm for shelf in face.call(Shelf.find(), "all")}
    assert kept == ({"abc.", "ABC.", "abc!"} if where == "aggregate" else {"ABC.", "abc!"})


def test_the_modifier_that_would_drop_the_condition_is_refused(world: World, face: Face) -> None:
    with tenant(MINE), pytest.raises(UnsupportedOption, match=r"\$query"):
        face.call(Bill.unscoped({"$query": {"f": THEIRS}}), "first")


def test_each_thread_and_each_task_has_its_own_tenant(world: World) -> None:
    found: dict[str, Any] = {}

    def count(name: str) -> None:
        try:
            found[name] = current_tenant()
        except NoTenant as error:
            found[name] = error

    with tenant(MINE):
        thread = threading.Thread(target=count, args=["thread"])
        thread.start()
        thread.join()
        count("own")
    assert isinstance(found["thread"], NoTenant)
    assert found["own"] == MINE

    async def work(name: str) -> str:
        with tenant(name):
            await asyncio.sleep(0)
            return str(current_tenant())

    async def main() -> list[str]:
        return await asyncio.gather(*map(work, [MINE, THEIRS]))

    assert asyncio.run(main()) == [MINE, THEIRS]


def test_blocks_nest_and_a_query_is_of_the_tenant_that_it_is_read_for(world: World, face: Face) -> None:
    query = Bill.find()
    with tenant(MINE):
        with tenant(THEIRS):
            assert ids(face.call(query, "all")) == [world.bills[THEIRS].id]
        with all_tenants():
            assert face.call(query, "count") == 2
            with pytest.raises(NoTenant, match="in a block of all_tenants"):
                Bill()
        assert ids(face.call(query, "all")) == [world.bills[MINE].id]
    assert repr(query) == "Query(Bill, {'deleted_at': None})"


def test_all_tenants_move_a_document_and_no_upsert_makes_one_of_none(world: World, face: Face) -> None:
    with all_tenants():
        paper = face.call(Paper, "get", world.papers[MINE].id)
        paper.firm = THEIRS
        face.save(paper)
        assert face.call(Paper.find({"firm": THEIRS}), "count") == 2
        with pytest.raises(NoTenant, match="may insert"):
            face.call(Paper.find({"n": 70}), "update", inc(Paper.n), upsert=True)
        assert face.call(Paper.find({"n": 70, "firm": "new"}), "update", inc(Paper.n), upsert=True) == 1


def test_a_tenant_may_be_the_document_of_a_reference_and_must_fit_the_field(
    db: Connection, face: Face
) -> None:
    class Desk(Document):
        __collection__ = "desks"
        __tenant__ = "firm"
        firm: Ref[Firm] = field(default_factory=current_tenant)

    firm, other = Firm(name="a"), Firm(name="b")
    face.save(firm, other)
    for given in (firm, firm.id, Ref(firm)):
        with tenant(given):
            desk = Desk()
            face.save(desk)
            assert face.call(desk, "reload").firm.id == firm.id
    with tenant(other):
        assert face.call(Desk.find(), "count") == 0
    with tenant(firm.id):
        assert face.call(Desk.find(), "count") == 3
    for wrong in (5, {"$ne": None}, [firm.id]):
        with tenant(wrong), pytest.raises(ValidationError):
            face.call(Desk.find(), "count")
    with pytest.raises(ValueError, match="expected a tenant, got None"), tenant(None):
        pass


def test_a_value_that_is_a_condition_is_no_tenant(db: Connection, face: Face) -> None:
    class Loose(Document):
        __collection__ = "loose"
        __tenant__ = "firm"
        firm: Any = field(default_factory=current_tenant)

    for wrong in ({"$ne": None}, {"a": 1}, [1]):
        with tenant(wrong), pytest.raises(ValidationError, match="one value"):
            face.call(Loose.find(), "count")


def test_a_family_keeps_its_tenants_apart(db: Connection, face: Face) -> None:
    class Beast(Document):
        __collection__ = "beasts"
        __root__ = True
        __tenant__ = "firm"
        firm: str = field(default_factory=current_tenant)

    class Cat(Beast):
        lives: int = 9

    for name in (MINE, THEIRS):
        with tenant(name):
            face.save(Beast(), Cat())
    with tenant(MINE):
        assert face.call(Beast.find(), "count") == 2
        assert face.call(Cat.find(), "count") == 1
        changes = Cat.watch(max_await_time_ms=50)
        assert face.call(changes, "try_next") is None
        face.call(changes, "close")


def test_a_shard_key_tells_deletions_of_the_tenant(db: Connection, face: Face) -> None:
    class Slip(Document):
        __collection__ = "slips"
        __tenant__ = "firm"
        __shard_key__: ClassVar[dict[str, int]] = {"firm": 1}
        firm: str = field(default_factory=current_tenant)

    with tenant(MINE):
        slip = Slip()
        face.save(slip)
        changes = Slip.watch(full_document=None, max_await_time_ms=50)
        assert face.call(changes, "try_next") is None
        face.call(slip, "delete")
        face.call(changes, "close")
        assert face.call(Slip.find(), "count") == 0


class Kept(Document):
    __collection__ = "tenants_kept"
    __tenant__ = "firm"
    __collection_options__: ClassVar[dict[str, Any]] = {"changeStreamPreAndPostImages": {"enabled": True}}
    firm: str = field(default_factory=current_tenant)


class Forgotten(Document):
    __collection__ = "tenants_forgotten"
    __tenant__ = "firm"
    firm: str = field(default_factory=current_tenant)


def told(caplog: Any) -> list[Any]:
    """Return the mapper's log messages; asyncio may log leftovers of another test."""
    return [record for record in caplog.records if record.name.startswith("mangonel")]


def test_documents_before_changes_tell_deletions_of_the_tenant(
    db: Connection, face: Face, caplog: Any
) -> None:
    face.call(Kept, "create_collection")
    with tenant(THEIRS):
        others = Kept()
        face.save(others)
    with tenant(MINE):
        mine = Kept()
        face.save(mine)
        changes = Kept.watch(max_await_time_ms=50)
        assert face.call(changes, "try_next") is None
    with tenant(THEIRS):
        face.call(others, "delete")
    with tenant(MINE):
        face.call(mine, "delete")
        event = next(found for found in iter(lambda: face.call(changes, "try_next"), 0) if found is not None)
        assert (event.operation, event.id, event.before) == ("delete", mine.id, mine)
        face.call(changes, "close")
        # Explicit requests of the program are left alone.
        plain = Kept.watch(max_await_time_ms=50, full_document_before_change=None)
        assert face.call(plain, "try_next") is None
        face.call(plain, "close")
    assert not told(caplog)


def test_a_collection_without_documents_before_changes_is_warned_of_once(
    db: Connection, face: Face, caplog: Any
) -> None:
    watch._told.discard(Forgotten)
    with tenant(MINE):
        for _ in range(2):
            changes = Forgotten.watch(max_await_time_ms=50)
            assert face.call(changes, "try_next") is None
            face.call(changes, "close")
    (record,) = told(caplog)
    assert record.name == "mangonel.odm"
    assert "watch() of Forgotten for one tenant leaves out deletions" in record.getMessage()
    assert "'tenants_forgotten'" in record.getMessage()


@pytest.mark.parametrize(
    "stage",
    [
        {"$lookup": {"from": "tenants_clients", "pipeline": [], "as": "all"}},
        {"$facet": {"a": [{"$unionWith": "tenants_clients"}]}},
        {"$unionWith": {"coll": "tenants_firms", "pipeline": [{"$unionWith": {"coll": "tenants_clients"}}]}},
        {
            "$graphLookup": {
                "from": "tenants_clients",
                "startWith": "$name",
                "connectFromField": "name",
                "connectToField": "name",
                "as": "all",
            }
        },
    ],
)
def test_a_view_that_reads_documents_of_tenants_says_how_it_keeps_them_apart(stage: dict[str, Any]) -> None:
    with pytest.raises(
        TypeError, match=r"expected a __tenant__ in Joined, a view of Client, which keeps tenants"
    ):

        class Joined(Document):
            __view__ = (Firm, [stage])
            name: str = ""

    class All(Document):
        __view__ = (Firm, [stage])
        __tenant__ = None
        name: str = ""


def test_wrong_definitions_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected the name of a field as Wrong\.__tenant__, got 'firm'"):

        class Wrong(Document):
            __tenant__ = "firm"

    with pytest.raises(TypeError, match=r"__tenants__.*__tenant__"):

        class Misspelt(Document):
            __tenants__ = "firm"

    with pytest.raises(TypeError, match="a view of Bill, which keeps tenants apart"):

        class View(Document):
            __view__ = (Bill, [])

    class Total(Document):
        __view__ = (Bill, [])
        __tenant__ = None

    class Root(Document):
        __root__ = True
        __collection__ = "roots"

    with pytest.raises(TypeError, match="expected the tenant None of its family Root in Leaf, got 'firm'"):

        class Leaf(Root):
            __tenant__ = "firm"
            firm: str

    assert Total.__tenant__ is None
