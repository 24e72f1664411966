"""The admin in headless Chromium: forms saved unchanged, live rows, suggestions, and no script from a document."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from admin_models import Author, Comment, Everything, Part, Post
from hypothesis import HealthCheck, Phase, given, settings

from mangonel.admin import Admin
from mangonel.bson import Binary, Int64
from mangonel.odm import Connection
from mangonel.odm.testing import from_model, make
from mangonel.websessions import Cookie, WebSessions
from tools.browser import TIMEOUT_MS, faults_in

SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"

# The mapper reads bytes where it has stored a Binary of subtype 0.
BYTES = Binary(b"b", 5)


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def address(db: Connection) -> Iterator[str]:
    """An admin on loopback."""
    sessions = WebSessions[Any]("memory:", cookie=Cookie(secure=False))
    admin = Admin(
        Author,
        Post,
        Everything,
        sessions=sessions,
        allowed=lambda *asked: True,
        login=lambda name, password: name,
    )
    with make_server("127.0.0.1", 0, admin.wsgi(), Server, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def person(chromium: Any, address: str) -> Iterator[Any]:
    """The page of a logged-in user; a script from a document, or a fault of ours, fails the test."""
    context = chromium.new_context(base_url=address)
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    page.goto("/")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("any")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Post").wait_for()
    yield page
    context.close()
    assert problems == []


def save(person: Any, document: Any) -> None:
    """Open a document and save its form unchanged."""
    person.goto(f"/{type(document).__name__}/document?id={document.id}")
    person.get_by_role("button", name="Save").last.click()
    person.get_by_role("status").wait_for()


ODD = [
    {
        "text": "\n\r\n<b>&amp;\x00",
        "anything": {"$date": "no"},
        "maybe": "",
        "names": frozenset({" a ", "\t"}),
    },
    {"anything": [Int64(3), 3.0, None, {"a.b": {"$x": 1}}], "maybe_part": Part(name="\r"), "text": SCRIPT},
    {"counts": {"a\nb": 1, " c": 2}, "texts": ["", "x\n", " "], "real": -0.0, "whole": -(2**63)},
]


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_a_form_saved_unchanged_in_a_browser_changes_nothing(person: Any, odd: int) -> None:
    document = make(Everything, binary=BYTES, **ODD[odd]).save()
    before = Everything.collection().find_one()
    save(person, document)
    assert Everything.collection().find_one() == before


def test_no_valid_document_is_changed_by_a_browser(person: Any) -> None:
    @settings(
        max_examples=10,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(from_model(Everything, binary=BYTES))
    def play(document: Any) -> None:
        document.save()
        before = Everything.collection().find_one({"_id": document.id})
        save(person, document)
        assert Everything.collection().find_one({"_id": document.id}) == before

    play()


def test_rows_are_added_and_a_key_saves_the_form(person: Any) -> None:
    person.goto("/Post/new")
    person.get_by_label("Title").fill("Tea")
    person.locator("fieldset", has_text="Comments").get_by_role("button", name="Add a row").click()
    person.get_by_label("By").fill("Ada")
    person.get_by_label("Title").press("Enter")
    person.get_by_role("status").wait_for()
    assert Post.find().one().comments == [Comment(by="Ada")]


def test_a_list_follows_the_changes_of_others(person: Any) -> None:
    old = Post(title="Bread").save()
    person.goto("/Post")
    person.locator('table[data-state="live"]').wait_for()
    made = Post(title=SCRIPT).save()
    row = person.locator(f'tr:has(a[href$="{made.id}"])')
    row.wait_for()
    assert row.locator("a").first.text_content() == SCRIPT[:80]
    Post.find(Post.id == old.id).update({"$set": {"title": "Cake"}})
    person.get_by_role("link", name="Cake").wait_for()
    old.delete()
    person.locator(f'tr.gone:has(a[href$="{old.id}"])').wait_for()
    row.locator("a").first.click()
    person.get_by_role("heading", name="alert(1)").wait_for()


def test_targets_of_a_reference_are_suggested(person: Any) -> None:
    author = Author(name="Ada Berg").save()
    person.goto("/Post/new")
    person.get_by_label("Author").press_sequentially("berg")
    person.locator(f'datalist option[value="{author.id}"]').wait_for(state="attached")


def test_axe_finds_no_fault_and_nothing_is_too_wide(person: Any) -> None:
    document = make(Everything, binary=BYTES, maybe_part=make(Part), text=SCRIPT * 3).save()
    Post(title="Tea", comments=[Comment(by="Ada")]).save()
    found: list[str] = []
    names = ("/", "/Post", "/Post/new", f"/Everything/document?id={document.id}", "/Everything")
    for name in names:
        person.goto(name)
        found += faults_in(person, f"admin-{name.partition('?')[0].replace('/', '-')}")
    assert found == []
