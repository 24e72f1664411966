"""Flask's conventions: its own cookie settings, `session.permanent`, and Flask-Login."""

from __future__ import annotations

import gc
import weakref
from datetime import timedelta
from typing import Any

import flask
import flask_login
import pytest
from browser import after
from markupsafe import Markup
from werkzeug.test import EnvironBuilder

from mangonel.websessions import MemoryStore, UsageError, WebSessions
from mangonel.websessions.testing import FakeClock

HOST = "https://shop.example"
DAY = 86_400


def application(config: dict[str, Any], sessions: WebSessions[Any] | None = None, late: bool = False) -> Any:
    app = flask.Flask("tests", root_path="/")
    sessions = sessions or WebSessions(MemoryStore(), events=lambda event: None)
    if not late:
        app.config.update(config)
    sessions.init_flask(app)
    app.config.update(config)

    @app.get("/<what>")
    def page(what: str) -> str:
        session: Any = flask.session
        if what.startswith("permanent"):
            session.permanent = True
        if what == "transient":
            session.permanent = False
        if what.endswith("write"):
            session["n"] = 1
        if what.endswith("login"):
            session.login("ada")
        return f"{session.user} {session.permanent}"

    return app


def cookies(app: Any, path: str = "/write", cookie: str | None = None) -> tuple[str, list[str]]:
    headers = {"Cookie": cookie} if cookie else {}
    answer = app.test_client(use_cookies=False).get(path, base_url=HOST, headers=headers)
    assert answer.status_code == 200
    return answer.text, answer.headers.getlist("Set-Cookie")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("config", "start", "attributes"),
    [
        ({}, "__Host-sid=", "; HttpOnly; Path=/; SameSite=Lax; Secure"),
        ({"SESSION_COOKIE_NAME": "shop"}, "shop=", "; HttpOnly; Path=/; SameSite=Lax; Secure"),
        ({"SESSION_COOKIE_SAMESITE": "Strict"}, "__Host-sid=", "; HttpOnly; Path=/; SameSite=Strict; Secure"),
        ({"SESSION_COOKIE_PATH": "/shop"}, "__Secure-sid=", "; HttpOnly; Path=/shop; SameSite=Lax; Secure"),
        ({"APPLICATION_ROOT": "/shop"}, "__Secure-sid=", "; HttpOnly; Path=/shop; SameSite=Lax; Secure"),
        (
            {"SESSION_COOKIE_DOMAIN": "shop.example"},
            "__Secure-sid=",
            "; HttpOnly; Path=/; SameSite=Lax; Domain=shop.example; Secure",
        ),
        (
            {"SESSION_COOKIE_PARTITIONED": True},
            "__Host-sid=",
            "; HttpOnly; Path=/; SameSite=Lax; Secure; Partitioned",
        ),
    ],
)
def test_flask_s_own_settings_of_the_cookie_are_honoured(
    config: dict[str, Any], start: str, attributes: str, late: bool
) -> None:
    _, (cookie,) = cookies(application(config, late=late))
    assert cookie.startswith(start)
    assert cookie.partition(";")[1] + cookie.partition(";")[2] == attributes


def test_settings_that_contradict_each_other_are_refused_and_equal_ones_are_not() -> None:
    sessions: WebSessions[Any] = WebSessions("memory:", cookie="shop", secure=False, remember="1d")
    application({"SESSION_COOKIE_NAME": "shop", "SESSION_COOKIE_SECURE": False}, sessions)
    for config, message in (
        (
            {"SESSION_COOKIE_NAME": "other"},
            "SESSION_COOKIE_NAME is 'other' in Flask's configuration, and name='shop'",
        ),
        ({"SESSION_COOKIE_SECURE": True}, "SESSION_COOKIE_SECURE is True"),
        ({"SESSION_COOKIE_HTTPONLY": False}, "expected no SESSION_COOKIE_HTTPONLY=False"),
        ({"PERMANENT_SESSION_LIFETIME": 2 * DAY}, "PERMANENT_SESSION_LIFETIME is 172800 s"),
    ):
        with pytest.raises(UsageError, match=message):
            application(config, sessions)


def test_a_permanent_session_outlives_the_browser_for_as_long_as_flask_says() -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(MemoryStore(clock), clock=clock, events=lambda event: None)
    app = application({"PERMANENT_SESSION_LIFETIME": timedelta(days=45)}, sessions)
    # The flag alone creates no session.
    assert cookies(app, "/permanent") == ("None True", [])
    for path in ("/permanent-write", "/permanent-login"):
        _, (given,) = cookies(app, path)
        assert f"Max-Age={45 * DAY}" in given
    clock.advance(40 * DAY)
    text, renewed = cookies(app, "/read", given.partition(";")[0])
    assert text == "ada True"
    assert f"Max-Age={5 * DAY}" in renewed[0]
    # An existing session takes a new id and keeps its limits.
    _, (plain,) = cookies(app, "/login")
    _, (kept,) = cookies(app, "/permanent", plain.partition(";")[0])
    assert f"Max-Age={DAY // 2}" in kept
    text, (transient,) = cookies(app, "/transient", kept.partition(";")[0])
    assert text == "ada False"
    assert "Max-Age" not in transient


class User(flask_login.UserMixin):  # type: ignore[misc]
    def __init__(self, id: str, password_hash: str) -> None:
        self.id = id
        self.password_hash = password_hash


