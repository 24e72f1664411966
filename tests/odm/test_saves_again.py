"""A save that is sent again, since equal stored values have other bytes: it stores what it was to store at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel.monitoring import CommandListener
from mangonel.odm import (
    Connection,
    DanglingReference,
    Document,
    KeepsChanges,
    ParallelSaveError,
    Ref,
    Refs,
    StaleDocument,
    Version,
    after,
    before,
    connect,
    field,
)
from mangonel.server import Server

NAME = "saved_again"


class Target(Document):
    __collection__ = "saved_again_targets"


class Plain(KeepsChanges):
    __collection__ = NAME
    lines: list[dict[str, int]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    others: Refs[Target] = field(default_factory=Refs)
    target: Ref[Target] | None = field(default=None, on_delete="deny")
    name: str = ""
    note: str | None = None

    @before("save")
    def _tidy(self) -> None:
        RUN.append("before")
        self.name = self.name.strip()

    @after("save")
    def _tell(self) -> None:
        RUN.append("after")


class Counted(Plain):
    __collection__ = NAME
    rev: Annotated[int, Version] = 0


RUN: list[str] = []
MODELS = pytest.mark.parametrize("model", [Plain, Counted])
WAYS = pytest.mark.parametrize("way", ["save", "save_all", "save_all of two"])


class Meanwhile(CommandListener):
    """Calls a function when the save reads the stored document, to learn why it matched nothing."""

    def __init__(self) -> None:
        self.act: Callable[[], Any] | None = None

    def started(self, event: Any) -> None:
        if event.command.get("find") == NAME and self.act is not None:
            act, self.act = self.act, None
            act()

    def succeeded(self, event: Any) -> None:
        return

    def failed(self, event: Any) -> None:
        return


@pytest.fixture
def meanwhile(server: Server, database_name: str, db: Connection, face: Any) -> Iterator[Meanwhile]:
    RUN.clear()
    made = Meanwhile()
    connected = connect(server.uri, database=database_name, event_listeners=[made])
    yield made
    connected.close()
    face.wait(connected.aclose())


@pytest.fixture
def raw(db: Connection, database_name: str) -> Any:
    """The collection, beside the mapper."""
    return db.client[database_name][NAME]


@pytest.fixture
def save(face: Any) -> Callable[[Any, str], None]:
    """Saves a document by a way, with another one in the same command or without."""

    def act(document: Any, way: str) -> None:
        if way == "save":
            face.save(document)
            return
        others = []
        if way == "save_all of two":
            others = [type(document)(name="other")]
            face.save(*others)
            others[0].name = "changed"
        RUN.clear()
        face.call(type(document), "save_all", [document, *others])
        for _ in others:
            RUN.remove("before")
            RUN.remove("after")

    return act


def begin(model: Any, raw: Any, face: Any, **values: Any) -> Any:
    """A stored document with an element changed by position, whose stored keys stand in another order."""
    document = model(lines=[{"a": 1, "b": 2}], **values)
    face.save(document)
    turn(raw, document)
    document.lines[0]["a"] = 5
    RUN.clear()
    return document


def turn(raw: Any, document: Any) -> None:
    raw.update_one({"_id": document.id}, {"$set": {"lines": [{"b": 2, "a": 1}]}})


def row(raw: Any, document: Any) -> dict[str, Any]:
    found: dict[str, Any] = raw.find_one({"_id": document.id})
    return found


@MODELS
@WAYS
def test_what_is_changed_meanwhile_is_left_to_the_next_save_with_its_hooks(
    model: Any, way: str, meanwhile: Meanwhile, raw: Any, save: Any, face: Any
) -> None:
    document = begin(model, raw, face, tags=["x"], name="old")
    document.tags.append("y")
    document.name = "  sent "
    document.set_extra({"k": 1})

    def change() -> None:
        document.name = " meanwhile "
        document.note = "meanwhile"
        document.tags.append("z")
        document.lines.append({"c": 3})
        document.set_extra({"k": 2, "other": 1})

    meanwhile.act = change
    save(document, way)
    assert RUN == ["before", "after"]
    stored = row(raw, document)
    assert stored["lines"] == [{"b": 2, "a": 5}]
    assert (stored["tags"], stored["name"], stored.get("note")) == (["x", "y"], "sent", None)
    assert (stored["k"], "other" in stored, stored.get("rev")) == (1, False, {Plain: None, Counted: 1}[model])
    assert set(document.changes()) == {"lines", "tags", "name", "note"}
    assert set(document.previous_changes()) == {"lines", "tags", "name"}
    save(document, "save")
    stored = row(raw, document)
    assert stored["lines"] == [{"b": 2, "a": 5}, {"c": 3}]
    assert (stored["tags"], stored["name"], stored["note"]) == (["x", "y", "z"], "meanwhile", "meanwhile")
    assert (stored["k"], stored["other"], document.changes()) == (2, 1, {})


@WAYS
def test_the_target_of_a_reference_that_is_sent_again_is_looked_for(
    way: str, meanwhile: Meanwhile, raw: Any, save: Any, face: Any
) -> None:
    there, gone = Target(), Target()
    face.save(there)
    document = begin(Plain, raw, face)
    document.target = gone.id
    # The one that is set meanwhile is none of this save.
    meanwhile.act = lambda: setattr(document, "target", there.id)
    with pytest.raises(DanglingReference, match=str(gone.id)):
        save(document, way)
    stored = row(raw, document)
    assert (stored["lines"], stored.get("target")) == ([{"b": 2, "a": 5}], None)
    assert set(document.changes()) == {"target"}
    face.save(document)
    assert row(raw, document)["target"] == there.id


@WAYS
def test_a_reference_that_is_set_meanwhile_is_left_to_the_next_save(
    way: str, meanwhile: Meanwhile, raw: Any, save: Any, face: Any
) -> None:
    document = begin(Plain, raw, face)
    meanwhile.act = lambda: setattr(document, "target", Target().id)
    save(document, way)
    stored = row(raw, document)
    assert (stored["lines"], stored.get("target")) == ([{"b": 2, "a": 5}], None)
    with pytest.raises(DanglingReference):
        face.save(document)
    assert row(raw, document).get("target") is None


@MODELS
@WAYS
def test_a_second_save_is_refused_until_the_one_that_is_sent_again_has_ended(
    model: Any, way: str, meanwhile: Meanwhile, raw: Any, save: Any, face: Any
) -> None:
    document = begin(model, raw, face)
    refused: list[Any] = []

    def second() -> None:
        try:
            document.save()
        except ParallelSaveError as error:
            refused.append(error)

    meanwhile.act = second
    save(document, way)
    assert len(refused) == 1
    assert row(raw, document)["lines"] == [{"b": 2, "a": 5}]
    assert document.changes() == {}


@MODELS
@WAYS
def test_changes_are_pending_if_the_document_is_changed_again_meanwhile(
    model: Any, way: str, meanwhile: Meanwhile, raw: Any, save: Any, face: Any
) -> None:
    document = begin(model, raw, face, tags=["x"])
    document.tags.append("y")

    def change() -> None:
        raw.update_one({"_id": document.id}, {"$set": {"lines": [{"b": 7, "a": 1}]}})

    meanwhile.act = change
    with pytest.raises(StaleDocument):
        save(document, way)
    assert set(document.changes()) == {"lines", "tags"}
    assert row(raw, document)["tags"] == ["x"]
    turn(raw, document)
    save(document, "save")
    assert row(raw, document)["lines"] == [{"b": 2, "a": 5}]
    assert row(raw, document)["tags"] == ["x", "y"]


@WAYS
def test_an_error_of_what_is_sent_again_leaves_the_changes_pending(
    way: str, meanwhile: Meanwhile, db: Connection, raw: Any, save: Any, face: Any
) -> None:
    document = begin(Plain, raw, face, tags=["x"])
    document.tags.append("y")
    admin = db.client.admin
    data = {
        "failCommands": ["update"],
        "writeConcernError": {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "timed out"},
    }
    meanwhile.act = lambda: admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    try:
        with pytest.raises(Exception, match=r"timed out|WriteConcern|batch op"):
            save(document, way)
    finally:
        admin.command("configureFailPoint", "failCommand", mode="off")
    assert row(raw, document)["tags"] == ["x", "y"]
    assert set(document.changes()) == {"lines", "tags"}
    with pytest.raises(StaleDocument):
        save(document, "save")
    assert row(raw, document)["tags"] == ["x", "y"]
