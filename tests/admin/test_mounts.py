"""One admin, mounted in Starlette, in a WSGI server and in Tornado: the same pages, the same checks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from admin_models import Author, Post
from admin_visitor import Page, Visitor

from mangonel.admin import Admin
from mangonel.admin._files import Download
from mangonel.odm import Connection, Document
from mangonel.websessions import WebSessions
from mangonel.websessions.frameworks.asgi import SessionMiddleware

httpx = pytest.importorskip("httpx")

# Seconds until a stream must have reported a change; only a bug takes this long.
TIMEOUT_S = 60.0
SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


class Tornado:
    """An application of Tornado in a thread."""

    def __init__(self, application: Callable[[], Any], close: Callable[[], Any]) -> None:
        self._application = application
        self._close = close
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.port = 0

    async def _serve(self) -> None:
        from tornado.httpserver import HTTPServer
        from tornado.testing import bind_unused_port

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        socket, self.port = bind_unused_port()
        server = HTTPServer(self._application(), xheaders=True)
        server.add_sockets([socket])
        self._is_up.set()
        await self._stop.wait()
        server.stop()
        await server.close_all_connections()
        await self._close()

    def __enter__(self) -> Tornado:
        self._thread.start()
        assert self._is_up.wait(TIMEOUT_S)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def on_tornado(db: Connection, admin: Admin) -> Iterator[Any]:
    web = pytest.importorskip("tornado.web")
    with Tornado(lambda: web.Application(admin.tornado("/admin"), xsrf_cookies=True), db.aclose) as running:
        headers = {"X-Forwarded-Proto": "https"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{running.port}", headers=headers, timeout=TIMEOUT_S, verify=False
        ) as client:
            yield client


def on_wsgi(db: Connection, admin: Admin) -> Iterator[Any]:
    flask = pytest.importorskip("flask")
    dispatcher = pytest.importorskip("werkzeug.middleware.dispatcher")
    app = flask.Flask("shop")
    admin.sessions.init_flask(app)
    mounted = dispatcher.DispatcherMiddleware(app.wsgi_app, {"/admin": admin.wsgi()})
    with httpx.Client(transport=httpx.WSGITransport(app=mounted), base_url="https://admin.example") as client:
        yield client


def on_asgi(db: Connection, admin: Admin) -> Iterator[Any]:
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("starlette.testclient")
    app = fastapi.FastAPI()
    app.mount("/admin", admin.asgi())
    with testclient.TestClient(app, base_url="https://admin.example") as client:
        yield client
        client.portal.call(db.aclose)


MOUNTS = {"asgi": on_asgi, "wsgi": on_wsgi, "tornado": on_tornado}


class Cookies(dict[str, str]):
    """The cookies of a visitor: httpx sends Secure cookies only over TLS."""

    def request(self, request: Any) -> None:
        if self:
            request.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.items())

    def response(self, response: Any) -> None:
        for name, value in response.headers.multi_items():
            if name == "set-cookie":
                pair, _, rest = value.partition(";")
                key, _, text = pair.partition("=")
                self[key] = text
                if "max-age=0" in rest.lower():
                    del self[key]


@pytest.fixture(params=MOUNTS)
def visitor(request: Any, db: Connection, admin: Admin) -> Iterator[Visitor]:
    """A visitor who is not logged in."""
    for client in MOUNTS[request.param](db, admin):
        cookies = Cookies()
        client.event_hooks = {"request": [cookies.request], "response": [cookies.response]}
        yield Visitor(client)


def test_pages_are_the_same_on_every_mount(visitor: Visitor) -> None:
    assert "Log in" in visitor.get("/Post").text
    visitor.log_in()
    page = visitor.send(
        visitor.get("/Post/new"), title="Grüße", files={"photo!": ("a", b"\r\n\0--", "text/html")}
    )
    page = visitor.send(page, _add="comments")
    page = visitor.send(page, **{"comments.0.by": "Ada"})
    assert Post.find().one().comments[0].by == "Ada"
    assert visitor.client.get(page.links["Download Photo"]).content == b"\r\n\0--"
    Post.find().update({"$set": {"title": "Bread"}})
    visitor.send(page, 409, title="Tea")
    assert "Bread" in visitor.get("/Post?q=bread").links
    visitor.get("/Post/nothing", 404)
    answer = visitor.client.get("/admin/-/admin.css")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert visitor.client.head("/admin/Post").text == ""
    assert visitor.client.head("/admin/Post/live").text == ""
    assert visitor.client.put("/admin/Post").status_code == 405


class Größe(Document):
    __collection__ = "admin_sizes"

    name: str


# httpx encodes no such path for WSGI.
@pytest.mark.parametrize("mount", ["asgi", "tornado"])
def test_a_model_may_have_a_name_that_is_not_ascii(mount: str, db: Connection) -> None:
    admin = Admin(
        Größe, sessions=WebSessions("memory:"), login=lambda name, password: name, allowed=lambda *asked: True
    )
    for client in MOUNTS[mount](db, admin):
        cookies = Cookies()
        client.event_hooks = {"request": [cookies.request], "response": [cookies.response]}
        visitor = Visitor(client)
        page = visitor.send(visitor.get("/Größe"), name="ada", password="right")
        assert page.links["New"] == "/admin/Gr%C3%B6%C3%9Fe/new"
        assert "XL is created." in visitor.send(visitor.get(page.links["New"]), name="XL").text


def test_a_large_file_is_stored_and_one_above_the_limit_is_refused(visitor: Visitor, admin: Admin) -> None:
    visitor.log_in()
    data = bytes(range(256)) * 4096 + b"\r\n--"
    page = visitor.send(visitor.get("/Post/new"), title="Tea", files={"photo!": ("a", data, "image/png")})
    assert visitor.client.get(page.links["Download Photo"]).content == data
    admin.max_body = 100_000
    try:
        answer = visitor.client.post(
            page.action, data=page.form, files={"photo!": ("b", data, "image/png")}, follow_redirects=False
        )
        # Tornado refuses it by its length, before the admin does.
        assert answer.status_code in (413, 400)
    except (httpx.ReadError, httpx.WriteError):
        # Tornado closes the connection while the rest of the form is still being sent.
        pass
    visitor.send(visitor.get(page.action), title="Bread")
    stored = Post.find().one()
    assert stored.title == "Bread"
    assert stored.photo is not None
    assert stored.photo.read() == data


def test_a_stranger_sends_no_large_form(visitor: Visitor) -> None:
    page = visitor.get("/-/login")
    answer = visitor.client.post(page.action, data={**page.form, "name": "x" * 70_000, "password": "right"})
    assert answer.status_code == 413
    files = {"photo!": ("a", b"x" * 70_000, "image/png")}
    assert visitor.client.post("/admin/Post/new", data=page.form, files=files).status_code == 413


def test_rows_are_moved_on_every_mount(visitor: Visitor) -> None:
    visitor.log_in()
    post = Post(title="Tea", tags=["a", "b", "c"]).save()
    page = visitor.send(visitor.get(f"/Post/document?id={post.id}"), _move="tags.2:up")
    visitor.send(page)
    assert Post.find().one().tags == ["a", "c", "b"]


def test_a_form_from_another_site_changes_nothing(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.get("/Post/new")
    form = {**page.form, "title": "Tea"}
    foreign = {"Origin": "https://elsewhere.example"}
    other = {"Sec-Fetch-Site": "same-site"}
    client = visitor.client
    for headers, sent in (
        (foreign, form),
        (other, form),
        ({}, {**form, "_csrf": "x" * 43}),
        ({}, {"title": "Tea"}),
    ):
        for path in ("/admin/Post/new", "/admin/-/login", "/admin/-/logout"):
            assert client.post(path, data=sent, headers=headers).status_code == 403
    assert (
        client.post("/admin/Post/new", content=b"{}", headers={"Content-Type": "text/plain"}).status_code
        == 415
    )
    assert Post.find().count() == 0
    visitor.send(page, title="Tea")
    assert Post.find().count() == 1


def test_no_text_of_a_document_becomes_markup(visitor: Visitor) -> None:
    visitor.log_in()
    author = Author(name=SCRIPT).save()
    page = visitor.send(visitor.get("/Post/new"), _add="tags", title=SCRIPT)
    page = visitor.send(page, _add="comments", **{"tags.0": SCRIPT})
    page = visitor.send(
        page, author=str(author.id), body=f"\n{SCRIPT}</textarea>", **{"comments.0.by": SCRIPT}
    )
    post = Post.find().one()
    assert (post.title, post.tags, post.comments[0].by) == (SCRIPT, [SCRIPT], SCRIPT)
    assert post.body == f"\n{SCRIPT}</textarea>"
    pages = [
        page,
        visitor.get("/Post"),
        visitor.get("/Author"),
        visitor.get(f"/Post?q={SCRIPT}&f.state=&sort={SCRIPT}&after="),
        visitor.get(f"/Post/delete?id={post.id}"),
        visitor.get(f"/{SCRIPT}", 404),
        visitor.get(f"/Post?f.state={SCRIPT}", 400),
        visitor.send(page, 422, likes=SCRIPT, author=SCRIPT),
    ]
    for found in pages:
        assert found.elements.count("script") == 1, found.html
        assert "img" not in found.elements
    policy = visitor.client.get("/admin/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_a_download_comes_in_pieces_on_every_mount(visitor: Visitor, monkeypatch: Any) -> None:
    # Three whole pieces and a rest, over several chunks of GridFS.
    monkeypatch.setattr("mangonel.admin._files.PIECE", 100_000)
    data = bytes(range(256)) * 1_300
    pieces: list[int] = []
    part_flow = Download.part_flow

    async def noted_flow(self: Download, port: Any) -> bytes | None:
        part = await part_flow(self, port)
        # The empty piece at the end may come after the client has read everything.
        if part:
            pieces.append(len(part))
        return part

    monkeypatch.setattr(Download, "part_flow", noted_flow)
    visitor.log_in()
    page = visitor.send(visitor.get("/Post/new"), title="Tea", files={"photo!": ("a", data, "text/plain")})
    address = page.links["Download Photo"]
    answer = visitor.client.get(address)
    assert (answer.content, answer.headers["content-length"]) == (data, str(len(data)))
    assert pieces == [100_000, 100_000, 100_000, 32_800]
    head = visitor.client.head(address)
    assert (head.content, head.headers["content-length"]) == (b"", str(len(data)))
    assert len(pieces) == 4
    photo = Post.find().one().photo
    assert photo is not None
    photo.delete()
    assert visitor.client.get(address).status_code == 404


def events(parts: Iterator[bytes]) -> Iterator[str]:
    """Yield the events of a stream."""
    text = ""
    for part in parts:
        text += part.decode()
        while "\n\n" in text:
            event, _, text = text.partition("\n\n")
            if "data: " in event:
                yield event


def test_a_stream_tells_of_changes_on_tornado(db: Connection, admin: Admin) -> None:
    for client in on_tornado(db, admin):
        cookies = Cookies()
        client.event_hooks = {"request": [cookies.request], "response": [cookies.response]}
        visitor = Visitor(client)
        visitor.log_in("eve")
        with client.stream("GET", "/admin/Post/live") as answer:
            parts = answer.iter_bytes()
            assert next(parts).startswith(b": \n")
            hidden = Post(title="draft").save()
            post = Post(title=SCRIPT).save()
            following = events(parts)
            event = next(following)
            assert f'"id": "{post.id}"' in event
            assert "draft" not in event
            told = json.loads(event.partition("data: ")[2])
            shown = visitor.get("/Post").html
            # It is no longer known whether she could see the deleted document, so the event contains no id; her rows
            # have their marks.
            hidden.delete()
            post.delete()
            gone = [json.loads(next(following).partition("data: ")[2]) for _ in range(2)]
            assert [list(each) for each in gone] == [["operation", "mark"]] * 2
            assert gone[1]["mark"] == told["mark"]
            assert [each["mark"] in shown for each in gone] == [False, True]


def test_a_stream_tells_of_changes_on_wsgi(db: Connection, admin: Admin) -> None:
    app, started = admin.wsgi(), []
    cookies = Cookies()
    with httpx.Client(
        transport=httpx.WSGITransport(app=app, script_name="/admin"), base_url="https://a.example"
    ) as client:
        client.event_hooks = {"request": [cookies.request], "response": [cookies.response]}
        visitor = Visitor(client, "")
        page = Page(client.get("/-/login").text)
        client.post("/-/login", data={**page.form, "name": "ada", "password": "right"})
        assert visitor.get("/Post").text
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/Post/live",
        "wsgi.url_scheme": "https",
        "HTTP_COOKIE": "; ".join(f"{name}={value}" for name, value in cookies.items()),
    }
    body: Any = app(environ, lambda *given: started.append(given))
    parts = iter(body)
    assert next(parts).startswith(b": \n")
    post = Post(title="Tea").save()
    assert f'"id": "{post.id}"' in next(events(parts))
    assert started[0][0] == "200 OK"
    body.close()

    def reconnected(id: str) -> Any:
        return app({**environ, "HTTP_LAST_EVENT_ID": id}, lambda *given: None)

    body = reconnected("")
    id = next(iter(body)).decode().partition("id: ")[2].strip()
    body.close()
    missed = [Post(title="Bread").save(), Post(title="Cake").save()]
    body = reconnected(id)
    following = events(iter(body))
    for post in missed:
        assert f'"id": "{post.id}"' in next(following)
    body.close()
    # Rows are told as the list shows them now: references by name, and no text from before.
    author = Author(name="Ada Berg").save()
    made = Post(title="draft", author=author.id).save()
    Post.find(Post.id == made.id).update({"$set": {"title": "Tea"}})
    body = reconnected(id)
    following = events(iter(body))
    told = next(event for event in following if str(made.id) in event)
    assert "Ada Berg" in told
    assert "draft" not in told
    body.close()
    # Long ago, in the future, and no id of ours.
    for odd in ("0000000100000001", "F" * 16, "9" * 5000, "\u00b2"):
        body = reconnected(odd)
        assert next(iter(body)).startswith(b": \n")
        body.close()


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_stream_tells_of_changes_on_asgi_and_ends_with_its_websession(
    db: Connection, admin: Admin, is_inside: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr("mangonel.admin._asgi.REVALIDATE", 0.2)
    app = admin.asgi()
    if is_inside:
        app = SessionMiddleware(app, admin.sessions)
    asyncio.run(asyncio.wait_for(_followed(app, admin, db), TIMEOUT_S))


async def _followed(app: Any, admin: Admin, db: Connection) -> None:
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    cookies = Cookies()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="https://a.example"
    ) as client:

        async def before(request: Any) -> None:
            cookies.request(request)

        async def after(response: Any) -> None:
            cookies.response(response)

        client.event_hooks = {"request": [before], "response": [after]}
        page = Page((await client.get("/-/login")).text)
        await client.post("/-/login", data={**page.form, "name": "ada", "password": "right"})
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/Post/live",
        "scheme": "https",
        "query_string": b"",
        "headers": [(b"cookie", cookie.encode())],
    }
    never = asyncio.Event()

    async def receive() -> Any:
        await never.wait()

    stream = asyncio.ensure_future(app(scope, receive, sent.put))
    assert (await sent.get())["status"] == 200
    assert (await sent.get())["body"].startswith(b": \n")
    post = await Post(title="Tea").asave()
    while b"change" not in (part := await sent.get())["body"]:
        pass
    assert str(post.id).encode() in part["body"]
    await admin.sessions.revoke_user("ada")
    while part.get("more_body"):
        part = await sent.get()
    await stream
    await db.aclose()


def test_a_stranger_is_led_to_the_login_of_the_application_and_back(db: Connection, admin: Admin) -> None:
    for mount in MOUNTS.values():
        for login, sign in (("/enter", "?"), ("https://enter.example/?site=shop", "&")):
            admin.login = login
            for client in mount(db, admin):
                answer = client.get("/admin/Post?q=tea", follow_redirects=False)
                assert answer.status_code == 303
                assert answer.headers["location"] == f"{login}{sign}next=%2Fadmin%2FPost%3Fq%3Dtea"
                assert (
                    client.get("/admin/", follow_redirects=False)
                    .headers["location"]
                    .endswith("next=%2Fadmin%2F")
                )
                # This page has no form of its own, and a form without a login is refused.
                assert client.get("/admin/-/login", follow_redirects=False).status_code == 303
                assert client.post("/admin/Post/new", data={"title": "Tea"}).status_code == 403


def test_an_admin_without_a_login_of_its_own_serves_the_users_of_the_application(db: Connection) -> None:
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("starlette.testclient")
    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    sessions = WebSessions[Any]("memory:")
    admin = Admin(Post, sessions=sessions, allowed=lambda user, *what: user == "ada")
    app = fastapi.FastAPI()
    app.mount("/admin", admin.asgi())

    async def enter(request: Any) -> Any:
        request.session.login(request.query_params.get("name", "ada"))
        return fastapi.Response()

    app.add_route("/enter", enter, methods=["POST"])
    app.add_middleware(SessionMiddleware, sessions=sessions)
    with testclient.TestClient(app, base_url="https://admin.example") as client:
        visitor = Visitor(client)
        visitor.get("/Post", 403)
        visitor.get("/-/login", 403)
        client.post("/enter")
        page = visitor.get("/Post")
        assert "ada" in page.text
        assert "Log out" not in page.text
        client.post("/enter?name=bob")
        visitor.get("/Post", 403)
        client.portal.call(db.aclose)
