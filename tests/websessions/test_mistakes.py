"""Wrong settings are refused at the start where possible, and the message names the right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from starlette.applications import Starlette

import mangonel
from mangonel.websessions import Cookie, Lifetime, MemoryStore, RequestView, Users, WebSessions
from mangonel.websessions.errors import StoreError, UsageError
from mangonel.websessions.frameworks import aiohttp as on_aiohttp
from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware
from mangonel.websessions.frameworks.wsgi import WSGISessions
from mangonel.websessions.stores.mongodb import MongoStore
from mangonel.websessions.stores.urls import open_blocking, open_store


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: WebSessions("mongdb://host/app"),
            "expected a store's URL with one of the schemes .* got 'mongdb:",
        ),
        (lambda: WebSessions("memory:", epochs="app"), "expected a store's URL .* got 'app'"),
        (
            lambda: WebSessions("sqlite:///app.db", epochs="memory:"),
            "got memory:, which ends with its process.*as mongodb://localhost/app",
        ),
        (
            lambda: WebSessions("memory:", users=Users(epochs="memcached://localhost")),
            "got memcached:, which forgets revocations",
        ),
        (lambda: WebSessions("cookie:", epochs="cookie:"), "got cookie:, which stores nothing"),
        (lambda: WebSessions("memory:", max_bytes=-1), "expected max_bytes .* above zero, as 65_536, got -1"),
        (lambda: WebSessions("memory:", max_bytes=0), "got 0"),
        (lambda: WebSessions("memory:", max_bytes=True), "got True"),
        (
            lambda: WebSessions("memory:", clear_site_data='"cache"\r\nSet-Cookie: a=b'),
            "expected clear_site_data as one line of printable ASCII",
        ),
        (
            lambda: WebSessions("memory:", clear_site_data="cache"),
            "expected clear_site_data .* as '\"cache\", \"storage\"', got 'cache'",
        ),
        (
            lambda: WebSessions("memory:", cookie=Cookie(cache_control="private\nX: y")),
            "expected cache_control as one line",
        ),
        (
            lambda: WebSessions("memory:", secure="no"),
            "expected secure to be True or False, got 'no'",
        ),
        (
            lambda: WebSessions("memory:", events="log"),  # type: ignore[arg-type]
            "expected events as a function, got str",
        ),
        (
            lambda: WebSessions("memory:", users=Users(devices=True, on_theft="mail")),  # type: ignore[arg-type]
            "expected on_theft as a function, got str",
        ),
        (
            lambda: WebSessions("memory:", max_per_user="10"),
            "expected max_per_user as a number above zero, got '10'",
        ),
        (lambda: WebSessions(None), "expected a store's URL or a store, got NoneType"),
        (
            lambda: WebSessions("memory:", idel="1h"),
            r"no setting 'idel'; the groups are lifetime=Lifetime\(…\), cookie=Cookie\(…\)",
        ),
        (
            lambda: WebSessions("memory:", lifetime=Lifetime(), idle="1h"),
            r"give idle inside lifetime=Lifetime\(…\)",
        ),
        (
            lambda: WebSessions("memory:", users=Cookie()),  # type: ignore[arg-type]
            r"expected users=Users\(…\), got Cookie",
        ),
        (
            lambda: WebSessions("memory:", seal="abc"),
            r"32 bytes, got 2; mangonel\.websessions\.new_key\(\) makes one",
        ),
        (
            lambda: SessionMiddleware(Starlette(), "memory:"),  # type: ignore[arg-type]
            "sessions=WebSessions.* got str; a store's URL goes into WebSessions",
        ),
        (lambda: WSGISessions(lambda environ, start: [], "memory:"), "sessions=WebSessions.* got str"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused_at_the_start(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


async def test_a_client_s_parts_are_refused_with_what_to_write_instead() -> None:
    client: Any = mangonel.AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)
    for part in (client, client.app):
        with pytest.raises(
            UsageError, match=r"got Async.*; of a client .* MongoStore\(client\.app\.websessions\)"
        ):
            WebSessions(part)
    with pytest.raises(UsageError, match=r"got AsyncCollection; a collection goes into MongoStore"):
        WebSessions(client.app.websessions)
    WebSessions(MongoStore(client.app.websessions))
    WebSessions(MemoryStore())
    await client.close()


@pytest.mark.parametrize("opened", [open_store, open_blocking])
def test_an_option_that_nobody_knows_is_an_error_of_mongodbs_url_too(opened: Callable[[str], Any]) -> None:
    with pytest.raises(UsageError, match=r"bogus.*stores\.md"):
        opened("mongodb://127.0.0.1:1/app?bogus=1")


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        ("/health", r"expected exclude as a list of paths, got '/health'; write \['/health'\]"),
        (["/health", "static/"], "expected exclude as paths that begin with \"/\", got 'static/'"),
    ],
)
@pytest.mark.parametrize(
    "set_up",
    [
        lambda exclude: SessionMiddleware(Starlette(), WebSessions("memory:"), exclude=exclude),
        lambda exclude: CSRFMiddleware(Starlette(), exclude=exclude),
        lambda exclude: on_aiohttp.setup(web.Application(), WebSessions("memory:"), exclude=exclude),
    ],
    ids=["asgi", "csrf", "aiohttp"],
)
def test_a_text_in_place_of_paths_does_not_leave_out_every_path(
    set_up: Callable[[Any], Any], exclude: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        set_up(exclude)


async def test_a_database_file_in_no_folder_is_named_with_its_whole_path() -> None:
    sessions: WebSessions[Any] = WebSessions("sqlite:///no/folder/app.db", events=lambda event: None)
    message = (
        r"cannot open /.*/no/folder/app\.db: there is no folder /.*/no/folder; sqlite:///app\.db is below"
    )
    with pytest.raises(StoreError, match=message):
        await sessions.asynchronous.load(RequestView("__Host-sid=" + "A" * 43))
    with pytest.raises(StoreError, match=message):
        sessions.blocking.load(RequestView("__Host-sid=" + "A" * 43))


def test_a_setting_means_the_same_alone_and_in_its_group() -> None:
    alone: WebSessions[Any] = WebSessions("memory:", idle="1h", cookie="shop", secure=False, max_per_user=2)
    groups: WebSessions[Any] = WebSessions(
        "memory:",
        lifetime=Lifetime(idle="1h"),
        cookie=Cookie(name="shop", secure=False),
        users=Users(max_per_user=2),
    )
    for each in (alone, groups):
        assert (each.idle, each.cookie.name, each.cookie.secure, each.max_per_user) == (
            3600,
            "shop",
            False,
            2,
        )
