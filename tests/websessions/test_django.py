"""Django's additions: its own names of a session, logins, test client, the admin in a browser, `contrib.django`."""

# ruff: noqa: E402, Django's models are imported after its settings

from __future__ import annotations

import asyncio
import datetime
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django_site
import httpx
import pytest
from applications import HOST
from asgiref.sync import sync_to_async
from browser import after

from mangonel.server import Server
from mangonel.websessions import MemoryStore, StoreError, UsageError, WebSessions
from tools.browser import TIMEOUT_MS

django_site.configure()

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from mangonel.websessions.frameworks.django import SessionMiddleware, SessionStore, websessions

HERE = Path(__file__).parent


def sessions_with(**settings: Any) -> WebSessions[Any]:
    return WebSessions(MemoryStore(), events=lambda event: None, **settings)


class Shop:
    """A Django application of one view, and a browser's jar."""

    def __init__(self, view: Any, **keywords: Any) -> None:
        self.sessions = sessions_with(**keywords)
        self.app = django_site.handler(self.sessions, view)
        self.cookie: str | None = None

    def get(self, query: str = "") -> httpx.Response:
        with httpx.Client(transport=httpx.WSGITransport(self.app), base_url=HOST) as client:
            answer = client.get(f"/?{query}", headers={"Cookie": self.cookie} if self.cookie else {})
        self.cookie = after(self.cookie, answer.headers.get_list("set-cookie"))
        return answer

    def live(self) -> list[str]:
        return [handle.user for handle in self.sessions.blocking.of("7")]


ADA = User(pk=7, username="ada", password="hash one")
BOB = User(pk=8, username="bob", password="hash two")


def enter(request: HttpRequest) -> HttpResponse:
    """Run the query's steps."""
    request.user = AnonymousUser()
    session: Any = request.session
    for what in request.GET.getlist("do"):
        if what == "ada":
            auth.login(request, ADA, "django.contrib.auth.backends.ModelBackend")
        elif what == "bob":
            auth.login(request, BOB, "django.contrib.auth.backends.ModelBackend")
        elif what == "out":
            auth.logout(request)
        elif what == "password":
            auth.update_session_auth_hash(request, ADA)
        elif what == "cart":
            session["cart"] = ["tea"]
        elif what == "forget":
            del session["_auth_user_id"]
        elif what == "short":
            session.set_expiry(60)
        elif what == "fail":
            raise RuntimeError("the view fails")
    return HttpResponse(f"{session.user} {session.get('cart')}")


def test_a_login_of_djangos_is_one_of_the_websession() -> None:
    shop = Shop(enter)
    assert shop.get("do=cart").text == "None ['tea']"
    anonymous = shop.cookie
    shop.get("do=ada&do=short")
    assert shop.get().text == "7 ['tea']"
    assert shop.live() == ["7"]
    ada, shop.cookie = shop.cookie, anonymous
    assert shop.get().text == "None None"
    shop.cookie = ada
    shop.get("do=password")
    assert shop.cookie != ada
    assert shop.get().text == "7 ['tea']"
    # Another user gets none of the first one's values.
    shop.get("do=bob")
    assert shop.get().text == "8 None"
    assert shop.live() == []
    shop.get("do=out")
    assert shop.cookie is None
    assert shop.sessions.blocking.of("8") == []


def test_a_revoked_user_is_out_and_a_login_that_fails_is_none() -> None:
    shop = Shop(enter)
    shop.get("do=ada")
    shop.sessions.blocking.revoke_user("7")
    assert shop.get().text == "None None"
    shop.get("do=cart")
    assert shop.get("do=ada&do=fail").status_code == 500
    assert shop.get().text == "None ['tea']"
    shop.get("do=ada")
    # Removing Django's key logs the user out, too.
    shop.get("do=forget")
    assert shop.get().text == "None ['tea']"
    assert shop.live() == []


