"""Where mongod is searched for, and the errors when it is missing or does not run."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mangonel import server
from mangonel.server import find


def script(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.delenv("MANGONEL_MONGOD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(find, "_wheel_mongod", lambda: None)
    return monkeypatch


def test_order_is_argument_variable_path_wheel(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    by_argument = script(tmp_path / "argument" / "mongod", "")
    by_variable = script(tmp_path / "variable" / "mongod", "")
    by_path = script(tmp_path / "path" / "mongod", "")

    nothing.setattr(find, "_wheel_mongod", lambda: "/wheel/mongod")
    assert server.find_mongod() == "/wheel/mongod"
    nothing.setenv("PATH", str(tmp_path / "path"))
    assert server.find_mongod() == by_path
    nothing.setenv("MANGONEL_MONGOD", by_variable)
    assert server.find_mongod() == by_variable
    assert server.find_mongod(Path(by_argument)) == by_argument


def test_wheel_mongod_is_found_without_importing_its_package(nothing: pytest.MonkeyPatch) -> None:
    nothing.undo()
    nothing.delenv("MANGONEL_MONGOD", raising=False)
    nothing.setenv("PATH", "/nonexistent")
    assert server.find_mongod().endswith(find.WHEEL_FILE)


def test_error_names_all_four_ways_when_there_is_no_mongod(nothing: pytest.MonkeyPatch) -> None:
    with pytest.raises(server.MongodNotFound) as caught:
        server.start()
    for way in ("mongod=PATH", "MANGONEL_MONGOD", "on PATH", "mangonel[server]"):
        assert way in str(caught.value)


def test_wrong_variable_is_an_error_and_not_skipped(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing.setenv("PATH", str(Path(script(tmp_path / "path" / "mongod", "")).parent))
    nothing.setenv("MANGONEL_MONGOD", "/nonexistent/mongod")
    with pytest.raises(server.MongodNotFound, match="MANGONEL_MONGOD names '/nonexistent/mongod'"):
        server.find_mongod()


@pytest.mark.parametrize(
    ("library", "package"),
    [("libcurl.so.4", "libcurl4"), ("libcrypto.so.3", "libssl3"), ("libssl.so.3", "libssl3")],
)
def test_missing_library_is_named_with_its_package(tmp_path: Path, library: str, package: str) -> None:
    said = f"mongod: error while loading shared libraries: {library}: cannot open shared object file"
    path = script(tmp_path / "mongod", f"echo '{said}' >&2; exit 127")
    with pytest.raises(server.MongodNotFound, match=rf"{library} is missing.*apt-get install {package}\b"):
        server.start(mongod=path)


def test_program_that_is_no_mongod_is_refused(tmp_path: Path) -> None:
    with pytest.raises(server.MongodNotFound, match=r"expected a mongod at .*: hello"):
        server.start(mongod=script(tmp_path / "mongod", "echo hello"))
