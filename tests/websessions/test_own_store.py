"""A store from another package: registered by a call or by an entry point, then used like any other."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from browser import Browser

from mangonel.websessions import RequestView, UsageError, WebSessions, register_store
from mangonel.websessions.record import Record
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import store_contract

SOURCE = """
from mangonel.websessions.stores.memory import BlockingMemoryStore, MemoryStore

SHARED = BlockingMemoryStore()


def from_url(url):
    assert url.take("size", 0, int) in (0, 10)
    url.finish()
    return MemoryStore(blocking=SHARED)
"""
BLOCKING = """

def blocking_from_url(url):
    url.take("size")
    url.finish()
    return SHARED
"""


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A scheme and a module that no other test uses."""
    unique = uuid.uuid4().hex[:8]
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"store_{unique}.py").write_text(SOURCE + BLOCKING)
    return f"scratch-{unique}", f"store_{unique}"


async def test_a_registered_store_is_opened_by_its_urls_on_both_faces(names: tuple[str, str]) -> None:
    scheme, module = names
    register_store(scheme, module)
    register_store(scheme, module)
    assert module not in sys.modules
    await store_contract(open_store(f"{scheme}://host/app"))
    sessions: WebSessions[Any] = WebSessions(f"{scheme}://host/app?size=10", events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    assert (await browser.begin()).user == "ada"
    assert sessions.blocking.load(RequestView(browser.cookie)).user == "ada"
    with pytest.raises(UsageError, match="knows no option bogus"):
        open_store(f"{scheme}://host?bogus=1")


async def test_an_entry_point_registers_a_store(names: tuple[str, str], tmp_path: Path) -> None:
    scheme, module = names
    folder = tmp_path / f"{module}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[mangonel.websessions.stores]\n{scheme} = {module}\n")
    browser = Browser(WebSessions(f"{scheme}:", events=lambda event: None))
    await browser.store(n=1)
    assert await browser.read() == {"n": 1}


def test_what_cannot_be_registered_or_opened_says_why(names: tuple[str, str], tmp_path: Path) -> None:
    scheme, module = names
    for taken in ("mongodb", "memory"):
        with pytest.raises(UsageError, match=f"got '{taken}', which {taken} has; choose another"):
            register_store(taken, module)
    with pytest.raises(UsageError, match="expected scheme as letters"):
        register_store("My Store", module)
    with pytest.raises(UsageError, match=r"register_store\(\) adds one"):
        WebSessions(f"{scheme}://host")
    (tmp_path / f"{module}.py").write_text(SOURCE)
    register_store(scheme, module)
    with pytest.raises(UsageError, match=r"expected blocking_from_url\(\) in .*no store for threads"):
        WebSessions(f"{scheme}://host").blocking.load(RequestView("__Host-sid=" + "a" * 43))


def test_a_subclass_of_a_store_for_threads_is_asked_by_its_own_methods(tmp_path: Path) -> None:
    pytest.importorskip("aiosqlite")
    from mangonel.websessions.stores.sqlite import BlockingSQLiteStore

    class Noting(BlockingSQLiteStore):
        def __init__(self, path: Path) -> None:
            super().__init__(str(path))
            self.noted: list[str] = []

        def put(self, record: Record, expected: int) -> bool:
            self.noted.append("put")
            return super().put(record, expected)

    class Purging(BlockingSQLiteStore):
        def purge(self, now: float, limit: int = 1000) -> int:
            return 0 if limit == 7 else 1

    noting = Noting(tmp_path / "noting.db")
    face = WebSessions(noting, events=lambda event: None).blocking
    session = face.load(RequestView())
    session["n"] = 1
    face.commit(session)
    assert noting.noted == ["put"]
    assert face.stats()["records"] == 1
    assert WebSessions(Purging(str(tmp_path / "purging.db"))).blocking.purge(7) == 0
    noting.close()
