"""A collection or client is not kept if one thread makes it while another discards or closes it.

Events fix the interleaving: the first thread waits while making the object until the other has finished.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import mangonel
from mangonel.odm import Connection, Document, NotConnected, connect

LONGEST_S = 60


class Gate:
    """A place where one thread waits until the other opens it."""

    def __init__(self) -> None:
        self.is_shut = False
        self._reached, self._opened = threading.Event(), threading.Event()

    def wait(self) -> None:
        """Wait here, if the gate is shut."""
        if self.is_shut:
            self.is_shut = False
            self._reached.set()
            assert self._opened.wait(LONGEST_S)

    def between(self, first: Callable[[], Any], then: Callable[[], Any]) -> Future[Any]:
        """Run `then` while `first` waits at the gate; return the result of `first`."""
        self.is_shut = True
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(first)
            try:
                assert self._reached.wait(LONGEST_S)
                then()
            finally:
                self._opened.set()
        return made


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def model() -> Any:
    class Late(Document):
        name: str = ""

    return Late


@pytest.fixture
def slow_database(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Place the gate where a collection's client is known and the collection is not."""

    def slowly(self: Connection, is_async: bool = False) -> Any:
        made = real(self, is_async)
        gate.wait()
        return made

    real = Connection.database
    monkeypatch.setattr(Connection, "database", slowly)


def close(db: Connection, is_async: bool) -> None:
    """Close one of the two clients."""

    async def aclose() -> None:
        await db.aclose()

    if is_async:
        asyncio.run(aclose())
    else:
        db.close()


@pytest.fixture
def db() -> Iterator[Any]:
    """A connection whose server is never used."""
    made = connect("mongodb://127.0.0.1:9/late", "late")
    yield made
    made.close()


@pytest.mark.usefixtures("slow_database")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_collection_that_was_begun_before_forget_is_not_kept(
    gate: Gate, db: Any, model: Any, is_async: bool
) -> None:
    late = gate.between(lambda: db.collection(model, is_async), db.forget).result()
    fresh = db.collection(model, is_async)
    assert fresh is not late
    assert db.collection(model, is_async) is fresh


@pytest.mark.usefixtures("slow_database")
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_sibling", [False, True])
def test_a_collection_that_was_begun_before_close_is_not_kept(
    gate: Gate, db: Any, model: Any, is_sibling: bool, is_async: bool
) -> None:
    chosen = db.sibling("other") if is_sibling else db
    late = gate.between(lambda: chosen.collection(model, is_async), lambda: close(db, is_async))
    assert late.exception() is None
    with pytest.raises(NotConnected, match="client of this connection was closed"):
        chosen.collection(model, is_async)


def test_a_client_that_was_begun_before_close_is_closed_and_not_handed_out(
    gate: Gate, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def slowly(*arguments: Any, **options: Any) -> Any:
        gate.wait()
        made.append(real(*arguments, **options))
        return made[-1]

    real = mangonel.MongoClient
    monkeypatch.setattr(mangonel, "MongoClient", slowly)
    late = gate.between(lambda: db.client, db.close)
    assert isinstance(late.exception(), NotConnected)
    with pytest.raises(mangonel.errors.InvalidOperation, match="close"):
        made[0].admin.command("ping")
    with pytest.raises(NotConnected):
        _ = db.client
