"""Search and vector indexes, against a scripted server, and shard keys in commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from mangonel.errors import OperationFailure
from mangonel.monitoring import CommandListener
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    OdmError,
    Pipeline,
    SearchIndex,
    StaleDocument,
    ValidationError,
    Vector,
    connect,
    inc,
)
from tools.scripted_server import ScriptedServer


class Body(Embedded):
    text: str = ""


class Article(Document):
    __search_indexes__ = [SearchIndex("title", "body.text"), SearchIndex(name="all")]  # noqa: RUF012
    title: str = ""
    body: Body | None = None
    tenant: str = ""
    meaning: Annotated[list[float], Vector(2, filters=["tenant"])]


class Entry(Document):
    __collection__ = "sharded_entries"
    __shard_key__ = {"tenant": 1, "user": "hashed"}  # noqa: RUF012
    tenant: str
    user: int
    n: int = 0


DECLARED = {
    "default": {
        "type": "search",
        "definition": {
            "mappings": {
                "dynamic": False,
                "fields": {
                    "title": {"type": "string"},
                    "body": {"type": "document", "fields": {"text": {"type": "string"}}},
                },
            }
        },
    },
    "all": {"type": "search", "definition": {"mappings": {"dynamic": True}}},
    "vectors": {
        "type": "vectorSearch",
        "definition": {
            "fields": [
                {"type": "vector", "path": "meaning", "numDimensions": 2, "similarity": "cosine"},
                {"type": "filter", "path": "tenant"},
            ]
        },
    },
}


def listed(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the service's reply to a request for its indexes."""
    return {"ok": 1.0, "cursor": {"id": 0, "ns": "shop.article", "firstBatch": list(rows)}}


@pytest.fixture
def scripted(scripted_server: ScriptedServer, face: Any) -> Iterator[ScriptedServer]:
    """A script that accepts requests for search indexes."""
    for name in ("dropSearchIndex", "updateSearchIndex"):
        scripted_server.on(name, {"ok": 1.0})
    created = [{"id": name, "name": name} for name in DECLARED]
    scripted_server.on("createSearchIndexes", {"ok": 1.0, "indexesCreated": created})
    made = connect(scripted_server.uri, database="shop")
    yield scripted_server
    made.close()
    face.wait(made.aclose())


def test_search_indexes_are_declared_by_fields() -> None:
    assert Article.search_indexes() == DECLARED
    with pytest.raises(TypeError, match="expected fields or a definition of the search index, got both"):
        SearchIndex("title", definition={})
    with pytest.raises(TypeError, match="expected the definition of an index of kind 'vectorSearch'"):
        SearchIndex("title", kind="vectorSearch")
    with pytest.raises(ValidationError, match=r"\$\.meaning"):
        Article(meaning=[1.0])


def test_search_indexes_that_are_missing_or_differ_are_asked_for(scripted: ScriptedServer, face: Any) -> None:
    # The service adds its defaults.
    kept = {"mappings": {**DECLARED["all"]["definition"]["mappings"], "analyzer": "standard"}}
    scripted.on(
        "aggregate",
        listed(
            {"name": "all", "type": "search", "latestDefinition": kept, "queryable": True},
            {"name": "default", "latestDefinition": {"mappings": {"dynamic": True}}},
            {"name": "old", "latestDefinition": {}},
        ),
    )
    planned = face.call(Article, "sync_search_indexes", plan=True)
    assert (planned.create, planned.rebuild, planned.keep, planned.unknown, planned.drop) == (
        ["vectors"],
        ["default"],
        ["all"],
        ["old"],
        [],
    )
    assert not scripted.received("createSearchIndexes")
    assert face.call(Article, "sync_search_indexes", drop=True).drop == ["old"]
    [created] = scripted.received("createSearchIndexes")
    assert created.command["indexes"] == [{"name": "vectors", **DECLARED["vectors"]}]
    [updated] = scripted.received("updateSearchIndex")
    assert (updated.command["name"], updated.command["definition"]) == (
        "default",
        DECLARED["default"]["definition"],
    )
    assert [one.command["name"] for one in scripted.received("dropSearchIndex")] == ["old"]


