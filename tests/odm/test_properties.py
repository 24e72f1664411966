"""Random models and documents: stored values come back, and a save stores what a replace would."""

from __future__ import annotations

import datetime as dt
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import _core, bson
from mangonel.odm import Connection, Document, Embedded, Timestamps, connect, field
from mangonel.server import Server

TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12)
KEY = st.text(string.ascii_letters + "_.$é0", min_size=1, max_size=6)
INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(allow_nan=False)
MOMENT = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(dt.UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
SCALAR = st.one_of(st.none(), st.booleans(), INT, FLOAT, TEXT, MOMENT, st.binary(max_size=6))
ANY = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEY, inner, max_size=3)),
    max_leaves=6,
)


class Inner(Embedded):
    a: int = 0
    b: str | None = None
    c: list[int] = field(default_factory=list)
    d: Any = None


class Outer(Document):
    number: int = 0
    ratio: float = 0.0
    name: str | None = None
    moment: dt.datetime | None = None
    anything: Any = None
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list, key="is")
    numbers: list[int] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)
    bag: set[int] = field(default_factory=set)
    map: dict[str, Inner] = field(default_factory=dict)


INNER = st.builds(Inner, a=INT, b=st.none() | TEXT, c=st.lists(st.integers(0, 5), max_size=4), d=ANY)
VALUES: dict[str, Any] = {
    "number": INT,
    "ratio": FLOAT,
    "name": st.none() | TEXT,
    "moment": st.none() | MOMENT,
    "anything": ANY,
    "inner": st.none() | INNER,
    "inners": st.lists(INNER, max_size=4),
    "numbers": st.lists(st.integers(0, 3), max_size=6),
    "table": st.dictionaries(KEY, ANY, max_size=4),
    "bag": st.sets(st.integers(0, 4), max_size=4),
    "map": st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=3), INNER, max_size=3),
}


@given(st.fixed_dictionaries(VALUES), st.booleans())
def test_what_is_encoded_comes_back(values: dict[str, Any], lazy: bool) -> None:
    made = Outer(**values)
    data = _core.odm_encode(made)
    found = Outer.from_bson(data, lazy=lazy)
    assert found.to_dict() == made.to_dict()
    assert found.changes() == {}
    assert bson.decode(_core.odm_encode(found)) == bson.decode(data)


@st.composite
def edits(draw: Any) -> list[Any]:
    """Functions that change a document, mostly in place."""
    chosen: list[Any] = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["set", "inner", "push", "pop", "item", "table", "bag", "inners", "map"]))
        if kind == "set":
            name = draw(st.sampled_from(sorted(VALUES)))
            value = draw(VALUES[name])
            chosen.append(lambda document, name=name, value=value: setattr(document, name, value))
        elif kind == "inner":
            value = draw(TEXT)
            chosen.append(
                lambda document, value=value: document.inner and setattr(document.inner, "b", value)
            )
        elif kind == "push":
            value = draw(st.integers(0, 3))
            chosen.append(lambda document, value=value: document.numbers.append(value))
        elif kind == "pop":
            place = draw(st.integers(0, 5))
            chosen.append(
                lambda document, place=place: (
                    document.numbers and document.numbers.pop(place % len(document.numbers))
                )
            )
        elif kind == "item":
            value = draw(INNER)
            chosen.append(lambda document, value=value: document.inners.append(value))
        elif kind == "table":
            key, value = draw(KEY), draw(ANY)
            chosen.append(lambda document, key=key, value=value: document.table.__setitem__(key, value))
        elif kind == "bag":
            value = draw(st.integers(0, 6))
            chosen.append(
                lambda document, value=value: (
                    document.bag ^ {value} and document.bag.symmetric_difference_update({value})
                )
            )
        elif kind == "map":
            key, value = draw(st.text(string.ascii_letters, min_size=1, max_size=3)), draw(INNER)
            chosen.append(lambda document, key=key, value=value: document.map.__setitem__(key, value))
        else:
            place, value = draw(st.integers(0, 5)), draw(st.lists(st.integers(0, 5), max_size=4))

            def change(document: Any, place: int = place, value: Any = value) -> None:
                if document.inners:
                    document.inners[place % len(document.inners)].c = value

            chosen.append(change)
    return chosen


@pytest.fixture(scope="module")
def shared(server: Server) -> Any:
    made = connect(server.uri, database="test_odm_properties")
    yield made
    made.client.drop_database(made.name)
    made.close()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.fixed_dictionaries(VALUES),
    edits(),
    st.booleans(),
    st.dictionaries(st.sampled_from(["x", "y"]), ANY, max_size=2),
)
def test_save_stores_what_a_replace_would(
    shared: Connection, values: dict[str, Any], changes: list[Any], lazy: bool, unknown: dict[str, Any]
) -> None:
    connect(client=shared.client, database=shared.name)
    collection = Outer.collection()
    made = Outer(**values).save()
    if unknown:
        collection.update_one({"_id": made.id}, {"$set": unknown})
    found = (
        Outer.find(Outer.id == made.id).lazy() if lazy else Outer.find(Outer.id == made.id).eager()
    ).one()
    for change in changes:
        change(found)
    found.save()
    expected = {**found.to_dict(by_key=True), **unknown}
    stored = collection.find_one({"_id": made.id})
    present = {key: value for key, value in expected.items() if value is not None or key in stored}

    def plain(value: Any) -> Any:
        """Return a comparable form: sets have no order, and None may be absent."""
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if item is not None}
        return [plain(item) for item in value] if isinstance(value, list) else value

    for document in (present, stored):
        document["bag"] = sorted(document["bag"])
    assert plain(stored) == plain(present)
    assert {key: stored[key] for key in unknown} == unknown
    assert found.changes() == {}
    # Another query finds the same document.
    again = Outer.get(made.id)
    assert again.to_dict() == found.to_dict()


def test_timestamps_are_a_part_of_models() -> None:
    assert "created_at" in Timestamps.__fields__
