"""`mangonel websessions`: set-up, purge and figures for a store's URL."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from typing import Any

import pytest
from browser import Browser
from store_names import STORES

from mangonel.cli import main
from mangonel.websessions import RequestView, WebSessions
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import a_record


@pytest.mark.parametrize("name", ["mongodb", "sqlite", "directory", "postgresql"])
def test_setup_purge_and_stats(
    name: str, store_url: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = store_url(name)

    async def fill() -> None:
        store = open_store(url)
        for expires in (1_000_000_000.0, 4_000_000_000.0, 4_000_000_000.0):
            await store.put(a_record(expires=expires, user="ada"), 0)
        await store.aclose()

    assert main(["websessions", "setup", url]) == 0
    assert main(["websessions", "setup", url]) == 0
    assert "ready" in capsys.readouterr().out
    asyncio.run(fill())
    assert main(["websessions", "purge", url]) == 0
    removed = capsys.readouterr().out
    # MongoDB's own monitor may have been faster.
    assert removed.endswith("removed 1\n") or name == "mongodb"
    assert main(["websessions", "stats", url]) == 0
    figures = dict(reversed(line.split()) for line in capsys.readouterr().out.splitlines())
    assert figures["2"] == "records" or "records" in figures.values()


def test_what_an_engine_cannot_do_is_said(
    store_url: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = store_url("memcached")
    assert main(["websessions", "setup", url]) == 0
    assert "nothing to set up" in capsys.readouterr().out
    for action in ("purge", "stats"):
        with pytest.raises(SystemExit) as caught:
            main(["websessions", action, url])
        assert caught.value.code == 2


@pytest.mark.parametrize(
    "arguments", [["purge", "memory:"], ["stats", "gopher://x"], ["purge", "file:///x", "--batch", "0"]]
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["websessions", *arguments])
    assert caught.value.code == 2


def test_an_output_that_is_closed_is_no_fault_of_the_store(
    store_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closed(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stdout.write", closed)
    assert main(["websessions", "stats", store_url("sqlite")]) == 1
    assert capsys.readouterr().err == "mangonel websessions stats: [Errno 28] No space left on device\n"


def test_a_server_that_is_away_is_a_failure_without_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["websessions", "stats", "redis://user:secret@127.0.0.1:1/0?timeout=1"]) == 1
    error = capsys.readouterr().err
    assert "ConnectionError" in error
    assert "secret" not in error


def test_a_label_is_printed_as_one_line_that_does_nothing_to_the_terminal(
    store_url: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = store_url("sqlite")

    async def login() -> None:
        sessions: WebSessions[Any] = WebSessions(url, events=lambda event: None)
        session = await sessions.asynchronous.load(RequestView())
        session.login("ada")
        session.label = "Tür\n0000000000000000  2030\r\x1b[2J\u202e"
        await sessions.asynchronous.commit(session)
        await sessions.aclose()

    asyncio.run(login())
    assert main(["websessions", "list", url, "ada"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("  ", 3)[3] == r"Tür\n0000000000000000  2030\r\x1b[2J\u202e"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["list", ""], 2),
        (["list", "x" * 256], 2),
        (["list", "\ud800"], 2),
        (["list", "nobody"], 0),
        (["revoke", "nobody", ""], 1),
        (["revoke", "nobody", "x" * 300], 1),
        (["revoke", "nobody", "--absolute", "0"], 2),
        (["revoke", "nobody", "--absolute", "soon"], 2),
        (["revoke", "nobody", "--absolute", "1m"], 0),
        (["revoke"], 2),
    ],
    ids=ascii,
)
def test_a_user_or_an_id_that_cannot_be_meant_ends_nothing(
    arguments: list[str], status: int, store_url: Callable[[str], str]
) -> None:
    action, *rest = arguments
    try:
        found = main(["websessions", action, store_url("sqlite"), *rest])
    except SystemExit as exit:
        found = int(exit.code or 0)
    assert found == status


@pytest.mark.parametrize("name", [name for name in STORES if name != "memory"])
def test_a_user_s_websessions_are_listed_and_ended_by_user_and_id(
    name: str, store_url: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = store_url(name)

    async def visited(browsers: list[Browser], **settings: Any) -> list[str | None]:
        sessions: WebSessions[Any] = WebSessions(url, events=lambda event: None, seal="s" * 32, **settings)
        found: list[str | None] = []
        for browser in browsers:
            browser.sessions = sessions
            session = await browser.begin()
            if browser.cookie is None:
                session.login("ada", remember=True)
                session.label = f"browser {len(found)}"
                await browser.end(session)
            found.append(session.user)
        await sessions.aclose()
        return found

    browsers: list[Any] = [Browser(None) for _ in range(3)]  # type: ignore[arg-type]
    assert asyncio.run(visited(browsers)) == ["ada"] * 3
    if name in ("memcached", "directory"):
        for arguments in (["list", url, "ada"], ["revoke", url, "ada", "00"]):
            with pytest.raises(SystemExit) as caught:
                main(["websessions", *arguments])
            assert caught.value.code == 2
        assert "cannot list" in capsys.readouterr().err
        return
    assert main(["websessions", "list", url, "ada"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert sorted(line[3] for line in lines) == ["browser 0", "browser 1", "browser 2"]
    id = next(line[0] for line in lines if line[3] == "browser 1")
    for user, which, status in (("ada", id, 0), ("ada", id, 1), ("bob", lines[0][0], 1)):
        assert main(["websessions", "revoke", url, user, which]) == status
    assert asyncio.run(visited(browsers)) == ["ada", None, "ada"]
    capsys.readouterr()
    assert main(["websessions", "revoke", url, "ada"]) == 0
    assert capsys.readouterr().out == "ended 2\n"
    assert asyncio.run(visited(browsers)) == [None] * 3
    assert main(["websessions", "list", url, "ada"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["sqlite", "mongodb"])
def test_a_user_is_searched_exported_and_logged_out_with_the_remembered_login(
    name: str, store_url: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = store_url(name)

    async def with_sessions(act: Callable[[WebSessions[Any], Browser], Any]) -> Any:
        sessions: WebSessions[Any] = WebSessions(url, events=lambda event: None, devices=True)
        browser.sessions = sessions
        try:
            return await act(sessions, browser)
        finally:
            await sessions.aclose()

    async def login(sessions: WebSessions[Any], browser: Browser) -> None:
        session = await browser.begin()
        session.login("ada", remember="30d")
        session.label = "Firefox at home"
        session["cart"] = ["tea"]
        await browser.end(session)

    async def user(sessions: WebSessions[Any], browser: Browser) -> str | None:
        return (await browser.begin()).user

    browser = Browser(None)  # type: ignore[arg-type]
    asyncio.run(with_sessions(login))
    assert main(["websessions", "list", url, "ada", "--match", "safari"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["websessions", "list", url, "ada", "--match", "FIREFOX"]) == 0
    id = capsys.readouterr().out.split()[0]
    assert main(["websessions", "export", url, "ada"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert [(each["id"], each["values"]) for each in exported["websessions"]] == [(id, {"cart": ["tea"]})]
    assert [each["is_remembered"] for each in exported["devices"]] == [True]
    assert main(["websessions", "revoke", url, "ada", id]) == 0
    assert asyncio.run(with_sessions(user)) is None
