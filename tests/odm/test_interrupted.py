"""Ctrl-C at every step of a save: the document can be saved again, and nothing is lost or stored twice.

Each place in the storing modules where a signal handler may run is tried once; a sample tries every fourth.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest

import mangonel._faces
import mangonel.odm.store
from mangonel import _core
from mangonel.errors import DuplicateKeyError, OperationFailure
from mangonel.odm import Connection, Document, Ref, StaleDocument, Version, field, push
from mangonel.odm.model.convert import SAVING
from tools.interrupts import interrupt, places

FOLDERS = (str(Path(mangonel.odm.store.__file__).parent),)
# The operation of a plain document's insert also waits there.
FACES = (*FOLDERS, str(Path(mangonel._faces.__file__).parent / "blocking.py"))


class InterruptedTarget(Document):
    name: str = ""


class InterruptedList(Document):
    tags: list[str] = field(default_factory=list)
    target: Ref[InterruptedTarget] | None = field(default=None, on_delete="deny")


class InterruptedVersion(InterruptedList):
    __collection__ = "interrupted_version"
    rev: Annotated[int, Version] = 0


WAYS: dict[str, Callable[[Any], Any]] = {
    "save": lambda document: document.save(),
    "replace": lambda document: document.replace(),
    "save_all": lambda document: type(document).save_all([document, type(document)()]),
    "update": lambda document: document.update(push(type(document).tags, "y")),
    "reload": lambda document: document.reload(keep_changes=True),
}


def save_again(document: Any) -> None:
    """Save the documents that an interrupted save may have left unsaved, as a program does."""
    try:
        document.save()
    except StaleDocument:
        document.reload(keep_changes=True)
        if "x" in document.tags[:-1]:
            document.tags.remove("x")
        document.save()


@pytest.fixture
def numbers(pytestconfig: pytest.Config) -> Iterator[int]:
    """Return the requested part of the places' numbers."""
    return itertools.count(1, 4 if pytestconfig.getoption("sample") else 1)


@pytest.mark.enough(4)
@pytest.mark.plays_a_sample
@pytest.mark.parametrize("model", [InterruptedList, InterruptedVersion])
@pytest.mark.parametrize("way", WAYS)
def test_what_was_interrupted_is_saved_again(
    way: str, model: Any, numbers: Iterator[int], db: Connection
) -> None:
    target = InterruptedTarget().save()
    for at in numbers:
        document = model(tags=["a"]).save()
        document.target = target
        if way != "update":
            document.tags.append("x")
        was = interrupt(partial(WAYS[way], document), at, FOLDERS)
        save_again(document)

        stored = model.get(document.id)
        assert stored == document, (at, stored, document)
        assert stored.tags.count("x") == (way != "update"), (at, stored)
        assert stored.target is not None
        if not was:
            break
    assert at > 5


@pytest.mark.plays_a_sample
@pytest.mark.parametrize("is_many", [False, True])
def test_what_was_interrupted_is_inserted_once(is_many: bool, numbers: Iterator[int], db: Connection) -> None:
    for at in numbers:
        document = InterruptedList(tags=["x"])
        act = partial(InterruptedList.insert_many, [document]) if is_many else document.save
        was = interrupt(act, at, FOLDERS)
        try:
            document.save()
        except DuplicateKeyError:
            assert was
        assert InterruptedList.get(document.id).tags == ["x"]
        if not was:
            break
    assert at > 5


@pytest.mark.plays_a_sample
@pytest.mark.parametrize("is_fused", [True, False], ids=["fused", "reference"])
def test_a_plain_document_whose_insert_was_interrupted_is_inserted_once(
    is_fused: bool, numbers: Iterator[int], db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db.client._port, "_is_fused", is_fused)
    for at in numbers:
        # It opens the connection that the last interrupt closed.
        InterruptedTarget().save()
        document = InterruptedTarget(name="x")
        error = interrupted(document.save, at)
        # The error is still referenced, as in an `except` clause, and with it every frame.
        assert not _core.odm_flags(document) & SAVING, at
        with contextlib.suppress(DuplicateKeyError):
            document.save()
        assert InterruptedTarget.get(document.id).name == "x"
        if error is None:
            break
    assert at > 5


def interrupted(act: Callable[[], Any], at: int) -> BaseException | None:
    """Run `act`, interrupted at a place, and return the exception that it raised."""
    try:
        places(act, FACES, at)
    except KeyboardInterrupt as error:
        return error
    return None


@pytest.mark.parametrize("is_many", [False, True])
def test_a_failed_look_for_targets_leaves_no_save_under_way(is_many: bool, db: Connection):
    target = InterruptedTarget().save()
    one, two = InterruptedList(tags=["a"]).save(), InterruptedList(tags=["b"], target=target)
    one.target = target
    admin = db.client.admin
    data = {"failCommands": ["find"], "errorCode": 8000}
    admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    with pytest.raises(OperationFailure):
        InterruptedList.save_all([one, two]) if is_many else two.save()

    one.tags.append("c")
    one.save()
    with contextlib.suppress(DuplicateKeyError):  # it was inserted before the check
        two.save()
    assert [found.tags for found in InterruptedList.find().sort("tags")] == [["a", "c"], ["b"]]
