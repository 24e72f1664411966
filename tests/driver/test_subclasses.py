"""Subclasses of databases and collections with their own constructors, and stand-ins for clients."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import mangonel
from mangonel import MongoClient, ReadPreference, WriteConcern
from mangonel._core import ChildTemplate
from mangonel._shared.collection.collection import _FIELDS
from mangonel.api import AsyncCollection, AsyncDatabase, Collection, Cursor, Database
from mangonel.bson.codec_options import CodecOptions
from mangonel.errors import InvalidOperation
from tools.faces import found
from tools.scripted_server import ScriptedServer


class Shop(Database):
    def __init__(self, client: Any) -> None:
        super().__init__(client, "shop", write_concern=WriteConcern(w=2))


class Orders(Collection):
    def __init__(self, database: Any) -> None:
        super().__init__(database, "orders", write_concern=WriteConcern(w=2))


@pytest.fixture
def client() -> Any:
    with MongoClient(connect=False) as client:
        yield client


def test_with_options_of_a_subclass_returns_the_plain_class(client: Any) -> None:
    shop = Shop(client)
    orders = Orders(shop)

    other = shop.with_options(read_preference=ReadPreference.SECONDARY)
    assert type(other) is Database
    assert (other.name, other.read_preference, other.write_concern) == (
        "shop",
        ReadPreference.SECONDARY,
        WriteConcern(w=2),
    )
    changed = orders.with_options(read_preference=ReadPreference.SECONDARY)
    assert type(changed) is Collection
    assert changed.write_concern == WriteConcern(w=2)


def test_dotted_access_of_a_subclass_returns_the_plain_class(client: Any) -> None:
    orders = Orders(Shop(client))

    assert type(orders.archive) is Collection
    assert type(orders["archive"]) is Collection
    assert orders.archive.full_name == "shop.orders.archive"
    assert orders.archive.write_concern == WriteConcern(w=2)


def test_the_asyncio_face_returns_its_own_classes() -> None:
    client = mangonel.AsyncMongoClient()

    class Own(AsyncCollection):
        def __init__(self) -> None:
            super().__init__(client.shop, "orders")

    assert type(client.shop.with_options()) is AsyncDatabase
    assert type(Own().archive) is AsyncCollection
    assert type(Own().with_options()) is AsyncCollection


class InMemory:
    """Shows only a client's public attributes; any other name is one of its databases."""

    def __init__(self, model: Any) -> None:
        self.options = model.options
        self.codec_options = model.codec_options
        self.read_preference = model.read_preference
        self.write_concern = model.write_concern
        self.read_concern = model.read_concern

    def __getattr__(self, name: str) -> Any:
        return Database(self, name)  # type: ignore[arg-type]


def test_a_database_of_a_stand_in_for_a_client_reads_its_public_attributes(client: Any) -> None:
    class MongoClient(InMemory):
        pass

    things = MongoClient(client).shop.things

    assert things.full_name == "shop.things"
    assert things.codec_options == client.codec_options
    with pytest.raises(InvalidOperation, match="expected a client of this driver"):
        things.find_one()


def test_a_database_of_something_else_is_refused(client: Any) -> None:
    with pytest.raises(TypeError, match="MongoClient required but given InMemory"):
        Database(InMemory(client), "shop")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Database required but given object"):
        Collection(object(), "orders")  # type: ignore[arg-type]


def test_a_name_asked_for_again_is_made_by_the_constructor(client: Any) -> None:
    for _ in range(3):
        shop = client["shop"]
        assert (type(shop), type(shop["orders"])) == (Database, Collection)
        assert vars(shop["orders"]) == vars(Collection(shop, "orders"))
        assert {**vars(shop), "_collections": None} == vars(Database(client, "shop"))
        # `with_options` copies exactly these.
        assert set(vars(shop["orders"])) == set(_FIELDS)
        assert vars(shop["orders"].with_options()) == vars(shop["orders"])


def test_names_of_a_class_with_its_own_factory_are_made_by_it(client: Any) -> None:
    class ByInit(Collection):
        def __init__(self, database: Any, name: str) -> None:
            super().__init__(database, name, write_concern=WriteConcern(w=2))

    class ByNew(Collection):
        def __new__(cls, *_: Any) -> Any:
            made = super().__new__(cls)
            made.__dict__["mark"] = 1
            return made

    class OfInit(Database):
        _collection_class = ByInit

    class OfNew(Database):
        _collection_class = ByNew

    for _ in range(2):
        by_init, by_new = OfInit(client, "shop")["orders"], OfNew(client, "shop")["orders"]
        assert (type(by_init), by_init.write_concern) == (ByInit, WriteConcern(w=2))
        assert (type(by_new), by_new.mark, by_new.name) == (ByNew, 1, "orders")


def test_collections_of_a_database_with_a_time_limit_have_it(client: Any) -> None:
    shop = client.shop
    for _ in range(2):
        assert shop["orders"]._port.limit is None
        limited = shop.with_options(timeout_ms=5)
        assert limited["orders"]._port.limit == limited["orders"].find()._port.limit == 0.005
        assert shop._limited(7)["orders"]._port.limit == 0.007
        assert limited["orders"].with_options()._port.limit == 0.005


def test_fields_of_a_subclass_are_not_copied_by_with_options(client: Any) -> None:
    orders = Orders(Shop(client))
    orders.__dict__["extra"] = 1

    changed = orders.with_options(read_preference=ReadPreference.SECONDARY)

    assert "extra" not in vars(changed)
    assert changed.write_concern == WriteConcern(w=2)


def test_what_a_write_keeps_belongs_to_the_codec_options(client: Any) -> None:
    orders = client.shop.orders
    kept = orders._reply_codec = object()
    assert orders.with_options(write_concern=WriteConcern(w=2))._reply_codec is kept
    assert orders.with_options(codec_options=CodecOptions(tz_aware=True))._reply_codec is None


def test_an_owner_that_its_port_refers_to_is_collected_with_its_template() -> None:
    class Owner:
        pass

    owner: Any = Owner()
    owner.template = ChildTemplate(Owner, Owner.__init__, {"_port": owner}, set())
    ended = weakref.ref(owner)
    del owner
    gc.collect()
    assert ended() is None


def test_a_client_that_gave_databases_ends_with_its_last_reference() -> None:
    client = MongoClient(connect=False)
    for _ in range(2):
        client["shop"]["orders"]
    ended = weakref.ref(client)
    gc.disable()
    try:
        del client
        assert ended() is None
    finally:
        gc.enable()


class Slotted:
    __slots__ = ("a",)


class SlottedCursor(Slotted, Cursor):
    """A class with two layouts, whose batches are kept in Python."""


def test_a_cursor_of_a_class_with_slots_is_killed_when_it_is_dropped_and_not_before(
    scripted_server: ScriptedServer,
) -> None:
    scripted_server.once("find", found({"_id": 1}, id=9))
    scripted_server.on("find", found({"_id": 1}, id=8))
    scripted_server.on("getMore", found({"_id": 2}, id=9, batch="nextBatch"))
    with MongoClient(scripted_server.uri) as client:
        cursor: Any = SlottedCursor(client.shop.orders)
        assert [next(cursor)["_id"] for _ in range(3)] == [1, 2, 2]
        assert cursor.retrieved == 3
        # The background kills cursors in the order they were dropped.
        client.shop.orders.find().next()
        scripted_server.wait_for("killCursors")
        cursor.close()
        killed = scripted_server.received("killCursors")
        assert [request.command["cursors"] for request in killed] == [[8], [9]]
