"""A user's devices: noted at a login, listed with their websessions, removed one by one. Flows, for every face.

A device is a browser with a device cookie, which a login sets. The cookie proves nothing by itself; it shows whether
the user has logged in on this browser before. Knows no engine and no framework.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.agents import names_of
from mangonel.websessions.book import (
    Book,
    Known,
    book_key,
    change_flow,
    device_id,
    digest,
    locator_of,
    read_book,
    without_device,
)
from mangonel.websessions.content import extra_of
from mangonel.websessions.errors import Unsupported
from mangonel.websessions.follow import end_flow, is_revoked_flow, live_flow
from mangonel.websessions.hooks import call_hook
from mangonel.websessions.record import Record
from mangonel.websessions.settings import checked_text
from mangonel.websessions.users import Handle, of_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.session import WebSession
    from mangonel.websessions.stores.protocol import Store

__all__ = [
    "Device",
    "check_devices",
    "device_of",
    "devices_flow",
    "end_device_flow",
    "enlist_flow",
    "forget_flow",
    "take_device",
]


log = logging.getLogger("mangonel.websessions")


class Device(msgspec.Struct, frozen=True):
    """A browser in which a user has logged in.

    Attributes:
        id: for `forget`; it grants no access.
        user: name of the user.
        browser: such as "Firefox 128"; "" if the header names no known browser.
        system: such as "Linux"; "" if the header names none.
        place: the result of `Users(place=)` for the visitor's address at login; "" if there is none.
        first_seen: when the user first logged in here, in seconds since the epoch.
        last_seen: when they last logged in or used a websession here, within `touch_after`.
        is_current: whether the websession passed to `devices(user, current=…)` is here.
        is_remembered: whether the browser logs in by itself once its websession has ended.
        is_first: for `on_new_device`: whether the user had no device before.
        websessions: its live ones, the newest first; empty if the engine cannot list them.
    """

    id: str
    user: str
    browser: str = ""
    system: str = ""
    place: str = ""
    first_seen: float = 0.0
    last_seen: float = 0.0
    is_current: bool = False
    is_remembered: bool = False
    is_first: bool = False
    websessions: tuple[Handle, ...] = ()


def take_device(session: WebSession[Any], seconds: float | None) -> None:
    """Give the browser of a login a device cookie, unless it has one. Waits for nothing.

    Args:
        seconds: how long the login is remembered. None: it is not.
    """
    state = session.state
    sessions, request_view = state.sessions, state.request_view
    assert state.user is not None
    policy = sessions.cookie
    if state.device is None:
        is_believed = request_view.is_secure or not policy.secure
        secret, _, _ = policy.device_in(request_view.cookie if is_believed else None)
        state.device = secret or sessions.new_token()
    state.set_extra("device", device_id(sessions, state.user, state.device))
    state.remembers = None
    if seconds is None:
        state.device_cookie = policy.give_device(state.device)
        return
    token = sessions.new_token()
    state.remembers = (token, seconds)
    state.device_cookie = policy.give_device(state.device, locator_of(book_key(state.user)), token)


def device_of(user: str, id: str, known: Known, **more: Any) -> Device:
    """Return the public form of a device."""
    return Device(
        id,
        user,
        known.browser,
        known.system,
        known.place,
        known.first,
        max(known.last, more.pop("last_seen", 0.0)),
        is_remembered=bool(known.expects),
        **more,
    )


async def enlist_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], record: Record, now: float
) -> None:
    """Record the device of a login that was just stored, or the new password after a re-authentication."""
    state = session.state
    user, extra = record.user, state.extra or {}
    id = extra.get("device")
    if user is None or not isinstance(id, str):
        return
    key = book_key(user)
    proof = extra.get("print", "")
    if state.device is None:
        # Re-authenticated: a remembered login continues with the new password.
        def with_print(book: Book) -> Book | None:
            known = book.devices.get(id)
            if known is None or not known.expects or known.print == proof:
                return None
            return book.having(id, msgspec.structs.replace(known, print=proof))

        await change_flow(sessions, store, key, with_print)
        return
    browser, system, place = _seen_as(sessions, session)
    was_known = was_first = False

    def with_device(book: Book) -> Book:
        nonlocal was_known, was_first
        before = book.devices.get(id)
        was_known, was_first = before is not None, not book.devices
        known = Known(
            browser=browser, system=system, place=place, first=before.first if before else now, last=now
        )
        if state.remembers is not None:
            token, seconds = state.remembers
            known = msgspec.structs.replace(
                known,
                expects=digest(token),
                changed=now,
                until=now + seconds,
                epoch=record.epoch,
                print=proof,
                label=record.label,
            )
        return Book(user, {**book.devices, id: known})

    book = await change_flow(sessions, store, key, with_device)
    assert book is not None
    if await is_revoked_flow(sessions, store, record):
        # The user was revoked, or erased, since the login was stored.
        await change_flow(sessions, store, key, lambda book: without_device(book, id))
    elif not was_known:
        sessions.emit("new_device", state.tag, user=user)
        device = device_of(user, id, book.devices[id], is_current=True, is_first=was_first)
        call_hook(sessions.on_new_device, device)


async def devices_flow(
    sessions: CheckedSettings[Any], store: Store, user: str, current: WebSession[Any] | None
) -> list[Device]:
    """Return a user's devices, the one used last first."""
    checked_text(user, "the user")
    check_devices(sessions)
    book = read_book(sessions, await store.get(book_key(user)))
    handles = await of_flow(sessions, store, user, current) if hasattr(store, "find") else []
    here = (current.state.extra or {}).get("device") if current is not None else None
    found = []
    for id, known in book.devices.items():
        own = tuple(each for each in handles if each.device == id)
        last = max((each.last_seen for each in own), default=0.0)
        is_remembered = known.expects != b"" and sessions.now() < known.until
        known = known if is_remembered else known.forgotten()
        found.append(device_of(user, id, known, last_seen=last, is_current=id == here, websessions=own))
    # A websession older than `devices=True`.
    for each in handles:
        if each.device not in book.devices:
            found.append(
                Device(
                    each.id,
                    user,
                    first_seen=each.created,
                    last_seen=each.last_seen,
                    is_current=each.is_current,
                    websessions=(each,),
                )
            )
    return sorted(found, key=lambda device: device.last_seen, reverse=True)


