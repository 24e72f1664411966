"""Storing and finding documents, on both faces."""

from __future__ import annotations

import datetime as dt
import json
from typing import Annotated, Any, Literal

import pytest

from mangonel.errors import DuplicateKeyError
from mangonel.odm import (
    Connection,
    Document,
    DocumentNotFound,
    Embedded,
    MultipleDocuments,
    NotConnected,
    NotLoaded,
    ObjectId,
    StaleDocument,
    ValidationError,
    Version,
    each,
    elem,
    field,
    in_,
    inc,
    not_,
    push,
    set_,
)


class Address(Embedded):
    city: str
    zip: str | None = None


class Customer(Document):
    name: str
    address: Address
    tags: list[str] = field(default_factory=list)
    past: list[Address] = field(default_factory=list, key="p")
    phone: str | None = None
    level: Literal["new", "old"] = "new"
    seen: int = 0


class Account(Document):
    owner: str
    cents: int = 0
    rev: Annotated[int, Version] = 0


def customer(**values: Any) -> Customer:
    given: dict[str, Any] = {"name": "Ada", "address": Address(city="Oslo"), **values}
    return Customer(**given)


def stored(db: Connection, document: Document) -> dict[str, Any]:
    """Return the document as the driver finds it."""
    found = document.collection().find_one(document.id)
    assert found is not None
    return dict(found)


def test_saved_document_is_found_with_its_values(db: Connection, face: Any) -> None:
    ada = customer(tags=["a"], past=[Address(city="Bonn", zip="53")])
    assert ada.is_new
    assert face.call(ada, "save") is ada
    assert not ada.is_new
    found = face.call(Customer, "get", ada.id)
    assert found == ada
    assert found.to_dict() == ada.to_dict()
    assert stored(db, ada) == {
        "_id": ada.id,
        "name": "Ada",
        "address": {"city": "Oslo"},
        "tags": ["a"],
        "p": [{"city": "Bonn", "zip": "53"}],
        "level": "new",
        "seen": 0,
    }


def test_second_insert_of_an_id_is_a_duplicate(db: Connection, face: Any) -> None:
    ada = customer()
    face.call(ada, "insert")
    with pytest.raises(DuplicateKeyError):
        face.call(customer(id=ada.id), "insert")


def test_save_sends_only_what_changed(db: Connection, face: Any) -> None:
    ada = customer(tags=["a"], phone="1")
    face.save(ada)
    # Another writer changes fields that this program leaves alone.
    ada.collection().update_one({"_id": ada.id}, {"$set": {"name": "Eve", "address.zip": "0150", "more": 1}})
    ada.address.city = "Bergen"
    ada.phone = None
    ada.tags.append("b")
    ada.past.append(Address(city="Rome"))
    assert ada.changes()["phone"] == ("1", None)
    face.save(ada)
    assert ada.changes() == {}
    assert stored(db, ada) == {
        "_id": ada.id,
        "name": "Eve",
        "address": {"city": "Bergen", "zip": "0150"},
        "tags": ["a", "b"],
        "p": [{"city": "Rome"}],
        "level": "new",
        "seen": 0,
        "more": 1,
    }


def test_loaded_document_without_changes_is_not_sent(db: Connection, face: Any) -> None:
    ada = customer(tags=["a"])
    face.save(ada)
    found = face.call(Customer.find(), "first")
    assert (found.address.city, found.tags, found.past) == ("Oslo", ["a"], [])
    ada.collection().delete_one({"_id": ada.id})
    # It would raise if it sent a command.
    face.save(found)


def test_json_leaves_out_what_is_excluded_and_what_was_not_asked_for(db: Connection, face: Any) -> None:
    face.save(customer(tags=["a"]))
    only = Customer.find().only(Customer.name, Customer.tags)
    (found,) = json.loads(face.call(only, "json", exclude=[Customer.tags, Customer.id]))
    assert list(found) == ["name"]
    (found,) = json.loads(face.call(Customer.find().exclude(Customer.name), "json", exclude=[Customer.tags]))
    assert "address" in found
    assert not {"name", "tags"} & set(found)
    with pytest.raises(ValueError, match="all of them excluded"):
        face.call(only, "json", exclude=[Customer.name, Customer.tags])


def test_save_of_a_document_that_is_gone_says_so(db: Connection, face: Any) -> None:
    ada = customer()
    face.save(ada)
    ada.collection().delete_one({"_id": ada.id})
    ada.name = "Eve"
    with pytest.raises(DocumentNotFound):
        face.save(ada)
    assert ada.changes() == {"name": ("Ada", "Eve")}


