"""The MongoDB store opens its client without retryable writes, and repeats its own: what that must not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mangonel.errors import AutoReconnect, NotPrimaryError, OperationFailure
from mangonel.websessions.record import ENDED
from mangonel.websessions.stores.protocol import Immediate
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import a_record, changed

WRITES = ("insert_one", "replace_one", "update_one", "delete_many")


class Trouble:
    """A collection whose next writes fail: after they arrived, or before."""

    def __init__(self, collection: Any, is_async: bool) -> None:
        self._collection = collection
        self._is_async = is_async
        self.losing: list[tuple[bool, Exception]] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._collection, name)
        if name not in WRITES or not self.losing:
            return call
        arrives, error = self.losing.pop(0)

        async def awaited(*arguments: Any) -> Any:
            if arrives:
                await call(*arguments)
            raise error

        def called(*arguments: Any) -> Any:
            if arrives:
                call(*arguments)
            raise error

        return awaited if self._is_async else called


async def troubled(url: str, side: str) -> tuple[Any, Trouble]:
    store: Any = open_store(url) if side == "asynchronous" else open_blocking(url)
    trouble = Trouble(store._plain, side == "asynchronous")
    store._plain = store._documents.plain = store._documents.sure = trouble
    return (store if side == "asynchronous" else Immediate(store)), trouble


SIDES = pytest.mark.parametrize("side", ["asynchronous", "blocking"])
LOST = pytest.mark.parametrize("arrives", [True, False], ids=["after it arrived", "before it arrived"])


@SIDES
@LOST
async def test_a_write_whose_answer_is_lost_counts_once(
    side: str, arrives: bool, store_url: Callable[[str], str]
) -> None:
    store, trouble = await troubled(store_url("mongodb"), side)
    record = a_record(user="ada")
    trouble.losing = [(arrives, AutoReconnect("the line broke"))]
    assert await store.put(record, 0)
    fresh = changed(record, data=b"fresh")
    trouble.losing = [(arrives, NotPrimaryError("stepping down", {"code": 10107}))]
    assert await store.put(fresh, 1)
    assert await store.get(record.key) == fresh
    trouble.losing = [(arrives, AutoReconnect("the line broke"))]
    assert await store.touch(record.key, record.expires + 1)
    ended = changed(fresh, data=b"", next=ENDED)
    trouble.losing = [(arrives, OperationFailure("stepping down", 189))]
    assert await store.put(ended, 2)
    trouble.losing = [(arrives, AutoReconnect("the line broke"))]
    await store.delete(record.key)
    assert await store.get(record.key) is None


@SIDES
async def test_a_repeated_write_does_not_win_over_what_others_wrote(
    side: str, store_url: Callable[[str], str]
) -> None:
    url = store_url("mongodb")
    store, trouble = await troubled(url, side)
    others: Any = open_blocking(url)
    record = a_record()
    assert others.put(record, 0)
    trouble.losing = [(False, AutoReconnect("the line broke"))]
    assert not await store.put(changed(record, version=1, data=b"mine"), 0)
    theirs = changed(record, data=b"theirs")
    assert others.put(theirs, 1)
    trouble.losing = [(False, AutoReconnect("the line broke"))]
    assert not await store.put(changed(record, data=b"mine"), 1)
    assert await store.get(record.key) == theirs


@SIDES
async def test_a_write_is_repeated_once_and_only_where_that_may_help(
    side: str, store_url: Callable[[str], str]
) -> None:
    store, trouble = await troubled(store_url("mongodb"), side)
    trouble.losing = [(False, AutoReconnect("the line broke"))] * 2
    with pytest.raises(AutoReconnect):
        await store.put(a_record(), 0)
    for error in (OperationFailure("not authorised", 13), OperationFailure("no such option", 72)):
        trouble.losing = [(False, error)]
        with pytest.raises(OperationFailure):
            await store.put(a_record(), 0)
        assert trouble.losing == []


@pytest.mark.parametrize(("option", "repeats"), [("", True), ("&retryWrites=true", False)])
def test_the_drivers_own_retries_can_be_had_instead(
    option: str, repeats: bool, store_url: Callable[[str], str]
) -> None:
    store: Any = open_blocking(store_url("mongodb") + option)
    assert store._repeats is repeats
    assert store._client.options.retry_writes is not repeats
    store.close()
