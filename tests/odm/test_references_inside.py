"""References inside lists, maps, sets and embedded documents: loaded as references, fetched together, stored as ids."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel import bson
from mangonel.bson import ObjectId
from mangonel.odm import Connection, Document, Embedded, Ref, Refs, ValidationError, field
from mangonel.odm._registry import models


class Person(Document):
    __collection__ = "people"
    name: str = ""


class Firm(Document):
    __collection__ = "firms"
    name: str = ""


class Credit(Embedded):
    who: Ref[Person]
    friends: list[Ref[Person]] = field(default_factory=list)


class Film(Document):
    __collection__ = "films"
    cast: list[Ref[Person]] = field(default_factory=list)
    crew: dict[str, Ref[Person]] = field(default_factory=dict)
    fans: set[Ref[Person]] = field(default_factory=set)
    pair: tuple[Ref[Person], int] | None = None
    gaps: list[Ref[Person] | None] = field(default_factory=list)
    credits: list[Credit] = field(default_factory=list)


def people(face: Any, *names: str) -> list[Person]:
    made = [Person(name=name) for name in names]
    face.call(Person, "insert_many", made)
    return made


def test_ids_in_containers_are_references_when_set_and_when_loaded(db: Connection, face: Any) -> None:
    ada, bob = people(face, "Ada", "Bob")
    made = Film(
        cast=[ada, bob.id],
        crew={"light": bob},
        fans={ada.id},
        pair=(ada, 3),
        gaps=[None, bob],
        credits=[Credit(who=ada, friends=[bob])],
    )
    for film in (made, face.call(face.call(made, "save"), "reload"), face.call(Film, "get", made.id)):
        assert [type(ref) for ref in film.cast] == [Ref, Ref]
        assert film.cast == [ada, bob]
        assert film.crew["light"] == bob
        assert film.fans == {Ref(ada.id)}
        assert film.pair is not None
        assert film.pair[0] == ada
        assert film.gaps[1] == bob
        assert film.credits[0].friends[0] == bob
    stored = db.client[db.name]["films"].find_one()
    assert stored is not None
    assert stored["cast"] == [ada.id, bob.id]
    assert stored["crew"] == {"light": bob.id}
    assert stored["fans"] == [ada.id]


def test_a_loaded_container_of_references_is_no_change(db: Connection, face: Any) -> None:
    ada, bob = people(face, "Ada", "Bob")
    face.save(Film(cast=[ada], crew={"light": bob}, fans={ada}, credits=[Credit(who=ada, friends=[bob])]))
    film = face.call(Film.find(), "one")
    assert film.cast == [ada]
    assert film.credits[0].friends == [bob]
    assert (film.crew, film.fans) == ({"light": bob}, {Ref(ada.id)})
    assert not film.is_changed
    film.cast.append(bob)
    assert list(film.changes()) == ["cast"]
    assert face.call(face.call(film, "save"), "reload").cast == [ada, bob]


def test_include_fetches_what_containers_refer_to(db: Connection, face: Any) -> None:
    ada, bob = people(face, "Ada", "Bob")
    face.save(Film(cast=[ada, bob]), Film(cast=[bob], crew={"light": ada}))
    query = Film.find().sort("_id").include(Film.cast, Film.crew, Film.credits.who, Film.credits.friends)  # type: ignore[attr-defined]
    found = face.call(query, "all")
    assert [[ref.value.name for ref in film.cast] for film in found] == [["Ada", "Bob"], ["Bob"]]
    assert found[1].crew["light"].value.name == "Ada"


def test_asking_for_one_reference_in_a_list_fetches_those_of_the_siblings(db: Connection, face: Any) -> None:
    ada, bob, eve = people(face, "Ada", "Bob", "Eve")
    face.save(Film(cast=[ada, bob]), Film(cast=[eve]))
    first, second = face.call(Film.find().sort("_id").eager(), "all")
    assert face.call(first.cast[0], "get").name == "Ada"
    assert first.cast[1].is_loaded
    assert second.cast[0].value.name == "Eve"


def test_references_in_lazy_embedded_documents_lead_into_the_database_they_are_from(
    db: Connection, face: Any, database_name: str
) -> None:
    other = db.sibling(database_name + "_tenant")
    with db.use(other):
        (ada,) = people(face, "Ada there")
        face.save(Film(credits=[Credit(who=ada, friends=[ada])], cast=[ada]), Film())
        first = face.call(Film.find().sort("_id"), "all")[0]
    try:
        assert face.call(first.credits[0].who, "get").name == "Ada there"
        assert face.call(first.credits[0].friends[0], "get").name == "Ada there"
        assert face.call(first.cast[0], "get").name == "Ada there"
    finally:
        db.client.drop_database(other.name)


def test_a_reference_to_another_model_is_refused_inside_containers_too() -> None:
    with pytest.raises(ValidationError, match="expected a Person, got Firm"):
        Film(cast=[Firm()])
    with pytest.raises(ValidationError, match="expected a Person, got Firm"):
        Film(crew={"a": Firm()})
    film = Film()
    film.cast.append(Firm())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="expected a Person, got Firm"):
        film.validate()


class Watcher(Document):
    firm: Ref[Firm] | None = None
    person: Ref[Person] | None = None
    people: Refs[Person]


def test_a_reference_object_of_another_model_is_refused() -> None:
    watcher = Watcher(firm=Firm())
    with pytest.raises(ValidationError, match="expected a Person"):
        watcher.person = watcher.firm
    with pytest.raises(ValidationError, match="expected a Person"):
        watcher.person = Ref(Firm())


def test_a_reference_made_by_hand_belongs_to_the_field_it_is_set_to(db: Connection, face: Any) -> None:
    (ada,) = people(face, "Ada")
    watcher = Watcher(person=Ref(ada.id), people=Refs([ada.id]))
    assert watcher.person is not None
    assert face.call(watcher.person, "get").name == "Ada"
    assert [one.name for one in face.call(watcher.people, "all")] == ["Ada"]


def test_a_broken_id_in_a_list_of_references_names_its_place() -> None:
    data = bson.encode({"_id": ObjectId(), "cast": [ObjectId(), "no id"]})
    with pytest.raises(ValidationError, match=r"\$\.cast\[1\]"):
        Film.from_bson(data)


def test_conditions_and_updates_on_lists_of_references_take_documents(db: Connection, face: Any) -> None:
    from mangonel.odm import each, pull, push

    ada, bob = people(face, "Ada", "Bob")
    face.save(Film(cast=[ada]))
    query = Film.find(each(Film.cast) == ada)
    assert face.call(query, "count") == 1
    face.call(query, "update", push(Film.cast, bob))  # type: ignore[arg-type]
    assert face.call(query, "one").cast == [ada, bob]
    face.call(query, "update", pull(Film.cast, bob))  # type: ignore[arg-type]
    assert face.call(query, "one").cast == [ada]


def test_a_delete_rule_on_a_map_of_references_is_refused_at_definition() -> None:
    class Wrong(Document):
        crew: dict[str, Ref[Person]] = field(default_factory=dict, on_delete="cascade")

    with pytest.raises(TypeError, match="on_delete"):
        Wrong()
    # Every deletion asks all models for their rules.
    models.remove(Wrong)