def test_queries_are_read_in_every_way(db: Connection, face: Any) -> None:
    face.call(Customer, "insert_many", [customer(name=f"n{n}", seen=n) for n in range(600)])
    query = Customer.find(Customer.seen >= 100, Customer.address.city == "Oslo").sort("-seen")
    names = [f"n{n}" for n in range(599, 99, -1)]
    assert [found.name for found in face.collect(query)] == names
    assert [found.name for found in face.call(query, "all")] == names
    assert face.call(query, "count") == 500
    assert face.call(query.limit(7), "count") == 7
    assert face.call(query, "first").name == "n599"
    assert [found.name for found in face.call(query[2:4], "all")] == ["n597", "n596"]
    assert face.call(query, "exists") is True
    assert face.call(query.none(), "all") == []
    assert face.call(query.limit(2), "values", Customer.name) == ["n599", "n598"]
    assert face.call(query.limit(1), "values", Customer.name, Customer.address.city) == [("n599", "Oslo")]
    assert face.call(Customer.find(Customer.seen < 2), "distinct", Customer.address.city) == ["Oslo"]
    assert face.call(query, "sum", Customer.seen) == sum(range(100, 600))
    with pytest.raises(MultipleDocuments):
        face.call(query, "one")
    with pytest.raises(DocumentNotFound):
        face.call(Customer.find(Customer.name == "none"), "one")


def test_awaited_query_is_a_list(db: Connection, face: Any) -> None:
    face.save(customer())
    if face.is_async:

        async def read() -> list[Customer]:
            return await Customer.find()

        assert len(face.wait(read())) == 1


def test_conditions_on_lists_and_embedded_documents(db: Connection, face: Any) -> None:
    face.save(
        customer(
            name="a", tags=["x", "y"], past=[Address(city="Rome", zip="1"), Address(city="Bonn", zip="2")]
        ),
        customer(name="b", tags=["z"], past=[Address(city="Rome", zip="2")]),
    )

    def names(*where: Any) -> list[str]:
        return face.call(Customer.find(*where).sort(Customer.name), "values", Customer.name)

    assert names(in_(each(Customer.tags), ["x", "q"])) == ["a"]
    assert names(each(Customer.tags) == "z") == ["b"]
    assert names(elem(Customer.past, lambda past: (past.city == "Rome") & (past.zip == "2"))) == ["b"]
    assert names((Customer.name == "a") | (Customer.name == "b")) == ["a", "b"]
    assert names(not_(Customer.name == "a")) == ["b"]
    assert names({"p.city": "Bonn"}) == ["a"]


def test_query_updates_and_answers(db: Connection, face: Any) -> None:
    face.save(customer(name="a"), customer(name="b"))
    query = Customer.find(Customer.name == "a")
    assert face.call(query, "update", inc(Customer.seen), push(Customer.past, Address(city="Rome"))) == 1
    found = face.call(query, "find_and_update", set_(Customer.level, "old"))
    assert (found.seen, found.level, found.past[0].city) == (1, "old", "Rome")
    assert face.call(query, "delete") == 1
    assert face.call(Customer.find(), "count") == 1
    made, is_new = face.call(Customer.find(Customer.name == "c"), "get_or_create", customer(name="c"))
    assert is_new
    assert made.name == "c"
    again, is_new = face.call(Customer.find(Customer.name == "c"), "get_or_create", customer(name="c"))
    assert (again.id, is_new) == (made.id, False)


def test_partial_load_knows_what_it_left_out(db: Connection, face: Any) -> None:
    ada = customer(tags=["a"])
    face.save(ada)
    found = face.call(Customer.find(Customer.id == ada.id).only(Customer.name), "one")
    assert found.name == "Ada"
    assert found.is_partial
    assert isinstance(found, Customer)
    for left_out in ("seen", "tags", "address"):
        with pytest.raises(NotLoaded):
            getattr(found, left_out)
    found.name = "Eve"
    face.save(found)
    assert stored(db, ada)["name"] == "Eve"
    assert stored(db, ada)["tags"] == ["a"]
    face.call(found, "reload")
    assert found.tags == ["a"]


def test_partial_load_of_an_embedded_field_saves_only_that(db: Connection, face: Any) -> None:
    ada = customer(address=Address(city="Oslo", zip="1"))
    face.save(ada)
    found = face.call(Customer.find().only(Customer.address.city), "first")
    assert found.address.city == "Oslo"
    with pytest.raises(NotLoaded):
        _ = found.address.zip
    found.address.city = "Rome"
    face.save(found)
    assert stored(db, ada)["address"] == {"city": "Rome", "zip": "1"}


def test_version_keeps_two_programs_apart(db: Connection, face: Any) -> None:
    first = Account(owner="Ada")
    face.save(first)
    second = face.call(Account, "get", first.id)
    first.cents = 5
    face.save(first)
    assert first.rev == 1
    second.cents = 7
    with pytest.raises(StaleDocument):
        face.save(second)
    face.call(second, "reload")
    second.cents += 7
    face.save(second)
    assert (second.rev, stored(db, first)) == (2, {"_id": first.id, "owner": "Ada", "cents": 12, "rev": 2})
    face.call(Account.find(Account.id == first.id), "find_and_update", inc(Account.cents, 1))
    second.cents = 0
    with pytest.raises(StaleDocument):
        face.save(second)


