"""Embedded documents that know their enclosing document: how they learn it, and its absence of cost elsewhere."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Annotated, Any, Literal

import pytest

from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Timestamps,
    before,
    embedded_in,
    field,
)
from mangonel.odm.model.embedded_in import TellingDescriptor


class Gift(Embedded):
    text: str = ""
    line: Line = embedded_in()


class Line(Embedded):
    price: float
    gift: Gift | None = None
    order: Order = embedded_in()

    @before("save")
    def look(self) -> None:
        if self.price > self.order.limit:
            raise ValueError(f"expected a price of at most {self.order.limit}")


class Shape(Embedded):
    __root__ = True
    title: str = ""


class Circle(Shape):
    board: Any = embedded_in()


class Plain(Embedded):
    n: int = 0


class Order(Document):
    __collection__ = "embedded_in"
    currency: str = "EUR"
    limit: float = 100.0
    first: Line | None = None
    lines: list[Line] = field(default_factory=list)
    named: dict[str, Line] = field(default_factory=dict)
    grid: list[list[Line]] = field(default_factory=list)
    pair: tuple[Line, int] | None = None
    either: Line | int | None = None
    shapes: list[Shape] = field(default_factory=list)
    plain: Plain | None = None


class Special(Order):
    note: str = ""


class Marked(Embedded):
    """Declared in an abstract base."""

    __abstract__ = True
    _seen: int = 0
    holder: Any = embedded_in()


class Tag(Marked):
    text: str = ""


class Tagged(Timestamps):
    tags: list[Tag] = field(default_factory=list)


def full(**more: Any) -> Order:
    line = {"price": 1.5, "gift": {"text": "x"}}
    rows: dict[str, Any] = {
        "first": line,
        "lines": [line, line],
        "named": {"a": line},
        "grid": [[line], [line, line]],
        "pair": (Line(price=1.0), 3),
        "either": Line(price=2.0),
        "shapes": [Circle(), Shape()],
        "plain": Plain(),
    }
    return Order.from_dict(rows | more)


def check(order: Order) -> None:
    """Assert that every part of an order leads back to it, at every depth."""
    assert order.first is not None
    assert order.first.gift is not None
    assert order.pair is not None
    lines = [order.first, *order.lines, *order.named.values(), *(line for row in order.grid for line in row)]
    lines += [order.pair[0], order.either]  # type: ignore[list-item]
    for line in lines:
        assert line.order is order
        assert line.gift is None or line.gift.line is line
    assert order.shapes[0].board is order  # type: ignore[attr-defined]
    assert not hasattr(order.shapes[1], "board")


def test_what_a_document_hands_out_knows_it() -> None:
    check(full())


@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_decoded_knows_its_document(lazy: bool) -> None:
    check(Order.from_bson(bytes(full().to_bson().raw), lazy=lazy))


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda order: pickle.loads(pickle.dumps(order))])
def test_a_copy_s_parts_know_the_copy(twin: Any) -> None:
    order = full()
    check(order)
    check(twin(order))
    check(order.copy())


def test_a_subclass_tells_as_its_base_does() -> None:
    special = Special(lines=[Line(price=1.0)])
    assert special.lines[0].order is special
    order = Order(lines=[Line(price=1.0)])
    assert order.lines[0].order is order
    assert isinstance(vars(Special)["lines"], TellingDescriptor)


def test_an_abstract_base_may_declare_it() -> None:
    tagged = Tagged(tags=[Tag(text="a")])
    tag = tagged.tags[0]
    assert tag.holder is tagged
    tag._seen += 1
    assert (tag._seen, Tag()._seen) == (1, 0)


def test_before_it_was_read_from_a_document_the_attribute_says_what_to_do() -> None:
    line = Line(price=1.0)
    order = Order(lines=[line])
    assert not hasattr(line, "order")
    with pytest.raises(
        AttributeError, match=r"Line\.order: this Line was not read from a document yet; put it"
    ):
        line.order  # noqa: B018  # raises
    assert order.lines[0] is line
    assert line.order is order


def test_it_is_the_last_document_that_handed_it_out() -> None:
    line = Line(price=1.0)
    one, two = Order(lines=[line]), Order(first=line)
    assert one.lines[0].order is one
    assert two.first is line
    assert line.order is two
    one.lines.append(Line(price=3.0))
    assert [line.order for line in one.lines] == [one, one]


def test_nothing_of_it_is_stored_compared_or_shown(db: Connection) -> None:
    order = full()
    check(order)
    assert "order" not in Line.__fields__
    assert "order" not in order.lines[0].to_dict()
    assert order.lines[0] == Line.from_dict({"price": 1.5, "gift": {"text": "x"}})
    assert "order" not in repr(order.lines[0])
    with pytest.raises(TypeError, match="order"):
        Line(price=1.0, order=order)  # type: ignore[call-arg]
    order.save()
    stored = Order.get(order.id)
    assert stored is not None
    check(stored)
    assert stored == order
    stored.lines[0].price = 2.0
    assert stored.save() is stored
    assert Order.get(order.id).lines[0].price == 2.0


def test_it_cannot_be_set_and_no_document_declares_it() -> None:
    line = Line(price=1.0)
    with pytest.raises(AttributeError, match="put the embedded document into a document instead"):
        line.order = Order()
    with pytest.raises(
        TypeError, match=r"cannot keep embedded_in\(\) in Wrong: a document stands in no other"
    ):

        class Wrong(Document):
            other: Any = embedded_in()


def test_hooks_of_embedded_documents_see_their_document(db: Connection) -> None:
    order = Order(limit=5.0, lines=[Line(price=9.0)])
    with pytest.raises(ValueError, match="at most 5"):
        order.save()
    order.limit = 10.0
    order.save()


def test_the_circle_of_a_document_and_its_parts_is_collected() -> None:
    order = Order.from_bson(bytes(full().to_bson().raw))
    check(order)
    seen = weakref.ref(order)
    del order
    gc.collect()
    assert seen() is None


def test_a_private_attribute_that_leads_back_is_collected() -> None:
    class Node(Document):
        name: str = ""
        _self: Any = None

    node = Node.from_bson(bytes(Node(name="x").to_bson().raw))
    node._self = node
    seen = weakref.ref(node)
    del node
    gc.collect()
    assert seen() is None


def test_models_that_declare_none_are_as_they_were() -> None:
    assert not isinstance(vars(Order)["plain"], TellingDescriptor)
    assert not hasattr(Plain, "__parent__")


def test_annotated_and_literal_tags_take_part() -> None:
    class Cat(Embedded):
        kind: Literal["cat"] = "cat"
        house: Any = embedded_in()

    class Dog(Embedded):
        kind: Literal["dog"] = "dog"

    class House(Document):
        pets: Annotated[list[Cat | Dog], "pets"] = field(default_factory=list)

    house = House(pets=[Cat(), Dog()])
    assert isinstance(house.pets[0], Cat)
    assert house.pets[0].house is house
