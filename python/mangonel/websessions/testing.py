"""Helpers for tests of applications and of stores: a fake clock, recorded events, the contract of a store.

    await store_contract(MyStore(...))      # in a third party's test

Knows no test framework: it raises AssertionError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from mangonel.websessions.cookies import key_of, new_token
from mangonel.websessions.events import Event
from mangonel.websessions.manager import WebSessions
from mangonel.websessions.record import ENDED, Record
from mangonel.websessions.session import RequestView
from mangonel.websessions.stores.memory import MemoryStore
from mangonel.websessions.stores.protocol import Store
from mangonel.websessions.writes import changed, next_writes

__all__ = [
    "CONTRACT",
    "FakeClock",
    "MemoryStore",
    "RecordingEvents",
    "login_cookie",
    "store_contract",
    "tornado_login",
]

_serial = count()


class FakeClock:
    """A clock that moves when told to: `clock.advance(60)`."""

    def __init__(self, now: float = 1_900_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let this much time pass; a negative number sets the clock back.

        Args:
            seconds: the time to pass.

        Example:
            >>> clock = FakeClock()
            >>> clock.advance(60)
            >>> clock() - FakeClock()()
            60.0
        """
        self.now += seconds


class RecordingEvents:
    """A listener that records events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        """Return the recorded kinds, as "rejected(unknown)" if there is a reason or a signal."""
        return [
            f"{event.kind}({event.reason or event.signal})" if event.reason or event.signal else event.kind
            for event in self.events
        ]

    def assert_story(self, *story: str) -> None:
        """Assert that exactly these events happened, in this order; then forget them.

        Args:
            story: kinds, as `kinds()` returns them.

        Raises:
            AssertionError: the events differ.

        Example:
            >>> events = RecordingEvents()
            >>> WebSessions("memory:", events=events).emit("created")
            >>> events.assert_story("created")
        """
        heard = self.kinds()
        self.events.clear()
        assert heard == list(story), f"expected {list(story)}, heard {heard}"


async def login_cookie(sessions: WebSessions[Any], user: str, **values: Any) -> str:
    """Return a Cookie header of a websession in which this user is logged in.

    Args:
        sessions: the application's websessions.
        user: name of the user.
        values: values of the websession.

    Raises:
        StoreError: the store does not answer.

    Example:
        >>> (await login_cookie(sessions, "ada", cart=[1])).partition("=")[0]
        '__Host-sid'
    """
    session = await sessions.asynchronous.load(RequestView())
    session.login(user)
    session.update(values)
    await sessions.asynchronous.commit(session)
    assert session.state.cookie is not None
    return session.state.cookie.partition(";")[0]


def tornado_login(test: Any, user: str, **values: Any) -> str:
    """Return a Cookie header for a `tornado.testing.AsyncHTTPTestCase`, made on its loop.

    Args:
        test: the test case; its application has the setting `sessions`.
        user: name of the user.
        values: values of the websession.

    Raises:
        TypeError: `test` is no test case of Tornado.

    Example:
        >>> class TestCart(AsyncHTTPTestCase):
        ...     def test_a_user_has_a_cart(self):
        ...         headers = {"Cookie": tornado_login(self, "ada")}
        ...         assert self.fetch("/cart", headers=headers).code == 200
    """
    if not hasattr(test, "_app"):
        raise TypeError(f'expected a test case of Tornado for "test", got {type(test).__name__}')
    sessions: WebSessions[Any] = test._app.settings["sessions"]
    return test.io_loop.run_sync(lambda: login_cookie(sessions, user, **values))


def a_record(key: bytes | None = None, **changes: Any) -> Record:
    """Return a new record with unique values."""
    key = key or key_of(new_token())
    values: dict[str, Any] = {
        "key": key,
        "data": bytes(range(256)),
        "version": 1,
        "created": 1_900_000_000.125,
        "expires": 4_000_000_000.25,
        "deadline": 4_000_000_100.5,
        "issued": 1_900_000_000.375,
        "sid": key[:8],
        "writes": next_writes(b""),
    }
    return Record(**{**values, **changes})


async def _absent_is_none(store: Store) -> None:
    assert await store.get(key_of(new_token())) is None


async def _insert_is_read_back(store: Store) -> None:
    record = a_record(user="ada@example.org", label="Firefox, Ünïcode", prev=key_of("p"), epoch=2**61 + 1)
    assert await store.put(record, 0) is True
    found = await store.get(record.key)
    assert found == record
    assert type(found.epoch) is int


async def _insert_refuses_what_is_there(store: Store) -> None:
    record = a_record()
    await store.put(record, 0)
    assert await store.put(a_record(record.key, data=b"other"), 0) is False
    assert await store.get(record.key) == record


async def _write_succeeds_on_the_version_read(store: Store) -> None:
    record = a_record(user="ada")
    await store.put(record, 0)
    second = changed(record, data=b"second", user=None, label="x", next=key_of("n"), expires=3_999_999_999.0)
    assert await store.put(second, 1) is True
    assert await store.get(record.key) == second


async def _write_fails_on_another_version(store: Store) -> None:
    record = a_record()
    await store.put(record, 0)
    second = changed(record, data=b"second")
    await store.put(second, 1)
    assert await store.put(changed(record, data=b"late"), 1) is False
    assert await store.put(changed(second, version=9, data=b"early"), 8) is False
    assert await store.get(record.key) == second


async def _write_does_not_bring_back(store: Store) -> None:
    record = a_record()
    await store.put(record, 0)
    assert await store.delete(record.key) == 1
    assert await store.put(changed(record), 1) is False
    assert await store.get(record.key) is None


async def _touch_moves_expires_only(store: Store) -> None:
    record = a_record(user="ada", label="x")
    await store.put(record, 0)
    assert await store.touch(record.key, 4_000_000_050.75) is True
    assert await store.get(record.key) == changed(
        record, version=1, expires=4_000_000_050.75, writes=record.writes
    )
    assert await store.touch(record.key, 4_000_000_050.75) is True
    assert await store.put(changed(record, data=b"after"), 1) is True


async def _touch_makes_nothing(store: Store) -> None:
    key = key_of(new_token())
    assert await store.touch(key, 4_000_000_000.0) is False
    assert await store.get(key) is None


async def _delete_counts_and_may_be_repeated(store: Store) -> None:
    records = [a_record() for _ in range(3)]
    for record in records:
        await store.put(record, 0)
    assert await store.delete(records[0].key, records[1].key) == 2
    assert await store.delete(records[0].key) == 0
    assert await store.get(records[2].key) == records[2]


async def _one_of_many_writers_wins(store: Store) -> None:
    record = a_record()
    inserted = await asyncio.gather(*(store.put(a_record(record.key), 0) for _ in range(8)))
    assert sum(inserted) == 1, inserted
    written = await asyncio.gather(*(store.put(changed(record, data=bytes([n])), 1) for n in range(8)))
    assert sum(written) == 1, written
    stored = await store.get(record.key)
    assert stored is not None
    assert stored.data == bytes([written.index(True)])


async def _large_and_odd_bytes_survive(store: Store) -> None:
    for data in (b"", b"\0" * 1000, bytes(range(256)) * 256, b"\r\n'\";\\%s", "ünï😀".encode()):
        record = a_record(data=data, key=key_of(repr(data)[:50] + str(next(_serial)) + new_token()))
        assert await store.put(record, 0) is True
        assert await store.get(record.key) == record


async def _an_end_leaves_nothing(store: Store) -> None:
    record = a_record(user="ada")
    await store.put(record, 0)
    trace = changed(record, data=b"", user=None, next=ENDED)
    assert await store.put(trace, 1) is True
    stored = await store.get(record.key)
    assert stored is not None
    assert (stored.next, stored.user, stored.data) == (ENDED, None, b"")
    assert await store.delete(record.key) == 1


async def _find_knows_a_users_records(store: Any) -> None:
    user = f"user {new_token()}"
    records = [a_record(user=user) for _ in range(3)]
    for record in [*records, a_record(user=user + "x"), a_record()]:
        await store.put(record, 0)
    assert sorted(record.key for record in await store.find(user)) == sorted(record.key for record in records)
    await store.delete(records[0].key)
    await store.put(changed(records[1], user=None, next=ENDED), 1)
    assert await store.find(user) == [records[2]]
    assert await store.find("nobody") == []


async def _purge_removes_what_expired(store: Any) -> None:
    # Engines with native expiry may drop these at once, which is fine too.
    past = 1_000_000_000.0
    dead = [a_record(expires=past - 1) for _ in range(3)]
    alive = a_record()
    for record in [*dead, alive]:
        await store.put(record, 0)
    while await store.purge(past):
        pass
    assert [await store.get(record.key) for record in dead] == [None] * 3
    assert await store.get(alive.key) == alive


async def _setup_may_be_repeated(store: Any) -> None:
    await asyncio.gather(store.setup(), store.setup())
    record = a_record()
    await store.put(record, 0)
    await store.setup()
    assert await store.get(record.key) == record


# The checks by required capability; "" for checks of every store.
CONTRACT: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("", _absent_is_none),
    ("", _insert_is_read_back),
    ("", _insert_refuses_what_is_there),
    ("", _write_succeeds_on_the_version_read),
    ("", _write_fails_on_another_version),
    ("", _write_does_not_bring_back),
    ("", _touch_moves_expires_only),
    ("", _touch_makes_nothing),
    ("", _delete_counts_and_may_be_repeated),
    ("", _one_of_many_writers_wins),
    ("", _large_and_odd_bytes_survive),
    ("", _an_end_leaves_nothing),
    ("find", _find_knows_a_users_records),
    ("purge", _purge_removes_what_expired),
    ("setup", _setup_may_be_repeated),
)


async def store_contract(store: Any) -> list[str]:
    """Check that a store does what the flows rely on; return the names of the checks that applied.

    Args:
        store: an empty store on asyncio.

    Raises:
        AssertionError: a check failed.

    Example:
        >>> "absent_is_none" in await store_contract(MemoryStore())
        True
    """
    done = []
    for capability, check in CONTRACT:
        if not capability or hasattr(store, capability):
            await check(store)
            done.append(check.__name__.strip("_"))
    return done
