"""Driver features that the mapper uses: change streams, GridFS, transactions, `find(into=)`."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from mangonel.errors import InvalidOperation
from mangonel.odm import Connection, Document, Embedded, File, after, field, inc


class Inner(Embedded):
    n: int


class Thing(Document):
    name: str
    inner: Inner | None = None
    picture: File | None = None
    numbers: list[int] = field(default_factory=list)


committed: list[str] = []


class Announced(Document):
    name: str

    @after("commit")
    def _announce(self) -> None:
        committed.append(self.name)


@dataclasses.dataclass
class Plain:
    name: str
    inner: Inner | None = None


def test_changes_come_as_instances(db: Connection, face: Any) -> None:
    changes = Thing.watch(max_await_time_ms=500)
    assert face.call(changes, "try_next") is None
    thing = Thing(name="a", inner=Inner(n=1))
    face.save(thing)
    thing.name = "b"
    face.save(thing)
    face.call(thing, "delete")
    events = []
    while len(events) < 3:
        event = face.call(changes, "try_next")
        events += [event] if event is not None else []
    face.call(changes, "close")
    assert [event.operation for event in events] == ["insert", "update", "delete"]
    assert {event.id for event in events} == {thing.id}
    assert isinstance(events[0].document, Thing)
    assert events[0].document.inner == Inner(n=1)
    assert events[1].updated == {"name": "b"}
    assert events[2].document is None


def test_a_closed_change_stream_stays_closed(db: Connection, face: Any) -> None:
    changes = Thing.watch(max_await_time_ms=50)
    assert face.call(changes, "try_next") is None
    face.save(Thing(name="a"))
    events = []

    def read() -> None:
        for event in changes:
            events.append((event.document and event.document.name, event.token))
            changes.close()

    async def aread() -> None:
        async for event in changes:
            events.append((event.document and event.document.name, event.token))
            await changes.aclose()

    face.run(aread) if face.is_async else read()
    assert [name for name, _ in events] == ["a"]
    assert changes.token == events[0][1]
    face.save(Thing(name="b"))
    assert face.call(changes, "try_next") is None
    # Continued elsewhere.
    again = Thing.watch(resume_after=changes.token)
    assert face.call(again, "try_next").document.name == "b"
    face.call(again, "close")


def test_a_change_stream_closed_before_it_is_opened_sends_nothing(db: Connection, face: Any) -> None:
    changes = Thing.watch()
    face.call(changes, "close")
    assert face.call(changes, "try_next") is None

    async def aread() -> list[Any]:
        return [event async for event in changes]

    assert (face.run(aread) if face.is_async else list(changes)) == []
    assert changes.token is None


def test_two_tasks_do_not_open_a_change_stream_twice(db: Connection, face: Any) -> None:
    if not face.is_async:
        pytest.skip("threads would have to meet")

    async def steps() -> None:
        changes = Thing.watch(max_await_time_ms=50)
        found = await asyncio.gather(changes.atry_next(), changes.atry_next(), return_exceptions=True)
        assert found[0] is None
        assert isinstance(found[1], InvalidOperation)
        # Closed by another task while it is opened: not even a stream without a reader stays open.
        changes = Thing.watch()
        opening = asyncio.ensure_future(changes.__aenter__())
        await asyncio.sleep(0)
        await changes.aclose()
        await opening
        assert not changes._stream.alive

    face.run(steps)


def test_files_of_documents_are_in_gridfs(db: Connection, face: Any) -> None:
    thing = Thing(name="a", picture=face.call(File, "put", b"x" * 300_000, "a.png"))
    face.save(thing)
    found = face.call(Thing, "get", thing.id)
    assert found.picture == thing.picture
    assert found.changes() == {}
    assert face.call(found.picture, "read") == b"x" * 300_000
    face.call(found.picture, "delete")
    assert db.database()["fs.files"].count_documents({}) == 0


def test_transaction_covers_what_happens_inside(db: Connection, face: Any) -> None:
    committed.clear()
    thing, announced = Thing(name="a"), Announced(name="x")
    face.save(thing)
    db.database()["announced"].insert_one({})

    class Stop(Exception):
        pass

    def steps(fails: bool) -> Any:
        if not face.is_async:
            with db.transaction():
                thing.name = "b"
                thing.save()
                Thing.find().update(inc(Thing.inner.n, 1))
                Announced(name=f"new {fails}").save()
                assert committed == []
                if fails:
                    raise Stop
            return None

        async def run() -> None:
            async with db.transaction():
                thing.name = "b"
                await thing.asave()
                await Thing.find().aupdate(inc(Thing.inner.n, 1))
                await Announced(name=f"new {fails}").asave()
                assert committed == []
                if fails:
                    raise Stop

        return run()

    with pytest.raises(Stop):
        face.wait(steps(True))
    assert committed == []
    assert face.call(Thing, "get", thing.id).name == "a"
    face.call(thing, "reload")
    face.wait(steps(False))
    assert face.call(Thing, "get", thing.id).name == "b"
    assert committed == ["new False"]
    del announced


def test_driver_finds_into_models_and_dataclasses(db: Connection, face: Any) -> None:
    face.save(Thing(name="a", inner=Inner(n=1)), Thing(name="b"))
    collection = db.database(face.is_async)["thing"]
    found = face.wait(collection.find({}, sort=[("name", 1)], into=Thing).to_list())
    assert [type(thing) for thing in found] == [Thing, Thing]
    assert found[0].inner == Inner(n=1)
    found[0].name = "c"
    face.save(found[0])
    plain = face.collect(collection.find({}, sort=[("name", 1)], into=Plain))
    assert plain == [Plain("b", None), Plain("c", Inner(n=1))]
    clone = collection.find({"name": "b"}, into=Plain).clone()
    assert face.wait(clone.to_list(1)) == [Plain("b", None)]
