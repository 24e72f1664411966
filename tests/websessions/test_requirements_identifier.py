"""Requirements 1 to 13: the identifier, creation, fixation and rotation. Numbered as in the reference's section 3.

Sources: OWASP Session Management Cheat Sheet, NIST SP 800-63B-4, ASVS 5.0 V3.3 and V7.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from browser import Browser, Site
from hypothesis import given, settings
from hypothesis import strategies as st

from mangonel.websessions import RequestView, WebSessions, cookies
from mangonel.websessions.cookies import new_token
from mangonel.websessions.predecessors import Predecessor

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
ALPHABET = 64


def token_of(cookie: str | None) -> str:
    assert cookie is not None
    return cookie.partition("=")[2]


def test_ids_are_256_bits_from_the_systems_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requirement 1."""
    assert cookies.TOKEN_BYTES == 32
    random.seed(1)
    first = new_token()
    random.seed(1)
    assert new_token() != first
    monkeypatch.setattr(random, "random", lambda: 0.5)
    tokens = [new_token() for _ in range(100_000)]
    assert len(set(tokens)) == len(tokens)
    assert {len(token) for token in tokens} == {43}
    # The last symbol carries 4 bits only, so it is left out of the distribution.
    counts = Counter("".join(token[:42] for token in tokens))
    expected = 42 * len(tokens) / ALPHABET
    chi_square = sum((counts[symbol] - expected) ** 2 / expected for symbol in counts)
    # 63 degrees of freedom: a fair generator exceeds 200 once in 10^15 runs.
    assert len(counts) == ALPHABET
    assert chi_square < 200


async def test_ids_mean_nothing() -> None:
    """Requirement 2."""
    site = Site()
    browser = site.browser(address="203.0.113.99")
    await browser.login("alice@example.org")
    assert TOKEN.fullmatch(token_of(browser.cookie))
    text = repr(browser.last_headers)
    for secret in ("alice", "example.org", "203.0.113", str(int(site.clock.now)), "Tests/1"):
        assert secret not in text


async def test_the_cookies_name_tells_nothing_about_the_software() -> None:
    """Requirement 3."""
    browser = Site().browser()
    await browser.store(a=1)
    # Without the random id, which may spell any name.
    text = repr(browser.last_headers).replace(token_of(browser.cookie), "").lower()
    assert "__host-sid=" in text
    for name in ("mangonel", "tornado", "python", "flask", "starlette", "sessionid"):
        assert name not in text


async def test_stores_and_logs_hold_no_id(caplog: pytest.LogCaptureFixture) -> None:
    """Requirement 4."""
    caplog.set_level(logging.DEBUG)
    from mangonel.websessions.events import all_of, to_logging
    from mangonel.websessions.testing import RecordingEvents

    site = Site(events=all_of(RecordingEvents(), to_logging()), renew="1m")
    browser = site.browser()
    issued = set()
    await browser.store(secret="the data")
    issued.add(token_of(browser.cookie))
    await browser.login("alice")
    issued.add(token_of(browser.cookie))
    site.clock.advance(61)
    session = await browser.begin()
    shown = repr(session) + str(session) + f"{session}"
    await browser.end(session)
    issued.add(token_of(browser.cookie))
    await browser.read("__Host-sid=" + new_token())
    await browser.logout()
    assert len(issued) == 3
    assert len(caplog.records) > 4
    for token in issued:
        assert token.encode() not in site.stored
        assert token not in caplog.text
        assert token not in shown
    assert "the data" not in shown


JUNK = st.one_of(
    st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")),
    st.text(max_size=200),
    st.sampled_from(
        ["\0" * 50, "../" * 20, "' or 1=1 --", "A" * 42, "A" * 44, "é" * 43, "A" * 42 + "\n", ";;=;=="]
    ),
    st.integers(40_000, 1_000_000).map(lambda size: "A" * size),
)


@settings(deadline=None)
@given(st.lists(JUNK, min_size=1, max_size=4))
def test_ids_are_untrusted_input(values: list[str]) -> None:
    """Requirement 5."""

    async def visit() -> None:
        site = Site()
        browser = site.browser()
        session = await browser.begin("; ".join(f"__Host-sid={value}" for value in values))
        assert (session.new, dict(session)) == (True, {})
        assert await browser.end(session) == [("Vary", "Cookie")]
        assert site.meter.calls == 0

    if not any(
        TOKEN.fullmatch(part.strip().strip('"')) for value in values for part in re.split("[;=]", value)
    ):
        asyncio.run(visit())


