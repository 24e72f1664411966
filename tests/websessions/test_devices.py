"""A user's devices, in every store: listed, forgotten, reported as new; and a user's data, exported and erased."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from browser import Browser, Site
from store_names import STORES, sampled

from mangonel.websessions import Device, TooManySessions, Unsupported, UsageError, WebSessions
from mangonel.websessions.book import MOST_DEVICES
from mangonel.websessions.testing import FakeClock

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
SAFARI = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.4 Safari/605.1.15"
)
LISTING = tuple(name for name in STORES if name not in ("memcached", "directory"))


def on(store: Any, **settings: Any) -> WebSessions[Any]:
    return WebSessions(store, events=lambda event: None, devices=True, **settings)


def tags(devices: list[Device]) -> list[tuple[str, str, int, bool]]:
    return [(each.browser, each.system, len(each.websessions), each.is_current) for each in devices]


@pytest.mark.parametrize("name", sampled(STORES, "memory", "redis", "directory"))
async def test_a_device_is_listed_and_forgotten_with_what_is_open_on_it(
    name: str, store_url: Callable[[str], str]
) -> None:
    clock = FakeClock()
    clock.advance(0.25)
    sessions = on(store_url(name), clock=clock, place=lambda address: f"near {address}")
    await sessions.setup()
    home, work = Browser(sessions, agent=FIREFOX), Browser(sessions, agent=SAFARI, address="198.51.100.1")
    await home.login("ada")
    clock.advance(400)
    await work.login("ada", remember="30d")
    listed = await sessions.devices("ada", await home.begin())
    lists = name in LISTING
    assert tags(listed) == [
        ("Safari 17", "Mac OS X 10", int(lists), False),
        ("Firefox 128", "Linux", int(lists), True),
    ]
    safari, firefox = listed
    assert (safari.place, firefox.place) == ("near 198.51.100.1", "near 192.0.2.7")
    assert (safari.is_remembered, firefox.is_remembered) == (True, False)
    assert (firefox.first_seen, safari.first_seen) == (clock() - 400, clock())
    assert await sessions.devices("bob") == []
    if not lists:
        with pytest.raises(Unsupported, match="was forgotten"):
            await sessions.forget_device(safari)
    else:
        assert await sessions.forget_device(safari) == 1
        assert (await work.begin()).user is None
    assert tags(await sessions.devices("ada")) == [("Firefox 128", "Linux", int(lists), False)]
    assert (await home.begin()).user == "ada"
    # Another login on a known browser is not a new device.
    await home.logout()
    clock.advance(1)
    await home.login("ada")
    assert tags(await sessions.devices("ada")) == [("Firefox 128", "Linux", int(lists), False)]
    await sessions.aclose()


async def test_a_hook_is_told_of_a_new_device_once_and_whether_it_is_the_first() -> None:
    told: list[Device] = []

    async def mail(device: Device) -> None:
        await asyncio.sleep(0)
        told.append(device)

    site = Site(devices=True, on_new_device=mail)
    browser = site.browser(agent=FIREFOX)
    for _ in range(2):
        await browser.login("ada")
        await browser.logout()
    await site.browser(agent=SAFARI).login("ada")
    await browser.login("bob")
    await asyncio.sleep(0.01)
    assert [(each.user, each.browser, each.is_first) for each in told] == [
        ("ada", "Firefox 128", True),
        ("ada", "Safari 17", False),
        ("bob", "Firefox 128", True),
    ]
    assert len({each.id for each in told}) == 3  # that two users share a browser stays hidden
    assert site.events.kinds().count("new_device") == 3


async def test_what_hooks_raise_is_logged_and_no_login_fails(caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any) -> str:
        raise RuntimeError("no mail server")

    async def fails_later(device: Device) -> None:
        fails()

    for hook in (fails, fails_later):
        site = Site(devices=True, on_new_device=hook, place=fails)
        browser = site.browser()
        with caplog.at_level(logging.ERROR):
            await browser.login("ada")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert (await browser.begin()).user == "ada"
        assert "no mail server" in caplog.text
        caplog.clear()


async def test_two_logins_at_once_on_two_browsers_are_both_listed() -> None:
    site = Site(devices=True)
    await asyncio.gather(*(site.browser(agent=f"Firefox/{number}").login("ada") for number in range(20)))
    listed = await site.sessions.devices("ada")
    assert sum(len(each.websessions) for each in listed) == len(listed) == 20


async def test_a_list_has_an_end_and_the_devices_used_last_stay() -> None:
    site = Site(devices=True)
    for number in range(MOST_DEVICES + 2):
        site.clock.advance(1)
        await site.browser(agent=FIREFOX.replace("128", str(number))).login("ada")
    listed = [each for each in await site.sessions.devices("ada") if each.browser]
    assert len(listed) == MOST_DEVICES
    assert "Firefox 1" not in {each.browser for each in listed}


async def test_a_websession_from_before_devices_were_kept_is_listed_and_ended() -> None:
    site = Site()
    browser = site.browser(agent=FIREFOX)
    await browser.login("ada")
    newer = on(site.memory, clock=site.clock)
    (device,) = await newer.devices("ada", await browser.begin())
    assert (device.browser, device.is_current, len(device.websessions)) == ("", True, 1)
    assert await newer.forget_device(device) == 1
    assert (await browser.begin()).user is None


async def test_a_new_device_of_a_user_who_is_erased_beside_the_login_is_not_kept() -> None:
    site = Site(devices=True)
    browser = site.browser()
    session = await browser.begin()
    session.login("ada")
    put, memory = site.memory.put, site.memory

    async def slow(record: Any, expected: int) -> bool:
        if record.label == "devices" and not erased:
            erased.append(True)
            await site.sessions.erase("ada")
        return await put(record, expected)

    erased: list[bool] = []
    memory.put = slow  # type: ignore[method-assign]
    await browser.end(session)
    assert erased
    assert (await site.sessions.export("ada"))["devices"] == []
    assert (await browser.begin()).user is None


@pytest.mark.parametrize("name", sampled(LISTING, "memory", "sqlite"))
async def test_what_is_kept_of_a_user_is_exported_and_erased(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions = on(store_url(name), seal="k" * 32)
    await sessions.setup()
    ada, bob = Browser(sessions, agent=FIREFOX), Browser(sessions)
    for browser, user in ((ada, "ada"), (bob, "bob")):
        await browser.login(user, remember="30d", fingerprint="hash")
        session = await browser.begin()
        session["cart"] = ["tea", b"\x01", None]
        session.label = f"{user}'s"
        await browser.end(session)
    found = json.loads(json.dumps(await sessions.export("ada")))
    (websession,) = found["websessions"]
    assert websession["values"] == {"cart": ["tea", "AQ==", None]}
    assert websession["label"] == "ada's"
    assert [(each["browser"], each["is_remembered"]) for each in found["devices"]] == [("Firefox 128", True)]
    assert "hash" not in json.dumps(found)
    assert await sessions.erase("ada") == 1
    assert await sessions.asynchronous.store().find("ada") == []
    assert await sessions.export("ada") == {"user": "ada", "websessions": [], "devices": []}
    assert (await ada.begin()).user is None
    assert (await bob.begin())["cart"] == ["tea", b"\x01", None]
    assert await sessions.erase("ada") == 0
    await sessions.aclose()


async def test_an_export_without_the_key_says_so_in_place_of_leaving_out() -> None:
    site = Site(seal="k" * 32)
    await site.browser().login("ada")
    with pytest.raises(UsageError, match="the keys of seal="):
        await on(site.memory, clock=site.clock).export("ada")


def test_in_threads_it_is_the_same() -> None:
    from mangonel.websessions import RequestView
    from mangonel.websessions.stores.memory import BlockingMemoryStore

    told: list[Device] = []
    sessions = on(BlockingMemoryStore(), on_new_device=told.append)
    session = sessions.blocking.load(RequestView(signals={"user_agent": FIREFOX}.get))
    session.login("ada")
    sessions.blocking.commit(session)
    (device,) = sessions.blocking.devices("ada", session)
    assert (told[0].id, device.is_current) == (device.id, True)
    assert len(sessions.blocking.export("ada")["devices"]) == 1
    assert sessions.blocking.forget_device(device) == 1
    assert sessions.blocking.erase("ada") == 0


async def test_the_most_websessions_may_depend_on_the_user() -> None:
    limits: dict[str, Any] = {"root": 1, "ada": 2}
    site = Site(max_per_user=limits.get, over_limit="refuse")
    for user, most in (("root", 1), ("ada", 2), ("bob", 5)):
        for number in range(most + 1):
            if user != "bob" and number == most:
                with pytest.raises(TooManySessions, match=f"has {most} "):
                    await site.browser().login(user)
            else:
                await site.browser().login(user)
    limits["root"] = "many"
    with pytest.raises(UsageError, match="max_per_user to return a number above zero or None, got 'many'"):
        await site.browser().login("root")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"place": str}, "give devices=True as well"),
        ({"devices": True, "on_theft": "mail"}, "expected on_theft as a function, got str"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_the_start(settings: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WebSessions("memory:", **settings)
    with pytest.raises(UsageError, match="a cookie is no store"):
        WebSessions("cookie:", seal="k" * 32, devices=True)


async def test_without_devices_their_list_is_an_error_and_no_cookie_is_given() -> None:
    site = Site()
    browser = site.browser()
    await browser.login("ada")
    assert "device" not in str(browser.last_headers)
    with pytest.raises(Unsupported, match="devices=True"):
        await site.sessions.devices("ada")
