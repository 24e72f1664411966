"""`include()`: inverses, paths through references, a query for each, and wrong paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mangonel.odm import (
    BelongsTo,
    Connection,
    Document,
    Embedded,
    Many,
    Ref,
    Refs,
    SoftDelete,
    UnsupportedOption,
    count_commands,
    field,
    identity_map,
    inc,
    many,
    related,
    set_,
    tenant,
)
from mangonel.odm.errors import DocumentNotFound


class Firm(Document):
    __collection__ = "inc_firms"
    name: str
    writers: Many[Writer] = many(by="firm", order="name")


class Writer(Document):
    __collection__ = "inc_writers"
    name: str
    stars: int = 0
    firm: Ref[Firm] | None = None
    essays: Many[Essay] = many(by="writer", order="title")
    read: Many[Essay] = many(by="readers", order="title")
    quoted: Many[Essay] = many(by="quotes.by", order="title")


class Quote(Embedded):
    by: Ref[Writer]


class Label(SoftDelete):
    __collection__ = "inc_labels"
    name: str


class Essay(Document):
    __collection__ = "inc_essays"
    title: str
    stars: int = 0
    writer: Ref[Writer] | None = None
    editor: BelongsTo[Writer] | None = None
    readers: Refs[Writer]
    labels: Refs[Label]
    label: Ref[Label] | None = None
    quotes: list[Quote] = field(default_factory=list)


@pytest.fixture
def shelf(db: Connection, face: Any) -> list[Writer]:
    """Two firms with five writers each, who wrote three essays each."""
    firms = [Firm(name=f"f{n}") for n in range(2)]
    writers = [Writer(name=f"w{n}", stars=n % 3, firm=firms[n % 2]) for n in range(10)]
    labels = [Label(name=f"l{n}") for n in range(3)]
    essays = [
        Essay(
            title=f"e{n:02}",
            stars=n % 4,
            writer=writers[n % 10],
            editor=writers[n % 3],
            readers=[writers[n % 10], writers[(n + 1) % 10]],
            labels=labels[: n % 4],
            label=labels[0],
            quotes=[Quote(by=writers[0])] if n % 2 else [],
        )
        for n in range(30)
    ]
    for model, documents in ((Firm, firms), (Writer, writers), (Label, labels), (Essay, essays)):
        face.call(model, "insert_many", documents)
    return writers


def names(documents: Any) -> list[str]:
    return [getattr(document, "title", None) or document.name for document in documents]


def test_ten_parents_with_their_children_are_two_commands(
    db: Connection, face: Any, shelf: list[Writer]
) -> None:
    with count_commands(db, at_most=2):
        found = face.call(Writer.find().sort("name").include(Writer.essays), "all")
        assert [names(writer.essays.values) for writer in found] == [
            [f"e{n:02}", f"e{n + 10:02}", f"e{n + 20:02}"] for n in range(10)
        ]
        assert names(face.call(found[0].essays, "all")) == ["e00", "e10", "e20"]
        assert face.call(found[0].essays, "count") == 3
        # A child knows its parent.
        assert found[3].essays.values[0].writer.value is found[3]


def test_paths_through_references_and_inverses(db: Connection, face: Any, shelf: list[Writer]) -> None:
    with count_commands(db, at_most=4):
        query = Firm.find().sort("name").include(Firm.writers.essays.editor)
        firms = face.call(query, "all")
        assert names(firms[1].writers.values) == ["w1", "w3", "w5", "w7", "w9"]
        assert [essay.editor.name for essay in firms[1].writers.values[0].essays.values] == ["w1", "w2", "w0"]
    with count_commands(db, at_most=3):
        # A reference shared by several paths is fetched once.
        query = Essay.find().sort("title").include(Essay.writer, Essay.writer.firm, "writer.firm")
        essays = face.call(query, "all")
        assert [essay.writer.value.firm.value.name for essay in essays[:3]] == ["f0", "f1", "f0"]


@pytest.mark.parametrize("kind", ["writer", "readers", "quotes.by"])
def test_inverses_of_all_kinds_of_references(
    kind: str, db: Connection, face: Any, shelf: list[Writer]
) -> None:
    name = {"writer": "essays", "readers": "read", "quotes.by": "quoted"}[kind]
    with count_commands(db, at_most=2):
        found = face.call(Writer.find().sort("name").include(name), "all")
        got = [names(getattr(writer, name).values) for writer in found]
    for writer, titles in zip(found, got, strict=True):
        assert names(face.call(getattr(writer, name).query(), "all")) == titles
    with count_commands(db, at_most=2):
        query = getattr(Writer, name)
        cut = Essay.find(Essay.stars > 0).sort("-title").skip(1).limit(2)
        found = face.call(Writer.find().sort("name").include(related(query, cut)), "all")
        chosen = [names(getattr(writer, name).values) for writer in found]
    every = {essay.title: essay for essay in face.call(Essay.find(), "all")}
    assert chosen == [
        sorted((title for title in titles if every[title].stars > 0), reverse=True)[1:3] for titles in got
    ]


def test_a_query_for_each(db: Connection, face: Any, shelf: list[Writer]) -> None:
    best = Essay.find(Essay.stars >= 1).sort("-stars", "title").limit(2).only(Essay.title)
    query = Writer.find().sort("name").include(related(Writer.essays, best.include(Essay.editor)))
    with count_commands(db, at_most=3):
        found = face.call(query, "all")
    assert names(found[1].essays.values) == ["e11", "e01"]
    # Not all of them are included, so a count queries the server.
    assert face.call(found[1].essays, "count") == 3
    some = Label.find(Label.name != "l1").sort("-name")
    essays = face.call(Essay.find().sort("title").include(related(Essay.labels, some)), "all")
    assert [names(essay.labels.values) for essay in essays[:4]] == [[], ["l0"], ["l0"], ["l2", "l0"]]
    first = Label.find().sort("-name").limit(1)
    essays = face.call(Essay.find().sort("title").include(related(Essay.labels, first)), "all")
    assert [names(face.call(essay.labels, "all")) for essay in essays[:4]] == [[], ["l0"], ["l1"], ["l2"]]


def test_what_cannot_be_honoured_raises(db: Connection, face: Any, shelf: list[Writer]) -> None:
    for wrong in (Essay.title, "title", ("writer", Writer.name), Essay.writer.name):
        with pytest.raises(TypeError, match="expected a reference"):
            Essay.find().include(wrong)
    with pytest.raises(AttributeError, match="no field 'nobody'"):
        Essay.find().include("writer.nobody")
    with pytest.raises(TypeError, match="a query of Writer"):
        Essay.find().include(related(Essay.writer, Label.find()))
    with pytest.raises(TypeError, match="expected a query"):
        related(Essay.writer, Writer.name == "x")
    for name, query in (
        ("as_", Writer.find().as_(Quote)),
        ("timeout", Writer.find().timeout(1)),
        ("let", Writer.find().options(read_preference=None, show_record_id=True)),
    ):
        with pytest.raises(UnsupportedOption, match=name if name != "let" else "show_record_id"):
            related(Essay.writer, query)
    with pytest.raises(UnsupportedOption, match=r"limit\(\)"):
        face.call(Essay.find().include(related(Essay.writer, Writer.find().limit(1))), "all")
    with pytest.raises(UnsupportedOption, match="two queries"):
        Essay.find().include(
            related(Essay.writer, Writer.find()), related(Essay.writer, Writer.find().sort("name"))
        )
    hidden = Essay.find().exclude(Essay.writer)
    with pytest.raises(UnsupportedOption, match="refers to the parent"):
        face.call(Writer.find().include(related(Writer.essays, hidden)), "all")


def test_one_command_fetches_several_levels(db: Connection, face: Any, shelf: list[Writer]) -> None:
    best = related(Writer.essays, Essay.find().sort("-title").limit(2))
    with count_commands(db, at_most=1):
        query = Writer.find().sort("name").lookup(best, Writer.essays.editor.firm, Writer.firm)
        writers = face.call(query, "all")
        assert [names(writer.essays.values) for writer in writers] == [
            [f"e{n + 20}", f"e{n + 10}"] for n in range(10)
        ]
        assert [essay.editor.firm.value.name for essay in writers[1].essays.values] == ["f0", "f0"]
        assert [writer.firm.value.name for writer in writers] == ["f0", "f1"] * 5
    assert [writer.to_dict()["firm"]["name"] for writer in writers[:2]] == ["f0", "f1"]
    with count_commands(db, at_most=1):
        first = face.call(Essay.find().sort("title").lookup(Essay.writer.firm), "first")
        assert first.writer.value.firm.value.name == "f0"
    few = Essay.find().limit(1)
    for query, what in (
        (Firm.find().lookup(related(Firm.writers.essays, few)), "limit"),
        (Essay.find().lookup(related(Essay.labels, Label.find().sort("name"))), "sort"),
        (Essay.find().lookup(related(Essay.writer, Writer.find().comment("x"))), "comment"),
    ):
        with pytest.raises(UnsupportedOption, match=what):
            face.call(query, "all")


def test_a_lookup_of_nothing_says_so(db: Connection, face: Any, shelf: list[Writer]) -> None:
    face.call(shelf[0], "delete")
    for path in (Essay.writer, Essay.writer.firm):
        first = face.call(Essay.find().sort("title").lookup(path), "all")[0]
        assert first.writer.is_missing
        with pytest.raises(DocumentNotFound, match=r"lookup\(\) finds"):
            _ = first.writer.value


def test_a_reference_to_nothing_says_so(db: Connection, face: Any, shelf: list[Writer]) -> None:
    gone = shelf[0]
    face.call(gone, "delete")
    face.call(Label.find(Label.name == "l0"), "delete")
    query = Essay.find().sort("title").include(Essay.writer, Essay.label, Essay.labels, Essay.editor)
    with count_commands(db, at_most=7):
        first, second = face.call(query, "all")[:2]
        assert first.writer.is_missing
        assert not first.writer.is_loaded
        assert not second.writer.is_missing
        with pytest.raises(DocumentNotFound, match="no Writer has this _id"):
            _ = first.writer.value
        with pytest.raises(DocumentNotFound, match="no Writer has this _id"):
            face.call(first.writer, "get")
        with pytest.raises(DocumentNotFound, match="no Writer has this _id"):
            _ = first.editor.name
        with pytest.raises(DocumentNotFound, match="a Label that is marked as deleted"):
            _ = first.label.value
        assert second.labels.missing == [second.label.id]
        with pytest.raises(DocumentNotFound, match="marked as deleted"):
            _ = second.labels.values
        assert face.call(second.labels, "all") == []
    narrow = related(Essay.writer, Writer.find(Writer.stars > 0))
    found = face.call(Essay.find(Essay.title == "e03").include(narrow), "one")
    with pytest.raises(DocumentNotFound, match=r"the query of related\(\) finds"):
        _ = found.writer.value


def test_responses_show_what_was_included(db: Connection, face: Any, shelf: list[Writer]) -> None:
    query = Essay.find(Essay.title == "e01").include(Essay.writer.firm, Essay.labels)
    essay = face.call(query, "one")
    shown = essay.to_dict()
    assert shown["writer"]["firm"]["name"] == "f1"
    assert shown["labels"][0]["name"] == "l0"
    assert shown["editor"] == shelf[1].id
    assert essay.to_dict(exclude=["writer.firm", "labels"])["writer"].keys() == {"id", "name", "stars"}
    assert json.loads(face.call(query, "json"))[0] == json.loads(essay.to_json())
    assert json.loads(face.call(Essay.find(Essay.title == "e01"), "json"))[0]["writer"] == str(shelf[1].id)
    writer = face.call(Writer.find(Writer.name == "w1").include(Writer.essays), "one")
    assert [essay["title"] for essay in writer.to_dict()["essays"]] == ["e01", "e11", "e21"]
    assert writer.to_dict(only=["essays.title"]) == {
        "essays": [{"title": f"e{n}1"} for n in range(3)],
    }
    assert "essays" not in face.call(Writer.find(), "first").to_dict()
    # Documents fetched in another way do not change a response.
    plain = face.call(Essay.find(Essay.title == "e01"), "one")
    face.call(plain.writer, "get")
    assert plain.to_dict()["writer"] == shelf[1].id


def test_a_missing_reference_is_shown_as_none(db: Connection, face: Any, shelf: list[Writer]) -> None:
    face.call(shelf[1], "delete")
    essay = face.call(Essay.find(Essay.title == "e01").include(Essay.writer, Essay.readers), "one")
    shown = essay.to_dict()
    assert shown["writer"] is None
    assert [reader["name"] for reader in shown["readers"]] == ["w2"]


def test_documents_that_include_each_other_end(db: Connection, face: Any, shelf: list[Writer]) -> None:
    with identity_map():
        query = Writer.find(Writer.name == "w1").include(Writer.essays.writer)
        writer = face.call(query, "one")
        assert writer.essays.values[0].writer.value is writer
        assert writer.to_dict()["essays"][0]["writer"] == writer.id


def test_conditions_and_orders_on_documents_of_references(
    db: Connection, face: Any, shelf: list[Writer]
) -> None:
    query = Essay.find(Essay.writer.name == "w3", Essay.stars > 1)
    assert names(face.call(query.sort("title"), "all")) == ["e03", "e23"]
    with count_commands(db, at_most=1):
        assert face.call(query, "count") == 2
    with count_commands(db, at_most=1):
        found = face.call(Essay.find().sort(-Essay.writer.firm.name, Essay.writer.name, "title"), "all")
    assert names(found)[:6] == ["e01", "e11", "e21", "e03", "e13", "e23"]
    assert not found[0].extra
    assert face.call(Essay.find((Essay.writer.firm.name == "f1") | (Essay.title == "e00")), "count") == 16
    assert face.call(Essay.find(~(Essay.writer.firm.name == "f1")), "count") == 15
    assert names(face.call(Writer.find(Writer.essays.title == "e13"), "all")) == ["w3"]
    assert names(face.call(Essay.find(Essay.quotes.by.name == "w0").sort("title").limit(2), "all")) == [
        "e01",
        "e03",
    ]
    assert face.call(Essay.find(Essay.writer.name == "w3"), "exists")
    assert not face.call(Essay.find(Essay.writer.name == "nobody"), "exists")
    assert face.call(Essay.find(Essay.writer.name == "w3").sort("title"), "first").title == "e03"
    page = face.call(Essay.find(Essay.writer.name == "w3").sort("title"), "paginate", 2, 2)
    assert (page.total, names(page.items)) == (3, ["e23"])
    assert face.call(Essay.find(Essay.writer.name == "w3"), "sum", Essay.stars) == 3 + 1 + 3
    included = face.call(Essay.find(Essay.writer.name == "w3").include(Essay.writer), "all")
    assert {essay.writer.value.name for essay in included} == {"w3"}
    assert face.call(Essay.find(Essay.writer.name == "w3"), "update", inc(Essay.stars, 10)) == 3
    assert face.call(Essay.find(Essay.stars >= 10), "count") == 3
    assert face.call(Essay.find(Essay.writer.name == "w3"), "delete") == 3
    assert face.call(Essay.find(), "count") == 27


def test_paths_through_references_are_refused_elsewhere(
    db: Connection, face: Any, shelf: list[Writer]
) -> None:
    condition = Essay.writer.name == "w3"
    for wrong in (
        lambda: condition.query,
        lambda: set_(Essay.writer.name, "x"),
        lambda: Essay.find().only(Essay.writer.name),
        lambda: face.call(Essay.find(condition), "raw"),
        lambda: face.call(Essay.find(condition), "explain"),
        lambda: face.call(Essay.find(condition), "page"),
        lambda: face.call(Essay.find(condition), "find_and_update", inc(Essay.stars)),
    ):
        with pytest.raises(UnsupportedOption):
            wrong()
    with pytest.raises(AttributeError, match="no field 'nobody'"):
        _ = Essay.writer.nobody


def test_what_was_set_after_an_include_is_shown(db: Connection, face: Any, shelf: list[Writer]) -> None:
    essay = face.call(Essay.find(Essay.title == "e01").include(Essay.writer, Essay.readers), "one")
    essay.writer = shelf[5].id
    essay.readers.add(shelf[6].id)
    assert not essay.writer.is_missing
    shown = essay.to_dict()
    assert shown["writer"] == shelf[5].id
    assert [reader if reader == shelf[6].id else reader["name"] for reader in shown["readers"]] == [
        "w1",
        "w2",
        shelf[6].id,
    ]
    face.save(essay)
    assert face.call(face.call(essay, "reload").writer, "get").name == "w5"


def test_an_include_reads_in_the_session_of_its_query(db: Connection, face: Any, shelf: list[Writer]) -> None:
    query = Writer.find(Writer.name == "w1")
    few = Essay.find().limit(9)

    def check(writer: Writer) -> None:
        assert names(writer.essays.values) == ["e01", "e11", "e21", "new"]
        assert names(writer.firm.value.writers.values)[:2] == ["w1", "w3"]

    async def inside() -> None:
        async with db.transaction():
            await Essay(title="new", writer=shelf[1], readers=[], labels=[]).asave()
            check(await query.include(related(Writer.essays, few), Writer.firm.writers).aone())
            raise ZeroDivisionError

    def blocking() -> None:
        with db.transaction():
            Essay(title="new", writer=shelf[1], readers=[], labels=[]).save()
            check(query.include(related(Writer.essays, few), Writer.firm.writers).one())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        face.run(inside if face.is_async else blocking)
    assert face.call(Essay.find(Essay.title == "new"), "count") == 0


class Site(Document):
    __collection__ = "inc_sites"
    __tenant__ = "owner"
    owner: str
    name: str
    pages: Many[Leaf] = many(by="site", order="name")


class Leaf(Document):
    __collection__ = "inc_leaves"
    __tenant__ = "owner"
    owner: str
    name: str
    site: Ref[Site]


def test_no_other_tenants_documents_are_included_or_matched(db: Connection, face: Any) -> None:
    made: dict[str, Site] = {}
    for owner in ("a", "b"):
        with tenant(owner):
            made[owner] = Site(owner=owner, name=owner)
            face.save(made[owner])
    with tenant("a"):
        face.save(
            *(Leaf(owner="a", name=name, site=made[to]) for name, to in (("mine", "a"), ("foreign", "b")))
        )
    with tenant("b"):
        face.save(
            *(Leaf(owner="b", name=name, site=made[to]) for name, to in (("theirs", "a"), ("own", "b")))
        )
    few = Leaf.find().sort("name").limit(5)
    for owner, name in (("a", "mine"), ("b", "own")):
        with tenant(owner):
            for asked in (Site.pages, related(Site.pages, few)):
                sites = face.call(Site.find().include(asked), "all")
                assert [names(site.pages.values) for site in sites] == [[name]]
            leaves = face.call(Leaf.find().sort("name").include(Leaf.site), "all")
            assert [leaf.site.is_missing for leaf in leaves] == [leaf.name != name for leaf in leaves]
            assert names(face.call(Leaf.find(Leaf.site.name == owner), "all")) == [name]
            assert face.call(Leaf.find(Leaf.site.name != owner), "count") == 1
            assert face.call(Site.find(Site.pages.name == "theirs"), "count") == 0
            assert face.call(Leaf.find(Leaf.site.name == owner), "aggregate", [{"$count": "n"}]) == [{"n": 1}]


def test_known_documents_keep_what_was_fetched_before(db: Connection, face: Any, shelf: list[Writer]) -> None:
    with identity_map():
        some = face.call(Essay.find(Essay.title < "e05").include(Essay.writer, Essay.readers), "all")
        others = face.call(Essay.find().sort("title").include(Essay.writer, Essay.readers), "all")
        assert others[0] is next(essay for essay in some if essay.title == "e00")
        assert [essay.writer.value.name for essay in others] == [f"w{n % 10}" for n in range(30)]
        assert all(len(essay.readers.values) == 2 for essay in [*some, *others])