async def test_only_cookies_are_accepted() -> None:
    """Requirement 6."""
    tornado = pytest.importorskip("tornado.web")
    from tornado.httpclient import AsyncHTTPClient
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    from mangonel.websessions.frameworks.tornado import SessionMixin

    site = Site(secure=False)

    class Show(SessionMixin, tornado.RequestHandler):
        def get(self, path: str = "") -> None:
            self.write(repr(dict(self.session)))

        post = get

    browser = site.browser()
    await browser.store(mine=1)
    token = token_of(browser.cookie)
    socket, port = bind_unused_port()
    server = HTTPServer(tornado.Application([("/(.*)", Show)], sessions=site.sessions))
    server.add_socket(socket)
    client = AsyncHTTPClient(force_instance=True)
    base = f"http://127.0.0.1:{port}"
    try:
        anonymous = [
            await client.fetch(f"{base}/?sid={token}&__Host-sid={token}"),
            await client.fetch(f"{base}/{token};sid={token}"),
            await client.fetch(base, method="POST", body=f"sid={token}"),
            await client.fetch(
                base, headers={"X-Session": token, "sid": token, "Authorization": f"Bearer {token}"}
            ),
        ]
        known = await client.fetch(base, headers={"Cookie": browser.cookie or ""})
    finally:
        client.close()
        server.stop()
        await server.close_all_connections()
    assert [answer.body for answer in anonymous] == [b"{}"] * 4
    assert known.body == b"{'mine': 1}"


async def test_the_first_valid_of_two_cookies_wins() -> None:
    """Requirement 7."""
    site = Site()
    one, other = site.browser(), site.browser()
    await one.store(who="one")
    await other.store(who="other")
    assert one.cookie is not None
    assert other.cookie is not None
    junk, unknown = "__Host-sid=junk", f"__Host-sid={new_token()}"
    for header, who in (
        (f"{one.cookie}; {other.cookie}", "one"),
        (f"{other.cookie}; {one.cookie}", "other"),
        (f"{junk}; {other.cookie}", "other"),
        (f"{unknown}; {one.cookie}", "one"),
        (f"{one.cookie}; {junk}", "one"),
    ):
        assert (await one.read(header))["who"] == who, header


# White space of Unicode, as frameworks decode it: aiohttp as UTF-8, the others as Latin-1.
SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2028\u3000"


@pytest.mark.parametrize("space", SPACES, ids=ascii)
async def test_a_name_that_a_subdomain_may_set_is_another_cookie(space: str) -> None:
    """Requirement 8: browsers recognise no prefix in a name that begins with such a character."""
    site = Site(devices=True)
    thief = site.browser()
    await thief.login("mallory", remember="30d")
    assert thief.cookie is not None
    planted = [f"{space}{part}" for part in thief.cookie.split("; ")]
    assert len(planted) == 2
    for header in (*planted, "; ".join(planted), f"a=1;{planted[0]}", f"a=1; {space}; {planted[0]}"):
        session = await site.sessions.asynchronous.load(RequestView(header))
        assert session.user is None
    policy = site.sessions.cookie
    secret = policy.give_csrf("x" * 22).partition(";")[0]
    assert policy.csrf_secret(secret) == "x" * 22
    assert policy.csrf_secret(space + secret) is None
    old = Predecessor(until=datetime(2030, 1, 1, tzinfo=UTC), cookie="__Host-old")
    assert old.value_in("a=1; __Host-old=x") == "x"
    assert old.value_in(f"{space}__Host-old=x") is None


async def test_an_unknown_id_is_never_adopted() -> None:
    """Requirement 8."""
    site = Site()
    browser = site.browser()
    chosen = new_token()
    browser.cookie = f"__Host-sid={chosen}"
    session = await browser.begin()
    session["victim"] = True
    await browser.end(session)
    assert token_of(browser.cookie) != chosen
    assert site.sessions.cookie.key_of(chosen) not in site.memory.records
    site.events.assert_story("rejected(unknown)", "created")


