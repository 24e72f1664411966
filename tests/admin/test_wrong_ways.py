"""Mistakes of a program that uses the admin: arguments, mounts, and wrong results of a login or of `allowed`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from admin_models import Author, Post
from admin_visitor import Visitor

from mangonel.admin import Admin
from mangonel.odm import Connection
from mangonel.websessions import WebSessions

httpx = pytest.importorskip("httpx")
applications = pytest.importorskip("starlette.applications")
routing = pytest.importorskip("starlette.routing")
testclient = pytest.importorskip("starlette.testclient")


def anyone(user: str, action: str, model: Any, document: Any) -> bool:
    return True


def made(**options: Any) -> Admin:
    """Return an admin of two models, with the given unusual arguments."""
    usual: dict[str, Any] = {"sessions": WebSessions("memory:"), "allowed": anyone}
    return Admin(Author, Post, **{**usual, **options})


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [
        ("sessions", "memory:", "expected sessions= to be WebSessions, got str"),
        ("sessions", None, "expected sessions= to be WebSessions, got NoneType"),
        (
            "allowed",
            lambda user: True,
            "expected allowed= to be a function of user, action, model and document",
        ),
        ("login", lambda name: name, "expected login= to be a function of name and password, or the address"),
        (
            "login",
            True,
            "expected login= to be a function of name and password, or the address of a login, got True",
        ),
        ("page_size", 0, "expected page_size= to be an int from 1 on, got 0"),
        ("page_size", "50", "expected page_size= to be an int from 1 on, got '50'"),
        ("max_body", "64 MB", "expected max_body= to be an int from 1 on, got '64 MB'"),
        ("title", None, "expected title= to be a str, got NoneType"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_admin_is_made(option: str, wrong: Any, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        made(**{option: wrong})
    assert str(raised.value).startswith(said)


def test_functions_whose_arguments_python_cannot_tell_are_taken() -> None:
    class Checks:
        async def __call__(self, user: str, action: str, model: Any, document: Any = None) -> bool:
            return True

    made(allowed=Checks(), login=max)


@pytest.mark.parametrize("base", ["admin", "admin/", None, 5])
def test_a_path_for_tornado_begins_with_a_slash(base: Any) -> None:
    with pytest.raises(ValueError, match='expected a path such as "/admin", got'):
        made().tornado(base)


@pytest.mark.parametrize(("base", "path"), [("/admin", "/admin"), ("/admin/", "/admin"), ("/", ""), ("", "")])
def test_a_slash_at_the_end_of_a_path_for_tornado_does_not_count(base: str, path: str) -> None:
    import re

    ((pattern, _, arguments),) = made().tornado(base)
    assert arguments["base"] == path
    found = re.fullmatch(pattern, f"{path}/Post")
    assert found is not None
    assert found[1] == "/Post"


def test_an_admin_that_is_mounted_itself_says_what_to_mount() -> None:
    with pytest.raises(
        TypeError, match=r"got an Admin; mount its asgi\(\), wsgi\(\) or the rules of tornado\(\)"
    ):
        testclient.TestClient(applications.Starlette(routes=[routing.Mount("/admin", made())])).get("/admin/")


def test_the_application_of_the_other_kind_is_named() -> None:
    with pytest.raises(TypeError, match=r"expected a WSGI server, got an ASGI one; mount admin\.asgi\(\)"):
        testclient.TestClient(applications.Starlette(routes=[routing.Mount("/", made().wsgi())])).get("/")
    with (
        pytest.raises(TypeError, match=r"expected an ASGI server, got a WSGI one; mount admin\.wsgi\(\)"),
        httpx.Client(
            transport=httpx.WSGITransport(app=made().asgi()), base_url="https://a.example"
        ) as client,
    ):
        client.get("/")


def test_a_server_that_asks_for_a_coroutine_function_takes_the_admin_for_asgi() -> None:
    config = pytest.importorskip("uvicorn").Config(made().asgi())
    config.load()
    assert config.interface == "asgi3"


@pytest.fixture
def visit(db: Connection) -> Iterator[Callable[..., Visitor]]:
    """Return a visitor of an admin that is mounted in Starlette, and close the models' connection."""
    clients: list[Any] = []

    def visit(admin: Admin, path: str = "/admin", middleware: Any = ()) -> Visitor:
        app = applications.Starlette(routes=[routing.Mount(path, admin.asgi())], middleware=list(middleware))
        client = testclient.TestClient(app, base_url="https://admin.example")
        client.__enter__()
        clients.append(client)
        return Visitor(client)

    yield visit
    for client in clients:
        client.portal.call(db.aclose)
        client.__exit__(None, None, None)


