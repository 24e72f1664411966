"""Change streams of a real replica set, on both faces."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import mangonel
from mangonel import errors
from mangonel.bson import Timestamp
from mangonel.bson.codec_options import CodecOptions, TypeCodec, TypeRegistry
from mangonel.bson.raw_bson import RawBSONDocument
from tools.faces import Face, eventually


def seen(change: Any) -> Any:
    """Return the operation of a change."""
    return change and (change["operationType"], change["documentKey"]["_id"])


def next_of(face: Face, stream: Any) -> Any:
    """Wait for the next change."""
    return face.wait(stream.next())


def test_changes_come_in_their_order(face: Face, collection: Any) -> None:
    stream = face.wait(collection.watch())

    face.wait(collection.insert_many([{"_id": 1}, {"_id": 2}]))
    face.wait(collection.update_one({"_id": 1}, {"$set": {"a": 1}}))
    face.wait(collection.delete_one({"_id": 2}))

    assert [seen(next_of(face, stream)) for _ in range(4)] == [
        ("insert", 1),
        ("insert", 2),
        ("update", 1),
        ("delete", 2),
    ]
    face.wait(stream.close())
    assert not stream.alive


def test_next_waits_for_a_change(face: Face, collection: Any) -> None:
    other = face.client(_uri(collection))
    elsewhere = other[collection.database.name][collection.name]
    stream = face.wait(collection.watch(max_await_time_ms=200))
    if face.is_async:

        async def both() -> Any:
            waiting = asyncio.ensure_future(stream.next())
            await asyncio.sleep(0.5)
            await elsewhere.insert_one({"_id": 5})
            return await waiting

        change = face.wait(both())
    else:
        timer = threading.Timer(0.5, lambda: elsewhere.insert_one({"_id": 5}))
        timer.start()
        change = stream.next()
        timer.join()

    assert seen(change) == ("insert", 5)
    face.wait(stream.close())


def _uri(collection: Any) -> str:
    host, port = next(iter(collection.database.client.options.seeds))
    return f"mongodb://{host}:{port}/?replicaSet=rs0"


def test_try_next_returns_none_without_changes_and_moves_the_token(
    face: Face, client: Any, collection: Any
) -> None:
    stream = face.wait(collection.watch(max_await_time_ms=10))
    before = stream.resume_token
    face.wait(client[collection.database.name]["other"].insert_one({}))

    def has_moved() -> bool:
        assert face.wait(stream.try_next()) is None
        return bool(stream.resume_token["_data"] != before["_data"])

    eventually(has_moved, "a later token")
    face.wait(stream.close())


def test_stream_goes_on_behind_a_token(face: Face, collection: Any) -> None:
    stream = face.wait(collection.watch())
    face.wait(collection.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3}]))
    next_of(face, stream)
    token = stream.resume_token
    face.wait(stream.close())

    for option in ("resume_after", "start_after"):
        again = face.wait(collection.watch(**{option: token}))
        assert seen(next_of(face, again)) == ("insert", 2)
        face.wait(again.close())


def test_stream_starts_at_a_time(face: Face, client: Any, collection: Any) -> None:
    session = client.start_session()
    face.wait(collection.insert_one({"_id": 1}, session=session))
    then = session.operation_time
    face.wait(collection.insert_one({"_id": 2}, session=session))

    stream = face.wait(collection.watch(start_at_operation_time=Timestamp(then.time, then.inc + 1)))

    assert seen(next_of(face, stream)) == ("insert", 2)
    face.wait(stream.close())
    face.wait(session.end_session())


def test_invalidated_stream_ends(face: Face, collection: Any) -> None:
    face.wait(collection.insert_one({"_id": 1}))
    stream = face.wait(collection.watch())

    face.wait(collection.drop())

    assert next_of(face, stream)["operationType"] == "drop"
    assert next_of(face, stream)["operationType"] == "invalidate"
    assert not stream.alive
    assert face.collect(stream) == []
    assert face.wait(stream.try_next()) is None
    after = face.wait(collection.watch(start_after=stream.resume_token))
    face.wait(collection.insert_one({"_id": 2}))
    assert seen(next_of(face, after)) == ("insert", 2)
    face.wait(after.close())


def test_database_and_deployment_are_watched(face: Face, client: Any, collection: Any) -> None:
    database = collection.database
    streams = [face.wait(database.watch()), face.wait(client.watch())]

    face.wait(database["one"].insert_one({"_id": 1}))
    face.wait(database["two"].insert_one({"_id": 2}))

    for stream in streams:
        changes = [next_of(face, stream) for _ in range(2)]
        assert [change["ns"] for change in changes] == [
            {"db": database.name, "coll": "one"},
            {"db": database.name, "coll": "two"},
        ]
        face.wait(stream.close())


def test_images_before_and_after_an_update(face: Face, collection: Any) -> None:
    options = {"changeStreamPreAndPostImages": {"enabled": True}}
    images = face.wait(collection.database.create_collection("images", **options))
    face.wait(images.insert_one({"_id": 1, "a": 1}))
    stream = face.wait(images.watch(full_document="required", full_document_before_change="required"))

    face.wait(images.update_one({"_id": 1}, {"$inc": {"a": 1}}))

    change = next_of(face, stream)
    assert change["fullDocumentBeforeChange"] == {"_id": 1, "a": 1}
    assert change["fullDocument"] == {"_id": 1, "a": 2}
    face.wait(stream.close())


def test_expanded_events(face: Face, collection: Any) -> None:
    stream = face.wait(collection.watch(show_expanded_events=True))

    face.wait(collection.create_index("a"))

    assert [next_of(face, stream)["operationType"] for _ in range(2)] == ["create", "createIndexes"]
    face.wait(stream.close())


def test_raw_changes(face: Face, collection: Any) -> None:
    raw = collection.with_options(codec_options=CodecOptions(RawBSONDocument))
    stream = face.wait(raw.watch())
    face.wait(collection.insert_many([{"_id": 1}, {"_id": 2}]))

    change = next_of(face, stream)

    assert isinstance(change, RawBSONDocument)
    assert stream.resume_token["_data"] == change["_id"]["_data"]
    again = face.wait(raw.watch(resume_after=stream.resume_token))
    assert seen(next_of(face, again)) == ("insert", 2)
    for each in (stream, again):
        face.wait(each.close())


class ShoutingCodec(TypeCodec):
    """Decodes strings into capitals, and resume tokens too unless they are kept as received."""

    python_type = bytearray
    bson_type = str

    def transform_python(self, value: Any) -> Any:
        return str(value)

    def transform_bson(self, value: Any) -> Any:
        return f"{value}!"


def test_decoders_of_the_user_leave_the_token_as_it_is(face: Face, collection: Any) -> None:
    options = CodecOptions(type_registry=TypeRegistry([ShoutingCodec()]))
    stream = face.wait(collection.with_options(codec_options=options).watch(batch_size=1))
    face.wait(collection.insert_many([{"_id": n, "name": "ada"} for n in range(3)]))

    change = next_of(face, stream)
    assert change["fullDocument"]["name"] == "ada!"
    # The cursor is killed, so the stream must find its place by its token.
    face.wait(stream._cursor.close())

    assert [next_of(face, stream)["documentKey"]["_id"] for _ in range(2)] == [1, 2]
    face.wait(stream.close())


def test_time_limit_ends_a_next_that_waits_and_the_stream_goes_on(face: Face, collection: Any) -> None:
    limited = face.client(_uri(collection), timeoutMS=2000)
    with mangonel.timeout(60):
        stream = face.wait(limited[collection.database.name][collection.name].watch())

    with pytest.raises(errors.PyMongoError) as caught:
        next_of(face, stream)
    assert caught.value.timeout

    face.wait(collection.insert_one({"_id": 5}))
    with mangonel.timeout(60):
        assert seen(next_of(face, stream)) == ("insert", 5)
    face.wait(stream.close())


def test_close_ends_a_next_that_waits_elsewhere_without_an_error(face: Face, collection: Any) -> None:
    face.wait(collection.insert_one({}))
    stream = face.wait(collection.watch(max_await_time_ms=1000))
    if face.is_async:

        async def close_meanwhile() -> None:
            waiting = asyncio.ensure_future(stream.next())
            await asyncio.sleep(0.3)
            await stream.close()
            await waiting

        with pytest.raises(StopAsyncIteration):
            face.wait(close_meanwhile())
    else:
        timer = threading.Timer(0.3, stream.close)
        timer.start()
        with pytest.raises(StopIteration):
            stream.next()
        timer.join()
    assert not stream.alive


def test_iteration_ends_with_close(face: Face, collection: Any) -> None:
    stream = face.wait(collection.watch())
    face.wait(collection.insert_many([{"_id": n} for n in range(5)]))
    found = []
    if face.is_async:

        async def read() -> None:
            async with stream:
                async for change in stream:
                    found.append(change["documentKey"]["_id"])
                    if len(found) == 5:
                        await stream.close()

        face.wait(read())
    else:
        with stream:
            for change in stream:
                found.append(change["documentKey"]["_id"])
                if len(found) == 5:
                    stream.close()

    assert found == list(range(5))


def test_cancelled_next_loses_nothing(face: Face, collection: Any) -> None:
    if not face.is_async:
        pytest.skip("only a task can be cancelled")

    async def read() -> list[Any]:
        stream = await collection.watch(max_await_time_ms=500)
        found = []
        for number in range(4):
            try:
                await asyncio.wait_for(stream.next(), 0.05)
            except TimeoutError:
                assert stream.alive
            await collection.insert_one({"_id": number})
            found.append(seen(await stream.next()))
        await stream.close()
        return found

    assert face.wait(read()) == [("insert", number) for number in range(4)]


def test_standalone_refuses(face: Face, standalone: Any) -> None:
    client = face.client(standalone.uri)

    with pytest.raises(errors.OperationFailure, match="replica set"):
        face.wait(client.db.things.watch())


def test_killed_cursor_is_replaced(face: Face, client: Any, collection: Any) -> None:
    stream = face.wait(collection.watch(max_await_time_ms=50))
    for number in range(3):
        id = stream._cursor.cursor_id
        command = {"killCursors": collection.name, "cursors": [id]}
        face.wait(collection.database.command(command))
        face.wait(collection.insert_one({"_id": number}))
        assert seen(next_of(face, stream)) == ("insert", number)
    face.wait(stream.close())
