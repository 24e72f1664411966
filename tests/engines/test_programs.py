"""Missing programs are installed, where that is allowed, by one call of apt-get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mangonel.engines import programs


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with memcached and an apt-get that records its calls and installs nothing."""
    noted = tmp_path / "calls"
    noted.touch()
    for name, text in (("apt-get", f'#!/bin/sh\necho "$@" >> {noted}\n'), ("memcached", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "FOLDERS", ())
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    return noted


@pytest.mark.skipif(os.name == "nt", reason="apt-get is not there")
@pytest.mark.parametrize(("wish", "installed"), [("1", ["krb5-kdc", "nginx"]), ("", None)])
def test_what_is_missing_is_installed_at_once_if_that_is_wished(
    calls: Path, monkeypatch: pytest.MonkeyPatch, wish: str, installed: list[str] | None
) -> None:
    monkeypatch.setenv(programs.WISH, wish)
    programs.install_together(["nginx", "memcached", "krb5kdc", "kdb5_util"])
    lines = [line.split() for line in calls.read_text().splitlines()]
    assert [line[-2:] for line in lines] == ([installed] if installed else [])


@pytest.mark.skipif(os.name == "nt", reason="apt-get is not there")
def test_nothing_is_called_where_all_is_there(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(programs.WISH, "1")
    programs.install_together(["memcached"])
    assert calls.read_text() == ""
