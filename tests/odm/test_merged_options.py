"""Options from several methods of a query are honoured together, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel.odm import Connection, Document, Embedded, NotLoaded, Ref
from mangonel.odm.errors import UnsupportedOption


class Street(Embedded):
    name: str = ""
    number: int = 0


class Owner(Document):
    __collection__ = "owners"
    name: str


class House(Document):
    __collection__ = "houses"
    a: int = 1
    b: int = 2
    c: int = 3
    street: Street | None = None
    owner: Ref[Owner] | None = None


class Card(Embedded):
    a: int


def loaded(face: Any, query: Any) -> set[str]:
    """Return the loaded fields of the first document, with their stored values."""
    found = face.call(query, "first")
    names = set()
    for name, value in (("a", 10), ("b", 20), ("c", 30)):
        try:
            assert getattr(found, name) == value
            names.add(name)
        except NotLoaded:
            continue
    return names


@pytest.fixture
def house(db: Connection, face: Any) -> House:
    """A house that has no default values."""
    owner = Owner(name="Ada")
    face.save(owner)
    made = House(a=10, b=20, c=30, street=Street(name="x", number=7), owner=owner)
    face.save(made)
    return made


def test_fields_that_are_asked_for_and_left_out_are_one_choice(house: House, face: Any) -> None:
    find = House.find()
    assert loaded(face, find.only(House.a).only(House.b)) == {"a", "b"}
    assert loaded(face, find.exclude(House.a).exclude(House.b)) == {"c"}
    for query in (find.only(House.a, House.b).exclude(House.b), find.exclude(House.b).only(House.a, House.b)):
        assert loaded(face, query) == {"a"}
    assert loaded(face, find.only(House.a).merge(find.only(House.c))) == {"a", "c"}
    assert loaded(face, find.only()) == set()
    assert loaded(face, find.only(House.a).exclude(House.a)) == set()


def test_a_part_of_what_is_asked_for_cannot_be_left_out(house: House, face: Any) -> None:
    with pytest.raises(
        UnsupportedOption, match=r"only\(\) of 'street' cannot honour exclude\(\) of 'street.name'"
    ):
        House.find().only(House.street).exclude("street.name")
    whole = face.call(House.find().only("street.name", House.street), "first")
    assert whole.street == house.street
    assert loaded(face, House.find().only(House.a, "street.name").exclude(House.street)) == {"a"}


@pytest.mark.parametrize("method", ["include", "lookup"])
def test_references_are_read_where_they_are_to_be_fetched(method: str, house: House, face: Any) -> None:
    for query in (
        getattr(House.find().only(House.a), method)(House.owner),
        getattr(House.find(), method)(House.owner).only(House.a),
    ):
        assert face.call(query, "first").owner.value.name == "Ada"
        assert loaded(face, query) == {"a"}
    for wrong in (
        lambda: getattr(House.find().exclude(House.owner), method)(House.owner),
        lambda: getattr(House.find(), method)(House.owner).exclude(House.owner),
    ):
        with pytest.raises(UnsupportedOption, match=r"cannot honour exclude\(\) of 'owner'"):
            wrong()


def test_a_shape_says_by_itself_what_is_read(house: House, face: Any) -> None:
    for wrong in (
        lambda: House.find().only(House.a).as_(Card),
        lambda: House.find().as_(Card).exclude(House.b),
        lambda: House.find().as_(Card).merge(House.find().only(House.b)),
    ):
        with pytest.raises(
            UnsupportedOption, match=r"as_\(\) cannot honour only\(\) or exclude\(\): Card says"
        ):
            wrong()


def test_the_time_of_a_stream_of_changes_is_limited(house: House, face: Any) -> None:
    changes = House.unscoped().timeout(0.2).watch()
    with pytest.raises(Exception) as caught:
        next(iter(changes)) if not face.is_async else face.run(changes.__anext__)
    assert getattr(caught.value, "timeout", False)
    face.call(changes, "close")


def test_a_merged_limit_of_time_is_that_of_the_other(house: House, face: Any) -> None:
    query = House.find().merge(House.find({"$where": "sleep(200) || true"}).timeout(0.05))
    with pytest.raises(Exception) as caught:
        face.call(query, "count")
    assert getattr(caught.value, "timeout", False)
