"""One document and two copies: a save stores what it sends, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mangonel.odm import Connection, Document, Embedded, StaleDocument, Version, field, pull


class Line(Embedded):
    sku: str
    note: str | None = None
    n: int = 0


class Cart(Document):
    __collection__ = "carts"
    lines: list[Line] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    grid: list[list[int]] = field(default_factory=list)
    spare: list[str] | None = None


class Counted(Document):
    __collection__ = "carts"
    lines: list[Line] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    grid: list[list[int]] = field(default_factory=list)
    spare: list[str] | None = None
    rev: Annotated[int, Version] = 0


class Bag(Document):
    __collection__ = "bags"
    keys: set[str] = field(default_factory=set)
    n: int = 0


MODELS = pytest.mark.parametrize("model", [Cart, Counted])
SAVES = pytest.mark.parametrize("way", ["save", "save_all"])


@pytest.fixture
def saved(face: Any) -> Callable[[str, Any], None]:
    """Saves a document in one of the ways."""

    def save(way: str, document: Any) -> None:
        if way == "save":
            face.save(document)
        else:
            assert face.call(type(document), "save_all", [document]) == 1

    return save


def stored(db: Connection, document: Any) -> dict[str, Any]:
    """Return the document as the driver has it."""
    found: dict[str, Any] = db.client[db.name]["carts"].find_one({"_id": document.id})
    return found


def skus(db: Connection, document: Any) -> list[str]:
    """Return the stored lines."""
    return [line["sku"] for line in stored(db, document)["lines"]]


def delete_first(lines: list[Line]) -> list[Line]:
    del lines[0]
    return lines


# Ways to remove the first element: in place, or by another list.
REMOVALS: dict[str, Callable[[list[Line]], list[Line]]] = {
    "del": delete_first,
    "pop": lambda lines: [lines, lines.pop(0)][0],  # type: ignore[list-item,return-value]
    "remove": lambda lines: [lines, lines.remove(lines[0])][0],  # type: ignore[func-returns-value,list-item,return-value]
    "comprehension": lambda lines: [line for line in lines if line.sku != "a"],
    "slice": lambda lines: lines[1:],
}


@MODELS
@SAVES
@pytest.mark.parametrize("removal", REMOVALS)
def test_an_element_that_was_changed_and_then_removed_is_removed(
    model: Any, way: str, removal: str, db: Connection, face: Any, saved: Any
) -> None:
    cart = model(lines=[Line(sku="a"), Line(sku="b")])
    face.save(cart)
    cart.lines[0].note = "gift"
    saved(way, cart)
    cart.lines = REMOVALS[removal](cart.lines)
    saved(way, cart)
    assert skus(db, cart) == ["b"]
    assert cart.changes() == {}
    assert [line.sku for line in face.call(model, "get", cart.id).lines] == ["b"]


@MODELS
@SAVES
def test_an_element_whose_keys_another_program_ordered_anew_is_removed(
    model: Any, way: str, db: Connection, face: Any, saved: Any
) -> None:
    cart = model(lines=[Line(sku="a", n=1), Line(sku="b")])
    face.save(cart)
    db.client[db.name]["carts"].update_one({"_id": cart.id}, {"$set": {"lines.0": {"n": 1.0, "sku": "a"}}})
    del cart.lines[0]
    saved(way, cart)
    assert skus(db, cart) == ["b"]
    assert cart.changes() == {}


@MODELS
@SAVES
def test_an_element_that_another_program_changed_is_not_removed_in_silence(
    model: Any, way: str, db: Connection, face: Any, saved: Any
) -> None:
    cart = model(lines=[Line(sku="a"), Line(sku="b")])
    face.save(cart)
    db.client[db.name]["carts"].update_one({"_id": cart.id}, {"$set": {"lines.0.note": "theirs"}})
    del cart.lines[0]
    with pytest.raises(StaleDocument):
        saved(way, cart)
    assert skus(db, cart) == ["a", "b"]
    assert "lines" in cart.changes()
    face.call(cart, "reload")
    del cart.lines[0]
    saved(way, cart)
    assert skus(db, cart) == ["b"]


@MODELS
def test_pull_removes_an_element_whatever_the_order_of_its_keys(
    model: Any, db: Connection, face: Any
) -> None:
    cart = model(lines=[Line(sku="a"), Line(sku="b")])
    face.save(cart)
    cart.lines[0].note = "gift"
    face.save(cart)
    query = model.find(model.id == cart.id)
    assert face.call(query, "update", pull(model.lines, Line(sku="a", note="gift"))) == 1
    assert skus(db, cart) == ["b"]


def test_pull_counts_what_it_removed(db: Connection, face: Any) -> None:
    cart = Cart(lines=[Line(sku="a")])
    face.save(cart)
    # The model has no version, so only the list reveals the conflict.
    assert face.call(Cart.find(), "update", pull(Cart.lines, Line(sku="a", note="other"))) == 0
    assert skus(db, cart) == ["a"]


@MODELS
@SAVES
def test_removing_numbers_removes_those_of_any_width(
    model: Any, way: str, db: Connection, face: Any, saved: Any
) -> None:
    cart = model(grid=[[1, 2, 3]])
    face.save(cart)
    db.client[db.name]["carts"].update_one({"_id": cart.id}, {"$set": {"grid.0.1": 2.0}})
    cart.grid[0].remove(2)
    saved(way, cart)
    assert stored(db, cart)["grid"] == [[1, 3]]


def test_a_set_in_another_order_is_no_change(db: Connection, face: Any) -> None:
    one = Bag(keys={"a", "b", "c", "d"})
    face.save(one)
    for keys in (["d", "c", "b", "a"], ["b", "a", "d", "c"]):
        db.client[db.name]["bags"].update_one({"_id": one.id}, {"$set": {"keys": keys}})
        face.call(one, "reload")
        assert len(one.keys) == 4
        one.n += 1
        assert set(one.changes()) == {"n"}
        db.client[db.name]["bags"].update_one({"_id": one.id}, {"$push": {"keys": "theirs"}})
        face.call(one, "reload", keep_changes=True)
        assert "theirs" in one.keys
        face.save(one)
        assert db.client[db.name]["bags"].find_one()["keys"] == [*keys, "theirs"]


@SAVES
def test_a_set_gains_and_loses_elements_in_one_save(way: str, db: Connection, face: Any, saved: Any) -> None:
    bag = Bag(keys={"a", "b"})
    face.save(bag)
    for name in "cdefgh":
        # The server appends the element; in memory a set has another order.
        bag.keys.add(name)
        saved(way, bag)
    other = face.call(Bag, "get", bag.id)
    bag.keys.discard("a")
    bag.keys.add("x")
    saved(way, bag)
    assert sorted(db.client[db.name]["bags"].find_one()["keys"]) == list("bcdefghx")
    other.keys.discard("b")
    other.keys.add("y")
    with pytest.raises(StaleDocument):
        saved(way, other)
    assert sorted(db.client[db.name]["bags"].find_one()["keys"]) == list("bcdefghx")


BOTH = pytest.mark.parametrize("before", ["empty", "missing", "filled"], ids=["empty", "missing", "filled"])


def copies(db: Connection, face: Any, before: str) -> tuple[Cart, Cart]:
    """Two copies of a document with such lists."""
    one = Cart(tags=["t"], lines=[Line(sku="t")], grid=[[0]], spare=["t"]) if before == "filled" else Cart()
    face.save(one)
    if before == "missing":
        keys = dict.fromkeys(("tags", "lines", "grid", "spare"), "")
        db.client[db.name]["carts"].update_one({"_id": one.id}, {"$unset": keys})
    return face.call(Cart, "get", one.id), face.call(Cart, "get", one.id)


@BOTH
@SAVES
def test_two_copies_append_to_one_list(before: str, way: str, db: Connection, face: Any, saved: Any) -> None:
    first, second = copies(db, face, before)
    for copy, name in ((first, "a"), (second, "b")):
        copy.tags.append(name)
        copy.lines.append(Line(sku=name))
        copy.grid.append([ord(name)])
        saved(way, copy)
    found = stored(db, first)
    begun = ["t"] if before == "filled" else []
    assert found["tags"] == [*begun, "a", "b"]
    assert skus(db, first) == [*begun, "a", "b"]
    assert found["grid"] == [*([[0]] if begun else []), [ord("a")], [ord("b")]]


@SAVES
def test_two_copies_append_by_assigning_a_longer_list(
    way: str, db: Connection, face: Any, saved: Any
) -> None:
    first, second = copies(db, face, "empty")
    for copy, name in ((first, "a"), (second, "b")):
        copy.tags = [*copy.tags, name]
        saved(way, copy)
    assert stored(db, first)["tags"] == ["a", "b"]


@SAVES
@pytest.mark.parametrize("value", [None, "missing"])
def test_two_copies_fill_an_optional_list(
    value: str | None, way: str, db: Connection, face: Any, saved: Any
) -> None:
    first, second = copies(db, face, "empty")
    change = {"$set": {"spare": None}} if value is None else {"$unset": {"spare": ""}}
    db.client[db.name]["carts"].update_one({"_id": first.id}, change)
    face.call(first, "reload")
    face.call(second, "reload")
    first.spare = ["a"]
    saved(way, first)
    second.spare = ["b"]
    if value is None:
        # Nothing can be appended to null: the second save is refused.
        with pytest.raises(StaleDocument):
            saved(way, second)
        assert stored(db, first)["spare"] == ["a"]
    else:
        saved(way, second)
        assert stored(db, first)["spare"] == ["a", "b"]


@SAVES
def test_two_copies_append_to_one_nested_list(way: str, db: Connection, face: Any, saved: Any) -> None:
    one = Cart(grid=[[]])
    face.save(one)
    first, second = face.call(Cart, "get", one.id), face.call(Cart, "get", one.id)
    first.grid[0].append(1)
    saved(way, first)
    second.grid[0].append(2)
    # The stored list at this position is no longer the loaded one.
    with pytest.raises(StaleDocument):
        saved(way, second)
    assert stored(db, one)["grid"] == [[1]]
    face.call(second, "reload")
    second.grid[0].append(2)
    saved(way, second)
    assert stored(db, one)["grid"] == [[1, 2]]


@SAVES
def test_an_assigned_list_with_stored_elements_does_not_replace_what_others_appended(
    way: str, db: Connection, face: Any, saved: Any
) -> None:
    one = Cart(tags=["a", "b"], lines=[Line(sku="a", n=1), Line(sku="b")])
    face.save(one)
    first, *others = (face.call(Cart, "get", one.id) for _ in range(3))
    first.tags.append("theirs")
    saved(way, first)
    # An element with its keys in another order is the same element.
    turned = [{"n": 1, "sku": "a"}, {"sku": "theirs"}]
    db.client[db.name]["carts"].update_one({"_id": one.id}, {"$set": {"lines": turned}})
    others[0].tags = ["b", "new", "a"]
    others[1].lines = [Line(sku="x"), Line(sku="y"), Line(sku="a", n=1)]
    for other in others:
        with pytest.raises(StaleDocument):
            saved(way, other)
    assert (stored(db, one)["tags"], skus(db, one)) == (["a", "b", "theirs"], ["a", "theirs"])
    # A list without any stored element replaces the stored one.
    others[1].lines = [Line(sku="other")]
    saved(way, others[1])
    assert skus(db, one) == ["other"]


class Shelf(Embedded):
    tags: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


class Store(Document):
    __collection__ = "carts"
    shelf: Shelf = field(default_factory=Shelf)
    shelves: dict[str, list[str]] = field(default_factory=dict)


@SAVES
@pytest.mark.parametrize("is_missing", [False, True])
def test_two_copies_append_inside_embedded_documents(
    is_missing: bool, way: str, db: Connection, face: Any, saved: Any
) -> None:
    one = Store(shelves={"x": []})
    face.save(one)
    if is_missing:
        keys = {"shelf.tags": "", "shelf.lines": "", "shelves.x": ""}
        db.client[db.name]["carts"].update_one({"_id": one.id}, {"$unset": keys})
    first, second = face.call(Store, "get", one.id), face.call(Store, "get", one.id)
    for copy, name in ((first, "a"), (second, "b")):
        copy.shelf.tags.append(name)
        copy.shelf.lines.append(Line(sku=name))
        copy.shelves.setdefault("x", []).append(name)
        saved(way, copy)
    found = stored(db, one)
    assert found["shelf"]["tags"] == ["a", "b"]
    assert [line["sku"] for line in found["shelf"]["lines"]] == ["a", "b"]
    assert found["shelves"] == {"x": ["a", "b"]}


def change_second(cart: Any) -> None:
    cart.lines[1].n = 100


def replace_second(cart: Any) -> None:
    cart.lines[1] = Line(sku="new", n=100)


def sort_lines(cart: Any) -> None:
    cart.lines.sort(key=lambda line: line.sku, reverse=True)


def insert_line(cart: Any) -> None:
    cart.lines.insert(0, Line(sku="new"))


def change_nested(cart: Any) -> None:
    cart.grid[1][1] = 100


def append_nested(cart: Any) -> None:
    cart.grid[1].append(100)


def pop_nested(cart: Any) -> None:
    cart.grid[1].pop()


POSITIONED = [change_second, replace_second, sort_lines, insert_line]
NESTED = [change_nested, append_nested, pop_nested]


def remove_first(cart: Any) -> None:
    del cart.lines[0]
    del cart.grid[0]


def clear(cart: Any) -> None:
    cart.lines.clear()
    cart.grid.clear()


def assign_none(cart: Any) -> None:
    cart.lines = []
    cart.grid = []


@SAVES
@pytest.mark.parametrize("change", [*POSITIONED, *NESTED])
@pytest.mark.parametrize("other", [remove_first, clear, assign_none])
def test_a_change_by_position_does_not_meet_another_element(
    other: Callable[[Any], None],
    change: Callable[[Any], None],
    way: str,
    db: Connection,
    face: Any,
    saved: Any,
) -> None:
    lines = [Line(sku=name, n=at) for at, name in enumerate("abcd")]
    one = Cart(lines=lines, grid=[[1, 2], [3, 4], [5, 6], [7, 8]])
    face.save(one)
    first, second = face.call(Cart, "get", one.id), face.call(Cart, "get", one.id)
    other(first)
    saved(way, first)
    after = stored(db, one)
    change(second)
    with pytest.raises(StaleDocument):
        saved(way, second)
    assert stored(db, one) == after
    # The change is still pending, and not forgotten.
    assert second.changes()
    # What is stored loads.
    face.call(second, "reload")
    assert second.changes() == {}
