"""`values()`, `distinct()`, `min()` and `max()` of references return references, as their types declare."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel.odm import (
    AnyRef,
    BelongsTo,
    Connection,
    Document,
    Embedded,
    Ref,
    Refs,
    ValidationError,
    count_commands,
    field,
    in_,
)


class Poet(Document):
    __collection__ = "poets"
    name: str


class Verse(Embedded):
    by: Ref[Poet]


class Poem(Document):
    __collection__ = "poems"
    n: int
    author: Ref[Poet] | None = None
    reader: BelongsTo[Poet] | None = None
    readers: Refs[Poet]
    others: list[Ref[Poet]] = field(default_factory=list)
    verses: list[Verse] = field(default_factory=list)
    about: AnyRef | None = None


def stored(face: Any) -> list[Poet]:
    """Three poets, and a poem of each."""
    poets = [Poet(name=name) for name in "abc"]
    face.save(*poets)
    for n, poet in enumerate(poets):
        face.save(
            Poem(
                n=n,
                author=poet,
                reader=poet,
                readers=[poet],
                others=[poet],
                verses=[Verse(by=poet)],
                about=AnyRef(poet),
            )
        )
    face.save(Poem(n=3))
    return poets


def test_values_are_references_that_are_fetched_together(db: Connection, face: Any) -> None:
    poets = stored(face)
    query = Poem.find().sort("n")
    found = face.call(query, "values", Poem.author)
    assert found == [*poets, None]
    assert [type(value) for value in found] == [Ref, Ref, Ref, type(None)]
    with count_commands(db, at_most=1):
        assert [face.call(ref, "get").name for ref in found[:3]] == ["a", "b", "c"]
    rows = face.call(query.limit(1), "values", Poem.n, Poem.author, Poem.reader)
    assert rows == [(0, poets[0], poets[0])]
    assert face.call(rows[0][2], "get").name == "a"
    assert [refs.ids for refs in face.call(query, "values", Poem.readers)] == [
        *([poet.id] for poet in poets),
        [],
    ]
    assert face.call(query, "values") == [()] * 4
    assert face.call(query.limit(1), "values", Poem.others) == [[Ref(poets[0])]]
    assert face.call(query.limit(1), "values", "verses.by") == [[Ref(poets[0])]]
    assert face.call(query.limit(1), "values", Poem.about)[0].id == poets[0].id


def test_distinct_and_extreme_values_are_references(db: Connection, face: Any) -> None:
    poets = stored(face)
    for attribute in (Poem.author, Poem.readers, Poem.others):
        found = face.call(Poem.find(Poem.n < 3), "distinct", attribute)
        assert sorted(ref.id for ref in found) == [poet.id for poet in poets]
        assert face.call(found[0], "get").name in "abc"
    assert face.call(Poem.find(), "min", Poem.author) == poets[0]
    assert face.call(Poem.find(), "max", Poem.author) == poets[2]
    assert face.call(Poem.find(Poem.n > 9), "max", Poem.author) is None


def test_what_values_hand_out_is_taken_where_ids_are(db: Connection, face: Any) -> None:
    poets = stored(face)
    found = face.call(Poem.find(Poem.n < 3).sort("n"), "values", Poem.author)
    assert face.call(Poet, "get", found[0]) == poets[0]
    assert face.call(Poet, "get_many", found) == poets
    assert face.call(Poet.find(in_(Poet.id, found)).sort("name"), "all") == poets
    assert face.call(Poem.find(in_(Poem.author, found[1:])), "count") == 2
    with pytest.raises(
        ValidationError, match="expected a Poem to compare '_id' with, got a reference to Poet"
    ):
        Poem.find(Poem.id == found[0])


def test_values_lead_to_the_database_that_they_come_from(
    db: Connection, database_name: str, face: Any
) -> None:
    other = db.sibling(database_name + "_other")
    try:
        with db.use(other):
            stored(face)
        found = face.call(Poem.find().using(other).sort("n"), "values", Poem.author)
        assert face.call(found[1], "get").name == "b"
    finally:
        db.client.drop_database(other.name)


def test_a_value_that_is_no_reference_stays_as_it_is_stored(db: Connection, face: Any) -> None:
    poets = stored(face)
    Poem.collection().update_one({"n": 1}, {"$set": {"readers": 7}})
    found = face.call(Poem.find().sort("n").limit(3), "values", Poem.readers)
    assert found[1] == 7
    assert [list(refs.ids) for refs in (found[0], found[2])] == [[poets[0].id], [poets[2].id]]
