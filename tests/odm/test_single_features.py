"""Small features of the mapper that have no file of their own."""

from __future__ import annotations

import collections
import json
from typing import Annotated, Any

import pytest

from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    F,
    Indexed,
    Many,
    Query,
    Ref,
    Refs,
    StaleDocument,
    UnsupportedOption,
    Version,
    documents,
    field,
    many,
    scope,
    text,
)
from mangonel.odm.errors import DocumentNotFound


class Writer(Document):
    __collection__ = "writers"
    name: Annotated[str, Indexed("text")]
    books: Many[Novel] = many(by="writers", order="title")


class Chapter(Embedded):
    title: str
    pages: int = 0


class Novel(Document):
    __collection__ = "novels"
    title: str
    writer: Ref[Writer] | None = None
    writers: Refs[Writer]
    cast: list[Ref[Writer]] = field(default_factory=list)
    chapters: list[Chapter] = field(default_factory=list)
    year: int = 0

    @scope
    @classmethod
    def recent(cls) -> Query[Any]:
        return cls.find(cls.year > 2000)

    @scope
    @classmethod
    def newest(cls) -> Query[Any]:
        return cls.find().sort("-year")

    @property
    def shout(self) -> str:
        return self.title.upper()

    def length(self) -> int:
        return sum(chapter.pages for chapter in self.chapters)


class Hit(Embedded):
    name: str
    score: float


class Place(Document):
    at: list[float]


def writers(face: Any, *names: str) -> list[Writer]:
    made = [Writer(name=name) for name in names]
    face.call(Writer, "insert_many", made)
    return made


def test_references_are_fetched_in_the_same_command(db: Connection, face: Any) -> None:
    ada, bob = writers(face, "Ada", "Bob")
    face.save(
        Novel(title="a", writer=Ref(ada), cast=[Ref(ada), Ref(bob)]),
        Novel(title="b", writer=Ref(ada)),
        Novel(title="c"),
    )
    query = Novel.find().sort("title").lookup(Novel.writer, Novel.cast)
    for found in (
        face.call(query, "all"),
        face.collect(query),
        [face.call(query[n : n + 1], "one") for n in range(3)],
    ):
        assert [novel.title for novel in found] == ["a", "b", "c"]
        assert [novel.writer and novel.writer.value.name for novel in found] == ["Ada", "Ada", None]
        assert [ref.value.name for ref in found[0].cast] == ["Ada", "Bob"]
        assert not found[0].is_changed
    first = face.call(query, "first")
    first.title = "A"
    face.save(first)
    assert face.call(Novel.find({"title": "A"}).lookup(Novel.writers), "one").writers.is_loaded


def test_a_lookup_that_cannot_be_is_refused(db: Connection, face: Any, database_name: str) -> None:
    with pytest.raises(UnsupportedOption, match=r"raw\(\) cannot honour lookup\(\)"):
        face.call(Novel.find().lookup(Novel.writer), "raw")
    with pytest.raises(TypeError, match="expected a reference"):
        face.call(Novel.find().lookup(Novel.title), "all")


def test_scopes_are_combined(db: Connection, face: Any) -> None:
    face.save(*(Novel(title=str(year), year=year) for year in (1999, 2001, 2005)))
    query = Novel.recent().merge(Novel.newest())
    assert [novel.year for novel in face.call(query, "all")] == [2005, 2001]
    with pytest.raises(TypeError, match="expected a query of Novel"):
        Novel.find().merge(Writer.find())  # type: ignore[arg-type]


def test_both_sides_of_many_to_many_are_asked(db: Connection, face: Any) -> None:
    ada, bob = writers(face, "Ada", "Bob")
    face.save(Novel(title="b", writers=[bob, ada]), Novel(title="a", writers=[ada]))
    assert [novel.title for novel in face.call(ada.books.query(), "all")] == ["a", "b"]
    found = face.call(Novel.find({"title": "b"}), "one")
    assert [writer.name for writer in face.call(found.writers, "all")] == ["Bob", "Ada"]
    found.writers.remove(bob)
    face.save(found)
    assert face.call(bob.books.query(), "count") == 0


def test_a_shape_has_the_score_of_a_text_search(db: Connection, face: Any) -> None:
    face.run(lambda: Writer.async_indexes() if face.is_async else Writer.sync_indexes())
    writers(face, "tea tea and more tea", "coffee and much, much else, and tea", "water")
    query = Writer.find(text("tea")).text_score()
    hits = face.call(query.as_(Hit), "all")
    assert [hit.name.split()[0] for hit in hits] == ["tea", "coffee"]
    assert hits[0].score > hits[1].score > 0
    assert [row["score"] for row in face.call(query, "dicts")] == [hit.score for hit in hits]
    assert face.call(query, "all")[0].extra == {}


def test_flat_areas_are_asked_for(db: Connection, face: Any) -> None:
    face.save(Place(at=[1.0, 1.0]), Place(at=[9.0, 9.0]))
    path = F(Place.at)
    for condition in (
        path.within_circle((0, 0), 3),
        path.within_polygon([(0, 0), (0, 3), (3, 3), (3, 0)]),
        path.within_box((0, 0), (3, 3)),
    ):
        assert [place.at for place in face.call(Place.find(condition), "all")] == [[1.0, 1.0]]