def test_save_all_is_one_bulk_write_of_what_changed(db: Connection, face: Any) -> None:
    documents = [customer(name=str(n)) for n in range(3)]
    face.save(*documents)
    documents[0].name = "x"
    documents[2].address.city = "Rome"
    documents.append(customer(name="new"))
    assert face.call(Customer, "save_all", documents) == 3
    assert face.call(Customer, "save_all", documents) == 0
    found = face.call(Customer.find().sort("id"), "all")
    assert [(one.name, one.address.city) for one in found] == [
        ("x", "Oslo"),
        ("1", "Oslo"),
        ("2", "Rome"),
        ("new", "Oslo"),
    ]


def test_delete_and_reload(db: Connection, face: Any) -> None:
    ada = customer()
    face.save(ada)
    ada.collection().update_one({"_id": ada.id}, {"$set": {"name": "Eve"}})
    ada.name = "x"
    assert face.call(ada, "reload").name == "Eve"
    assert face.call(ada, "update", inc(Customer.seen, 4)).seen == 4
    face.call(ada, "delete")
    assert ada.is_deleted
    assert face.call(Customer, "get_or_none", ada.id) is None


def test_read_model_has_only_its_fields(db: Connection, face: Any) -> None:
    class Card(Embedded):
        name: str
        address: Address

    face.save(customer())
    cards = face.call(Customer.find().as_(Card), "all")
    assert cards == [Card(name="Ada", address=Address(city="Oslo"))]


def test_json_is_made_of_bson(db: Connection, face: Any) -> None:
    import json

    ada = customer(past=[Address(city="Rome")])
    face.save(ada)
    found = json.loads(face.call(Customer.find(), "json"))
    assert found == [
        {
            "id": str(ada.id),
            "name": "Ada",
            "address": {"city": "Oslo", "zip": None},
            "tags": [],
            "past": [{"city": "Rome", "zip": None}],
            "level": "new",
            "seen": 0,
            "phone": None,
        }
    ]


def test_wrong_values_name_their_path() -> None:
    with pytest.raises(ValidationError, match=r"expected str, got int at \$\.name"):
        customer(name=3)
    ada = customer()
    with pytest.raises(ValidationError, match=r"expected int, got str at \$\.seen"):
        ada.seen = "x"  # type: ignore[assignment]
    with pytest.raises(ValidationError, match=r"at \$\.level"):
        ada.level = "other"  # type: ignore[assignment]
    ada.tags.append(3)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"expected str, got int at \$\.tags\[0\]"):
        ada.validate()
    with pytest.raises(TypeError, match="address"):
        Customer(name="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nme"):
        customer(nme="x")


def test_conditions_refuse_python_logic() -> None:
    with pytest.raises(TypeError, match="no truth value"):
        Customer.find(Customer.seen > 1 and Customer.name == "x")
    with pytest.raises(TypeError, match="got False"):
        Customer.find(Customer.seen is None)


def test_model_without_connection_says_what_to_do() -> None:
    class Elsewhere(Document):
        __connection__ = "never connected"
        name: str

    with pytest.raises(NotConnected, match="never connected"):
        Elsewhere.find().all()


def test_tenant_of_a_context_has_its_own_documents(db: Connection, face: Any) -> None:
    face.save(customer())
    with db.use(db.name + "_t"):
        assert face.call(Customer.find(), "count") == 0
        face.save(customer(name="tenant"))
    assert face.call(Customer.find(), "values", Customer.name) == ["Ada"]
    assert face.call(Customer.find().using(db.name + "_t"), "values", Customer.name) == ["tenant"]
    db.client.drop_database(db.name + "_t")


def test_dates_and_ids_of_every_kind_come_back(db: Connection, face: Any) -> None:
    import decimal
    import enum
    import uuid

    class Colour(enum.Enum):
        RED = "r"

    class Every(Document):
        id: str = field(key="_id")  # type: ignore[assignment]
        at: dt.datetime
        day: dt.date
        amount: decimal.Decimal
        key: uuid.UUID
        colour: Colour
        data: bytes
        pair: tuple[int, str]
        many: tuple[int, ...]
        bag: set[int]
        table: dict[str, list[float]]
        anything: Any
        other: ObjectId | None = None
        either: int | str | Address = 0

    made = Every(
        id="one",
        at=dt.datetime(2024, 2, 29, 12, 30, 1, 5000, dt.UTC),
        day=dt.date(1969, 1, 2),
        amount=decimal.Decimal("1.50"),
        key=uuid.UUID(int=5),
        colour=Colour.RED,
        data=b"\0x",
        pair=(1, "a"),
        many=(1, 2),
        bag={3, 1},
        table={"a": [1.5, 2]},
        anything={"deep": [{"x": None}]},
        either=Address(city="Oslo"),
    )
    face.save(made)
    found = face.call(Every, "get", "one")
    assert found.to_dict() == made.to_dict()
    assert isinstance(found.amount, decimal.Decimal)
    assert (found.colour, found.day, found.pair, found.either) == (
        Colour.RED,
        made.day,
        (1, "a"),
        made.either,
    )
    assert face.call(Every.find(Every.colour == Colour.RED, Every.day == made.day), "count") == 1
