"""Upkeep of stores: they set themselves up, delete ended records, and protect their files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from store_names import STORES

from mangonel import AsyncMongoClient
from mangonel.errors import OperationFailure
from mangonel.monitoring import CommandListener, CommandStartedEvent
from mangonel.server import Server
from mangonel.websessions import RequestView, UsageError, WebSessions
from mangonel.websessions.stores.mongodb import MongoStore
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import a_record

stores = pytest.mark.parametrize("name", STORES)


@stores
async def test_a_store_that_nobody_set_up_sets_itself_up(name: str, store_url: Callable[[str], str]) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    assert (await browser.begin()).user == "ada"
    await sessions.aclose()
    blocking: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None)
    session = blocking.blocking.load(RequestView())
    session.login("ada")
    blocking.blocking.commit(session)
    assert not session.new
    blocking.blocking.close()


async def test_mongodb_has_its_indexes_after_the_first_write(store_url: Callable[[str], str]) -> None:
    for side in (open_store, open_blocking):
        store: Any = side(store_url("mongodb"))
        put = store.put(a_record(), 0)
        if side is open_store:
            await put
        flows = store if side is open_store else store.flows
        names = set(await flows._plain.index_information())
        assert names == {"_id_", "expiry", "user"}
        await store.aclose() if side is open_store else store.close()


async def test_mongodb_says_which_right_is_missing_and_goes_on(
    store_url: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    store: Any = open_store(store_url("mongodb"))

    async def refused() -> None:
        raise OperationFailure("not authorized on app to execute createIndexes", 13)

    store.setup = refused
    assert await store.put(a_record(), 0)
    assert "nothing that expired is removed: run `mangonel websessions setup URL`" in caplog.text
    await store.aclose()


async def test_a_user_s_set_in_redis_shrinks_with_logouts_and_renewals(
    store_url: Callable[[str], str],
) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url("redis"), events=lambda event: None)
    browsers = [Browser(sessions) for _ in range(20)]
    for browser in browsers:
        await browser.login("ada")
        session = await browser.begin()
        session.rotate()
        await browser.end(session)
    store: Any = sessions.asynchronous.store()
    users = store._commands.users + b"ada"
    assert await store._client.zcard(users) == 20
    for number, browser in enumerate(browsers):
        await browser.logout()
        assert await store._client.zcard(users) == 19 - number
    assert await store._client.exists(users) == 0
    await sessions.aclose()


async def test_a_login_takes_what_has_passed_its_limit_out_of_a_user_s_set_in_redis(
    store_url: Callable[[str], str],
) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url("redis"), events=lambda event: None)
    store: Any = sessions.asynchronous.store()
    users = store._commands.users + b"ada"
    await store._client.zadd(users, {bytes([number]) * 32: 1_000.0 + number for number in range(100)})
    await Browser(sessions).login("ada")
    assert await store._client.zcard(users) == 1
    await sessions.aclose()


@pytest.mark.parametrize("name", ["sqlite", "directory", "single_file"])
async def test_files_are_their_owners_only(
    name: str, store_url: Callable[[str], str], tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None)
        await Browser(sessions).login("ada")
        made = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert made
        assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
        await sessions.aclose()
    finally:
        os.umask(before)


class Writes(CommandListener):
    """Return the keys written with each `w`."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        concern = event.command.get("writeConcern", {}).get("w")
        self.seen += [(each["q"]["_id"], concern) for each in event.command.get("updates", ())]
        self.seen += [(each["_id"], concern) for each in event.command.get("documents", ())]


async def test_what_ends_all_of_a_user_s_websessions_waits_for_a_majority(
    server: Server, database_name: str
) -> None:
    writes = Writes()
    async with AsyncMongoClient(server.uri, w=1, event_listeners=[writes]) as client:
        store = MongoStore(client[database_name]["websessions"])
        sessions: WebSessions[Any] = WebSessions(store, events=lambda event: None)
        browser = Browser(sessions)
        await browser.login("ada")
        assert {w for _, w in writes.seen} == {1}
        writes.seen.clear()
        assert await sessions.revoke_user("ada") == 1
        assert sessions.epoch_key("ada") in dict(writes.seen)
        assert [w for _, w in writes.seen] == ["majority", "majority"]


@stores
async def test_a_save_after_the_end_is_an_error(name: str, store_url: Callable[[str], str]) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    job = await browser.begin()
    await browser.logout()
    for progress in (1, 2):
        job["progress"] = progress
        with pytest.raises(UsageError, match="has ended, so nothing of it can be saved"):
            await job.save()
    own = await browser.begin()
    own.login("ada")
    await own.save()
    own.destroy()
    await own.save()
    with pytest.raises(UsageError, match="has ended"):
        await own.save()
    await sessions.aclose()
    session = sessions.blocking.load(RequestView())
    session.login("ada")
    sessions.blocking.commit(session)
    assert session.state.cookie is not None
    thread = sessions.blocking.load(RequestView(session.state.cookie.partition(";")[0]))
    session.destroy()
    session.save()
    thread["progress"] = 1
    with pytest.raises(UsageError, match="has ended"):
        thread.save()
    sessions.blocking.close()


def test_a_record_that_a_full_disk_cuts_short_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_blocking(f"dir://{tmp_path}/kept")
    record = a_record(data=b"x" * 1000)
    assert store.put(record, 0)
    written, write = [], os.write

    def write_half(file: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(write(file, bytes(data[: len(data) // 2])))
        return written[0]

    monkeypatch.setattr(os, "write", write_half)
    with pytest.raises(OSError, match="No space left"):
        store.put(a_record(key=record.key, data=b"y" * 1000, version=2), 1)
    monkeypatch.undo()
    assert store.get(record.key).data == record.data
    assert not list(tmp_path.rglob("*.tmp"))
