"""References whose attribute is the document: reading fetches it, unless waiting is impossible; otherwise a `Ref`."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from mangonel.bson import ObjectId
from mangonel.odm import (
    BelongsTo,
    Connection,
    DeleteDenied,
    Document,
    DocumentNotFound,
    Embedded,
    Indexed,
    Many,
    NotFetched,
    NotLoaded,
    Ref,
    ValidationError,
    asc,
    count_commands,
    field,
    many,
    ref_of,
    set_,
)


class Poet(Document):
    __collection__ = "poets"
    name: str
    poems: Many[Poem] = many(by="poet", order="title")


class Line(Embedded):
    by: BelongsTo[Poet]
    text: str = ""


class Poem(Document):
    __collection__ = "poems"
    title: str
    poet: Annotated[BelongsTo[Poet], Indexed()] = field(key="p")
    reader: BelongsTo[Poet] | None = None
    lines: list[Line] = field(default_factory=list)


class PoemOfRef(Document):
    """The same documents, with plain references."""

    __collection__ = "poems"
    title: str
    poet: Annotated[Ref[Poet], Indexed()] = field(key="p")
    reader: Ref[Poet] | None = None
    lines: list[LineOfRef] = field(default_factory=list)


class LineOfRef(Embedded):
    by: Ref[Poet]
    text: str = ""


class Guarded(Document):
    poet: BelongsTo[Poet] = field(on_delete="deny")


class Following(Document):
    poet: BelongsTo[Poet] = field(on_delete="cascade")
    other: BelongsTo[Poet] | None = field(default=None, on_delete="nullify")


class OfPoet(Document):
    __abstract__ = True
    poet: BelongsTo[Poet]


class Essay(OfPoet):
    pages: int = 0
    subject: BelongsTo[Poet] | None = None


class Letter(OfPoet):
    poet: Ref[Poet]  # type: ignore[assignment]


@pytest.fixture
def poets(db: Connection, face: Any) -> list[Poet]:
    """Three poets and nine poems of theirs."""
    made = [Poet(name=name) for name in ("Ada", "Bob", "Eve")]
    face.call(Poet, "insert_many", made)
    poems = [
        Poem(title=f"t{n}", poet=made[n % 3], reader=made[0] if n % 2 else None, lines=[Line(by=made[n % 3])])
        for n in range(9)
    ]
    face.call(Poem, "insert_many", poems)
    return made


def test_attribute_is_the_document_and_siblings_come_with_it(db: Connection, poets: list[Poet]) -> None:
    with count_commands(db) as commands:
        poems = Poem.find().sort("title").all()
        assert [poem.poet.name for poem in poems] == ["Ada", "Bob", "Eve"] * 3
        assert [poem.reader and poem.reader.name for poem in poems] == [None, "Ada"] * 4 + [None]
        lines = [poem.lines[0] for poem in poems]
        assert [line.by.name for line in lines] == ["Ada", "Bob", "Eve"] * 3
        assert poems[0].poet is poems[3].poet
    assert commands.sent == [("find", "poems"), *[("find", "poets")] * 3]
    assert not any(poem.is_changed for poem in poems)


def test_attribute_never_waits_on_a_loop(db: Connection, face: Any, poets: list[Poet]) -> None:
    def on_a_loop(read: Callable[[], Any]) -> Any:
        async def steps() -> Any:
            return read()

        return asyncio.run(steps())

    poems = face.call(Poem.find().sort("title"), "all")
    with pytest.raises(NotFetched, match=r"include\(\), or await ref_of\(…\)\.aget\(\)"):
        on_a_loop(lambda: poems[0].poet)
    # Fetched for one document, known to all.
    face.call(ref_of(poems[0], "poet"), "get")
    assert on_a_loop(lambda: [poem.poet.name for poem in poems]) == ["Ada", "Bob", "Eve"] * 3
    poems = face.call(Poem.find().sort("title").include(Poem.poet), "all")
    assert on_a_loop(lambda: [poem.poet.name for poem in poems]) == ["Ada", "Bob", "Eve"] * 3
    fresh = Poem(title="new", poet=poets[0].id, reader=poets[1])
    assert on_a_loop(lambda: fresh.reader) is poets[1]
    with pytest.raises(NotFetched):
        on_a_loop(lambda: fresh.poet)


def test_attribute_opens_no_blocking_client_beside_asyncio(
    db: Connection, face: Any, poets: list[Poet]
) -> None:
    poem = face.call(Poem.find(), "first")
    if face.is_async:
        assert db.is_only_async
        with pytest.raises(NotFetched):
            _ = poem.poet
        assert db.is_only_async
        db.client.admin.command("ping")
    assert not db.is_only_async
    assert poem.poet.name == "Ada"


def test_none_stays_none_and_a_missing_document_says_so(db: Connection, poets: list[Poet]) -> None:
    gone = ObjectId()
    Poem(title="gone", poet=gone).save()
    poem = Poem.find(Poem.poet == gone).one()
    assert (poem.reader, ref_of(poem, Poem.reader)) == (None, None)
    with pytest.raises(DocumentNotFound, match=f"no Poet has the _id .*{gone}"):
        _ = poem.poet
    poem.poet = poets[0]
    assert poem.save().poet is poets[0]


def test_document_or_id_may_be_set_and_an_id_is_stored(db: Connection, face: Any, poets: list[Poet]) -> None:
    ada, bob, eve = poets
    poem = Poem(title="x", poet=ada.id)
    poem.poet = bob
    assert poem.poet is bob
    face.save(poem)
    assert db.client[db.name]["poems"].find_one(poem.id)["p"] == bob.id
    loaded = face.call(Poem, "get", poem.id)
    loaded.poet = eve.id
    assert list(loaded.changes()) == ["poet"]
    loaded.poet = Ref(ada)
    face.save(loaded)
    assert db.client[db.name]["poems"].find_one(poem.id)["p"] == ada.id
    with pytest.raises(ValidationError, match="expected a Poet, got Poem"):
        loaded.poet = poem


def test_reference_is_had_without_fetching(db: Connection, face: Any, poets: list[Poet]) -> None:
    poem = face.call(Poem.find({"title": "t1"}), "one")
    with count_commands(db) as commands:
        by_name, by_path, inner = (
            ref_of(poem, "poet"),
            ref_of(poem, Poem.poet),
            ref_of(poem.lines[0], Line.by),
        )
        assert by_name is by_path
        assert [ref.id for ref in (by_name, inner) if ref] == [poets[1].id] * 2
    assert len(commands) == 0
    with pytest.raises(TypeError, match=r"expected a reference in Poem\.title, got str"):
        ref_of(poem, "title")
    with pytest.raises(TypeError, match="expected a Line"):
        ref_of(poem, Line.by)
    with pytest.raises(AttributeError):
        ref_of(poem, "nobody")
    partial = face.call(Poem.find().only("title"), "first")
    for read in (lambda: partial.poet, lambda: ref_of(partial, "poet")):
        with pytest.raises(NotLoaded, match=r"Poem\.poet was not loaded"):
            read()


# Uses of a model, its face and its poets; a plain reference gives the same results by the same commands.
SAME: dict[str, Callable[[Any, Any, list[Poet]], Any]] = {
    "condition on a document": lambda m, f, p: f.call(m.find(m.poet == p[1]), "count"),
    "condition on an id": lambda m, f, p: f.call(m.find(m.poet == p[1].id), "count"),
    "condition inside": lambda m, f, p: m.find(m.lines.by == p[0]).query,
    "order": lambda m, f, p: [d.title for d in f.call(m.find().sort(asc(m.poet), m.title), "all")],
    "update": lambda m, f, p: [
        f.call(m.find({"title": "t0"}), "update", set_(m.poet, p[2])),
        f.call(m.find(m.poet == p[2]), "count"),
    ],
    "distinct": lambda m, f, p: sorted(f.call(m.find(), "distinct", m.poet)),
    "values": lambda m, f, p: f.call(m.find().sort("title"), "values", m.poet, m.title),
    "only": lambda m, f, p: repr(f.call(m.find().sort("title").only("poet"), "first").to_dict()),
    "json of a query": lambda m, f, p: f.call(m.find().sort("title"), "json"),
    "json of a document": lambda m, f, p: f.call(m.find().sort("title"), "first").to_json(),
    "dict": lambda m, f, p: f.call(m.find().sort("title"), "first").to_dict(by_key=True),
    "dict with documents": lambda m, f, p: f.call(m.find().sort("title").include(m.poet), "first").to_dict(
        include=["poet"]
    ),
    "representation": lambda m, f, p: repr(f.call(m.find().sort("title"), "first")).replace("OfRef", ""),
    "equality": lambda m, f, p: f.call(m.find(), "all") == f.call(m.find(), "all"),
    "copies": lambda m, f, p: [
        ref_of(make(f.call(m.find().sort("title"), "first")), "poet") == p[0]
        for make in (copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d)), lambda d: d.copy())
    ],
    "include": lambda m, f, p: [
        ref_of(d, "poet").value.name  # type: ignore[union-attr]
        for d in f.call(m.find().sort("title").include(m.poet, "lines.by"), "all")
    ],
    "lookup": lambda m, f, p: [
        ref_of(d, "poet").value.name  # type: ignore[union-attr]
        for d in f.call(m.find().sort("title").lookup(m.poet), "all")
    ],
    "cascading save": lambda m, f, p: [
        f.call(m(title="new", poet=Poet(name="New")), "save", cascade=True).title,
        f.call(Poet.find({"name": "New"}), "count"),
    ],
    "save of one field": lambda m, f, p: f.call(_set(f.call(m.find(), "first"), "poet", p[1]), "save").title,
    "changes": lambda m, f, p: repr(_set(f.call(m.find(), "first"), "poet", p[1]).changes()),
    "update of a document": lambda m, f, p: (
        ref_of(f.call(_set(f.call(m.find(), "first"), "poet", p[1]), "update", set_(m.title, "u")), "poet")
        == p[1]
    ),
    "reload": lambda m, f, p: (
        f.call(_set(f.call(m.find(), "first"), "poet", p[1]), "reload", keep_changes=True).changes()["poet"][
            1
        ]
        == p[1]
    ),
    "bulk save": lambda m, f, p: f.call(
        m, "save_all", [_set(d, "poet", p[1]) for d in f.call(m.find(), "all")]
    ),
    "indexes": lambda m, f, p: [
        repr(f.call(m, "sync_indexes")).replace("OfRef", ""),
        m.collection().drop_indexes(),
    ],
    "from a dict": lambda m, f, p: ref_of(m.from_dict({"title": "t", "p": p[0].id}), "poet") == p[0],
    "pydantic": lambda m, f, p: (
        ref_of(TypeAdapter(m).validate_python({"title": "t", "poet": str(p[0].id)}), "poet") == p[0]
    ),
    "schema of pydantic": lambda m, f, p: repr(TypeAdapter(m).json_schema()).replace("OfRef", ""),
    "schema of the server": lambda m, f, p: m.json_schema(),
}


def _set(document: Any, name: str, value: Any) -> Any:
    setattr(document, name, value)
    return document


@pytest.mark.parametrize("what", list(SAME))
def test_all_but_the_attribute_is_as_with_a_plain_reference(
    what: str, db: Connection, face: Any, poets: list[Poet]
) -> None:
    rows = {name: db.client[db.name][name].find().to_list() for name in ("poems", "poets")}
    results = []
    for model in (PoemOfRef, Poem):
        for name, documents in rows.items():
            collection = db.client[db.name][name]
            if collection.find().to_list() != documents:
                collection.delete_many({})
                collection.insert_many(documents)
        with count_commands(db) as commands:
            got = SAME[what](model, face, poets)
        results.append((got, commands.sent))
    assert results[1] == results[0]


def test_delete_rules_and_inverses_see_the_reference(db: Connection, face: Any, poets: list[Poet]) -> None:
    ada, bob, eve = poets
    face.save(Guarded(poet=ada), Following(poet=bob), Following(poet=eve, other=bob))
    with pytest.raises(DeleteDenied, match="Guarded"):
        face.call(ada, "delete")
    face.call(bob, "delete")
    left = face.call(Following.find(), "one")
    assert (ref_of(left, "poet"), left.other) == (eve, None)
    assert [poem.title for poem in face.call(ada.poems, "all")] == ["t0", "t3", "t6"]


def test_subclasses_choose_between_the_document_and_the_reference(db: Connection, poets: list[Poet]) -> None:
    Essay(poet=poets[0], subject=poets[1]).save()
    Letter(poet=poets[2]).save()
    essay, letter = Essay.find().one(), Letter.find().one()
    assert (essay.poet.name, essay.subject and essay.subject.name) == ("Ada", "Bob")
    assert isinstance(letter.poet, Ref)
    assert letter.poet.get().name == "Eve"
    assert Essay.find(Essay.poet == poets[0]).count() == Letter.find(Letter.poet == poets[2]).count() == 1


def test_containers_hold_plain_references(db: Connection) -> None:
    class Anthology(Document):
        poets: list[BelongsTo[Poet]]

    with pytest.raises(TypeError, match=r"inside a type of Anthology: expected Ref\[…\] there"):
        Anthology(poets=[])
    with pytest.raises(TypeError, match="wants a reference that may be None"):

        class Bad(Document):
            poet: BelongsTo[Poet] = field(on_delete="nullify")