def test_djangos_names_of_a_sessions_end() -> None:
    shop = Shop(enter, idle="30m", absolute="12h")
    kept: list[Any] = []

    def view(request: HttpRequest) -> HttpResponse:
        session = request.session
        kept.append(session)
        session["n"] = 1
        if "login" in request.GET:
            request.user = AnonymousUser()
            auth.login(request, ADA, "django.contrib.auth.backends.ModelBackend")
        seconds: Any = request.GET.get("seconds")
        if seconds is not None:
            session.set_expiry(int(seconds) if seconds else None)
        return HttpResponse(f"{session.get_expiry_age()} {session.get_expire_at_browser_close()}")

    shop.app = django_site.handler(shop.sessions, view)
    assert shop.get().text == "1800 True"
    assert shop.get("seconds=60").text == "60 True"
    assert shop.get("seconds=").text == "1800 True"
    assert shop.get("seconds=0").text == "1800 True"
    # Longer than a login's absolute limit.
    assert shop.get("seconds=86400").status_code == 500
    answer = shop.get("login=1&seconds=86400")
    assert answer.text == "86400 False"
    assert "Max-Age=86400" in answer.headers["set-cookie"]
    with pytest.raises(UsageError, match="after the answer"):
        kept[-1].set_expiry(5)
    with pytest.raises(UsageError, match="after the answer"):
        kept[-1].modified = True
    for value in (datetime.timedelta(days=1), datetime.datetime.now(datetime.UTC)):
        with pytest.raises(UsageError, match=r"expected set_expiry\(\) with seconds"):
            SessionStore().set_expiry(value)
    for wrong in ("60", float("nan"), [], b""):
        session = SessionStore()
        with pytest.raises(UsageError, match=rf"expected set_expiry\(\) .* got {re.escape(repr(wrong))}"):
            session.set_expiry(wrong)
        assert session.get_expiry_age() == 1800


def test_a_session_outside_of_a_request_is_read_stored_and_ended_by_its_key() -> None:
    shop = Shop(enter)
    assert shop.cookie is None
    store = SessionStore()
    assert (store.session_key, store.is_empty()) == (None, True)
    store.save()
    assert store.session_key is not None
    first = store.session_key
    store["cart"] = ["tea"]
    store.save()
    assert store.session_key == first
    assert SessionStore(first).load() == {"cart": ["tea"]}
    assert store.exists(first)
    shop.cookie = f"__Host-sid={first}"
    assert shop.get().text == "None ['tea']"
    store.cycle_key()
    assert store.session_key not in (None, first)
    assert not store.exists(first)
    assert SessionStore(store.session_key).load() == {"cart": ["tea"]}
    SessionStore().delete(store.session_key)
    assert not store.exists(store.session_key or "")
    assert not SessionStore().exists("x" * 43)
    junk = SessionStore("junk")
    assert (junk.load(), junk.session_key) == ({}, None)
    call_command("clearsessions")


def test_djangos_asynchronous_names_do_the_same() -> None:
    Shop(enter)

    async def play() -> None:
        store = SessionStore()
        await store.aset("n", 1)
        await store.asave()
        key = store.session_key
        assert key is not None
        assert await SessionStore().aexists(key)
        other = SessionStore(key)
        assert await other.aget("n") == 1
        await other.aset_expiry(60)
        assert await other.aget_expiry_age() == 60
        await other.acycle_key()
        assert await other.aload() == {"n": 1}
        assert not await store.aexists(key)
        await other.aflush()
        assert await SessionStore(other.session_key).aload() == {}
        await SessionStore.aclear_expired()

    asyncio.run(play())


