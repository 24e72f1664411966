"""The devices of a user, in one record of the store: its form, and its changes with compare-and-set.

The record's key is a hash of the user's name, so every engine finds it, even one that cannot search by user. For each
device it holds the names, the first and last time of use, and the state of a remembered login. Flows; knows no engine
and no framework.
"""

from __future__ import annotations

import logging
from binascii import b2a_base64
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.errors import StoreError
from mangonel.websessions.follow import ROUNDS
from mangonel.websessions.record import Record
from mangonel.websessions.writes import next_writes, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.stores.protocol import Store

__all__ = [
    "BOOK",
    "Book",
    "Known",
    "book_key",
    "change_flow",
    "device_id",
    "digest",
    "forget_all_flow",
    "forget_login_flow",
    "locator_of",
    "read_book",
    "seen_flow",
    "without_device",
    "without_login",
]

log = logging.getLogger("mangonel.websessions")

# The label of the record.
BOOK = "devices"

# Browsers keep a cookie for 400 days at most.
MEMORY = 400 * 86_400.0
MOST_DEVICES = 50

ID_BYTES = 16


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device of a user.

    Attributes:
        browser, system, place: as the public `Device` has them.
        first, last: when the user first and last logged in on it.
        expects: the digest of the token for the next login. Empty: the login is not remembered.
        before: the digest of the previous token, which the browser still has if the answer was lost.
        changed: when `expects` took the place of `before`.
        session: the key of the websession that `before` was exchanged for.
        seen: whether the browser has presented that websession, so that the answer was not lost.
        until: when the remembered login ends.
        epoch: the number of the user's revocations known to the remembered login.
        print: the salted digest of the fingerprint at login.
        label: the websession's name in listings.
    """

    browser: str = ""
    system: str = ""
    place: str = ""
    first: float = 0.0
    last: float = 0.0
    expects: bytes = b""
    before: bytes = b""
    changed: float = 0.0
    session: bytes = b""
    seen: bool = False
    until: float = 0.0
    epoch: int = 0
    print: str = ""
    label: str | None = None

    def forgotten(self) -> Known:
        """Return the device without its remembered login."""
        return Known(
            browser=self.browser, system=self.system, place=self.place, first=self.first, last=self.last
        )


class Book(msgspec.Struct, frozen=True):
    """All devices of a user, by id; a book without a user is empty."""

    user: str
    devices: dict[str, Known] = {}

    def having(self, id: str, known: Known) -> Book:
        """Return the book with another entry for a device."""
        return Book(self.user, {**self.devices, id: known})


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Book).decode


def book_key(user: str) -> bytes:
    """Return the key of the record with a user's devices."""
    return sha256(b"mangonel websession devices\0" + user.encode()).digest()


def locator_of(key: bytes) -> str:
    """Return a key as text for a cookie."""
    return b2a_base64(key, newline=False)[:43].translate(bytes.maketrans(b"+/", b"-_")).decode()


def device_id(sessions: CheckedSettings[Any], user: str, secret: str) -> str:
    """Return the id of a user's device: it reveals neither the cookie nor that two users share the device."""
    return sha256(sessions.cookie.purpose + b"device\0" + secret.encode() + user.encode()).hexdigest()[
        : 2 * ID_BYTES
    ]


def digest(token: str) -> bytes:
    """Return the stored digest of a token."""
    return sha256(b"mangonel websession remembered\0" + token.encode()).digest()


def read_book(sessions: CheckedSettings[Any], record: Record | None) -> Book:
    """Return the devices in a record; none without a record, or if it was changed without our key."""
    if record is not None and record.label == BOOK and sessions.now() < record.expires:
        try:
            return _decode(sessions.unsealed(record))
        except (ValueError, msgspec.DecodeError):
            sessions.emit("rejected", reason="sealed" if sessions.ring is not None else "corrupt")
    return Book("")


async def change_flow(
    sessions: CheckedSettings[Any], store: Store, key: bytes, change: Callable[[Book], Book | None]
) -> Book | None:
    """Change a user's devices so that no parallel change is lost; return them as stored, None if nothing changed.

    Args:
        key: from `book_key`.
        change: returns the new devices; None: change nothing. Called again if another request was faster.

    Raises:
        StoreError: others kept changing the record.
    """
    record = await store.get(key)
    for _ in range(ROUNDS):
        book = change(read_book(sessions, record))
        if book is None:
            return None
        was_put, record = await put_flow(
            store, _record(sessions, key, book, record), record.version if record else 0
        )
        if was_put:
            return book
    raise StoreError(f"the user's devices were changed by others {ROUNDS} times")


async def seen_flow(sessions: CheckedSettings[Any], store: Store, record: Record) -> None:
    """Note that the browser has presented the websession that a remembered login was exchanged for."""

    def seen(book: Book) -> Book | None:
        for id, known in book.devices.items():
            if known.session == record.key and not known.seen:
                return book.having(id, msgspec.structs.replace(known, seen=True))
        return None

    if record.prev is not None:
        await change_flow(sessions, store, record.prev, seen)


async def forget_login_flow(sessions: CheckedSettings[Any], store: Store, user: str, id: str) -> None:
    """Forget the remembered login of one of a user's devices."""
    await change_flow(sessions, store, book_key(user), lambda book: without_login(book, id))


def without_device(book: Book, id: str) -> Book | None:
    """Return the book without a device; None if it does not have it."""
    if id not in book.devices:
        return None
    return Book(book.user, {each: known for each, known in book.devices.items() if each != id})


def without_login(book: Book, id: str) -> Book | None:
    """Return the book without the remembered login of a device; None if there is none."""
    known = book.devices.get(id)
    return book.having(id, known.forgotten()) if known is not None and known.expects else None


async def forget_all_flow(
    sessions: CheckedSettings[Any], store: Store, user: str, spared: str | None, last: int, epoch: int
) -> None:
    """Forget the remembered logins of a user before a revocation, except that of one device.

    Args:
        spared: id of the device.
        last, epoch: the previous revocation, which the spared login must know, and this one.
    """

    def forgotten(book: Book) -> Book | None:
        kept = {
            id: msgspec.structs.replace(known, epoch=epoch)
            if id == spared and known.expects and known.epoch >= last
            else known.forgotten()
            for id, known in book.devices.items()
        }
        return Book(book.user, kept) if kept != book.devices else None

    await change_flow(sessions, store, book_key(user), forgotten)


def _record(sessions: CheckedSettings[Any], key: bytes, book: Book, old: Record | None) -> Record:
    now = sessions.now()
    ends = now + max(MEMORY, sessions.longest)
    version, writes = (old.version, old.writes) if old is not None else (0, b"")
    # Stored without a user's name, so that no listing takes it for a websession.
    fresh = Record(key, b"", version + 1, now, ends, ends, issued=now, label=BOOK, writes=next_writes(writes))
    kept = {id: known for id, known in book.devices.items() if now < max(known.last + MEMORY, known.until)}
    latest = sorted(kept, key=lambda each: kept[each].last)[-MOST_DEVICES:]
    return sessions.sealed(fresh, _encode(Book(book.user, {id: kept[id] for id in latest})))
