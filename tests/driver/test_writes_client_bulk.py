"""A client's bulk_write on both faces, against a scripted server of MongoDB 8.0; PyMongo meets the same script."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pymongo
import pymongo.operations
import pymongo.write_concern
import pytest

from driver.outcomes import outcome
from mangonel import errors, operations
from mangonel.operations import DeleteMany, DeleteOne, InsertOne, UpdateOne
from mangonel.results import ClientBulkWriteResult
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import Close, Script, ScriptedServer

NS, OTHER = "shop.orders", "shop.carts"
COUNTS = {"nErrors": 0, "nInserted": 1, "nUpserted": 0, "nMatched": 1, "nModified": 1, "nDeleted": 1}


def reply(results: list[dict[str, Any]], cursor_id: int = 0, **fields: Any) -> dict[str, Any]:
    cursor = {"id": cursor_id, "ns": "admin.$cmd.bulkWrite", "firstBatch": results}
    return {"ok": 1, "cursor": cursor, **COUNTS, **fields}


def more(results: list[dict[str, Any]], cursor_id: int = 0) -> dict[str, Any]:
    return {"ok": 1, "cursor": {"id": cursor_id, "ns": "admin.$cmd.bulkWrite", "nextBatch": results}}


@pytest.fixture
def modern(scripted_server: ScriptedServer) -> ScriptedServer:
    """A scripted member of a replica set that speaks the wire version of MongoDB 8.0."""
    address = scripted_server.address
    scripted_server.hello.update(
        maxWireVersion=25, setName="rs0", hosts=[address], primary=address, me=address
    )
    scripted_server.on("killCursors", {"ok": 1})
    return scripted_server


def models(module: Any) -> list[Any]:
    return [
        module.InsertOne({"_id": 1}, NS),
        module.UpdateOne({"_id": 1}, {"$set": {"a": 1}}, upsert=True, namespace=OTHER, hint="_id_"),
        module.ReplaceOne({"_id": 1}, {"b": 1}, namespace=NS, collation={"locale": "en"}, sort={"a": 1}),
        module.DeleteOne({"_id": 2}, namespace=OTHER),
    ]


def with_many(module: Any) -> list[Any]:
    return [
        module.UpdateMany({}, {"$set": {"a.$[i]": 1}}, array_filters=[{"i": 1}], namespace=NS),
        module.DeleteMany({"_id": 2}, namespace=NS, hint=[("_id", 1)]),
    ]


WHAT_IS_SENT: dict[str, tuple[Callable[[Any], list[Any]], dict[str, Any]]] = {
    "each kind": (models, {}),
    "writes of many documents": (with_many, {}),
    "options": (
        models,
        {
            "ordered": False,
            "verbose_results": True,
            "bypass_document_validation": True,
            "comment": "why",
            "let": {"v": 1},
        },
    ),
}


@pytest.mark.parametrize("name", WHAT_IS_SENT)
def test_command_is_that_of_pymongo(name: str, face: Face, modern: ScriptedServer) -> None:
    make, options = WHAT_IS_SENT[name]
    modern.on("bulkWrite", reply([]))

    with pymongo.MongoClient(modern.uri) as oracle:
        oracle.bulk_write(make(pymongo.operations), **options)
    face.wait(face.client(modern.uri).bulk_write(make(operations), **options))

    theirs, ours = modern.received("bulkWrite")
    assert ours.sequences == theirs.sequences
    hidden = ("lsid", "$clusterTime")
    assert {key: value for key, value in ours.command.items() if key not in hidden} == {
        key: value for key, value in theirs.command.items() if key not in hidden
    }


ANSWERS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "counts": ([reply([])], [], {}),
    "verbose": (
        [
            reply(
                [
                    {"ok": 1, "idx": 0, "n": 1},
                    {"ok": 1, "idx": 1, "n": 1, "nModified": 0, "upserted": {"_id": 1}},
                    {"ok": 1, "idx": 2, "n": 1, "nModified": 1},
                    {"ok": 1, "idx": 3, "n": 0},
                ]
            )
        ],
        [],
        {"verbose_results": True},
    ),
    "results in several batches": (
        [reply([{"ok": 1, "idx": 0, "n": 1}], 77)],
        [more([{"ok": 1, "idx": 1, "n": 1, "nModified": 1}], 77), more([{"ok": 1, "idx": 3, "n": 1}])],
        {"verbose_results": True},
    ),
    "an error": ([reply([{"ok": 0, "idx": 1, "code": 11000, "errmsg": "E11000"}], nErrors=1)], [], {}),
    "errors of an unordered bulk": (
        [
            reply(
                [
                    {"ok": 0, "idx": 1, "code": 11000, "errmsg": "E11000"},
                    {"ok": 0, "idx": 3, "code": 2, "errmsg": "bad"},
                ],
                nErrors=2,
            )
        ],
        [],
        {"ordered": False},
    ),
    "nothing but errors": (
        [reply([{"ok": 0, "idx": n, "code": 2, "errmsg": "bad"} for n in range(4)], nErrors=4)],
        [],
        {"ordered": False},
    ),
    "a write concern error": (
        [reply([], writeConcernError={"code": 64, "errmsg": "waiting timed out"})],
        [],
        {},
    ),
    "a refused command": ([{"ok": 0, "code": 13, "errmsg": "not authorized"}], [], {}),
    "a lost cursor": (
        [reply([{"ok": 1, "idx": 0, "n": 1}], 77)],
        [{"ok": 0, "code": 43, "errmsg": "cursor id 77 not found"}],
        {"verbose_results": True},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_result_is_that_of_pymongo(name: str, face: Face, modern: ScriptedServer) -> None:
    first, later, options = ANSWERS[name]

    def play() -> None:
        modern.once("bulkWrite", *first)
        modern.once("getMore", *later)

    with pymongo.MongoClient(modern.uri) as oracle:
        play()
        theirs = outcome(lambda: oracle.bulk_write(models(pymongo.operations), **options))
    client = face.client(modern.uri)
    play()
    ours = outcome(lambda: face.wait(client.bulk_write(models(operations), **options)))

    assert ours == theirs


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "no list": lambda c, m: c.bulk_write((m.InsertOne({}, NS),)),
    "nothing": lambda c, m: c.bulk_write([]),
    "a document": lambda c, m: c.bulk_write([{"_id": 1}]),
    "no namespace": lambda c, m: c.bulk_write([m.InsertOne({})]),
    "an insert of a list": lambda c, m: c.bulk_write([m.InsertOne([], NS)]),
    "an update without operators": lambda c, m: c.bulk_write([m.UpdateOne({}, {"a": 1}, namespace=NS)]),
    "a replacement with operators": lambda c, m: c.bulk_write([m.ReplaceOne({}, {"$set": {}}, namespace=NS)]),
    "let of int": lambda c, m: c.bulk_write([m.InsertOne({}, NS)], let=5),
    "a value that is no BSON": lambda c, m: c.bulk_write([m.InsertOne({"a": object()}, NS)]),
    "ordered and unacknowledged": lambda c, m: c.bulk_write(
        [m.InsertOne({}, NS)], write_concern=concern_of(m)(w=0)
    ),
    "verbose and unacknowledged": lambda c, m: c.bulk_write(
        [m.InsertOne({}, NS)], ordered=False, verbose_results=True, write_concern=concern_of(m)(w=0)
    ),
    "collation and unacknowledged": lambda c, m: c.bulk_write(
        [m.DeleteOne({}, {"locale": "en"}, namespace=NS)], ordered=False, write_concern=concern_of(m)(w=0)
    ),
    "array filters and unacknowledged": lambda c, m: c.bulk_write(
        [m.UpdateOne({}, {"$set": {"a": 1}}, array_filters=[], namespace=NS)],
        ordered=False,
        write_concern=concern_of(m)(w=0),
    ),
    "bypass and unacknowledged": lambda c, m: c.bulk_write(
        [m.InsertOne({}, NS)],
        ordered=False,
        bypass_document_validation=False,
        write_concern=concern_of(m)(w=0),
    ),
}


def concern_of(module: Any) -> Any:
    return WriteConcern if module is operations else pymongo.write_concern.WriteConcern


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument_raises_the_class_that_pymongo_raises(
    name: str, face: Face, modern: ScriptedServer
) -> None:
    call = WRONG[name]

    with pymongo.MongoClient(modern.uri) as oracle, pytest.raises(Exception) as theirs:
        call(oracle, pymongo.operations)
    with pytest.raises(Exception) as ours:
        face.wait(call(face.client(modern.uri), operations))

    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert modern.received("bulkWrite") == []


def test_namespace_that_is_not_a_str_is_refused_before_the_first_command(
    face: Face, modern: ScriptedServer
) -> None:
    modern.hello["maxWriteBatchSize"] = 1
    modern.on("bulkWrite", reply([]))
    wrong: Any = 5

    with pytest.raises(TypeError, match=r'expected a str such as .* for "namespace", got int'):
        face.wait(face.client(modern.uri).bulk_write([InsertOne({}, NS), DeleteOne({}, namespace=wrong)]))

    assert modern.received("bulkWrite") == []


def test_server_older_than_8_is_named_as_the_reason(face: Face, client: Any) -> None:
    with pytest.raises(errors.InvalidOperation, match=r"MongoDB 8\.0"):
        face.wait(client.bulk_write([InsertOne({}, NS)]))


def test_error_that_ended_the_bulk_is_the_cause(face: Face, modern: ScriptedServer) -> None:
    modern.once("bulkWrite", reply([], nInserted=2), {"ok": 0, "code": 13, "errmsg": "not authorized"})
    modern.hello["maxWriteBatchSize"] = 2
    client = face.client(modern.uri)

    with pytest.raises(errors.ClientBulkWriteException) as caught:
        face.wait(client.bulk_write([InsertOne({"_id": number}, NS) for number in range(4)]))

    assert isinstance(caught.value.error, errors.OperationFailure)
    assert caught.value.__cause__ is caught.value.error
    assert isinstance(caught.value.partial_result, ClientBulkWriteResult)
    assert caught.value.partial_result.inserted_count == 2


def test_indexes_count_over_all_batches_and_each_batch_lists_its_own_namespaces(
    face: Face, modern: ScriptedServer
) -> None:
    modern.hello["maxWriteBatchSize"] = 2
    error = {"ok": 0, "idx": 0, "code": 11000, "errmsg": "E11000"}
    modern.once("bulkWrite", reply([]), reply([error], nErrors=1))
    client = face.client(modern.uri)
    namespaces = [NS, NS, OTHER, NS]

    with pytest.raises(errors.ClientBulkWriteException) as caught:
        face.wait(client.bulk_write([InsertOne({"_id": n}, ns) for n, ns in enumerate(namespaces)]))

    assert [error["idx"] for error in caught.value.write_errors] == [2]
    first, second = modern.received("bulkWrite")
    assert first.sequences["nsInfo"] == [{"ns": NS}]
    assert second.sequences["nsInfo"] == [{"ns": OTHER}, {"ns": NS}]
    assert [write["insert"] for write in second.sequences["ops"]] == [0, 1]


def test_writes_are_split_by_the_size_of_both_sequences(face: Face, modern: ScriptedServer) -> None:
    modern.hello["maxMessageSizeBytes"] = 100_000
    modern.on("bulkWrite", reply([]))
    client = face.client(modern.uri)
    # With the second namespace the first two writes would no longer fit beside the third.
    namespaces = ["a." + "n" * 200, "a." + "n" * 200, "a." + "m" * 30_000]

    face.wait(client.bulk_write([InsertOne({"x": "y" * 40_000}, ns) for ns in namespaces]))

    assert [len(request.sequences["ops"]) for request in modern.received("bulkWrite")] == [2, 1]


def test_bulk_without_writes_of_many_documents_is_retried(face: Face, modern: ScriptedServer) -> None:
    modern.once("bulkWrite", Close(), reply([]))
    client = face.client(modern.uri)

    face.wait(client.bulk_write([InsertOne({"_id": 1}, NS)]))

    first, second = modern.received("bulkWrite")
    assert first.command["txnNumber"] == second.command["txnNumber"]


def test_bulk_with_a_write_of_many_documents_is_sent_once(face: Face, modern: ScriptedServer) -> None:
    modern.once("bulkWrite", Close())
    client = face.client(modern.uri)

    with pytest.raises(errors.ClientBulkWriteException) as caught:
        face.wait(client.bulk_write([InsertOne({"_id": 1}, NS), DeleteMany({}, namespace=NS)]))

    assert isinstance(caught.value.error, errors.AutoReconnect)
    assert len(modern.received("bulkWrite")) == 1


def test_bulk_that_is_cut_off_reports_the_writes_done_before(face: Face, modern: ScriptedServer) -> None:
    modern.hello["maxWriteBatchSize"] = 2
    failed = {"ok": 0, "idx": 1, "code": 11000, "errmsg": "E11000"}
    modern.once("bulkWrite", reply([failed], nInserted=1, nErrors=1), Close())
    client = face.client(modern.uri, retryWrites=False)
    models = [InsertOne({"_id": number}, NS) for number in range(4)]

    with pytest.raises(errors.ClientBulkWriteException) as caught:
        face.wait(client.bulk_write(models, ordered=False))

    assert isinstance(caught.value.error, errors.AutoReconnect)
    assert caught.value.partial_result is not None
    assert caught.value.partial_result.inserted_count == 1
    assert [error["idx"] for error in caught.value.write_errors or []] == [1]


def test_bulk_that_is_cut_off_at_once_reports_no_writes(face: Face, modern: ScriptedServer) -> None:
    modern.once("bulkWrite", Close())
    client = face.client(modern.uri, retryWrites=False)

    with pytest.raises(errors.ClientBulkWriteException) as caught:
        face.wait(client.bulk_write([InsertOne({"_id": 1}, NS)]))

    assert isinstance(caught.value.error, errors.AutoReconnect)
    assert caught.value.partial_result is None


def test_results_cursor_is_read_in_the_session_of_the_command(face: Face, modern: ScriptedServer) -> None:
    modern.once("bulkWrite", reply([{"ok": 1, "idx": 0, "n": 1}], 77))
    modern.once("getMore", more([{"ok": 1, "idx": 1, "n": 1, "nModified": 1}]))
    client = face.client(modern.uri)
    pair = [InsertOne({"_id": 1}, NS), UpdateOne({"_id": 1}, {"$set": {"a": 1}}, namespace=NS)]

    result = face.wait(client.bulk_write(pair, verbose_results=True, comment="why"))

    (bulk,), (get_more,) = modern.received("bulkWrite"), modern.received("getMore")
    assert get_more.command["lsid"] == bulk.command["lsid"]
    assert (get_more.command["$db"], get_more.command["collection"]) == ("admin", "$cmd.bulkWrite")
    assert get_more.command["comment"] == "why"
    assert (list(result.insert_results), list(result.update_results)) == ([0], [1])


@pytest.mark.parametrize(
    ("later", "kills"),
    [
        ([], 1),
        ([{"ok": 0, "code": 43, "errmsg": "cursor id 77 not found"}], 1),
        ([more([{"ok": 0, "idx": 1, "code": 11000, "errmsg": "E11000"}])], 0),
    ],
    ids=["an error before its end", "lost", "an error at its end"],
)
def test_results_cursor_is_killed_once_unless_it_has_ended(
    later: list[Any], kills: int, face: Face, modern: ScriptedServer
) -> None:
    first = {"ok": 1, "idx": 0, "n": 1} if later else {"ok": 0, "idx": 0, "code": 11000, "errmsg": "E11000"}
    modern.once("bulkWrite", reply([first], 77, nErrors=1))
    modern.once("getMore", *later)
    client = face.client(modern.uri)

    with pytest.raises(errors.ClientBulkWriteException) as caught:
        face.wait(client.bulk_write([InsertOne({"_id": 1}, NS), InsertOne({"_id": 2}, NS)]))
    # Cleanup left for the background is done when the client is closed, at the latest.
    caught.value.__traceback__ = None
    del caught
    gc.collect()
    face.run(client.close)

    assert [kill.command["cursors"] for kill in modern.received("killCursors")] == [[77]] * kills


def test_unacknowledged_bulk_waits_for_nothing(face: Face, modern: ScriptedServer) -> None:
    modern.hello["maxWriteBatchSize"] = 1
    modern.on("bulkWrite", Script())
    client = face.client(modern.uri)

    result = face.wait(
        client.bulk_write(
            [InsertOne({"_id": 1}, NS), InsertOne({"_id": 2}, NS)],
            ordered=False,
            write_concern=WriteConcern(w=0),
        )
    )

    assert not result.acknowledged
    with pytest.raises(errors.InvalidOperation):
        _ = result.inserted_count
    requests = modern.wait_for("bulkWrite", 2)
    assert all(request.is_unacknowledged and "lsid" not in request.command for request in requests)
    assert all(request.command["writeConcern"] == {"w": 0} for request in requests)


def test_inserted_documents_gain_the_id_that_the_result_names(face: Face, modern: ScriptedServer) -> None:
    modern.on("bulkWrite", reply([{"ok": 1, "idx": 0, "n": 1}]))
    client = face.client(modern.uri)
    document: dict[str, Any] = {"a": 1}

    result = face.wait(client.bulk_write([InsertOne(document, NS)], verbose_results=True))

    assert result.insert_results[0].inserted_id == document["_id"]