@pytest.mark.parametrize("change", ["login", "reauthenticated", "rotate"])
async def test_a_change_of_privilege_takes_a_new_id_and_ends_the_old(change: str) -> None:
    """Requirement 9 and 10."""
    site = Site()
    browser = site.browser()
    if change != "login":
        await browser.login("alice")
    await browser.store(cart=[1])
    before = browser.cookie
    session = await browser.begin()
    if change == "login":
        session.login("alice", keep=("cart",))
    else:
        getattr(session, change)()
    await browser.end(session)
    assert browser.cookie != before
    assert (await browser.read())["cart"] == [1]
    assert await browser.read(before) == {}
    old = site.memory.records.get(site.sessions.cookie.key_of(token_of(before)))
    assert old is None or (old.data == b"" and old.user is None and not old.is_live)
    assert site.events.kinds()[-1] == "rejected(ended)"


async def test_data_from_before_the_login_stays_outside() -> None:
    """Requirement 11."""
    site = Site()
    browser = site.browser()
    await browser.store(cart=[1], planted="by an attacker")
    session = await browser.begin()
    session.flash("planted as well")
    await browser.end(session)
    await browser.login("alice", keep=("cart",))
    session = await browser.begin()
    assert dict(session) == {"cart": [1]}
    assert session.flashes() == []
    assert session.user == "alice"


async def test_renewal_is_won_by_one_and_the_old_id_dies_when_the_new_is_used() -> None:
    """Requirement 12."""
    site = Site(renew="15m", grace="30s")
    browser = site.browser()
    await browser.store(n=1)
    old = browser.cookie
    site.clock.advance(15 * 60)
    sessions = await asyncio.gather(*(browser.begin() for _ in range(5)))
    assert [dict(session) for session in sessions] == [{"n": 1}] * 5
    headers = [await browser.end(session, is_lost=True) for session in sessions]
    given = [value for answer in headers for name, value in answer if name == "Set-Cookie"]
    assert len(given) == 1
    new = given[0].partition(";")[0]
    assert new != old
    # The response may have been lost, so the old id stays valid for a while,
    assert await browser.read(old) == {"n": 1}
    site.clock.advance(29)
    assert await browser.read(old) == {"n": 1}
    # until the new one is seen.
    assert await browser.read(new) == {"n": 1}
    assert await browser.read(old) == {}
    assert await browser.read(new) == {"n": 1}


async def test_the_old_id_is_good_until_the_new_one_was_seen_and_for_the_idle_limit_at_most() -> None:
    """Requirement 12."""
    for waits, is_there in ((20 * 60, True), (31 * 60, False)):
        site = Site(renew="15m", grace="30s", idle="30m", absolute="12h")
        browser = site.browser()
        await browser.store(n=1)
        old = browser.cookie
        site.clock.advance(15 * 60)
        await browser.end(await browser.begin(), is_lost=True)
        assert browser.cookie == old
        site.clock.advance(waits)
        assert await browser.read() == ({"n": 1} if is_there else {})
        # The response must have been lost, so the browser gets another new id, and using that one ends every older id.
        assert (browser.cookie != old) is is_there


async def test_a_slow_writer_loses_nothing_to_a_renewal() -> None:
    """Requirement 12."""
    site = Site(renew="15m")
    browser = site.browser()
    await browser.store(n=1)
    slow = await browser.begin()
    site.clock.advance(15 * 60)
    await browser.read()
    assert await browser.read() == {"n": 1}
    slow["upload"] = "done"
    assert await browser.end(slow, is_lost=True) == []
    assert await browser.read() == {"n": 1, "upload": "done"}


async def test_the_id_of_a_login_is_made_in_answer_to_it() -> None:
    """Requirement 13."""
    site = Site()
    browser = site.browser()
    made: list[str] = []
    original = WebSessions.new_token

    def spied(self: Any) -> str:
        made.append(original(self))
        return made[-1]

    WebSessions.new_token = spied  # type: ignore[method-assign]
    try:
        session = await browser.begin()
        assert made == []
        session.login("alice")
        await browser.end(session)
    finally:
        WebSessions.new_token = original  # type: ignore[method-assign]
    assert made == [token_of(browser.cookie)]


def test_a_visit_without_a_cookie_asks_no_store() -> None:
    site = Site()
    browser: Browser = site.browser()

    async def visit() -> None:
        session = await site.sessions.asynchronous.load(RequestView(None))
        session.get("nothing")
        await browser.end(session)

    asyncio.run(visit())
    assert site.meter.calls == 0