def test_djangos_test_client_logs_in_and_reads_the_session() -> None:
    sessions = sessions_with(secure=False)
    django_site.handler(sessions, enter)
    with override_settings(ROOT_URLCONF=django_site.urls(path("", enter))):
        call_command("migrate", verbosity=0)
        user = User.objects.create_user("eve")
        client = Client()
        client.force_login(user)
        assert client.get("/").content == f"{user.pk} None".encode()
        session = client.session
        session["cart"] = ["tea"]
        session.save()
        assert client.get("/").content == f"{user.pk} ['tea']".encode()
        client.get("/?do=out")
        assert "_auth_user_id" not in client.session
        client.force_login(user)
        client.logout()
        assert sessions.blocking.of(str(user.pk)) == []


def test_a_new_session_has_a_key_once_it_is_saved_in_a_view() -> None:
    keys: list[Any] = []

    def view(request: HttpRequest) -> HttpResponse:
        if not request.session.session_key:
            request.session.create()
        keys.append(request.session.session_key)
        return HttpResponse("")

    shop = Shop(view)
    shop.get()
    assert shop.cookie == f"__Host-sid={keys[0]}"
    shop.get()
    assert keys[1] == keys[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"WEBSESSIONS": None}, "expected WEBSESSIONS = WebSessions"),
        ({"SESSION_COOKIE_HTTPONLY": False}, "expected no SESSION_COOKIE_HTTPONLY=False"),
        ({"SESSION_COOKIE_AGE": 60}, "SESSION_COOKIE_AGE is 60"),
        ({"SESSION_COOKIE_DOMAIN": "a.example"}, "SESSION_COOKIE_DOMAIN is 'a.example'"),
        ({"SESSION_SERIALIZER": "theirs"}, "expected no SESSION_SERIALIZER, got one"),
        ({"SESSION_ENGINE": "django.contrib.sessions.backends.db"}, "expected SESSION_ENGINE ="),
    ],
)
def test_settings_that_contradict_are_refused_at_the_start(wrong: dict[str, Any], said: str) -> None:
    sessions = sessions_with(domain="b.example")
    with (
        override_settings(**({"WEBSESSIONS": sessions} | wrong)),
        pytest.raises(ImproperlyConfigured, match=said),
    ):
        SessionMiddleware(lambda request: HttpResponse(""))


def test_djangos_cookie_settings_are_honoured_and_its_own_middleware_is_refused() -> None:
    sessions = sessions_with()
    with override_settings(
        WEBSESSIONS=sessions, SESSION_COOKIE_SAMESITE="Strict", SESSION_COOKIE_PATH="/shop"
    ):
        assert websessions().cookie_settings.samesite == "Strict"
        assert settings.SESSION_COOKIE_NAME == "__Secure-sid"
    stock = "django.contrib.sessions.middleware.SessionMiddleware"
    with override_settings(MIDDLEWARE=[stock]):
        app = django_site.handler(sessions_with(), enter)
        with httpx.Client(transport=httpx.WSGITransport(app), base_url=HOST) as client:
            assert client.get("/").status_code == 500
        with pytest.raises(ImproperlyConfigured, match="in place of"):
            SessionStore().accessed  # noqa: B018


def test_the_cookies_name_is_that_of_the_websessions_whatever_settings_are_put_back() -> None:
    plain, wide = sessions_with(), sessions_with(domain="b.example")
    with override_settings(WEBSESSIONS=plain):
        websessions()
        for _ in range(2):
            with override_settings(WEBSESSIONS=wide):
                websessions()
                assert settings.SESSION_COOKIE_NAME == "__Secure-sid"
        # The restored name does not count as the program's own setting.
        other = sessions_with(domain="b.example")
        with override_settings(WEBSESSIONS=other):
            assert websessions().cookie.name == "__Secure-sid"


class GoneStore(MemoryStore):
    """Discards its arguments."""

    async def put(self, record: Any, expected: int) -> bool:
        raise StoreError("the store is gone")


