"""Updates whose values the server computes from fields: they agree with Python and with single operators."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel.bson import Timestamp
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    F,
    Pipeline,
    Timestamps,
    UnsupportedOption,
    ValidationError,
    Version,
    add_to_set,
    bit,
    computed,
    current_date,
    field,
    inc,
    max_,
    min_,
    mul,
    pop,
    pull,
    push,
    rename,
    set_,
    set_on_insert,
    unset,
)
from odm.conftest import Face


class Price(Embedded):
    net: int = 0


class Bill(Document):
    net: int
    tax: int = 7
    total: int = 0
    rate: float = 0.5
    money: Decimal = Decimal(0)
    tip: int | None = None
    note: str | None = None
    first: str = ""
    last: str = ""
    name: str = ""
    at: dt.datetime | None = None
    due: dt.datetime | None = None
    stamp: Timestamp | None = None
    tags: list[str] = field(default_factory=list)
    price: Price = field(default_factory=Price, key="p")
    maybe: Price | None = None
    prices: list[Price] = field(default_factory=list)


def test_every_operand_has_its_value_from_before_the_update(db: Connection, face: Face) -> None:
    bill = Bill(net=3, tax=4, total=100)
    face.save(bill)
    done = face.call(
        Bill.find(), "update", set_(Bill.total, F(Bill.net) + F(Bill.tax)), set_(Bill.net, F(Bill.total))
    )
    assert done == 1
    face.call(bill, "reload")
    assert (bill.net, bill.tax, bill.total) == (100, 4, 7)


def test_a_missing_value_is_the_default_of_its_field(db: Connection, face: Face) -> None:
    Bill.collection().insert_one({"net": 5})
    face.call(Bill.find(), "update", set_(Bill.total, Bill.net * Bill.tax))
    assert Bill.find().one().total == 35


def test_one_document_takes_over_what_the_server_computed(db: Connection, face: Face) -> None:
    bill = Bill(net=3, money=Decimal("1.50"))
    face.save(bill)
    face.call(bill, "update", set_(Bill.money, F(Bill.money) + F(Bill.net)), set_(Bill.rate, F(Bill.net) / 2))
    assert (bill.money, bill.rate, bill.is_changed) == (Decimal("4.50"), 1.5, False)
    found = face.call(Bill.find(), "find_and_update", set_(Bill.rate, F(Bill.net) % 2))
    assert (found.rate, type(found.rate)) == (1.0, float)


def test_texts_and_dates_are_added_too(db: Connection, face: Face) -> None:
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    bill = Bill(net=1, first="Ada", last="King", at=moment)
    face.save(bill)
    whole = F(Bill.first) + " " + F(Bill.last) + "$x"
    face.call(bill, "update", set_(Bill.name, whole), set_(Bill.due, F(Bill.at) + dt.timedelta(days=1)))
    assert (bill.name, bill.due) == ("Ada King$x", moment + dt.timedelta(days=1))


def test_fields_of_embedded_documents_are_operands_and_targets(db: Connection, face: Face) -> None:
    bill = Bill(net=2, price=Price(net=40))
    face.save(bill)
    face.call(bill, "update", set_(Bill.price.net, F(Bill.price.net) + F(Bill.net)))
    assert bill.price.net == 42


def test_a_version_and_times_are_kept_beside_computed_values(db: Connection, face: Face) -> None:
    class Counted(Timestamps):
        n: int
        rev: Annotated[int, Version] = 0

    counted = Counted(n=1)
    face.save(counted)
    before = counted.updated_at
    early = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    face.call(counted, "update", set_(Counted.n, F(Counted.n) + 1))
    assert (counted.n, counted.rev) == (2, 1)
    assert counted.updated_at >= before
    face.call(counted, "update", set_(Counted.n, F(Counted.n) + 1), set_(Counted.updated_at, early))
    assert (counted.n, counted.updated_at) == (3, early)


def test_computed_values_are_conditions_and_expressions_of_pipelines(db: Connection, face: Face) -> None:
    face.save(Bill(net=1, tax=2), Bill(net=3, tax=4))
    rich = Bill.find(F(Bill.net) + F(Bill.tax) > 5, Bill.net > 0)
    assert [bill.net for bill in face.call(rich, "all")] == [3]
    made = face.call(Bill, "aggregate", Pipeline().set(sum=F(Bill.net) + F(Bill.tax)).sort("sum"))
    assert [row["sum"] for row in made] == [3, 7]
    face.call(Bill.find(), "update", set_(Bill.total, computed({"$max": [Bill.net, 2]}, int)))
    assert sorted(Bill.find().values(Bill.total)) == [2, 3]


def test_values_that_would_not_load_are_refused(db: Connection) -> None:
    for change, said in (
        (lambda: set_(Bill.total, F(Bill.net) / 2), "expected int, got float at"),
        (lambda: set_(Bill.total, F(Bill.net) * 1.5), "expected int, got float at"),
        (lambda: set_(Bill.total, F(Bill.tip) + 1), "use or_else"),
        (lambda: set_(Bill.name, F(Bill.net) + 1), "expected str, got int at"),
        (lambda: set_(Bill.total, F(Bill.maybe.net) + 1), "use or_else"),
    ):
        with pytest.raises(ValidationError, match=said):
            change()
    for wrong, said in (
        (lambda: F(Bill.first) + 1, "str and int"),
        (lambda: F(Bill.first) * 2, "str and int"),
        (lambda: F(Bill.money) + F(Bill.rate), "Decimal and float"),
        (lambda: F(Bill.tags[0]) + "x", "an element"),
        (lambda: F(Bill.prices.net) + 1, "a part of 'prices'"),
        (lambda: set_(Bill.maybe.net, F(Bill.net)), "never None"),
        (lambda: Bill.net == F(Bill.net) + 1, "got Computed"),
        (lambda: bool(F(Bill.net) + 1), "no truth value"),
        (lambda: push(Bill.tags, F(Bill.first)), "got Path"),
    ):
        with pytest.raises(TypeError, match=said):
            wrong()
    assert set_(Bill.total, F(Bill.tip).or_else(0) + 1).key == "total"


def test_changes_that_no_pipeline_expresses_name_themselves(db: Connection) -> None:
    half = set_(Bill.total, F(Bill.net) + 1)
    for other in (
        pop(Bill.tags),
        bit(Bill.tax, and_=1),
        rename(Bill.note, "other"),
        set_on_insert(Bill.first, "x"),
        push(Bill.tags, "a", slice=3),
        current_date(Bill.stamp, "timestamp"),
        {"$set": {"prices.0.net": 1}},
        {"$pull": {"tags": {"$gt": "a"}}},
    ):
        with pytest.raises(UnsupportedOption, match=r"beside a computed value"):
            Bill.find().update(half, other)
    with pytest.raises(ValueError, match="one change of 'total'"):
        Bill.find().update(half, inc(Bill.total))
    with pytest.raises(UnsupportedOption, match="on_insert"):
        Bill.find().upsert(half, on_insert=Bill(net=1))
    bill = Bill(net=1).save()
    bill.tax = 3
    with pytest.raises(ValueError, match="unsaved changes"):
        bill.update(half)


OTHERS: list[Any] = [
    set_(Bill.note, "$net"),
    set_(Bill.tags, ["$net", "x"]),
    unset(Bill.note),
    unset(Bill.tags),
    inc(Bill.tip, 3),
    inc(Bill.tax, -1),
    mul(Bill.tax, 3),
    mul(Bill.rate, 2),
    *(one(Bill.tax, bound) for one in (min_, max_) for bound in (0, 5, 100)),
    *(one(Bill.tip, bound) for one in (min_, max_) for bound in (0, 5, 100)),
    push(Bill.tags, "a"),
    push(Bill.tags, "a", "$net"),
    add_to_set(Bill.tags, "a"),
    add_to_set(Bill.tags, "b", "b", "c"),
    pull(Bill.tags, "a"),
    pull(Bill.tags, "a", "b"),
    {"$set": {"p.net": 9}},
    {"$inc": {"p.net": 9}},
]
STORED: list[dict[str, Any]] = [
    {"net": 1},
    {"net": 1, "tax": 5, "tip": 5, "rate": 1.5, "note": "n", "tags": [], "p": {"net": 1}},
    {"net": 1, "tax": 6, "tip": 4, "rate": 0.0, "note": None, "tags": ["a", "b", "a"], "p": {}},
]


def test_each_operator_does_beside_a_computed_value_what_it_does_alone(db: Connection) -> None:
    collection = Bill.collection()
    for number, other in enumerate(OTHERS):
        found = []
        for changes in ((other,), (other, set_(Bill.total, F(Bill.net) - F(Bill.net)))):
            collection.delete_many({})
            collection.insert_many([{**row, "_id": name} for name, row in enumerate(STORED)])
            Bill.find().update(*changes)
            found.append([{**row, "total": 0} for row in collection.find().sort("_id")])
        assert found[0] == found[1], (number, other)


_VALUES = st.integers(-(2**20), 2**20)


@st.composite
def sums(draw: Any, depth: int = 3) -> tuple[Any, Any]:
    """A computed value of integers, and the function that computes it from a bill."""
    if depth == 0 or draw(st.booleans()):
        kind = draw(st.sampled_from(["net", "tax", "total", "number"]))
        if kind == "number":
            number = draw(_VALUES)
            return number, lambda bill: number
        return F(getattr(Bill, kind)), lambda bill: getattr(bill, kind)
    (left, of_left), (right, of_right) = draw(sums(depth - 1)), draw(sums(depth - 1))
    operator = draw(st.sampled_from("+-*"))
    if operator == "+":
        return left + right, lambda bill: of_left(bill) + of_right(bill)
    if operator == "-":
        return left - right, lambda bill: of_left(bill) - of_right(bill)
    return left * right, lambda bill: of_left(bill) * of_right(bill)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=sums(), other=sums(2), values=st.tuples(_VALUES, _VALUES, _VALUES))
def test_the_server_computes_what_python_does(db: Connection, one: Any, other: Any, values: Any) -> None:
    bill = Bill(net=values[0], tax=values[1], total=values[2])
    wanted = {"total": one[1](bill), "net": other[1](bill)}
    if any(abs(value) >= 2**63 for value in wanted.values()) or depth_of(one[0]) > 2**62:
        return
    bill.save()
    changes = [set_(getattr(Bill, name), made) for name, made in (("total", one[0]), ("net", other[0]))]
    bill.update(*changes)
    assert {name: getattr(bill, name) for name in wanted} == wanted


def depth_of(value: Any) -> int:
    """Return a bound of the values inside: 2 ** 20 multiplied eight times is too large to compute."""
    text = repr(value)
    return 2 ** (21 * (text.count("$multiply") + 1) + text.count("$add") + text.count("$subtract"))
