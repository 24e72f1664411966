"""Keys: shared by all workers, changed in any order, good for one cookie only; and the binding of a seal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import applications
import msgspec
import pytest
from applications import FRAMEWORKS, served
from browser import Browser, Site

from mangonel.websessions import Keys, MemoryStore, UsageError, WebSessions, new_key

frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)
OLD, NEW = "o" * 32, "n" * 32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bind": ("user_agent",)}, "bind= needs a secret that all workers share: bind_secret="),
        (
            {"bind": "user_agent", "sign": "s"},
            r"expected bind as names of signals, as bind=\('user_agent',\)",
        ),
        ({"sign": ""}, "expected sign with keys that are not empty"),
        ({"sign": b""}, "expected sign with keys that are not empty"),
        ({"sign": Keys(current="new", previous=[""])}, "expected sign with keys that are not empty"),
        ({"bind": ("network",), "bind_secret": ""}, "expected bind_secret with keys that are not empty"),
        ({"seal": [new_key()]}, r"expected seal as a key or Keys\(current=…, previous=\[…\]\), got list"),
        ({"sign": Keys(current="new", previous="old")}, "with a list of previous keys, got one key"),
    ],
)
def test_keys_that_cannot_be_meant_are_refused_at_the_start(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WebSessions("memory:", **settings)


@pytest.mark.parametrize("kind", ["seal", "sign", "bind_secret"])
async def test_workers_in_every_step_of_a_key_s_change_open_each_other_s_websessions(kind: str) -> None:
    old, new = new_key(), new_key()
    steps = [
        old,
        Keys(current=old, previous=[new]),
        Keys(current=new, previous=[old]),
        Keys(current=new, previous=[new_key(), old]),
    ]
    site = Site()

    def worker(keys: Any) -> Site:
        bind = ("user_agent",)
        return Site(
            store=site.meter, clock=site.clock, bind=bind, on_mismatch="destroy",
            **{"bind_secret": "shared", kind: keys},
        )  # fmt: skip

    for before, after in ((0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)):
        browser = Browser(worker(steps[before]).sessions)
        await browser.login("ada")
        for _ in range(2):
            other = worker(steps[after])
            browser.sessions = other.sessions
            assert (await browser.begin()).user == "ada", (before, after, other.events.kinds())
            await browser.store(n=1)
            browser.sessions = worker(steps[before]).sessions
            assert (await browser.begin()).user == "ada"


FORGERIES: dict[str, Callable[[Any, Any], Any]] = {
    "user": lambda mine, theirs: {"user": "root"},
    "created": lambda mine, theirs: {"created": mine.created + 1},
    "expires": lambda mine, theirs: {"expires": mine.expires + 1},
    "deadline": lambda mine, theirs: {"deadline": mine.deadline + 1},
    "issued": lambda mine, theirs: {"issued": mine.issued + 1},
    "label": lambda mine, theirs: {"label": "mine"},
    "version": lambda mine, theirs: {"version": mine.version + 1},
    "data": lambda mine, theirs: {"data": theirs.data},
    "a trail to another's": lambda mine, theirs: {"next": theirs.key, "data": b""},
    "a whole record of another's": lambda mine, theirs: msgspec.structs.asdict(theirs) | {"key": mine.key},
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_who_can_write_the_store_but_has_no_key_can_change_nothing(forgery: str) -> None:
    site = Site(seal=new_key())
    victim, thief = site.browser(), site.browser()
    await victim.login("root")
    await thief.login("mallory")
    (theirs,) = (record for record in site.live() if record.user == "root")
    (mine,) = (record for record in site.live() if record.user == "mallory")
    changed = msgspec.structs.replace(mine, **FORGERIES[forgery](mine, theirs))
    site.memory.records[mine.key] = changed
    session = await thief.begin()
    assert (session.user, dict(session)) == (None, {})
    assert site.events.kinds()[-1] == "rejected(sealed)"
    assert (await victim.begin()).user == "root"


@pytest.mark.parametrize(
    ("url", "settings"),
    [(None, {}), (None, {"sign": "secret"}), ("cookie:", {"seal": new_key()})],
    ids=["plain", "signed", "in the cookie"],
)
async def test_a_cookie_s_value_opens_nothing_under_another_name(url: Any, settings: dict[str, Any]) -> None:
    store = url or MemoryStore()
    shop, admin = Site(store=store, cookie="shop", secure=False, **settings), None
    admin = Site(store=store, cookie="admin", secure=False, **settings)
    browser = shop.browser()
    await browser.login("ada")
    assert (await browser.begin()).user == "ada"
    other = admin.browser()
    other.cookie = f"admin={(browser.cookie or '').partition('=')[2]}"
    assert (await other.begin()).user is None


@frameworks
def test_workers_with_different_keys_serve_each_other_s_visitors_in_every_framework(framework: str) -> None:
    store = MemoryStore()

    def worker(keys: Keys) -> WebSessions[Any]:
        return WebSessions(store, seal=keys, sign=keys, events=lambda event: None)

    old, new = worker(Keys(current=OLD, previous=[NEW])), worker(Keys(current=NEW, previous=[OLD]))
    with served(framework, old) as first, served(framework, new) as second:
        cookie = first("do=login,write&k=a&v=1").cookie
        cookie = second("do=write&k=b&v=2", cookie).cookie
        found = first("", cookie).found
        assert (found["user"], found["values"]) == ("ada", {"a": "1", "b": "2"})
        # A process that knows neither key refuses the cookie.
        with served(framework, worker(Keys(current="x" * 32))) as stranger:
            assert stranger("", cookie).found["user"] is None


def bound_to_the_network() -> WebSessions[Any]:
    """Return websessions that end with a cookie from another network, behind a proxy of ours."""
    return WebSessions(
        MemoryStore(),
        bind=("network",),
        bind_secret="shared",
        on_mismatch={"network": "destroy"},
        trust_forwarded=True,
        events=lambda event: None,
    )


@frameworks
def test_the_address_that_counts_is_the_one_that_our_own_proxy_adds(framework: str) -> None:
    mine = "203.0.113.5"
    with served(framework, bound_to_the_network()) as send:
        for forged, other in (("10.0.0.1", "198.51.100.7"), (mine, "198.51.100.7")):
            # Some proxies add a header line of their own, others extend the visitor's.
            for lines in (lambda *each: list(each), lambda *each: [", ".join(each)]):
                cookie = send("do=login", forwarded_for=lines(forged, mine)).cookie
                assert send("", cookie, forwarded_for=lines("10.9.9.9", mine)).found["user"] == "ada"
                assert send("", cookie, forwarded_for=lines(forged, other)).found["user"] is None


@frameworks
def test_a_port_that_a_proxy_adds_to_the_address_does_not_count(framework: str) -> None:
    with served(framework, bound_to_the_network()) as send:
        for mine, again, other in (
            ("203.0.113.5:4711", "203.0.113.5:4712", "198.51.100.7:4711"),
            ("[2001:db8::1]:4711", "2001:db8::1", "[2001:db8:1::1]:4711"),
        ):
            cookie = send("do=login", forwarded_for=[mine]).cookie
            assert send("", cookie, forwarded_for=[again]).found["user"] == "ada"
            assert send("", cookie, forwarded_for=[other]).found["user"] is None


async def as_it_came(request: Any, handler: Any) -> Any:
    """A middleware of aiohttp that does nothing."""
    return await handler(request)


as_it_came.__middleware_version__ = 1  # type: ignore[attr-defined]


@frameworks
@pytest.mark.parametrize(
    ("protocols", "is_secure"),
    [(["https, https"], True), (["http,HTTPS"], True), (["https, http"], False), (["https", "http"], False)],
)
def test_the_protocol_that_counts_is_the_one_that_our_own_proxy_adds(
    framework: str, protocols: list[str], is_secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "HOST", "http://shop.example")
    monkeypatch.setattr(applications, "behind_tls", as_it_came)
    monkeypatch.setitem(
        applications.LISTENING, "tornado", partial(applications.listening, protocol=None, xheaders=False)
    )
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), trust_forwarded=True, events=lambda event: None)
    with served(framework, sessions) as send:
        assert bool(send("do=login", forwarded_proto=protocols).set_cookies) == is_secure


@frameworks
def test_a_websession_that_is_bound_to_a_browser_opens_in_no_other_in_any_framework(framework: str) -> None:
    sessions: WebSessions[Any] = WebSessions(
        MemoryStore(),
        bind=("user_agent",),
        bind_secret="shared",
        on_mismatch="destroy",
        events=lambda event: None,
    )
    mine, other = {"User-Agent": "Firefox/1"}, {"User-Agent": "Chrome/1"}
    with served(framework, sessions) as send:
        cookie = send("do=login", **mine).cookie
        assert send("", cookie, **mine).found["user"] == "ada"
        assert send("", cookie, **other).found["user"] is None
        assert send("", cookie, **mine).found["user"] is None, "a copied cookie ends what it was copied from"