def test_a_document_is_replaced_where_it_is_found(db: Connection, face: Any) -> None:
    kept = Novel(title="a", year=1)
    face.save(kept)
    new = Novel(title="b", chapters=[Chapter(title="x")])
    found = face.call(Novel.find({"title": "a"}), "find_and_replace", new)
    assert (found.id, found.title, found.year) == (kept.id, "b", 0)
    assert face.call(Novel.find({"title": "b"}), "find_and_replace", Novel(title="c"), new=False).title == "b"
    assert face.call(Novel.find({"title": "none"}), "find_and_replace", Novel(title="d")) is None
    assert (
        face.call(Novel.find({"title": "none"}), "find_and_replace", Novel(title="d"), upsert=True).title
        == "d"
    )

    class Counted(Document):
        rev: Annotated[int, Version] = 0

    with pytest.raises(UnsupportedOption, match="versions of Counted"):
        face.call(Counted.find(), "find_and_replace", Counted())


def test_reload_keeps_unsaved_changes_when_asked(db: Connection, face: Any) -> None:
    class Card(Document):
        a: int = 0
        tags: list[str] = field(default_factory=list)
        rev: Annotated[int, Version] = 0

    mine = Card()
    face.save(mine)
    other = face.call(Card, "get", mine.id)
    other.a = 5
    face.save(other)
    mine.tags.append("x")
    with pytest.raises(StaleDocument):
        face.save(mine)
    face.call(mine, "reload", keep_changes=True)
    assert (mine.a, mine.tags) == (5, ["x"])
    face.save(mine)
    again = face.call(Card, "get", mine.id)
    assert (again.a, again.tags, again.rev) == (5, ["x"], 2)


def test_a_dict_has_what_is_asked_for(db: Connection, face: Any) -> None:
    ada = writers(face, "Ada")[0]
    novel = Novel(title="a", writer=Ref(ada), chapters=[Chapter(title="x", pages=3)], writers=[ada])
    face.save(novel)
    found = face.call(Novel.find().include(Novel.writer, Novel.writers), "one")
    assert found.to_dict(only=["title", "chapters.pages"], also=["shout", "length"]) == {
        "title": "a",
        "chapters": [{"pages": 3}],
        "shout": "A",
        "length": 3,
    }
    whole = found.to_dict(include=["writer", "writers"], exclude=["chapters.pages"])
    assert whole["writer"] == {"id": ada.id, "name": "Ada"}
    assert whole["writers"] == [{"id": ada.id, "name": "Ada"}]
    assert whole["chapters"] == [{"title": "x"}]
    with pytest.raises(DocumentNotFound):
        face.call(Novel.find(), "one").to_dict(include=["writer"])


def test_containers_of_every_kind_come_back(db: Connection, face: Any) -> None:
    class Box(Document):
        a: set[int]
        b: frozenset[str]
        c: tuple[int, str]
        d: tuple[float, ...]
        e: collections.deque[int]

    box = Box(a={1, 2}, b=frozenset({"x"}), c=(1, "y"), d=(1.0, 2.0), e=collections.deque([3, 4]))
    face.save(box)
    found = face.call(Box, "get", box.id)
    assert (found.a, found.b, found.c, found.d, found.e) == (box.a, box.b, box.c, box.d, box.e)
    assert isinstance(found.e, collections.deque)
    found.e.append(5)
    assert list(found.changes()) == ["e"]
    face.save(found)
    assert list(face.call(Box, "get", box.id).e) == [3, 4, 5]


def test_all_models_are_known() -> None:
    assert {Writer, Novel, Place} <= set(documents())
    assert Chapter not in documents()


class Inner(Embedded):
    x: int = 0


class DynamicInner(Embedded):
    __dynamic__ = True
    x: int = 0


def json_models() -> list[Any]:
    """Models that differ in their handling of unknown keys, and in the parts of a document that they keep."""
    made: list[Any] = []
    for name, value in (("keep", False), ("ignore", False), ("keep", True), ("ignore", True)):
        for extra in (
            {},
            {"y": list[int]},
            {"e": Inner | None, "f": DynamicInner | None, "g": list[DynamicInner]},
        ):
            namespace: dict[str, Any] = {
                "__annotations__": {"x": int, **extra},
                "__unknown__": name,
                "__dynamic__": value,
                "__collection__": "shown",
                "y": field(default_factory=list),
                "e": None,
                "f": None,
                "g": field(default_factory=list),
            }
            for key in {"y", "e", "f", "g"} - set(extra):
                del namespace[key]
            made.append(type("Shown", (Document,), namespace))
    return made


def test_a_query_s_json_is_that_of_its_documents(db: Connection, face: Any) -> None:
    inner = {"x": 1, "z": 2}
    db.client[db.name]["shown"].insert_one({"x": 1, "secret": 5, "e": inner, "f": inner, "g": [inner]})
    for model in json_models():
        shown = json.loads(face.call(model.find(), "json"))
        assert shown == [json.loads(one.to_json()) for one in face.call(model.find(), "all")]
        assert ("secret" in shown[0]) == (model.__dynamic__ and model.__unknown__ == "keep")