def test_flask_login_works_by_the_recipe_of_the_manual() -> None:
    users = {"ada": User("ada", "first")}
    store = MemoryStore()
    sessions: WebSessions[Any] = WebSessions(store, events=lambda event: None)
    app = flask.Flask("tests", root_path="/")
    app.secret_key = "for Flask-Login's own cookie"
    sessions.init_flask(app)
    manager = flask_login.LoginManager(app)

    @manager.user_loader  # type: ignore[untyped-decorator]
    def load(id: str) -> Any:
        user, session = users.get(id), flask.session
        return user if user and session.check_fingerprint(user.password_hash) else None  # type: ignore[attr-defined]

    @flask_login.user_logged_in.connect_via(app)  # type: ignore[untyped-decorator]
    def logged_in(sender: Any, user: Any) -> None:
        flask.session.login(user.get_id(), keep=list(flask.session), fingerprint=user.password_hash)  # type: ignore[attr-defined]

    @flask_login.user_logged_out.connect_via(app)  # type: ignore[untyped-decorator]
    def logged_out(sender: Any, user: Any) -> None:
        flask.session.destroy()  # type: ignore[attr-defined]

    @app.get("/cart")
    def cart() -> str:
        flask.session["cart"] = ["tea"]
        return "kept"

    @app.get("/login")
    def login() -> str:
        flask_login.login_user(users["ada"])
        return "in"

    @app.get("/logout")
    def logout() -> str:
        flask_login.logout_user()
        return "out"

    @app.get("/me")
    @flask_login.login_required  # type: ignore[untyped-decorator]
    def me() -> Any:
        return {"user": flask_login.current_user.id, "cart": flask.session.get("cart")}

    jar: str | None = None

    def get(path: str, cookie: str | None = None) -> Any:
        nonlocal jar
        headers = {"Cookie": cookie or jar} if cookie or jar else {}
        answer = app.test_client(use_cookies=False).get(path, base_url=HOST, headers=headers)
        if cookie is None:
            jar = after(jar, answer.headers.getlist("Set-Cookie"))
        return answer

    assert get("/me").status_code == 401
    get("/cart")
    before = jar
    get("/login")
    assert get("/me").json == {"user": "ada", "cart": ["tea"]}
    # The id from before the login opens nothing.
    assert get("/me", before).status_code == 401
    member = jar
    get("/logout")
    assert get("/me").status_code == get("/me", member).status_code == 401
    for end in ("password", "revocation"):
        get("/login")
        assert get("/me").status_code == 200
        if end == "password":
            users["ada"].password_hash = "second"
        else:
            assert sessions.blocking.revoke_user("ada") == 1
        assert get("/me").status_code == 401


class Label(str):
    """A text of a subclass, as libraries return."""


class Weight(float):
    """A number of a subclass, such as one of numpy's."""


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_markup_and_values_of_subclasses_are_kept(codec: str) -> None:
    app = application({}, WebSessions(MemoryStore(), codec=codec))

    @app.get("/flash")
    def flash() -> str:
        flask.flash(Markup("<b>saved</b>"))
        flask.session.update(label=Label("new"), weight=Weight(1.5), html=Markup("<i>"))
        return ""

    @app.get("/flashed")
    def flashed() -> str:
        values = [flask.session[key] for key in ("label", "weight", "html")]
        assert (values, [type(value) for value in values[:2]]) == (["new", 1.5, "<i>"], [str, float])
        return flask.render_template_string("{% for text in get_flashed_messages() %}{{ text }}{% endfor %}")

    browser = app.test_client()
    assert browser.get("/flash", base_url=HOST).status_code == 200
    shown = {"msgpack": "<b>saved</b>", "json": "&lt;b&gt;saved&lt;/b&gt;"}[codec]
    assert browser.get("/flashed", base_url=HOST).text == shown
    assert browser.get("/flashed", base_url=HOST).text == ""


@pytest.mark.parametrize("does_read", [False, True])
def test_messages_that_are_flashed_side_by_side_are_shown_once(does_read: bool) -> None:
    app, sessions = (
        flask.Flask("tests", root_path="/"),
        WebSessions[Any](MemoryStore(), events=lambda event: None),
    )
    sessions.init_flask(app)
    beside: list[str] = []

    @app.get("/<text>")
    def page(text: str) -> Any:
        shown = flask.get_flashed_messages() if text == "read" else flask.flash(text)
        for path in [beside.pop() for _ in beside]:
            # The other request ends first.
            app.test_client(use_cookies=False).get(path, base_url=HOST, headers=dict(flask.request.headers))
        return {"shown": shown}

    client = app.test_client()
    client.get("/first", base_url=HOST)
    beside.append("/second")
    client.get("/read" if does_read else "/third", base_url=HOST)
    left = ["second"] if does_read else ["first", "second", "third"]
    assert client.get("/read", base_url=HOST).json == {"shown": left}
    assert client.get("/read", base_url=HOST).json == {"shown": []}


def test_a_response_is_freed_without_the_garbage_collector() -> None:
    app, sessions = flask.Flask("tests", root_path="/"), WebSessions[Any](MemoryStore())
    sessions.init_flask(app)
    made: list[Any] = []

    @app.get("/")
    def page() -> flask.Response:
        answer = flask.Response(str(flask.session.user))
        made.append(weakref.ref(answer))
        return answer

    gc.collect()
    gc.disable()
    try:
        body = app.wsgi_app(EnvironBuilder(base_url=HOST).get_environ(), lambda *started: lambda data: None)
        assert b"".join(body) == b"None"
        body.close()  # type: ignore[attr-defined]
        del body
        assert made[0]() is None
    finally:
        gc.enable()
