"""The examples run unchanged against a real mongod, and stay short enough to copy."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.server import Server
from tools.programs import load_program

pytest.importorskip("fastapi")
pytest.importorskip("flask")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> Any:
    return load_program(EXAMPLES / name / "app.py", f"example_{name}")


@pytest.fixture
def uri(standalone: Server) -> Iterator[str]:
    name = f"example_{uuid.uuid4().hex[:8]}"
    yield standalone.uri.rstrip("/") + f"/{name}"
    with MongoClient(standalone.uri) as client:
        client.drop_database(name)


@pytest.mark.parametrize("name", ["fastapi_posts", "flask_admin"])
def test_an_example_is_short_and_its_readme_names_what_is_there(name: str) -> None:
    code = (EXAMPLES / name / "app.py").read_text()
    assert len(code.splitlines()) < 150
    readme = (EXAMPLES / name / "README.md").read_text()
    for option in re.findall(r"`(?:GET|POST) (/\w+(?:/\w+)?)", readme):
        assert option.replace("/ID", "/{") in code


@pytest.fixture
def api(uri: str) -> Iterator[Any]:
    from fastapi.testclient import TestClient

    with TestClient(load("fastapi_posts").create_app(uri)) as client:
        yield client


def write(api: Any, title: str, lon: float = 2.35, lat: float = 48.86, body: str = "words") -> str:
    answer = api.post("/posts", json={"title": title, "body": body, "lon": lon, "lat": lat})
    assert answer.status_code == 201
    written: str = answer.json()["_id"]
    return written


def test_pages_of_posts_are_complete_without_doubles_while_others_write(api: Any) -> None:
    ids = [write(api, f"post {number}") for number in range(7)]
    first = api.get("/posts", params={"size": 3}).json()
    write(api, "one more")
    second = api.get("/posts", params={"size": 3, "after": first[-1]["_id"]}).json()
    third = api.get("/posts", params={"size": 3, "after": second[-1]["_id"]}).json()
    assert [post["_id"] for post in [*first, *second, *third]] == ids[::-1]
    assert first[0]["written"].endswith("Z")


def test_posts_are_found_by_words_and_by_place(api: Any) -> None:
    paris = write(api, "A bridge in Paris", 2.35, 48.86)
    write(api, "A lake in Geneva", 6.14, 46.2, body="near a bridge")
    assert [post["title"] for post in api.get("/posts/search", params={"text": "bridge"}).json()] == [
        "A bridge in Paris",
        "A lake in Geneva",
    ]
    near = api.get("/posts/near", params={"lon": 2.34, "lat": 48.85, "km": 10}).json()
    assert [post["_id"] for post in near] == [paris]
    assert api.get(f"/posts/{paris}").json()[0]["place"]["coordinates"] == [2.35, 48.86]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/posts?size=0", 422),
        ("/posts?after=nothing", 422),
        ("/posts/0123456789abcdef01234567", 404),
        ("/posts/near?lon=200&lat=0", 422),
    ],
)
def test_what_cannot_be_meant_is_refused(api: Any, path: str, status: int) -> None:
    assert api.get(path).status_code == status


@pytest.fixture
def admin(uri: str) -> Any:
    app = load("flask_admin").create_app(uri, secure=False)
    made = app.test_cli_runner().invoke(args=["add-user", "ada", "--password", "correct horse"])
    assert made.exit_code == 0, made.output
    return app


def token(browser: Any) -> str:
    found = re.search(r'name="_csrf" value="([^"]+)"', browser.get("/").text)
    assert found is not None
    return found[1]


def post(browser: Any, path: str, **fields: str) -> Any:
    return browser.post(path, data={"_csrf": token(browser), **fields}, follow_redirects=True)


def test_an_admin_logs_in_adds_and_removes(admin: Any) -> None:
    browser = admin.test_client()
    assert "Wrong name or password" in post(browser, "/login", name="ada", password="wrong").text
    assert "Wrong name or password" in post(browser, "/login", name="eve", password="wrong").text
    assert "Welcome, ada" in post(browser, "/login", name="ada", password="correct horse").text
    shown = post(browser, "/customers", name="<b>Grace</b>").text
    assert "<b>Grace" not in shown
    assert "&lt;b&gt;Grace" in shown
    found = re.search(r'action="(/customers/\w+/delete)"', shown)
    assert found is not None
    assert "Nobody yet" in post(browser, found[1]).text


def test_nothing_is_changed_without_a_login_or_without_a_token(admin: Any) -> None:
    browser = admin.test_client()
    assert "Log in" in post(browser, "/customers", name="Grace").text
    post(browser, "/login", name="ada", password="correct horse")
    assert browser.post("/customers", data={"name": "Grace"}).status_code == 403
    assert "Nobody yet" in browser.get("/").text


def test_logging_out_everywhere_ends_the_other_browsers_login(admin: Any) -> None:
    here, there = admin.test_client(), admin.test_client()
    for browser in (here, there):
        post(browser, "/login", name="ada", password="correct horse")
    post(here, "/logout", everywhere="1")
    assert "Log in" in there.get("/").text
    assert "Log in" in here.get("/").text


def test_a_user_cannot_be_made_twice(admin: Any) -> None:
    again = admin.test_cli_runner().invoke(args=["add-user", "ada", "--password", "another"])
    assert again.exit_code == 1
    assert "already" in again.output
