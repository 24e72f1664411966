"""`advise=True`: the driver warns of commands that will be slow, once for each shape and line of the program."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import tools.faces
from mangonel import AsyncMongoClient, MongoClient
from mangonel._shared.advice import advisor
from mangonel._shared.advice.plans import findings
from mangonel._shared.advice.shapes import explainable, index_for, shape_of
from mangonel.errors import AdviceWarning
from mangonel.server import Server

face = tools.faces.faces("blocking", "asyncio")


@pytest.fixture
def client(server: Server, face: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client that advises; warnings do not stop the test."""
    # On a busy machine, a pause of 0.1 s between two finds does not mean that a loop has ended.
    monkeypatch.setattr(advisor, "_PAUSE_S", tools.faces.TIMEOUT)
    with warnings.catch_warnings():
        warnings.simplefilter("always", AdviceWarning)
        made = (AsyncMongoClient if face.is_async else MongoClient)(server.uri, advise=True)
        yield made
        face.wait(made.close())


@pytest.fixture
def people(client: Any, face: Any, database_name: str) -> Any:
    """A collection of 1 200 documents."""
    found = client[database_name].people
    rows = [{"_id": n, "n": n, "group": n % 3, "name": f"p{n}"} for n in range(1_200)]
    face.run(lambda: found.insert_many(rows))
    return found


# On asyncio the helper awaits the result of a test's function.
HERE = {__file__, tools.faces.__file__}


def told(client: Any) -> list[tuple[str, bool]]:
    """Return the kinds of advice, and whether each names a line of the tests."""
    client._advisor.settle(tools.faces.TIMEOUT)
    return [(kind, place.file in HERE) for kind, _, place in client._advisor.told]


def listed(face: Any, cursor: Any, length: int | None = None) -> Any:
    return face.run(lambda: cursor.to_list(length))


def test_a_scan_is_told_once_with_the_index_that_would_help(client: Any, people: Any, face: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AdviceWarning)
        for _ in range(2):
            for n in range(3):
                listed(face, people.find({"name": f"p{n}", "n": {"$gt": -1}}).limit(5))
        assert told(client) == [("collection scan", True)]
    assert [(warning.category, warning.filename in HERE) for warning in caught] == [(AdviceWarning, True)]
    assert "reads all 1200 documents for 1" in str(caught[0].message)
    assert "[('name', 1), ('n', 1)]" in str(caught[0].message)


def test_an_index_leaves_nothing_to_say(client: Any, people: Any, face: Any) -> None:
    face.run(lambda: people.create_index([("name", 1)]))
    listed(face, people.find({"name": "p3"}))
    face.run(lambda: people.find_one({"_id": 3}))
    face.run(lambda: people.update_one({"name": "p3"}, {"$set": {"n": 3}}))
    listed(face, people.find({}, limit=5))
    assert told(client) == []


def test_many_examined_for_few_and_a_sort_in_memory(client: Any, people: Any, face: Any) -> None:
    face.run(lambda: people.create_index([("group", 1)]))
    listed(face, people.find({"group": 1, "n": 4}))
    listed(face, people.find({"group": 1}).sort("name").limit(300))
    assert told(client) == [("many examined", True), ("sort in memory", True)]


@pytest.mark.parametrize("command", ["count", "aggregate", "update", "delete", "distinct", "find_and_modify"])
def test_other_commands_are_explained_too(command: str, client: Any, people: Any, face: Any) -> None:
    query = {"name": "p70"}
    calls = {
        "count": lambda: people.count_documents(query),
        "aggregate": lambda: people.aggregate([{"$match": query}]),
        "update": lambda: people.update_one(query, {"$set": {"a": 1}}),
        "delete": lambda: people.delete_many(query),
        "distinct": lambda: people.distinct("n", query),
        "find_and_modify": lambda: people.find_one_and_update(query, {"$set": {"a": 2}}),
    }
    face.run(calls[command])
    assert told(client) == [("collection scan", True)]