def test_search_indexes_are_waited_for(scripted: ScriptedServer, face: Any) -> None:
    rows = [
        {"name": name, **index, "latestDefinition": index["definition"]} for name, index in DECLARED.items()
    ]
    building, built = ([{**row, "queryable": ready} for row in rows] for ready in (False, True))
    scripted.on("aggregate", listed(*built))
    scripted.once("aggregate", listed(*building))
    scripted.once("aggregate", listed(*building))
    assert face.call(Article, "sync_search_indexes", wait_s=60).keep == list(DECLARED)
    assert len(scripted.received("aggregate")) == 3
    scripted.on("aggregate", listed(*building))
    with pytest.raises(OdmError, match="not built: default, all, vectors"):
        face.call(Article, "sync_search_indexes", wait_s=0)


class Sent(CommandListener):
    """The commands that a client sends."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: Any) -> None:
        self.commands.append(dict(event.command))

    def succeeded(self, event: Any) -> None:
        return

    def failed(self, event: Any) -> None:
        return


def test_writes_of_a_document_name_its_shard(db: Connection, face: Any) -> None:
    entry = Entry(tenant="a", user=3)
    face.save(entry)
    sent = Sent()
    db.clients.listen(sent)
    entry.n = 1
    face.save(entry)
    face.call(entry, "update", inc(Entry.n))
    entry.n = 5
    face.call(Entry, "save_all", [entry])
    face.call(entry, "replace")
    face.call(entry, "reload")
    face.call(entry, "delete")
    db.clients.unlisten(sent)
    filters = []
    for command in sent.commands:
        for row in command.get("updates") or command.get("deletes") or [command]:
            filters.append(row.get("q") or row.get("query") or row.get("filter"))
    assert filters == [{"_id": entry.id, "tenant": "a", "user": 3}] * 6
    assert face.call(Entry.find(), "count") == 0


def test_the_shard_key_of_a_stored_document_does_not_change(db: Connection, face: Any) -> None:
    entry = Entry(tenant="a", user=3)
    entry.tenant = "b"
    face.save(entry)
    with pytest.raises((AttributeError, ValidationError)):
        entry.tenant = "c"
    # A partly loaded document lists its fields.
    part = face.call(Entry.find().only(Entry.n), "one")
    part.n = 7
    face.save(part)
    assert face.call(entry, "reload").n == 7
    db.client[db.name]["sharded_entries"].update_one({}, {"$set": {"tenant": "z"}})
    entry.n = 8
    with pytest.raises(StaleDocument):
        face.save(entry)


def test_a_collection_is_sharded_where_the_deployment_can(db: Connection, face: Any) -> None:
    sent = Sent()
    db.clients.listen(sent)
    with pytest.raises(OperationFailure):
        face.call(Entry, "shard_collection")
    db.clients.unlisten(sent)
    [command] = [command for command in sent.commands if "shardCollection" in command]
    assert command["shardCollection"] == f"{db.name}.sharded_entries"
    assert command["key"] == {"tenant": 1, "user": "hashed"}
    with pytest.raises(ValueError, match="expected a __shard_key__ in Article, got none"):
        face.call(Article, "shard_collection")


# Wrong declarations and requests.


class Inner(Embedded):
    meaning: Annotated[list[float], Vector(3, filters=["tenant"])]


class Nested(Document):
    tenant: str = ""
    inner: Inner | None = None


def test_a_vector_of_an_embedded_document_is_indexed_by_its_path() -> None:
    assert Nested.search_indexes() == {
        "vectors": {
            "type": "vectorSearch",
            "definition": {
                "fields": [
                    {"type": "vector", "path": "inner.meaning", "numDimensions": 3, "similarity": "cosine"},
                    {"type": "filter", "path": "tenant"},
                ]
            },
        }
    }


def test_an_index_that_the_service_would_not_make_is_refused() -> None:
    class Listed(Document):
        inners: list[Inner]

    class Twice(Document):
        __search_indexes__ = [SearchIndex("a"), SearchIndex("b")]  # noqa: RUF012
        a: str = ""
        b: str = ""

    class Mixed(Document):
        __search_indexes__ = [SearchIndex("a", name="vectors")]  # noqa: RUF012
        a: str = ""
        v: Annotated[list[float], Vector(2)]

    with pytest.raises(
        TypeError, match=r"cannot index the vector 'inners.meaning' of Listed: 'inners' is a list"
    ):
        Listed.search_indexes()
    with pytest.raises(ValueError, match="expected one search index 'default' of Twice, got two"):
        Twice.search_indexes()
    with pytest.raises(ValueError, match="got one of texts and one of vectors"):
        Mixed.search_indexes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0,), "from 1 on, got 0"),
        (("3",), "got '3'"),
        ((3, "cos"), "expected \"cosine\", .* got 'cos'"),
    ],
)
def test_a_vector_without_a_length_or_a_known_similarity_is_refused(arguments: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Vector(*arguments)


def test_only_a_list_of_numbers_is_a_vector() -> None:
    class Wrong(Document):
        text: Annotated[str, Vector(3)]

    with pytest.raises(
        TypeError, match=r"expected Annotated\[list\[float\], Vector\(…\)\] for Wrong.text, got str"
    ):
        Wrong.find(Wrong.text == "abc")


def test_a_search_for_vectors_takes_index_and_length_from_the_field() -> None:
    stage = next(iter(Pipeline().vector_search(Nested.inner.meaning, [1, 2, 3], 5)))  # type: ignore[union-attr]
    assert (stage["$vectorSearch"]["index"], stage["$vectorSearch"]["path"]) == ("vectors", "inner.meaning")
    for wrong, expected in (
        (
            lambda: Pipeline().vector_search(Article.meaning, [1.0], 5),
            "expected 2 numbers, as Article.meaning has",
        ),
        (lambda: Pipeline().vector_search(Article.meaning, [1.0, 2.0], 0), "expected a limit from 1 on"),
        (
            lambda: Pipeline().vector_search(Article.meaning, [1, 2], 5, candidates=4),
            "no more than candidates",
        ),
        (
            lambda: Pipeline().limit(1).vector_search(Article.meaning, [1, 2], 5),
            "to be the first stage, got 1",
        ),
        (lambda: Pipeline().limit(1).search(text={}), r"expected search\(\) to be the first stage"),
    ):
        with pytest.raises(ValueError, match=expected):
            wrong()
    with pytest.raises(TypeError, match=r"expected the index that has the vectors of Article.title"):
        Pipeline().vector_search(Article.title, [1.0], 5)
    with pytest.raises(TypeError, match=r"expected an operator of search\(\)"):
        Pipeline().search("titles")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (["tenant"], "expected Wrong.__shard_key__ as"),
        ({"nobody": 1}, "got 'nobody', which is no field"),
        ({"tags": 1}, "got 'tags', which is a list"),
        ({"tenant": -1}, 'expected 1, or "hashed" once, in Wrong.__shard_key__, got -1'),
        ({"tenant": "hashed", "n": "hashed"}, "got 'hashed' for 'n'"),
    ],
)
def test_a_shard_key_that_no_cluster_takes_is_refused_when_the_model_is_first_used(
    key: Any, expected: str
) -> None:
    class Wrong(Document):
        __shard_key__ = key
        tenant: str = ""
        n: int = 0
        tags: list[str] = []  # noqa: RUF012

    with pytest.raises((TypeError, ValueError), match=expected):
        Wrong(tenant="a")