async def forget_flow(sessions: CheckedSettings[Any], store: Store, device: Device) -> int:
    """Log a device out and forget it; return how many websessions ended."""
    checked_text(device.user, "the device's user")
    check_devices(sessions)
    # Done first, so that the device cannot log in by itself at the same time.
    await change_flow(sessions, store, book_key(device.user), lambda book: without_device(book, device.id))
    if not hasattr(store, "find"):
        raise Unsupported(
            f"{type(store).__name__} cannot list a user's websessions: the device was forgotten, but what is open "
            "there lasts until its limits; revoke_user() with epochs= ends it"
        )
    return await end_device_flow(
        sessions, store, device.user, device.id, {each.id for each in device.websessions}
    )


async def end_device_flow(
    sessions: CheckedSettings[Any], store: Store, user: str, id: str, known: Collection[str] = ()
) -> int:
    """End the websessions of a device; return how many there were.

    Args:
        known: ids of websessions that belong to it as well.
    """
    ended = 0
    for record in await live_flow(sessions, store, user):
        if record.sid.hex() in known or extra_of(sessions, record).get("device") == id:
            ended += await end_flow(sessions, store, record, sessions.now()) is not None
            sessions.emit("revoked", record.sid.hex(), user=user)
    return ended


def check_devices(sessions: CheckedSettings[Any]) -> None:
    """Refuse a call that needs the list of devices if none is kept.

    Raises:
        Unsupported: `devices` is off.
    """
    if not sessions.has_devices:
        raise Unsupported(
            "devices are not kept; WebSessions(…, users=Users(devices=True)) keeps them from the next login on"
        )


def _seen_as(sessions: CheckedSettings[Any], session: WebSession[Any]) -> tuple[str, str, str]:
    signals = session.state.request_view.signals
    if signals is None:
        return "", "", ""
    browser, system = names_of(signals("user_agent") or "")
    place = ""
    address = signals("address")
    if sessions.place is not None and address:
        try:
            place = checked_text(sessions.place(address) or "?", "what place= returns")
        except Exception:
            log.exception("the function place= failed")
        place = "" if place == "?" else place
    return browser, system, place
