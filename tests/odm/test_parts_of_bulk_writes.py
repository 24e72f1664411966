"""One of a bulk write's commands fails: earlier ones count as stored, later ones do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel.bson import Binary
from mangonel.errors import AutoReconnect, BulkWriteError, OperationFailure
from mangonel.monitoring import CommandListener
from mangonel.odm import Audited, Connection, Document, after, connect, field
from mangonel.odm.connections.connection import connection
from mangonel.server import Server

# A message holds three of them.
LARGE = Binary(bytes(15_000_000))


class Part(Document):
    __collection__ = "parts"
    tags: list[str] = field(default_factory=list)
    data: Binary = Binary(b"")

    @after("save")
    def _tell(self) -> None:
        SAVED.append(self)


SAVED: list[Part] = []


@pytest.fixture(autouse=True)
def line(server: Server, database_name: str, face: Any, db: Connection) -> Iterator[None]:
    """A connection without retries of writes."""
    SAVED.clear()
    uri = f"mongodb://127.0.0.1:{server.members[0].port}/?directConnection=true&retryWrites=false"
    made = connect(uri, database=database_name)
    yield
    made.close()
    face.wait(made.aclose())


@pytest.fixture
def raw(server: Server, database_name: str, db: Connection) -> Any:
    """The collection, beside the mapper."""
    return db.client[database_name]["parts"]


@pytest.fixture
def fail(server: Server, db: Connection) -> Iterator[Callable[..., None]]:
    """Make the server fail a command of this name after a number of successful ones."""
    admin = db.client.admin

    def switch(name: str, behind: int = 0, **how: Any) -> None:
        mode = {"skip": behind} if behind else {"times": 1}
        admin.command("configureFailPoint", "failCommand", mode=mode, data={"failCommands": [name], **how})

    yield switch
    admin.command("configureFailPoint", "failCommand", mode="off")


REFUSED: dict[str, Any] = {"errorCode": 2}
LOST: dict[str, Any] = {"closeConnection": True}


@pytest.mark.parametrize(
    ("how", "error"), [(REFUSED, OperationFailure), (LOST, AutoReconnect)], ids=["refused", "lost"]
)
@pytest.mark.parametrize("ordered", [True, False])
def test_documents_before_and_behind_the_command_that_failed(
    ordered: bool, how: Any, error: Any, fail: Callable[..., None], raw: Any, face: Any
) -> None:
    first, last = Part(tags=["a"]), Part(tags=["a"])
    face.save(first, last)
    new = Part(tags=["n"])
    first.tags.append("b")
    last.tags.append("b")
    SAVED.clear()
    # Unordered, the insert comes before the updates.
    fail("insert" if ordered else "update", **how)
    with pytest.raises(error) as caught:
        face.call(Part, "save_all", [first, new, last], ordered=ordered)

    done, rest = ([first], [new, last]) if ordered else ([new], [first, last])
    assert done == SAVED
    assert [bool(one.is_new or one.changes()) for one in done] == [False]
    assert caught.value.not_stored == rest
    if ordered:
        # Nothing of it was sent, so appends of others do not matter.
        raw.update_one({"_id": last.id}, {"$push": {"tags": "theirs"}})
    face.call(Part, "save_all", rest)
    assert raw.find_one(first.id)["tags"] == ["a", "b"]
    assert raw.find_one(new.id)["tags"] == ["n"]
    assert raw.find_one(last.id)["tags"] == (["a", "theirs", "b"] if ordered else ["a", "b"])


def test_what_was_to_follow_a_server_that_shuts_down_is_not_stored(
    fail: Callable[..., None], raw: Any, face: Any
) -> None:
    old, new = Part(tags=["a"]), Part()
    face.save(old)
    old.tags.append("b")
    fail("update", writeConcernError={"code": 91, "errmsg": "shutting down"})
    with pytest.raises(BulkWriteError) as caught:
        face.call(Part, "save_all", [old, new])
    assert raw.count_documents({}) == 1
    assert new.is_new
    assert caught.value.not_stored == [old, new]  # type: ignore[attr-defined]  # the mapper's addition
    # Its write concern failed, so the update may not stay stored.
    assert set(old.changes()) == {"tags"}


UNCONFIRMED = {"code": 64, "errmsg": "waiting for replication timed out"}


def test_documents_of_the_command_whose_write_concern_failed_may_not_be_stored(
    fail: Callable[..., None], raw: Any, face: Any
) -> None:
    first, last = Part(tags=["a"]), Part(tags=["a"])
    face.save(first, last)
    new = Part()
    first.tags.append("b")
    last.tags.append("b")
    SAVED.clear()
    fail("update", writeConcernError=UNCONFIRMED)
    with pytest.raises(BulkWriteError) as caught:
        face.call(Part, "save_all", [first, new, last])
    assert caught.value.not_stored == [first]  # type: ignore[attr-defined]  # the mapper's addition
    assert [new, last] == SAVED
    assert [bool(one.is_new or one.changes()) for one in (first, new, last)] == [True, False, False]
    assert [row["tags"] for row in raw.find()] == [["a", "b"], ["a", "b"], []]


def test_a_write_concern_that_failed_before_the_line_broke_is_not_forgotten(
    fail: Callable[..., None], server: Server, database_name: str, face: Any
) -> None:
    class Line(CommandListener):
        def started(self, event: Any) -> None:
            if event.command_name == "insert" and old.changes():
                fail("insert", **LOST)

        def succeeded(self, event: Any) -> None:
            return

        def failed(self, event: Any) -> None:
            return

    uri = f"mongodb://127.0.0.1:{server.members[0].port}/?directConnection=true&retryWrites=false"
    made = connect(uri, database=database_name, event_listeners=[Line()])
    try:
        old, new = Part(tags=["a"]), Part()
        face.save(old)
        old.tags.append("b")
        fail("update", writeConcernError=UNCONFIRMED)
        with pytest.raises(AutoReconnect) as caught:
            face.call(Part, "save_all", [old, new])
        assert caught.value.not_stored == [old, new]  # type: ignore[attr-defined]  # the mapper's addition
        assert set(old.changes()) == {"tags"}
    finally:
        made.close()
        face.wait(made.aclose())


def test_a_new_document_that_was_refused_before_the_line_broke_is_not_stored(
    fail: Callable[..., None], raw: Any, face: Any
) -> None:
    old, twin = Part(tags=["a"]), Part()
    face.save(old)
    raw.insert_one({"_id": twin.id})
    old.tags.append("b")
    # Unordered, the insert comes first; the server refuses it.
    fail("update", **LOST)
    with pytest.raises(AutoReconnect) as caught:
        face.call(Part, "save_all", [old, twin], ordered=False)
    assert twin.is_new
    assert caught.value.not_stored == [old, twin]  # type: ignore[attr-defined]  # the mapper's addition


@pytest.mark.parametrize("way", ["insert_many", "save_all"])
def test_documents_of_inserts_that_were_answered_are_stored(
    way: str, fail: Callable[..., None], raw: Any, face: Any
) -> None:
    documents = [Part(data=LARGE) for _ in range(5)]
    fail("insert", 1, **REFUSED)
    with pytest.raises(OperationFailure):
        face.call(Part, way, documents)
    assert [one.is_new for one in documents] == [False, False, False, True, True]
    assert raw.count_documents({}) == 3


def test_what_failed_in_a_transaction_of_the_driver_is_pending_as_a_whole(
    fail: Callable[..., None], raw: Any, face: Any
) -> None:
    old, new = Part(tags=["a"]), Part()
    face.save(old, Part())
    old.tags.append("b")
    client = connection("default").aclient if face.is_async else connection("default").client
    session = client.start_session()
    fail("insert", **REFUSED)

    face.run(session.start_transaction)
    with pytest.raises(OperationFailure):
        face.call(Part, "save_all", [old, new], session=session)
    face.run(session.abort_transaction)
    assert new.is_new
    assert set(old.changes()) == {"tags"}
    face.call(Part, "save_all", [old, new])
    assert raw.find_one(old.id)["tags"] == ["a", "b"]
    face.run(session.end_session)


class Recorded(Part, Audited):
    __collection__ = "parts"


def test_what_is_rolled_back_with_the_failed_part_is_not_stored(
    fail: Callable[..., None], raw: Any, face: Any
) -> None:
    old, new = Recorded(tags=["a"]), Recorded()
    face.save(old)
    old.tags.append("b")
    fail("insert", **REFUSED)
    with pytest.raises(OperationFailure) as caught:
        face.call(Recorded, "save_all", [old, new])
    assert caught.value.not_stored == [old, new]  # type: ignore[attr-defined]  # the mapper's addition
    assert raw.find_one(old.id)["tags"] == ["a"]
    face.call(Recorded, "save_all", [old, new])
    assert raw.find_one(old.id)["tags"] == ["a", "b"]
