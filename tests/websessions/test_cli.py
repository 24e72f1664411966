"""`mangonel websessions`: set-up, purge and figures for a store's URL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mangonel.cli import main
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


def test_a_server_that_is_away_is_a_failure_without_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["websessions", "stats", "redis://user:secret@127.0.0.1:1/0?timeout=1"]) == 1
    error = capsys.readouterr().err
    assert "ConnectionError" in error
    assert "secret" not in error
