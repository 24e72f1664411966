"""Promises of the session object and the layer beyond the numbered requirements."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import pytest
from browser import Site
from prometheus_client import CollectorRegistry

from mangonel.websessions import Event, MemoryStore, RequestView, WebSessions
from mangonel.websessions.events import all_of, to_logging, to_opentelemetry, to_prometheus
from mangonel.websessions.machine import NOTHING, decide


@pytest.mark.parametrize("codec", ["msgpack", "json", "bson"])
async def test_nested_changes_are_noticed_and_equal_values_are_not_written(codec: str) -> None:
    site = Site(codec=codec)
    browser = site.browser()
    await browser.store(cart={"items": [{"sku": "a", "n": 1}]}, name="Ada", flag=True, ratio=0.5)
    session = await browser.begin()
    assert decide(session) == NOTHING
    session["name"] = "Ada"
    assert decide(session) == NOTHING
    session["cart"]["items"][0]["n"] = 2
    await browser.end(session)
    assert (await browser.read())["cart"] == {"items": [{"sku": "a", "n": 2}]}
    assert site.meter.by_name["put"] == 2


async def test_a_value_of_another_type_is_a_change() -> None:
    browser = Site().browser()
    await browser.store(n=1)
    session = await browser.begin()
    session["n"] = True
    assert decide(session) != NOTHING


async def test_merges_keep_what_either_request_did() -> None:
    site = Site(merge={"cart": lambda base, mine, theirs: sorted({*(mine or []), *(theirs or [])})})
    browser = site.browser()
    await browser.store(cart=["a"], both=0, removed=1, kept=1)
    one, other = await browser.begin(), await browser.begin()
    one["cart"].append("b")
    one["both"] = 1
    del one["removed"]
    one.flash("from one")
    other["cart"].append("c")
    other["both"] = 2
    other["new"] = True
    other.flash("from the other")
    await browser.end(one)
    await browser.end(other)
    session = await browser.begin()
    assert dict(session) == {"cart": ["a", "b", "c"], "both": 2, "kept": 1, "new": True}
    assert [flash.text for flash in session.flashes()] == ["from one", "from the other"]
    assert "conflict" in site.events.kinds()


async def test_a_message_is_read_once_although_two_pages_ask() -> None:
    browser = Site().browser()
    session = await browser.begin()
    session.flash("saved", "success")
    await browser.end(session)
    session = await browser.begin()
    (message,) = session.flashes()
    assert (message.kind, message.text) == ("success", "saved")
    writer = await browser.begin()
    writer["x"] = 1
    await browser.end(writer)
    await browser.end(session)
    session = await browser.begin()
    assert session.flashes() == []
    assert dict(session) == {"x": 1}


async def test_twenty_parallel_writers_lose_no_key() -> None:
    site = Site()
    browser = site.browser()
    await browser.store(n=0)
    site.memory.disturb(delay=0.001)

    # All requests have read before the first one writes.
    sessions = await asyncio.gather(*(browser.begin() for _ in range(20)))
    for number, session in enumerate(sessions):
        session[f"key{number}"] = number
    await asyncio.gather(*map(browser.end, sessions))
    site.memory.disturb()
    assert await browser.read() == {"n": 0, **{f"key{number}": number for number in range(20)}}


async def test_a_rotation_takes_along_what_a_parallel_request_wrote() -> None:
    browser = Site().browser()
    await browser.login("ada")
    rotating = await browser.begin()
    await browser.store(written=1)
    rotating["mine"] = 2
    rotating.rotate()
    await browser.end(rotating)
    assert await browser.read() == {"written": 1, "mine": 2}


async def test_a_farewell_message_outlives_the_logout_in_a_session_of_its_own() -> None:
    site = Site()
    browser = site.browser()
    await browser.login("ada")
    session = await browser.begin()
    session.destroy()
    session.flash("Goodbye")
    await browser.end(session)
    session = await browser.begin()
    assert session.user is None
    assert [flash.text for flash in session.flashes()] == ["Goodbye"]


async def test_save_and_reload_in_the_middle_of_a_long_job() -> None:
    site = Site()
    browser = site.browser()
    await browser.store(n=1)
    job = await browser.begin()
    job["progress"] = 50
    await job.save()
    assert await browser.read() == {"n": 1, "progress": 50}
    await browser.store(n=2)
    assert await job.reload() is True
    assert job["n"] == 2
    await browser.logout()
    assert await job.reload() is False
    assert dict(job) == {}


async def test_the_layer_notes_uses_only_now_and_then() -> None:
    site = Site(idle="30m", renew=None)
    browser = site.browser()
    await browser.store(n=1)
    for _ in range(30):
        site.clock.advance(60)
        await browser.read()
    # A tenth of the idle limit is three minutes.
    assert site.meter.by_name == {"put": 1, "get": 30, "touch": 10}


async def test_events_carry_what_metrics_want(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    heard: list[Event] = []
    counted: list[Any] = []

    class Meter:
        def create_counter(self, name: str) -> Any:
            return self

        def create_histogram(self, name: str, unit: str) -> Any:
            return self

        def add(self, amount: int, attributes: Any) -> None:
            counted.append(attributes["kind"])

        def record(self, seconds: float) -> None:
            counted.append(seconds)

    caplog.set_level(logging.INFO)
    site = Site(events=all_of(heard.append, to_logging(), to_prometheus(registry), to_opentelemetry(Meter())))
    browser = site.browser()
    await browser.store(n=1)
    await browser.store(n=2)
    saved = heard[-1]
    assert (saved.kind, saved.calls) == ("saved", 1)
    assert saved.bytes == len(b"\x81\xa1n\x02")
    assert saved.seconds > 0
    value = registry.get_sample_value("mangonel_websession_events_total", {"kind": "saved", "reason": ""})
    assert value == 1
    assert counted[0] == "created"
    assert saved.tag in caplog.text


async def test_a_listener_that_fails_harms_nobody() -> None:
    def fails(event: Event) -> None:
        raise RuntimeError("a metrics server is away")

    browser = Site(events=fails).browser()
    await browser.store(n=1)
    assert await browser.read() == {"n": 1}


def test_a_store_for_a_url_is_opened_once_for_each_loop() -> None:
    sessions: WebSessions[Any] = WebSessions("memory:loops")

    async def twice() -> tuple[Any, Any]:
        return sessions.asynchronous.store(), sessions.asynchronous.store()

    first, again = asyncio.run(twice())
    assert first is again
    other, _ = asyncio.run(twice())
    assert other is not first


def test_a_forked_child_opens_its_own_store() -> None:
    sessions: WebSessions[Any] = WebSessions("memory:forked")
    sessions.blocking.load(RequestView())
    before = sessions.blocking.store()
    child = os.fork()
    if not child:
        os._exit(0 if sessions.blocking.store() is not before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sessions.blocking.store() is before


async def test_the_memory_store_forgets_what_expired() -> None:
    site = Site(idle="1m", renew=None)
    for _ in range(50):
        await site.browser().store(n=1)
    site.clock.advance(61)
    for _ in range(50):
        await site.browser().store(n=1)
    assert len(site.memory.records) < 70
    assert await site.sessions.purge() == len(site.memory.records) - 50


async def test_an_engine_without_users_says_what_it_lacks() -> None:
    class Plain:
        def __init__(self, store: MemoryStore) -> None:
            self.get, self.put, self.touch, self.delete = store.get, store.put, store.touch, store.delete

    site = Site()
    plain: WebSessions[Any] = WebSessions(Plain(site.memory), clock=site.clock)
    with pytest.raises(ValueError, match="epochs="):
        await plain.revoke_user("ada")
    with_epochs = Site(store=Plain(site.memory), epochs=MemoryStore(site.clock), clock=site.clock)
    browser = with_epochs.browser()
    await browser.login("ada")
    site.clock.advance(1)
    await with_epochs.sessions.revoke_user("ada")
    assert (await browser.begin()).user is None
    assert with_epochs.events.kinds()[-1] == "rejected(revoked)"
