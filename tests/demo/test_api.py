"""The demo without a browser: permissions, posts, files, headers."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from site_process import Site, Visitor, token_of

from mangonel import admin, demo
from tools.faces import TIMEOUT, eventually

PAGES = ["/", "/posts", "/files", "/status", "/account"]
APIS = ["/api/posts", "/api/places", "/api/files"]
LAST_OF_THE_SEED = 1000


@pytest.mark.parametrize("path", PAGES)
def test_a_page_sends_strangers_to_the_login(stranger: Visitor, path: str) -> None:
    answer = stranger.http.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login?next=")


@pytest.mark.parametrize("path", APIS)
def test_an_api_refuses_strangers(stranger: Visitor, path: str) -> None:
    assert stranger.http.get(path, headers={"Accept": "application/json"}).status_code == 401


def test_the_admin_shows_the_models_without_passwords_to_those_who_are_logged_in(
    stranger: Visitor, ada: Visitor
) -> None:
    assert stranger.http.get("/admin/Post").status_code == 403
    assert "A bakery" in ada.http.get("/admin/Post?q=bakery").text
    page = ada.http.get("/admin/Account/document?id=ada")
    assert page.status_code == 200
    assert not re.search("password|salt", page.text, re.IGNORECASE)
    assert ada.http.get("/admin/Account/new").status_code == 403


def test_logging_in_takes_a_new_id_and_the_right_password(site: Site, stranger: Visitor) -> None:
    assert stranger.log_in("ada", "wrong").status_code == 403
    assert stranger.log_in("nobody").status_code == 403
    planted = stranger.cookie
    assert stranger.log_in("ada", next="/files").headers["Location"] == "/files"
    assert stranger.cookie != planted
    assert stranger.http.get("/files").status_code == 200


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_a_login_does_not_lead_to_another_site(stranger: Visitor, wanted: str) -> None:
    assert stranger.log_in("ada", next=wanted).headers["Location"] == "/"


def test_a_form_without_the_websessions_token_is_refused(ada: Visitor) -> None:
    assert ada.http.post("/logout/everywhere").status_code == 403
    refused = ada.http.put("/api/files/a.txt", content=b"a")
    # Its body was not read, so the connection cannot be used again.
    assert (refused.status_code, refused.headers["Connection"]) == (403, "close")
    assert ada.http.get("/account").status_code == 200
    assert "a.txt" not in ada.http.get("/api/files").text


def test_logging_out_everywhere_ends_every_websession_of_the_user(site: Site, ada: Visitor) -> None:
    with Visitor(site) as elsewhere, Visitor(site) as linus:
        elsewhere.log_in("ada")
        linus.log_in("linus")
        assert ada.http.post("/logout/everywhere", data={"_csrf": ada.token}).status_code == 302
        assert elsewhere.http.get("/api/files").status_code == 401
        assert linus.http.get("/api/files").status_code == 200


def test_one_may_end_ones_own_websessions_only(site: Site, ada: Visitor) -> None:
    with Visitor(site) as elsewhere, Visitor(site) as linus:
        elsewhere.log_in("ada")
        linus.log_in("linus")
        page = ada.http.get("/account").text
        ids = re.findall(r'name="id" value="([^"]+)"', page)
        assert ids
        refused = linus.http.post("/account/revoke", data={"_csrf": linus.token, "id": ids[0]})
        assert refused.status_code == 404
        for id in ids:
            data = {"_csrf": ada.token, "id": id}
            assert ada.http.post("/account/revoke", data=data).status_code == 302
        assert elsewhere.http.get("/api/files").status_code == 401
        assert ada.http.get("/api/files").status_code == 200


@pytest.mark.parametrize("path", ["/login", *PAGES])
def test_pages_have_nothing_inline_and_forbid_it(ada: Visitor, path: str) -> None:
    visitor = ada.http
    if path == "/login":
        visitor.cookies.clear()
    answer = visitor.get(path)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*\ssrc=)", answer.text)
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=", answer.text)
    for address in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert address.startswith(("/", "#")), address
        if address.startswith(("/static/", "/admin/-/")):
            assert visitor.get(address).status_code == 200


def test_the_demo_and_its_admin_define_each_colour_once() -> None:
    sheets = [each for part in (admin, demo) for each in Path(part.__path__[0]).glob("static/*.css")]
    names = [
        name for each in sheets for name in re.findall(r"^  (--[a-z-]+):", each.read_text(), re.MULTILINE)
    ]
    assert "--accent" in names
    assert len(names) == len(set(names))


def test_pages_of_posts_by_key_have_every_post_once_newest_first(ada: Visitor) -> None:
    ids: list[str] = []
    after = ""
    while True:
        page = ada.http.get("/api/posts", params={"size": 100, "after": after}).json()
        if not page:
            break
        ids += [post["id"] for post in page]
        after = ids[-1]
    assert len(ids) == len(set(ids)) == LAST_OF_THE_SEED
    assert ids == sorted(ids, reverse=True)


def test_posts_are_found_by_words_around_a_place(ada: Visitor) -> None:
    oslo = {"lon": 10.75, "lat": 59.91, "km": 150}
    around = ada.http.get("/api/posts", params={**oslo, "size": 100}).json()
    assert around
    assert {post["city"] for post in around} == {"Oslo"}
    both = ada.http.get("/api/posts", params={**oslo, "text": "bicycle", "size": 100}).json()
    assert {post["id"] for post in both} < {post["id"] for post in around}
    assert all("bicycle" in (post["title"] + post["body"]).lower() for post in both)
    places = ada.http.get("/api/places", params=oslo).json()
    assert [place["id"] for place in places] == [post["id"] for post in around]


@pytest.mark.parametrize(
    "wanted",
    [
        {"size": "0"},
        {"size": "101"},
        {"size": "x"},
        {"after": "x"},
        {"km": "10"},
        {"km": "10", "lon": "200", "lat": "0"},
        {"km": "nan", "lon": "0", "lat": "0"},
    ],
)
def test_a_search_that_cannot_be_meant_is_refused(ada: Visitor, wanted: dict[str, str]) -> None:
    assert ada.http.get("/api/posts", params=wanted).status_code == 400


def test_a_file_comes_back_as_it_was_stored_whole_and_in_part(ada: Visitor) -> None:
    content = bytes(range(256)) * 5000
    stored = ada.upload("räder.bin", content, **{"Content-Type": "application/x-wheels"})
    assert stored.status_code == 201
    listed = {file["_id"]: file for file in ada.http.get("/api/files").json()}
    assert listed[stored.json()["id"]]["filename"] == "räder.bin"
    path = f"/files/{stored.json()['id']}"
    whole = ada.http.get(path)
    assert whole.content == content
    assert whole.headers["Content-Type"] == "application/x-wheels"
    # An uploaded file must not run as a page of this site.
    assert whole.headers["Content-Disposition"] == "attachment"
    assert "sandbox" in whole.headers["Content-Security-Policy"]
    part = ada.http.get(path, headers={"Range": "bytes=300000-300099"})
    assert part.status_code == 206
    assert part.content == content[300_000:300_100]
    removed = ada.http.delete(f"/api{path}", headers={"X-CSRF-Token": ada.token})
    assert removed.status_code == 204
    assert ada.http.get(path).status_code == 404


def test_an_upload_that_breaks_off_leaves_nothing(site: Site, ada: Visitor, shop: Any) -> None:
    before = shop["files.chunks"].count_documents({})
    with socket.create_connection(("127.0.0.1", site.port)) as line:
        head = (
            f"PUT /api/files/half.bin HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nCookie: sid={ada.cookie}\r\n"
            f"X-CSRF-Token: {ada.token}\r\nContent-Length: 40000000\r\n\r\n"
        )
        line.sendall(head.encode() + b"x" * 20_000_000)
        eventually(lambda: shop["files.chunks"].count_documents({}) > before, "chunks of the upload")
    eventually(lambda: shop["files.chunks"].count_documents({}) == before, "no chunk of the upload")
    assert shop["files.files"].find_one({"filename": "half.bin"}) is None


def test_an_upload_beyond_the_limit_is_refused_unread(site: Site, ada: Visitor) -> None:
    with socket.create_connection(("127.0.0.1", site.port)) as line:
        head = (
            f"PUT /api/files/large.bin HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nCookie: sid={ada.cookie}\r\n"
            f"X-CSRF-Token: {ada.token}\r\nContent-Length: 999999999999\r\n\r\n"
        )
        line.sendall(head.encode())
        line.settimeout(TIMEOUT)
        answer = line.recv(1000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert "large.bin" not in ada.http.get("/api/files").text


def test_health_needs_nobody_and_makes_no_websession(stranger: Visitor) -> None:
    answer = stranger.http.get("/health")
    assert answer.json() == {"ok": True}
    assert "Set-Cookie" not in answer.headers


def test_errors_are_json_to_scripts(ada: Visitor) -> None:
    answer = ada.http.get("/api/posts?size=0", headers={"Accept": "application/json"})
    assert answer.json() == {"status": 400, "error": "expected size from 1 to 100, got 0"}


def test_a_page_token_belongs_to_its_websession(site: Site, ada: Visitor) -> None:
    with Visitor(site) as other:
        other.log_in("linus")
        stolen = token_of(other.http.get("/account").text)
    assert ada.http.post("/logout", data={"_csrf": stolen}).status_code == 403


def test_a_port_that_is_taken_is_named_with_what_to_do(site: Site) -> None:
    command = [sys.executable, "-m", "mangonel", "demo", site.uri, "--database", site.database]
    done = subprocess.run(
        [*command, "--rate", "0", "--port", str(site.port)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert (
        done.stderr == f"mangonel demo: port {site.port} of 127.0.0.1 is taken; choose another with --port\n"
    )


def test_a_page_that_is_not_there_says_so_to_everybody_and_makes_no_websession(
    ada: Visitor, stranger: Visitor
) -> None:
    for visitor in (ada, stranger):
        answer = visitor.http.get("/nowhere", headers={"Accept": "text/html"})
        assert answer.status_code == 404
        assert "There is no page at <code>/nowhere</code>" in answer.text
    assert stranger.cookie == ""
    assert ada.http.get("/nowhere", headers={"Accept": "application/json"}).json()["status"] == 404


@pytest.mark.parametrize("path", ["/api/primary/kill", "/api/primary/restart", "/api/rate?rate=5"])
def test_what_is_not_the_demos_own_is_not_touched(site: Site, ada: Visitor, path: str) -> None:
    assert ada.http.post(path).status_code == 403
    answer = ada.http.post(path, headers={"X-CSRF-Token": ada.token, "Accept": "application/json"})
    assert answer.status_code == 409
    assert ada.http.get("/health").json() == {"ok": True}


def test_a_rate_that_cannot_be_meant_is_refused(ada: Visitor) -> None:
    for rate in ("-1", "1001", "x", "nan"):
        answer = ada.http.post(f"/api/rate?rate={rate}", headers={"X-CSRF-Token": ada.token})
        assert answer.status_code == 400
