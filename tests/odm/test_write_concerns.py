"""An operation's write concern reaches each of its commands, and is refused where another one takes precedence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mangonel import monitoring
from mangonel.odm import Connection, Document, Ref, SoftDelete, Timestamps, connect, field, inc, set_
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.query.request import TERMINALS
from mangonel.server import Server
from mangonel.write_concern import WriteConcern

CONCERN = WriteConcern(w=1, j=True)


class Owner(Timestamps):
    __collection__ = "owners"
    name: str = ""


class Thing(Document):
    __collection__ = "things"
    n: int = 0
    owner: Ref[Owner] | None = field(default=None, touch=True)
    parent: Ref[Thing] | None = field(default=None, on_delete="cascade")


class Marked(SoftDelete):
    __collection__ = "marked"
    n: int = 0


class Log(monitoring.CommandListener):
    """The write concerns of the sent writes."""

    def __init__(self) -> None:
        self.concerns: list[Any] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in ("insert", "update", "delete", "findAndModify", "bulkWrite"):
            self.concerns.append(event.command.get("writeConcern"))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        return

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        return


def changed(one: Any) -> Any:
    """Return the document with a change to save."""
    one.n += 1
    return one


# Owner, method, arguments, and the number of commands.
WAYS: dict[str, Callable[[Any], tuple[Any, str, tuple[Any, ...], dict[str, Any], int]]] = {
    "insert": lambda one: (Thing(), "insert", (), {}, 1),
    "save of a new one": lambda one: (Thing(), "save", (), {}, 1),
    "save": lambda one: (changed(one), "save", (), {}, 2),
    "cascading save": lambda one: (changed(one), "save", (), {"cascade": True}, 2),
    "replace": lambda one: (changed(one), "replace", (), {}, 2),
    "update": lambda one: (one, "update", (inc(Thing.n),), {}, 1),
    "insert_many": lambda one: (Thing, "insert_many", ([Thing(), Thing()],), {}, 1),
    "save_all": lambda one: (Thing, "save_all", ([changed(one), Thing()],), {}, 3),
    "delete": lambda one: (one, "delete", (), {}, 3),
    "delete that marks": lambda one: (Marked.find().one(), "delete", (), {}, 1),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_each_way_to_store_a_document_sends_its_write_concern(
    way: str, server: Server, database_name: str, face: Any
) -> None:
    log = Log()
    db = connect(server.uri, database=database_name, event_listeners=[log])
    try:
        owner = Owner().save()
        one = Thing(owner=owner).save()
        Thing(parent=one).save()
        Marked().save()
        subject, method, arguments, keywords, count = WAYS[way](one)
        log.concerns.clear()
        face.call(subject, method, *arguments, **keywords, write_concern=CONCERN)
        assert log.concerns == [CONCERN.document] * count
    finally:
        db.close()
        face.wait(db.aclose())


def test_every_way_takes_a_write_concern() -> None:
    methods = {WAYS[way](Thing())[1] for way in WAYS if way != "delete that marks"}
    storing = {
        name
        for name, method in vars(Document).items()
        if "session" in (getattr(getattr(method, "__func__", method), "__kwdefaults__", None) or ())
        if not name.startswith("a")
    }
    assert methods == storing - {"reload"}


def test_a_transaction_has_its_own_concerns(db: Connection, face: Any) -> None:
    one = Thing()
    face.save(one)
    attempts = [
        (changed(one), "save", (), {"write_concern": CONCERN}),
        (Thing.find().options(write_concern=CONCERN), "update", (set_(Thing.n, 9),), {}),
        (Thing.find().options(read_concern=db.client.read_concern), "all", (), {}),
    ]

    def blocking(owner: Any, method: str, arguments: Any, keywords: Any) -> None:
        with db.transaction():
            getattr(owner, method)(*arguments, **keywords)

    async def asynchronous(owner: Any, method: str, arguments: Any, keywords: Any) -> None:
        async with db.transaction():
            await getattr(owner, "a" + method)(*arguments, **keywords)

    for attempt in attempts:
        with pytest.raises(UnsupportedOption, match="_concern=…: it is the transaction's"):
            face.wait(asynchronous(*attempt)) if face.is_async else blocking(*attempt)
    assert [row["n"] for row in Thing.collection().find()] == [0]


def test_all_writes_of_queries_take_one_too() -> None:
    assert all("write_concern" in terminal.takes for terminal in TERMINALS.values() if terminal.is_write)