def test_an_unbounded_list(client: Any, people: Any, face: Any) -> None:
    listed(face, people.find({}))
    listed(face, people.find({}).limit(1_100))
    assert told(client) == [("unbounded list", True)]


def test_a_find_in_a_loop(client: Any, people: Any, face: Any) -> None:
    async def loop() -> None:
        for n in range(12):
            await people.find_one({"_id": n})

    if face.is_async:
        face.run(loop)
    else:
        for n in range(12):
            people.find_one({"_id": n})
    assert told(client) == [("find in a loop", True)]
    assert client._advisor.told[-1][2].file == __file__


def test_a_cursor_that_is_never_closed(client: Any, people: Any, face: Any) -> None:
    async def some() -> None:
        async for _ in people.find({}, batch_size=5):
            break

    if face.is_async:
        face.run(some)
    else:
        next(people.find({}, batch_size=5))
    listed(face, people.find({}, batch_size=500))
    assert ("cursor never closed", True) in told(client)


def test_cursors_that_are_closed_make_room_for_others(
    client: Any, people: Any, face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisor, "_MOST", 2)

    async def first(cursor: Any) -> None:
        async for _ in cursor:
            break

    def read_one(cursor: Any) -> Any:
        if face.is_async:
            face.run(lambda: first(cursor))
        else:
            next(cursor)
        return cursor

    for _ in range(3):
        cursor = read_one(people.find({}, batch_size=5))
        face.run(lambda cursor=cursor: cursor.close())
    del cursor
    read_one(people.find({}, batch_size=5))
    listed(face, people.find({}, batch_size=500))
    assert ("cursor never closed", True) in told(client)


def test_without_advise_nothing_is_loaded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with MongoClient(server.uri) as plain:
        assert plain._advisor is None
    monkeypatch.setenv("MANGONEL_ADVISE", "1")
    with MongoClient(server.uri) as advised, MongoClient(server.uri, advise=False) as refused:
        assert advised._advisor is not None
        assert refused._advisor is None
    with pytest.raises(ValueError, match="advise"):
        MongoClient(server.uri, advise="loudly")


def test_shapes_keep_names_and_drop_values() -> None:
    one, other = {"a": 1, "b": {"$in": [1, 2]}}, {"a": "x", "b": {"$in": []}}
    assert shape_of(one) == shape_of(other) == "{a: ?, b: {$in: ?}}"
    assert shape_of({"a": {"$gt": 1}}) != shape_of({"a": 1})
    assert shape_of([{"$match": one}, {"$limit": 3}]) == "[{$match: {a: ?, b: {$in: ?}}}, {$limit: ?}]"
    assert index_for({"$and": [{"a": 1}, {"b": {"$lt": 2}}], "$or": [{"c": 1}]}, {"d": -1, "a": 1}) == [
        ("a", 1),
        ("d", -1),
        ("b", 1),
    ]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("insert", {"insert": "c", "documents": []}),
        ("aggregate", {"aggregate": 1, "pipeline": [{"$currentOp": {}}]}),
        ("aggregate", {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$out": "d"}]}),
        ("aggregate", {"aggregate": "c", "pipeline": [{"$changeStream": {}}]}),
        ("find", {"find": "c", "filter": {"_id": 3}}),
        ("update", {"update": "c"}),
    ],
)
def test_what_writes_or_has_no_plan_is_not_explained(name: str, command: dict[str, Any]) -> None:
    assert explainable(name, command) is None


def test_plans_of_shards_are_added_up() -> None:
    part = {
        "executionStats": {"totalDocsExamined": 60, "nReturned": 1},
        "queryPlanner": {"winningPlan": {"stage": "COLLSCAN"}},
    }
    found = findings("find", {"find": "c", "filter": {"a": 1}}, {"shards": {"a": part, "b": part}})
    assert [kind for kind, _ in found] == ["collection scan"]
    assert "all 120 documents for 2" in found[0][1]
