"""Results of `make` and `from_model` are valid, can be stored, and load unchanged."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import ipaddress
import re
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf, Predicate
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from mangonel.bson import Int64, ObjectId
from mangonel.odm import (
    Connection,
    Document,
    Email,
    Embedded,
    Indexed,
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
    OdmError,
    Point,
    Polygon,
    Ref,
    Refs,
    Sequence,
    Url,
    ValidationError,
    Version,
    field,
)
from mangonel.odm.testing import from_model, make


class Tone(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Seat(Embedded):
    row: Annotated[int, Ge(1), Le(30)]
    name: Annotated[str, MaxLen(3)]


class Card(Embedded):
    kind: Literal["card"] = "card"
    last4: Annotated[str, MinLen(4), MaxLen(4)]


class Cash(Embedded):
    kind: Literal["cash"] = "cash"
    coins: list[int]


class Ticket(Document):
    name: Annotated[str, MinLen(2), Indexed(unique=True)]
    seat: Seat
    seats: Annotated[list[Seat], MinLen(2), MaxLen(3)]
    price: Annotated[Decimal, Gt(0), Lt(Decimal("2.5"))]
    part: Annotated[float, Gt(0.0), Lt(0.5)]
    even: Annotated[int, MultipleOf(2), Ge(3), Lt(10)]
    below: Annotated[int, Lt(-5)]
    odd: Annotated[int, Predicate(lambda number: number % 2 == 1)]
    code: Annotated[str, "ignored"]
    at: dt.datetime
    day: dt.date
    tone: Tone
    size: Literal[3, 4]
    pay: Card | Cash
    either: int | str
    tags: set[str]
    pair: tuple[int, str]
    points: dict[str, float]
    place: Point
    area: Polygon
    key: uuid.UUID
    large: Int64
    blob: bytes
    flag: bool
    owner: Ref[Ticket]
    others: Refs[Ticket]
    mail: Email
    link: Url
    host: ipaddress.IPv4Address
    queue: collections.deque[int]
    anything: Any
    note: str | None = None
    kept: Annotated[int, Ge(0)] = 7
    number: Annotated[int | None, Sequence()] = None
    rev: Annotated[int, Version] = 0


def test_what_is_made_is_valid_stored_and_loaded(db: Connection) -> None:
    Ticket.sync_indexes()
    made = [make(Ticket) for _ in range(40)]
    assert len({ticket.name for ticket in made}) == 40
    assert all((ticket.kept, ticket.note, ticket.is_new) == (7, None, True) for ticket in made)
    for ticket in made:
        ticket.validate()
    Ticket.insert_many(made)
    found = {ticket.id: _plain(ticket.to_dict()) for ticket in Ticket.find()}
    assert found == {ticket.id: _plain(ticket.to_dict()) for ticket in made}


def test_given_values_are_taken_and_parts_completed() -> None:
    ticket = make(Ticket, name="x y", seat={"row": 4}, note="n")
    assert (ticket.name, ticket.seat.row, ticket.note) == ("x y", 4, "n")
    assert len(ticket.seat.name) <= 3
    assert make(Seat, row=30).row == 30


def test_wrong_uses_name_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="Ticket has no field 'nme'"):
        make(Ticket, nme="x")
    with pytest.raises(TypeError, match="Ticket has no field 'nme'"):
        from_model(Ticket, nme="x")
    with pytest.raises(TypeError, match="expected a model"):
        make(int)
    with pytest.raises(TypeError, match="expected a model"):
        from_model(int)
    with pytest.raises(ValidationError):
        make(Ticket, kept=-1)

    class Rare(Document):
        n: Annotated[int, Predicate(lambda number: number == -12345)]

    with pytest.raises(OdmError, match=r"make\(Rare, n=…\)"):
        make(Rare)
    assert make(Rare, n=-12345).n == -12345


def _plain(value: Any) -> Any:
    """Return values in a form in which NaN, -0.0 and objects compared by identity equal themselves."""
    if isinstance(value, dict):
        return {key: sorted(item) if key == "tags" else _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return repr(value) if isinstance(value, float) else value


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(ticket=from_model(Ticket))
def test_every_example_of_the_strategy_saves_and_loads_equal(db: Connection, ticket: Ticket) -> None:
    before = _plain(ticket.to_dict(exclude=["number"]))
    ticket.id = ObjectId()
    ticket.name = f"{ticket.name}{ticket.id}"
    before |= {"id": ticket.id, "name": ticket.name}
    ticket.save()
    found = Ticket.get(ticket.id)
    assert _plain(found.to_dict(exclude=["number"])) == before
    assert found.number is not None
    assert (found.is_changed, ticket.is_changed) == (False, False)


class Site(Document):
    __collection__ = "factory_sites"
    line: Annotated[LineString, Indexed(kind="2dsphere")]
    area: Annotated[Polygon, Indexed(kind="2dsphere")]
    spots: Annotated[MultiPoint, Indexed(kind="2dsphere")]
    lines: Annotated[MultiLineString, Indexed(kind="2dsphere")]
    areas: Annotated[MultiPolygon, Indexed(kind="2dsphere")]


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(sites=st.lists(from_model(Site), min_size=3, max_size=3))
def test_geometries_vary_and_the_server_indexes_them(db: Connection, sites: list[Site]) -> None:
    Site.sync_indexes()
    for site in sites:
        site.id = ObjectId()
        site.insert()
        assert Site.get(site.id) == site


@pytest.mark.parametrize("name", ["line", "area", "spots", "lines", "areas"])
def test_geometries_are_not_one_value_only(name: str) -> None:
    usual = getattr(make(Site), name)
    # The first difference is enough: shrinking takes half a minute.
    first = settings(phases=[Phase.generate], database=None)
    find(from_model(Site), lambda site: getattr(site, name) != usual, settings=first)


class Tree(Document):
    name: str
    left: Ref[Tree] | None = None
    children: list[Leaf] = field(default_factory=list)


class Leaf(Embedded):
    text: str
    inner: list[Leaf] = field(default_factory=list)


@given(from_model(Tree, name=st.sampled_from("ab")), from_model(Tree, name="c"))
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_strategies_of_fields_are_replaced_and_models_may_hold_themselves(one: Tree, other: Tree) -> None:
    assert one.name in "ab"
    assert other.name == "c"
    one.validate()


JANUARY = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


class Bounded(Document):
    within: Annotated[dt.datetime, Ge(JANUARY), Lt(JANUARY + dt.timedelta(milliseconds=3))]
    after: Annotated[dt.datetime, Gt(JANUARY + dt.timedelta(microseconds=1))]
    before: Annotated[dt.datetime, Le(JANUARY.astimezone(dt.timezone(dt.timedelta(hours=2))))]
    day: Annotated[dt.date, Gt(dt.date(2020, 1, 1)), Lt(dt.date(2020, 1, 4))]
    late: Annotated[dt.date, Ge(dt.date(2031, 1, 1))]
    long: Annotated[list[int], MinLen(7)]
    fine: Annotated[Decimal, Gt(Decimal("0.001")), Lt(Decimal("0.002"))]
    stepped: Annotated[Decimal, Ge(Decimal(5000)), MultipleOf(Decimal("0.25"))]
    eighth: Annotated[float, Le(-5000.0), MultipleOf(0.125)]


def test_bounds_of_dates_and_fine_numbers_are_kept() -> None:
    for _ in range(10):
        made = make(Bounded)
        assert Bounded.from_bson(bytes(made.to_bson().raw)).to_dict() == made.to_dict()
    assert make(Bounded).late != make(Bounded).late


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(from_model(Bounded))
def test_strategies_keep_bounds_of_dates_and_fine_numbers(made: Bounded) -> None:
    assert Bounded.from_bson(bytes(made.to_bson().raw)).to_dict() == made.to_dict()


@pytest.mark.parametrize(
    ("annotation", "wishes"),
    [
        (Annotated[int, Ge(5), Le(3)], ">= 5 and <= 3"),
        (Annotated[int, Gt(3), Lt(4)], "> 3 and < 4"),
        (Annotated[int, MultipleOf(10), Ge(11), Le(19)], "a multiple of 10 and >= 11 and <= 19"),
        (Annotated[Int64, Ge(5), Le(3)], ">= 5 and <= 3"),
        (Annotated[float, Ge(0.5), Lt(0.5)], ">= 0.5 and < 0.5"),
        (Annotated[Decimal, Gt(Decimal(2)), Le(Decimal(1))], "> 2 and <= 1"),
        (Annotated[str, MinLen(5), MaxLen(3)], "a length of at least 5 and a length of at most 3"),
        (Annotated[list[int], MinLen(2), MaxLen(1)], "a length of at least 2 and a length of at most 1"),
        (list[Annotated[int, Ge(5), Le(3)]], ">= 5 and <= 3"),
        (
            Annotated[dt.date, Gt(dt.date(2024, 1, 1)), Lt(dt.date(2024, 1, 2))],
            "> 2024-01-01 and < 2024-01-02",
        ),
    ],
)
def test_constraints_that_contradict_one_another_are_named(annotation: Any, wishes: str) -> None:
    body = {"__annotations__": {"n": annotation}, "__module__": __name__}
    never: Any = type(Document)("Never", (Document,), body)
    said = re.escape(f"meets its constraints, {wishes}, which contradict one another; correct them")
    with pytest.raises(OdmError, match=f"cannot make Never.n: no .* {said}"):
        make(never)
    with pytest.raises(OdmError, match=f"cannot make Never.n: no .* {said}"):
        find(from_model(never), lambda made: True)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[int, Ge(18), Ge(0), Le(40), Le(20)],
        Annotated[int, Ge(3), Gt(5), Lt(7), Le(9)],
        Annotated[int, MultipleOf(4), MultipleOf(6), Ge(1), Le(12)],
        Annotated[str, MinLen(4), MinLen(2), MaxLen(5), MaxLen(9)],
        Annotated[Int64, Ge(5), Le(6)],
        Annotated[set[Tone], MinLen(2)],
        Annotated[set[bool], MinLen(2)],
        Annotated[frozenset[Literal[3, 4, 5]], MinLen(3)],
        Annotated[set[Annotated[int, Ge(0), Le(2)]], MinLen(3)],
    ],
)
def test_of_several_constraints_the_strictest_holds(annotation: Any) -> None:
    body = {"__annotations__": {"n": annotation}, "__module__": __name__}
    narrow: Any = type(Document)("Narrow", (Document,), body)
    for _ in range(20):
        make(narrow).validate()

    @settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
    @given(from_model(narrow))
    def is_valid(made: Any) -> None:
        made.validate()

    is_valid()


def test_a_set_of_more_values_than_there_are_cannot_be_made() -> None:
    class Full(Document):
        tones: Annotated[set[Tone], MinLen(3)]

    with pytest.raises(OdmError, match=r"cannot make Full.tones: expected 3 different values of Tone, got 2"):
        make(Full)