def test_a_websession_that_cannot_be_stored_is_told_on_an_event_loop_beside_a_database() -> None:
    closed: list[str] = []

    async def view(request: HttpRequest) -> HttpResponse:
        request.session["n"] = 1
        # Each query does the same. Django checks its open connections whenever a response is closed.
        await sync_to_async(connection.ensure_connection)()
        response = HttpResponse("stored")
        response._resource_closers.append(lambda: closed.append("closed"))
        return response

    app = django_site.handler(WebSessions(GoneStore()), view, is_async=True)

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
            return (await client.get("/")).status_code

    assert asyncio.run(ask()) == 503
    assert closed == ["closed"]


# The admin, with `mangonel.contrib.django`, in a process of its own.


@pytest.fixture(scope="module")
def project(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The project's address, and the URI of its websessions."""
    uri = server.uri.replace("/?", f"/django{os.getpid()}?")
    folder = tmp_path_factory.mktemp("django")
    program = [sys.executable, str(HERE / "django_project.py"), uri, str(folder)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        port = running.stdout.readline().strip()
        assert port
        yield f"http://127.0.0.1:{port}", uri
        running.communicate()


def test_the_admin_in_a_browser(chromium: Any, project: tuple[str, str]) -> None:
    address, uri = project
    sessions: WebSessions[Any] = WebSessions(uri, secure=False)

    def log_in(page: Any, password: str = "engine no. 1") -> None:
        page.goto(f"{address}/admin/")
        page.fill("#id_username", "ada")
        page.fill("#id_password", password)
        page.click("input[type=submit]")

    def shows(page: Any, words: str) -> None:
        # A click does not wait until its page has loaded completely.
        page.locator("body", has_text=words).wait_for()

    desk, phone = chromium.new_context(), chromium.new_context()
    for context in (desk, phone):
        context.set_default_timeout(TIMEOUT_MS)
    page = desk.new_page()
    log_in(page, "wrong")
    shows(page, "Please enter the correct username")
    log_in(page)
    shows(page, "Site administration")
    assert page.url == f"{address}/admin/"
    (cookie,) = [each for each in desk.cookies() if each["name"] == "sid"]
    assert cookie["httpOnly"]
    other = phone.new_page()
    log_in(other)
    shows(other, "Site administration")
    assert len(sessions.blocking.of("1")) == 2
    # A new password ends the other browser's session and keeps this one.
    page.goto(f"{address}/admin/password_change/")
    page.fill("#id_old_password", "engine no. 1")
    page.fill("#id_new_password1", "engine no. 2")
    page.fill("#id_new_password2", "engine no. 2")
    page.click("input[type=submit]")
    shows(page, "password was changed")
    other.goto(f"{address}/admin/")
    assert "/login/" in other.url
    page.goto(f"{address}/admin/")
    shows(page, "Site administration")
    log_in(other, "engine no. 2")
    shows(other, "Site administration")
    # A revocation ends all of them.
    assert sessions.blocking.revoke_user("1") == 2
    page.goto(f"{address}/admin/")
    assert "/login/" in page.url
    log_in(page, "engine no. 2")
    shows(page, "Site administration")
    page.click("#logout-form button")
    shows(page, "Logged out")
    assert sessions.blocking.of("1") == []
    sessions.blocking.close()


def test_the_health_check_says_what_is_down(project: tuple[str, str]) -> None:
    address, _ = project
    answer = httpx.get(f"{address}/health", timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"status": "up", "deployments": {"default": "up"}})


FORKING = """
import os, sys
sys.path.insert(0, {here!r})
import django_project
django_project.configure({uri!r}, {folder!r})
from mangonel.contrib.django import client, close
first = client()
assert client() is first
first.admin.command("ping")
child = os.fork()
if child == 0:
    # Connections of its own: the parent's go on.
    client().admin.command("ping")
    close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
first.admin.command("ping")
from django.core.management import call_command
from django.db import connection
from django.core.management.base import SystemCheckError
from django.core.exceptions import ImproperlyConfigured
import io
call_command("check", databases=["default"], stdout=io.StringIO())
from django.conf import settings
from django.test import RequestFactory
from mangonel.contrib.django import health, check_deployments
settings.MANGONEL["other"] = {{"host": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"}}
answer = health(RequestFactory().get("/health"))
assert answer.status_code == 503, answer
settings.MANGONEL["default"], right = settings.MANGONEL["other"], settings.MANGONEL["default"]
close()
try:
    call_command("check", databases=["default"], stdout=io.StringIO())
except SystemCheckError as error:
    assert "(mangonel.E001) the deployment 'default' does not answer: " in str(error), error
else:
    raise AssertionError("the deployments are not checked")
settings.MANGONEL["default"] = right
close()
assert b'"other": "down"' in answer.content and b'"default": "up"' in answer.content
(found,) = check_deployments(None, ["other"])
assert found.id == "mangonel.E001"
from django.apps import apps
given, settings.MANGONEL = settings.MANGONEL, {{1: {{}}}}
try:
    apps.get_app_config("mangonel").ready()
except ImproperlyConfigured as error:
    assert "expected names as the keys of MANGONEL, got 1" in str(error)
else:
    raise AssertionError("not checked at the start")
settings.MANGONEL = given
for alias, given in (("none", None), ("other", {{"host": 5}})):
    settings.MANGONEL.pop("other", None)
    if given:
        settings.MANGONEL["other"] = given
        close()
    try:
        client(alias)
    except ImproperlyConfigured:
        continue
    raise AssertionError(alias)
import asyncio
from mangonel.contrib.django import async_client
try:
    async_client()
except RuntimeError as error:
    assert "expected a running event loop for async_client(), got none; use client()" in str(error)
else:
    raise AssertionError("no error")
async def play():
    assert async_client() is async_client()
    await async_client().admin.command("ping")
    await async_client().close()
asyncio.run(play())
print("done")
"""


UNDER_WSGI = """
import os, sys, threading
sys.path.insert(0, {here!r})
import django_project
django_project.configure({uri!r}, {folder!r})
from asgiref.sync import async_to_sync
from mangonel.contrib.django import async_client

async def view():
    await async_client().admin.command("ping")
    return async_client()

def requests():
    for _ in range(10):
        seen.append(async_to_sync(view)())

seen = []
visitors = [threading.Thread(target=requests) for _ in range(4)]
for each in visitors:
    each.start()
for each in visitors:
    each.join()
assert len(seen) == 40 and len(set(map(id, seen))) == 1, len(set(map(id, seen)))
# Connections of loops that have ended are closed when the next loop comes.
requests()

def is_socket(name):
    try:
        return "socket:" in os.readlink(f"/proc/self/fd/{{name}}")
    except OSError:
        # The folder's own, which is closed by now.
        return False

sockets = sum(map(is_socket, os.listdir("/proc/self/fd")))
assert sockets < 20, sockets

async def end():
    await async_client().close()

async_to_sync(end)()
assert async_to_sync(view)() is not seen[0]
print("done")
"""


def test_async_views_under_wsgi_share_a_client(server: Server, tmp_path: Path) -> None:
    program = UNDER_WSGI.format(here=str(HERE), uri=server.uri.replace("/?", "/wsgi?"), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "done", done.stderr


def test_each_process_has_a_client_and_what_is_down_is_named(server: Server, tmp_path: Path) -> None:
    program = FORKING.format(here=str(HERE), uri=server.uri.replace("/?", "/forking?"), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "done", done.stderr


def test_a_path_without_websessions_is_found_below_the_prefix_of_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "WEBSESSIONS_EXCLUDE", ["/health"], raising=False)
    sessions = WebSessions[Any](MemoryStore(), events=lambda event: None)
    routes = [
        path(name, lambda request: HttpResponse(hasattr(request, "session"))) for name in ("health", "page")
    ]
    transport = httpx.WSGITransport(django_site.handler(sessions, routes=routes), script_name="/shop")
    with httpx.Client(transport=transport, base_url="https://shop.example") as client:
        assert [client.get(name).text for name in ("/health", "/page")] == ["False", "True"]