@pytest.mark.parametrize("path", ["/admin", "/admin/"])
def test_a_slash_at_the_end_of_a_mount_does_not_count(visit: Callable[..., Visitor], path: str) -> None:
    visitor = visit(made(login=lambda name, password: name), path)
    visitor.log_in()
    assert "Post" in visitor.get("/").text


@pytest.mark.parametrize("root", ["/P", "/P/"])
@pytest.mark.parametrize("path", ["/Post", "/P/Post"])
def test_a_prefix_of_a_server_is_one_whole_step_of_the_path(root: str, path: str) -> None:
    # Some servers leave the prefix in the path, others remove it.
    app = made(login=lambda name, password: name).asgi()
    client = testclient.TestClient(app, base_url="https://admin.example", root_path=root)
    assert client.get(path, follow_redirects=False).headers["location"] == "/P/-/login?next=%2FP%2FPost"
    assert client.get(path.replace("Post", "-/admin.css")).status_code == 200


def test_one_admin_is_mounted_twice(db: Connection) -> None:
    admin = made(login=lambda name, password: name)
    app = applications.Starlette(
        routes=[routing.Mount("/admin", admin.asgi()), routing.Mount("/staff", admin.asgi())]
    )
    with testclient.TestClient(app, base_url="https://admin.example") as client:
        Visitor(client).log_in()
        for base in ("/admin", "/staff"):
            answer = client.get(f"{base}/Post")
            assert answer.status_code == 200
            assert f'href="{base}/Post/new"' in answer.text
        client.portal.call(db.aclose)


def test_a_session_of_starlettes_own_middleware_stays_the_applications(visit: Callable[..., Visitor]) -> None:
    pytest.importorskip("itsdangerous")
    from starlette.middleware import Middleware
    from starlette.middleware.sessions import SessionMiddleware

    visitor = visit(
        made(login=lambda name, password: name), middleware=[Middleware(SessionMiddleware, secret_key="k")]
    )
    visitor.log_in()
    assert "Post" in visitor.get("/").text


def test_a_login_that_is_missing_is_logged(
    visit: Callable[..., Visitor], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mangonel.admin"):
        visit(made()).get("/Post", 403)
    assert "refused /Post: no user is logged in, and Admin has no login= to lead to" in caplog.text


def test_a_login_that_leads_to_the_admin_itself_is_refused(visit: Callable[..., Visitor]) -> None:
    visitor = visit(made(login="/admin/-/login"))
    with pytest.raises(
        ValueError, match="expected login= outside of the admin at /admin, got '/admin/-/login'"
    ):
        visitor.get("/Post")


def test_a_login_returns_the_name_of_the_user(visit: Callable[..., Visitor]) -> None:
    visitor = visit(made(login=lambda name, password: True))
    with pytest.raises(TypeError, match="expected the user's name or None from login=, got bool"):
        visitor.log_in()


@pytest.mark.parametrize("refusal", [None, False, ""])
def test_a_login_refuses_by_none(visit: Callable[..., Visitor], refusal: Any) -> None:
    visitor = visit(made(login=lambda name, password: refusal))
    page = visitor.get("/-/login")
    answer = visitor.client.post(page.action, data={**page.form, "name": "ada", "password": "x"})
    assert answer.status_code == 403


@pytest.mark.parametrize("action", ["list", "create"])
@pytest.mark.parametrize(
    ("answer", "kind"), [("no", "str"), ([], "list"), (object(), "object"), (Post.find(), None)]
)
def test_an_answer_of_allowed_that_is_neither_yes_nor_no_grants_nothing(
    visit: Callable[..., Visitor], action: str, answer: Any, kind: str | None
) -> None:
    def allowed(user: str, asked: str, model: Any, document: Any) -> Any:
        return answer if asked == action else True

    visitor = visit(made(login=lambda name, password: name, allowed=allowed))
    kinds = "True, False or a filter" if action == "list" else "True or False"
    said = rf'expected {kinds} from allowed= for "{action}", got {kind or ""}'
    visitor.client.follow_redirects = False
    page = visitor.get("/-/login")
    visitor.client.post(page.action, data={**page.form, "name": "ada", "password": "right"})
    with pytest.raises(TypeError, match=said):
        visitor.client.get("/admin/Post/new" if action == "create" else "/admin/Post")


def test_what_a_function_awaits_counts_and_not_its_coroutine(visit: Callable[..., Visitor]) -> None:
    async def never(user: str, action: str, model: Any, document: Any) -> bool:
        return False

    class Never:
        async def __call__(self, user: str, action: str, model: Any, document: Any) -> bool:
            return False

    for allowed in (never, Never(), lambda *asked: never(*asked)):
        visitor = visit(made(login=lambda name, password: name, allowed=allowed))
        page = visitor.get("/-/login")
        visitor.client.post(page.action, data={**page.form, "name": "ada", "password": "right"})
        visitor.get("/Post", 403)
